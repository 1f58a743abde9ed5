package analyzer

import (
	"encoding/binary"
	"fmt"

	"weir/analyzer/record"
	"weir/events"
)

// The fields of a record, in the order of their bytes, are a table in cmd/internal/tools/codec.
//
//go:generate go run ../cmd/internal/tools/codec ..

// codecVersion is the first byte of a flow record. A record of another version is refused:
// the log can be folded again.
// It changes with the layout; what is only added behind a presence bit leaves it as it is.
const codecVersion = 5

// plainVersion is that of a record without incidents, orders and further presence bits, which an older weir reads, too.
const plainVersion = 4

// MaxRecord is the most bytes that the record of one flow takes.
// The caps of all lists keep a flow far below it, but for one with every list full of the
// longest names (decision 2).
const MaxRecord = 8 << 10

// AppendBinary appends the flow's record to dst. The key is not part of it.
// It may change the flow: a record that would be too long makes it forget windows and then
// orders. So a flow is encoded after each event of which AtMost does not say that it fits, also
// when it is kept decoded (see decision 15). The error is always nil; the signature is that of
// encoding.BinaryAppender.
func (f *Flow) AppendBinary(dst []byte) ([]byte, error) {
	// dst may hold other things before the record.
	start := len(dst)
	dst = f.encode(dst)
	if len(dst)-start > MaxRecord {
		// Every slice at its cap with the longest names: windows go first, as they
		// would after silence, then the oldest orders.
		f.clearPatterns(true)
		for dst = f.encode(dst[:start]); len(dst)-start > MaxRecord && len(f.orders) > 0; dst = f.encode(dst[:start]) {
			f.dropOrder(0)
		}
	}
	return dst, nil
}

// Numbers stand in records with the lowest byte first; only keys of the store are the other way
// round.
var le = binary.LittleEndian

// Presence bits of the head.
const (
	// Numbers of these bits are never reused: an older record may have one that is not written
	// any more.
	hasTimes byte = 1 << iota // forgotAt, released, idTimes
	hasTokens
	hasRuns // of hops
	hasReporting
	hadReports // of an older weir: when the flow reported to the agent stage
	hadTries   // of an older weir: when it reported tries against orders
	hasTree
	hasMarks
)

// Presence bits of a party.
const (
	// Like those of the head they are never used again for something else.
	partyHasCycle byte = 1 << iota
	partyHasSims
	partyHasOpen
	partyHasAgent
	partyHadTries // of an older weir: those not reported to the agent stage
	partyHasArgSims
	partyHasDone
	partyHasSums
)

// All eight bits are used, of the head and of a party, and those of their flags. A new field takes
// a bit of a second byte: that of the head stands behind the service, and that of a party at its end. These bits say that the byte is there.
// The second byte of the head is full as well, so the next field of the head needs a third one.
const (
	headHasMore  = 1 << 7  // of the byte that holds aged
	partyHasMore = 1 << 15 // of the length of the name
)

// Bits of the second byte of a party.
const (
	partyHasContext byte = 1 << iota
	partyHasCourse       // how the context grew
	partyHasJob          // what it has used as a subagent
	partyHasCache        // what the provider's cache keeps
)

// Bits of the second byte of the head.
const (
	headHasSums   byte = 1 << iota // what was spent was reported in parts and as whole figures
	headHasPayers                  // payers of events that name none
	headHasSpawns                  // subagents that were started
	headHasBriefs                  // messages that parties gave to several agents
	headHasStrays                  // answers that match no call
	headHasWaited                  // how long it waited for a person
	headHasGiven                   // when a person set or granted other limits
	headHasBegun                   // flagBegun
)

// readMore reads a byte of further presence bits, where there is one. Bits that this weir does not
// know come from a newer one: what stands behind them cannot be read.
func readMore(d *record.Reader, has bool, known byte) (more byte) {
	if has {
		more = d.Take(1)[0]
	}
	if more&^known != 0 {
		d.Fail()
	}
	return more
}

// version is that of the flow's record, which has these presence bits in the second byte of the head.
func (f *sanctions) version(more byte) byte {
	if len(f.orders)+len(f.incidents) == 0 && more == 0 {
		return plainVersion
	}
	return codecVersion
}

// inParts reports whether what was spent is treated as reported in parts where a record does not
// say. An older weir did not note that cumulative figures are.
func inParts(f *Flow) bool {
	return f.flags&flagDelta != 0 || f.tellsSums()
}

// tellsSums reports whether a source reported cumulative figures.
func (f *cast) tellsSums() bool {
	for i := range f.parties {
		if len(f.parties[i].sums) > 0 {
			return true
		}
	}
	return false
}

// oneSum makes the sums of a record that has none: all was reported in one of the two ways.
func (f *counts) oneSum(inParts bool) {
	sums := &f.wholes
	if inParts {
		sums = &f.parts
	}
	*sums = [4]int64{f.tokens[0], f.tokens[1], f.tokens[2], f.cost}
}

// anyCalled reports whether a party has called another one in this episode. In flows of one agent none has.
func (f *cast) anyCalled() bool {
	for i := range f.parties {
		if f.parties[i].called != 0 {
			return true
		}
	}
	return false
}

// sources are hashes of names of sources; 0 is a free place.
type sources [4]uint32

// encode writes all four places for a flow without a service, as records from before services have them. With one,
// a free place ends the list.
func (s *sources) encode(b []byte, service bool) []byte {
	for _, r := range s {
		if r == 0 && service {
			return le.AppendUint32(b, 0)
		}
		b = le.AppendUint32(b, r)
	}
	return b
}

func (s *sources) decode(d *record.Reader, service bool) {
	for i := range s {
		if s[i] = le.Uint32(d.Take(4)); s[i] == 0 && service {
			return
		}
	}
}

// anySim reports whether a call has the fingerprint of a result.
func (p *party) anySim() bool {
	for i := range p.calls {
		if p.calls[i].flags&callSim != 0 {
			return true
		}
	}
	return false
}

// anyArgsSim reports whether a call has the fingerprint of its arguments.
func (p *party) anyArgsSim() bool {
	for i := range p.calls {
		if p.calls[i].argsSim != 0 {
			return true
		}
	}
	return false
}

// anyLate reports whether a result did not come with the next event.
func (p *party) anyLate() bool {
	for i := range p.calls {
		if p.calls[i].done != p.calls[i].atOnce() {
			return true
		}
	}
	return false
}

// atOnce is when the result of the call came, if it was the next event of the flow.
// Nearly all results come so, and a party whose calls all did stores no ordinals of results.
func (c *call) atOnce() uint32 {
	if c.flags&callResult == 0 {
		return 0
	}
	return c.n + 1
}

// anySim reports whether an answer has a fingerprint.
func (p *pair) anySim() bool {
	for i := range p.answers {
		if p.answers[i].sim != 0 {
			return true
		}
	}
	return false
}

// pairHasSims is the bit of a pair's flags that says that its answers have fingerprints.
const pairHasSims byte = 1 << 3

// longAgo stands for never, and for all that is 49 days before the clock of the flow.
const longAgo = 1<<32 - 1

// UnmarshalBinary reads the record of the flow called key, keeping the memory of
// f's slices. The flow's strings alias b. It fails on a record that is damaged or
// was written by a newer weir.
// Damage is reported once, at the end. A record.Reader that has failed gives zeros, so
// everything between may go on reading (see package record).
func (f *Flow) UnmarshalBinary(key string, b []byte) error {
	f.Reset(key)
	d := record.NewReader(b)
	// Too few bytes give a head of zeros, whose version is none.
	h := d.Take(flowHead)
	if h[0] != codecVersion && h[0] != plainVersion {
		return fmt.Errorf("flow record has version %d, this weir reads versions 4 to %d: use the weir that wrote it, or delete the state and fold the log again", h[0], codecVersion)
	}
	f.decode(&d, h)
	return d.End("flow record")
}

// before is a time as milliseconds before the clock of the flow.
func before(clock, at events.Stamp) uint32 {
	if at == 0 {
		return longAgo
	}
	return uint32(min(max(0, clock-at), longAgo))
}

// readTokens reads the sum that an older weir kept of a party, of tokens alone.
func readTokens(d *record.Reader) (s sum) {
	for i := range 3 {
		s.told[i] = int64(d.Uvarint())
	}
	return s
}
