package analyzer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"weir/analyzer/budgets"
	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

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

// AtMost returns how many bytes AppendBinary writes at most, with each part at its longest, in a
// fraction of its time. While that is no more than MaxRecord, AppendBinary changes nothing.
func (f *Flow) AtMost() int {
	// The head, and what stands behind its presence bits but the names.
	const most = sizeHead + 32 + 4*binary.MaxVarintLen64 + 2*(2+2*maxPeriod) + 4*len(f.reporting) + 3*binary.MaxVarintLen64 + 1 + 8*rules.MostMarks + 1 + 8*binary.MaxVarintLen64
	n := most + 1 + len(f.turnID) + len(f.root) + len(f.parent) + len(f.service) + 8*len(f.ids)
	for i := range f.payers {
		n += 1 + 2*binary.MaxVarintLen16 + len(f.payers[i].tag) + len(f.payers[i].value)
	}
	for _, t := range f.tools {
		n += binary.MaxVarintLen16 + len(t)
	}
	for i := range f.parties {
		p := &f.parties[i]
		n += sizeParty + 1 + binary.MaxVarintLen32 + len(p.name) + 1 + binary.MaxVarintLen16 + len(p.agent) + binary.MaxVarintLen16
		n += (sizeCall+8+8+1)*len(p.calls) + 4*len(p.seen) + sizeRun*len(p.runs) + 2 + 2*maxPeriod + 1 + (4+4*binary.MaxVarintLen64)*len(p.sums)
	}
	n += sizeRate*len(f.rate) + sizeHop*len(f.ring) + 4*len(f.streakAt)
	for i := range f.pairs {
		n += sizePair + (sizeAnswer+8)*len(f.pairs[i].answers)
	}
	n += sizeDelegate*len(f.delegations) + 4*len(f.turnSeen) + 8*len(f.conversations) + 8*len(f.tasks)
	for i := range f.orders {
		o := &f.orders[i]
		n += sizeOrder + 16 + 8 + len(o.subject) + 2*len(o.edges) + 10*len(o.calls)
	}
	n += 11*len(f.offences) + 27*len(f.overrides) + 1 + sizeIncident*len(f.incidents)
	return n
}

// The layout: fixed-width fields, so that reading takes one bounds check per
// element; then what is rarely there, behind presence bits. Times within an
// episode are milliseconds since its start.
const (
	// A size that is wrong shows at once, since what follows is read from the wrong place and
	// record.Reader fails.
	// Sizes are in bytes. A new field that is rarely there goes behind a presence bit instead of
	// into these, since each flow in memory pays for them (decision 2).
	sizeHead     = 81
	sizeParty    = 22
	sizeCall     = 31 // and 8 for the fingerprint of its result, 8 for that of its arguments, 1 when results did not come at once
	sizeRun      = 12
	sizePair     = 16
	sizeAnswer   = 8 // and 8 for its fingerprint
	sizeHop      = 14
	sizeRate     = 5
	sizeDelegate = 29
	sizeOrder    = 93
	sizeIncident = 10
)

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
const (
	headHasMore  = 1 << 7  // of the byte that holds aged
	partyHasMore = 1 << 15 // of the length of the name
)

// partyHasContext is the first bit of the second byte of a party.
const partyHasContext byte = 1 << 0

// Bits of the second byte of the head.
const (
	headHasSums   byte = 1 << iota // what was spent was reported in parts and as whole figures
	headHasPayers                  // payers of events that name none
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

// encode writes the record as UnmarshalBinary reads it, part by part in the same order.
func (f *Flow) encode(b []byte) []byte {
	var has byte
	// A field is behind a bit where most flows have nothing in it: no release, no tokens, no
	// tree.
	if f.forgotAt != 0 || f.released != 0 || f.idTimes[1] != 0 {
		has |= hasTimes
	}
	if f.tokens != [3]int64{} || f.cost != 0 {
		has |= hasTokens
	}
	if len(f.ring) > 0 {
		has |= hasRuns
	}
	if f.reporting[0] != 0 {
		has |= hasReporting
	}
	if f.root != "" {
		has |= hasTree
	}
	if len(f.marks) > 0 {
		has |= hasMarks
	}
	// The lengths of all lists stand in the head, one byte each: no list has more than 255
	// elements.
	b, h := record.Room(b, sizeHead)
	flags := f.recordFlags()
	h[0], h[1], h[2], h[3], h[4], h[5] = f.version(), has, byte(flags), f.aged, byte(f.source), f.pos
	more := f.hasMore()
	if more != 0 {
		h[3] |= headHasMore
	}
	h[6], h[7], h[8], h[9] = byte(len(f.ids)), byte(len(f.tools)), byte(len(f.parties)), byte(len(f.rate))
	h[10], h[11], h[12], h[13] = byte(len(f.ring)), byte(len(f.streakAt)), byte(len(f.pairs)), byte(len(f.delegations))
	h[14], h[15], h[16], h[17] = byte(len(f.turnSeen)), byte(len(f.conversations)), byte(len(f.tasks)), byte(len(f.orders))
	h[18], h[19], h[20] = byte(len(f.offences)), byte(len(f.overrides)), byte(len(f.turnID))
	// The clock comes first, because what follows is read as so long before it.
	le.PutUint64(h[21:], uint64(f.clock))
	le.PutUint64(h[29:], uint64(f.last))
	le.PutUint64(h[37:], uint64(f.start))
	le.PutUint64(h[45:], uint64(f.revision))
	le.PutUint64(h[53:], uint64(f.idTimes[0]))
	le.PutUint32(h[61:], f.events)
	le.PutUint32(h[65:], f.hops)
	le.PutUint32(h[69:], f.toolCalls)
	le.PutUint16(h[73:], f.episode)
	le.PutUint16(h[75:], f.unique)
	le.PutUint16(h[77:], f.turns)
	le.PutUint16(h[79:], f.streak)
	// Its length is in the head.
	b = append(b, f.turnID...)
	if has&hasTimes != 0 {
		var e []byte
		b, e = record.Room(b, 32)
		le.PutUint64(e, uint64(f.forgotAt))
		le.PutUint64(e[8:], uint64(f.released))
		le.PutUint64(e[16:], uint64(f.idTimes[1]))
		le.PutUint64(e[24:], f.forgotID)
	}
	if has&hasTokens != 0 {
		for _, t := range f.tokens {
			b = binary.AppendUvarint(b, uint64(t))
		}
		b = binary.AppendUvarint(b, uint64(f.cost))
	}
	if has&hasRuns != 0 {
		// Index 0 is used by no period.
		b = record.AppendRuns(b, f.pairRun[1:])
		b = record.AppendRuns(b, f.sameRun[1:])
	}
	if has&hasReporting != 0 {
		for _, r := range f.reporting {
			// Records from before services have all four places.
			if r == 0 && f.service != "" {
				break
			}
			b = le.AppendUint32(b, r)
		}
		if f.service != "" && f.reporting[len(f.reporting)-1] == 0 {
			b = le.AppendUint32(b, 0)
		}
	}
	if has&hasTree != 0 {
		b = record.AppendString(record.AppendString(b, f.root), f.parent)
	}
	if has&hasMarks != 0 {
		b = record.AppendMarks(b, f.marks)
	}
	if f.service != "" {
		b = record.AppendString(b, f.service)
	}
	if more != 0 {
		b = append(b, more)
	}
	if more&headHasSums != 0 {
		for _, n := range slices.Concat(f.parts[:], f.wholes[:]) {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	if more&headHasPayers != 0 {
		b = append(b, byte(len(f.payers)))
		for i := range f.payers {
			p := &f.payers[i]
			b = record.AppendString(record.AppendString(append(b, byte(p.kind)), p.tag), p.value)
		}
	}
	// The lists. Nothing stands between two of them, so the lengths in the head have to be
	// right.
	b, e := record.Room(b, 8*len(f.ids))
	for _, id := range f.ids {
		le.PutUint64(e, id)
		e = e[8:]
	}
	// Tools before parties, because calls of parties name tools by their index and are checked
	// as they are read.
	for _, t := range f.tools {
		b = record.AppendString(b, t)
	}
	for i := range f.parties {
		b = f.parties[i].encode(b, f.clock)
	}
	// Behind them, since no bit of a party is left to say that it has one.
	if flags&flagCalled != 0 {
		for i := range f.parties {
			b = binary.AppendUvarint(b, uint64(f.parties[i].called))
		}
	}
	b, e = record.Room(b, sizeRate*len(f.rate))
	for i, r := range f.rate {
		le.PutUint32(e[sizeRate*i:], r.at)
		e[sizeRate*i+4] = r.caller
	}
	b, e = record.Room(b, sizeHop*len(f.ring))
	for i, x := range f.ring {
		p := e[sizeHop*i:][:sizeHop]
		p[0], p[1] = x.from, x.to
		le.PutUint64(p[2:], x.content)
		le.PutUint32(p[10:], x.n)
	}
	for _, at := range f.streakAt {
		b = le.AppendUint32(b, at)
	}
	for i := range f.pairs {
		b = f.pairs[i].encode(b)
	}
	for i := range f.delegations {
		d := &f.delegations[i]
		b, e = record.Room(b, sizeDelegate)
		e[0], e[1], e[2] = d.from, d.to, byte(d.algorithm)
		le.PutUint64(e[3:], d.content)
		le.PutUint64(e[11:], d.answer)
		le.PutUint16(e[19:], d.count)
		le.PutUint32(e[21:], d.n)
		// Ago is one more than the distance, so that 0 is left for never.
		le.PutUint32(e[25:], uint32(min(record.Ago(f.clock, d.answered), longAgo)))
	}
	for _, t := range f.turnSeen {
		b = le.AppendUint32(b, t)
	}
	for _, c := range f.conversations {
		b = le.AppendUint32(le.AppendUint32(b, c.id), c.n)
	}
	for _, t := range f.tasks {
		b = le.AppendUint16(le.AppendUint16(le.AppendUint32(b, t.id), t.loops), t.reflects)
	}
	for i := range f.orders {
		b = f.orders[i].encode(b)
	}
	for _, o := range f.offences {
		b = append(b, byte(o.rule))
		b = le.AppendUint16(b, o.count)
		b = le.AppendUint64(b, uint64(o.last))
	}
	for _, o := range f.overrides {
		// A threshold that is not set differs from one that is 0.
		b = append(b, byte(o.rule), byte(o.mode), record.Bit(o.warn.Set, 0)|record.Bit(o.stop.Set, 1))
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, uint64(o.warn.Value)), uint64(o.stop.Value)), uint64(o.expires))
	}
	if f.version() == plainVersion {
		return b
	}
	for i := range f.orders {
		b = le.AppendUint64(b, uint64(f.orders[i].incident))
	}
	b = append(b, byte(len(f.incidents)))
	for _, x := range f.incidents {
		b = le.AppendUint64(append(b, byte(x.rule), record.Bit(x.stopped, 0)), uint64(x.since))
	}
	return b
}

// version is that of the flow's record.
func (f *Flow) version() byte {
	if len(f.orders)+len(f.incidents) == 0 && f.hasMore() == 0 {
		return plainVersion
	}
	return codecVersion
}

// hasMore is the second byte of presence bits of the head.
func (f *Flow) hasMore() byte {
	more := byte(0)
	if f.inParts() && f.wholes != [4]int64{} {
		more |= headHasSums
	}
	if len(f.payers) > 0 {
		more |= headHasPayers
	}
	return more
}

// inParts reports whether what was spent is treated as reported in parts where a record does not
// say. An older weir did not note that cumulative figures are.
func (f *Flow) inParts() bool {
	return f.flags&flagDelta != 0 || f.tellsSums()
}

// tellsSums reports whether a source reported cumulative figures.
func (f *Flow) tellsSums() bool {
	for i := range f.parties {
		if len(f.parties[i].sums) > 0 {
			return true
		}
	}
	return false
}

// recordFlags are the flags with the presence bits for which the head has no room.
func (f *Flow) recordFlags() flowFlags {
	flags := f.flags
	if f.service != "" {
		flags |= flagService
	}
	// In flows of one agent no party has called another one in this episode.
	for i := range f.parties {
		if f.parties[i].called != 0 {
			return flags | flagCalled
		}
	}
	return flags
}

// encode writes a party. Calls of a party have all the same size: where one of them has a
// fingerprint, there is room for one in each.
func (p *party) encode(b []byte, clock events.Stamp) []byte {
	var has byte
	// One that is not 0 is enough to keep them all.
	if p.cycleRun != [maxPeriod + 1]uint16{} {
		has = partyHasCycle
	}
	size := sizeCall
	for i := range p.calls {
		if p.calls[i].flags&callSim != 0 {
			has |= partyHasSims
			size += 8
			break
		}
	}
	// Offsets within a call of what follows its fixed part.
	args := size
	for i := range p.calls {
		if p.calls[i].argsSim != 0 {
			has |= partyHasArgSims
			size += 8
			break
		}
	}
	done := size
	for i := range p.calls {
		if p.calls[i].done != p.calls[i].atOnce() {
			has |= partyHasDone
			size++
			break
		}
	}
	if p.open != 0 {
		has |= partyHasOpen
	}
	if p.agent != "" {
		has |= partyHasAgent
	}
	if len(p.sums) > 0 {
		has |= partyHasSums
	}
	b, e := record.Room(b, sizeParty)
	// The length of the name, which is far below partyHasMore, is in the head; the name stands behind
	// it.
	size16 := uint16(len(p.name))
	if p.context != 0 {
		size16 |= partyHasMore
	}
	le.PutUint16(e, size16)
	e[2], e[3], e[4], e[5], e[6], e[7] = p.parent, byte(p.flags), byte(len(p.calls)), byte(len(p.seen)), byte(len(p.runs)), has
	le.PutUint32(e[8:], p.lastSeen)
	le.PutUint16(e[12:], p.revisits)
	le.PutUint16(e[14:], p.points)
	le.PutUint16(e[16:], p.chain)
	// Milliseconds before the clock of the flow, in four bytes.
	did := uint32(longAgo)
	if p.did != 0 {
		did = uint32(min(max(0, clock-p.did), longAgo))
	}
	le.PutUint32(e[18:], did)
	b = append(b, p.name...)
	// In the order of decode, which is not that of the bits.
	if p.open != 0 {
		b = append(b, p.open)
	}
	if p.agent != "" {
		b = record.AppendString(b, p.agent)
	}
	b, e = record.Room(b, size*len(p.calls))
	for i := range p.calls {
		c, x := &p.calls[i], e[size*i:][:size]
		x[0] = c.tool
		le.PutUint16(x[1:], uint16(c.flags))
		le.PutUint32(x[3:], c.id)
		le.PutUint32(x[7:], c.at)
		le.PutUint32(x[11:], c.n)
		le.PutUint64(x[15:], c.args)
		le.PutUint64(x[23:], c.result)
		if has&partyHasSims != 0 {
			le.PutUint64(x[sizeCall:], c.sim)
		}
		if has&partyHasArgSims != 0 {
			le.PutUint64(x[args:], c.argsSim)
		}
		if has&partyHasDone != 0 {
			// The distance in events, at most maxSpan; 0 while there is no result.
			x[done] = byte(c.done - min(c.n, c.done))
		}
	}
	b, e = record.Room(b, 4*len(p.seen))
	for i, s := range p.seen {
		le.PutUint32(e[4*i:], s)
	}
	b, e = record.Room(b, sizeRun*len(p.runs))
	for i := range p.runs {
		r, x := &p.runs[i], e[sizeRun*i:][:sizeRun]
		x[0], x[1] = r.tool, record.Bit(r.failed, 0)
		le.PutUint16(x[2:], r.n)
		le.PutUint64(x[4:], r.hash)
	}
	if has&partyHasCycle != 0 {
		b = record.AppendRuns(b, p.cycleRun[1:])
	}
	if len(p.sums) > 0 {
		b = append(b, byte(len(p.sums)))
		for i := range p.sums {
			b = le.AppendUint32(b, p.sums[i].by)
			for _, n := range p.sums[i].told {
				b = binary.AppendUvarint(b, uint64(n))
			}
		}
	}
	if p.context != 0 {
		b = binary.AppendUvarint(append(b, partyHasContext), uint64(p.context))
	}
	return b
}

// atOnce is when the result of the call came, if it was the next event of the flow.
// Nearly all results come so, and a party whose calls all did stores no ordinals of results.
func (c *call) atOnce() uint32 {
	if c.flags&callResult == 0 {
		return 0
	}
	return c.n + 1
}

// encode writes a pair; fingerprints of answers have room only where there is one.
func (p *pair) encode(b []byte) []byte {
	size, sims := sizeAnswer, false
	for _, a := range p.answers {
		if a.sim != 0 {
			size, sims = sizeAnswer+8, true
			break
		}
	}
	b, e := record.Room(b, sizePair+size*len(p.answers))
	e[0], e[1], e[2], e[3] = p.from, p.to, record.Bit(p.open, 0)|record.Bit(p.fresh, 1)|record.Bit(p.used, 2)|record.Bit(sims, 3), byte(len(p.answers))
	le.PutUint32(e[4:], p.stale)
	le.PutUint32(e[8:], p.same)
	le.PutUint32(e[12:], p.lastSeen)
	for i, a := range p.answers {
		x := e[sizePair+size*i:][:size]
		le.PutUint64(x, a.hash)
		if sims {
			le.PutUint64(x[8:], a.sim)
		}
	}
	return b
}

// encode writes an order. Action and scope are written by their permanent places, not by their
// names.
func (o *order) encode(b []byte) []byte {
	b, e := record.Room(b, sizeOrder)
	e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], e[8] = byte(o.rule), byte(o.Phase), byte(o.Action.Place()), byte(o.scope.Place()), record.Bit(o.Shadow, 0)|record.Bit(o.hidden, 1)|record.Bit(o.lapsed, 2), o.wide, o.a, o.b, o.period
	e[9], e[10], e[11], e[12], e[13] = byte(o.kind), byte(o.picks), byte(o.content.Algorithm), byte(len(o.edges)), byte(len(o.calls))
	le.PutUint16(e[14:], uint16(len(o.subject)))
	le.PutUint16(e[16:], o.episode)
	le.PutUint16(e[18:], o.Attempts)
	le.PutUint16(e[20:], o.Tried)
	le.PutUint16(e[22:], o.Leaked)
	le.PutUint32(e[24:], o.calls0)
	e[28] = o.least
	le.PutUint32(e[85:], o.Limits)
	le.PutUint32(e[89:], uint32(min(max(0, o.Issued-o.Begun), longAgo)))
	for i, v := range [...]int64{int64(o.Since), int64(o.Issued), int64(o.Expires), int64(o.Due), o.Revision, o.Observed, o.Limit} {
		le.PutUint64(e[29+8*i:], uint64(v))
	}
	b = le.AppendUint64(b, uint64(o.tokens0))
	b = le.AppendUint64(b, o.content.Value)
	b = append(b, o.subject...)
	for _, x := range o.edges {
		b = append(b, x.from, x.to)
	}
	for _, c := range o.calls {
		b = le.AppendUint64(append(b, c.tool, byte(c.algorithm)), c.args)
	}
	return b
}

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
	h := d.Take(sizeHead)
	if h[0] != codecVersion && h[0] != plainVersion {
		return fmt.Errorf("flow record has version %d, this weir reads versions 4 to %d: use the weir that wrote it, or delete the state and fold the log again", h[0], codecVersion)
	}
	has := h[1]
	f.flags, f.aged, f.source, f.pos = flowFlags(h[2]), h[3]&^headHasMore, events.CorrelationSource(h[4]), h[5]
	f.clock = events.Stamp(le.Uint64(h[21:]))
	f.last = events.Stamp(le.Uint64(h[29:]))
	f.start = events.Stamp(le.Uint64(h[37:]))
	// Other code subtracts these without a look.
	if f.last > f.clock || f.start > f.clock {
		d.Fail()
	}
	f.revision = int64(le.Uint64(h[45:]))
	// The second half has none as long as there are few ids, and stands behind hasTimes.
	f.idTimes[0] = events.Stamp(le.Uint64(h[53:]))
	f.events = le.Uint32(h[61:])
	f.hops = le.Uint32(h[65:])
	f.toolCalls = le.Uint32(h[69:])
	f.episode = le.Uint16(h[73:])
	f.unique = le.Uint16(h[75:])
	f.turns = le.Uint16(h[77:])
	f.streak = le.Uint16(h[79:])
	f.turnID = d.Text(int(h[20]))
	if has&hasTimes != 0 {
		e := d.Take(32)
		f.forgotAt, f.released, f.idTimes[1] = events.Stamp(le.Uint64(e)), events.Stamp(le.Uint64(e[8:])), events.Stamp(le.Uint64(e[16:]))
		f.forgotID = le.Uint64(e[24:])
	}
	if has&hasTokens != 0 {
		for i := range f.tokens {
			f.tokens[i] = int64(d.Uvarint())
		}
		f.cost = int64(d.Uvarint())
	}
	if has&hasRuns != 0 {
		d.Runs(f.pairRun[1:])
		d.Runs(f.sameRun[1:])
	}
	if has&hasReporting != 0 {
		for i := range f.reporting {
			if f.reporting[i] = le.Uint32(d.Take(4)); f.reporting[i] == 0 && f.flags&flagService != 0 {
				break
			}
		}
	}
	// Skipped: nothing uses them any more.
	for _, had := range [...]byte{hadReports, hadTries} {
		if has&had != 0 {
			d.Ago(f.clock)
			d.Ago(f.clock)
		}
	}
	if has&hasTree != 0 {
		f.root, f.parent = d.String(), d.String()
	}
	if has&hasMarks != 0 {
		f.marks = d.Marks(f.marks, rules.MostMarks)
	}
	if f.flags&flagService != 0 {
		f.flags &^= flagService
		f.service = d.String()
	}
	more := readMore(&d, h[3]&headHasMore != 0, headHasSums|headHasPayers)
	if more&headHasSums != 0 {
		for _, sums := range []*[4]int64{&f.parts, &f.wholes} {
			for i := range sums {
				sums[i] = int64(d.Uvarint())
			}
		}
	}
	if more&headHasPayers != 0 {
		f.readPayers(&d)
	}
	f.ids = record.Sized(f.ids, d.Most(h[6], maxIDs))
	e := d.Take(8 * len(f.ids))
	for i := range f.ids {
		f.ids[i] = le.Uint64(e)
		e = e[8:]
	}
	// Lengths are checked against the caps of this weir: a record made under larger ones is
	// refused, not cut.
	tools := d.Most(h[7], maxTools)
	for range tools {
		f.tools = append(f.tools, d.String())
	}
	parties := d.Most(h[8], maxParties)
	for range parties {
		// Indices are checked against the number of parties and tools as they are read, so
		// that no damaged record makes the fold panic.
		f.addParty().decode(&d, f.clock, parties, tools)
	}
	if more&headHasSums == 0 { // all was reported in one of the two ways
		sums := &f.wholes
		if f.inParts() {
			sums = &f.parts
		}
		*sums = [4]int64{f.tokens[0], f.tokens[1], f.tokens[2], f.cost}
	}
	if f.flags&flagCalled != 0 {
		f.flags &^= flagCalled
		for i := range f.parties {
			n := d.Uvarint()
			if n > rules.MaxCount {
				d.Fail()
			}
			f.parties[i].called = uint16(n)
		}
	}
	// Only now it is known how many parties there are.
	d.Index(f.pos, parties)

	n := d.Most(h[9], maxRateStamps)
	e = d.Take(sizeRate * n)
	for i := range n {
		f.rate = append(f.rate, rateStamp{le.Uint32(e[sizeRate*i:]), d.Index(e[sizeRate*i+4], parties)})
	}
	n = d.Most(h[10], maxRing)
	e = d.Take(sizeHop * n)
	for i := range n {
		x := e[sizeHop*i:][:sizeHop]
		f.ring = append(f.ring, hop{d.Index(x[0], parties), d.Index(x[1], parties), le.Uint64(x[2:]), le.Uint32(x[10:])})
	}
	n = d.Most(h[11], maxBurst)
	e = d.Take(4 * n)
	for i := range n {
		f.streakAt = append(f.streakAt, le.Uint32(e[4*i:]))
	}
	for range d.Most(h[12], maxPairs) {
		f.addPair().decode(&d, parties)
	}
	for range d.Most(h[13], maxDelegations) {
		x := d.Take(sizeDelegate)
		f.delegations = append(f.delegations, delegation{from: d.Index(x[0], parties), to: d.Index(x[1], parties), algorithm: events.HashAlgorithm(x[2]),
			content: le.Uint64(x[3:]), answer: le.Uint64(x[11:]), count: le.Uint16(x[19:]), n: le.Uint32(x[21:])})
		if ago := le.Uint32(x[25:]); ago != 0 {
			// So long ago that it did not fit is longAgo, which is still a time and not never:
			// a party that asks again after 49 days was not in a hurry.
			f.delegations[len(f.delegations)-1].answered = f.clock - events.Stamp(ago-1)
		}
	}
	for range d.Most(h[14], maxTurnIDs) {
		f.turnSeen = append(f.turnSeen, le.Uint32(d.Take(4)))
	}
	for range d.Most(h[15], maxConversations) {
		x := d.Take(8)
		f.conversations = append(f.conversations, counter{le.Uint32(x), le.Uint32(x[4:])})
	}
	for range d.Most(h[16], maxTasks) {
		x := d.Take(8)
		f.tasks = append(f.tasks, task{le.Uint32(x), le.Uint16(x[4:]), le.Uint16(x[6:])})
	}
	for range d.Most(h[17], maxOrders) {
		o := f.addOrder()
		o.decode(&d, parties, tools)
		// An order whose deadline lies behind would fire at a time before the flow's last
		// event.
		if o.Due < f.clock { // was fired when the clock passed it
			d.Fail()
		}
	}
	for range d.Most(h[18], maxOffences) {
		x := d.Take(11)
		f.offences = append(f.offences, offence{RuleID(d.Most(x[0], int(RuleCount)-1)), le.Uint16(x[1:]), events.Stamp(le.Uint64(x[3:]))})
	}
	for range d.Most(h[19], maxOverrides) {
		x := d.Take(27)
		f.overrides = append(f.overrides, flowOverride{rule: RuleID(d.Most(x[0], int(RuleCount)-1)), mode: rules.Mode(x[1]),
			warn:    events.Optional{Set: x[2]&1 != 0, Value: int64(le.Uint64(x[3:]))},
			stop:    events.Optional{Set: x[2]&2 != 0, Value: int64(le.Uint64(x[11:]))},
			expires: events.Stamp(le.Uint64(x[19:]))})
	}
	if h[0] == plainVersion {
		f.recall()
		return d.End("flow record")
	}
	for i := range f.orders {
		f.orders[i].incident = events.Stamp(le.Uint64(d.Take(8)))
	}
	for range d.Most(d.Take(1)[0], maxIncidents) {
		x := d.Take(sizeIncident)
		f.incidents = append(f.incidents, incident{RuleID(d.Most(x[0], int(RuleCount)-1)), x[1]&1 != 0, events.Stamp(le.Uint64(x[2:]))})
	}
	return d.End("flow record")
}

// decode reads a party, which is empty but for the memory of its slices. References to other
// parties and to tools are checked against how many there are.
func (p *party) decode(d *record.Reader, clock events.Stamp, parties, tools int) {
	h := d.Take(sizeParty)
	if ago := le.Uint32(h[18:]); ago != longAgo {
		p.did = clock - events.Stamp(ago)
	}
	p.parent, p.flags = d.Index(h[2], parties), partyFlags(h[3])
	p.lastSeen = le.Uint32(h[8:])
	p.revisits, p.points, p.chain = le.Uint16(h[12:]), le.Uint16(h[14:]), le.Uint16(h[16:])
	p.name = d.Text(int(le.Uint16(h) &^ partyHasMore))
	if h[7]&partyHasOpen != 0 {
		p.open = d.Take(1)[0]
	}
	if h[7]&partyHasAgent != 0 {
		p.agent = d.String()
	}
	if h[7]&partyHadTries != 0 { // read over
		d.Take(2)
		d.Ago(clock)
	}
	size := sizeCall
	if h[7]&partyHasSims != 0 {
		size += 8
	}
	args := size
	if h[7]&partyHasArgSims != 0 {
		size += 8
	}
	done := size
	if h[7]&partyHasDone != 0 {
		size++
	}
	p.calls = record.Sized(p.calls, d.Most(h[4], maxCalls))
	e := d.Take(size * len(p.calls))
	for i := range p.calls {
		c, x := &p.calls[i], e[:sizeCall]
		c.tool, c.flags = d.Index(x[0], tools), callFlags(le.Uint16(x[1:]))
		c.id, c.at, c.n = le.Uint32(x[3:]), le.Uint32(x[7:]), le.Uint32(x[11:])
		c.args, c.result, c.sim, c.argsSim, c.done = le.Uint64(x[15:]), le.Uint64(x[23:]), 0, 0, 0
		// Where calls store no ordinals, all results came with the next event, or are not there.
		if c.done = c.atOnce(); size > done && e[done] != 0 {
			c.done = c.n + uint32(e[done])
		}
		if args > sizeCall {
			c.sim = le.Uint64(e[sizeCall:])
		}
		if done > args {
			c.argsSim = le.Uint64(e[args:])
		}
		e = e[size:]
	}
	p.seen = record.Sized(p.seen, d.Most(h[5], maxSeen))
	e = d.Take(4 * len(p.seen))
	for i := range p.seen {
		p.seen[i] = le.Uint32(e)
		e = e[4:]
	}
	// Each element is written whole, since Sized leaves in them what was there before.
	p.runs = record.Sized(p.runs, d.Most(h[6], maxRuns))
	e = d.Take(sizeRun * len(p.runs))
	for i := range p.runs {
		p.runs[i] = run{d.Index(e[0], tools), e[1] != 0, le.Uint16(e[2:]), le.Uint64(e[4:])}
		e = e[sizeRun:]
	}
	if h[7]&partyHasCycle != 0 {
		d.Runs(p.cycleRun[1:])
	}
	if p.flags&partyUsage != 0 { // as an older weir wrote it: one, of tokens alone
		p.flags &^= partyUsage
		p.sums = append(p.sums, sum{})
		for i := range 3 {
			p.sums[0].told[i] = int64(d.Uvarint())
		}
	}
	if h[7]&partyHasSums != 0 {
		for range d.Most(d.Take(1)[0], maxParties) {
			s := sum{by: le.Uint32(d.Take(4))}
			for i := range s.told {
				s.told[i] = int64(d.Uvarint())
			}
			p.sums = append(p.sums, s)
		}
	}
	if readMore(d, le.Uint16(h)&partyHasMore != 0, partyHasContext)&partyHasContext != 0 {
		p.context = uint32(d.Count(math.MaxUint32))
	}
}

// decode reads a pair, whose slice is kept.
func (p *pair) decode(d *record.Reader, parties int) {
	h := d.Take(sizePair)
	p.from, p.to = d.Index(h[0], parties), d.Index(h[1], parties)
	p.open, p.fresh, p.used = h[2]&1 != 0, h[2]&2 != 0, h[2]&4 != 0
	p.stale, p.same, p.lastSeen = le.Uint32(h[4:]), le.Uint32(h[8:]), le.Uint32(h[12:])
	n, size := d.Most(h[3], maxAnswers), sizeAnswer
	// The fourth bit of the flags says that there are fingerprints.
	if h[2]&8 != 0 {
		size += 8
	}
	e := d.Take(size * n)
	for i := range n {
		a := answer{hash: le.Uint64(e[size*i:])}
		if size > sizeAnswer {
			a.sim = le.Uint64(e[size*i+8:])
		}
		p.answers = append(p.answers, a)
	}
}

// decode reads an order, whose slices are kept.
func (o *order) decode(d *record.Reader, parties, tools int) {
	h := d.Take(sizeOrder)
	o.rule, o.Phase, o.Action, o.scope = RuleID(d.Most(h[0], int(RuleCount)-1)), standing.Phase(d.Most(h[1], int(standing.Stop))), events.ActionAt(int(h[2])), events.ScopeAt(int(h[3]))
	o.Shadow, o.hidden, o.lapsed = h[4]&1 != 0, h[4]&2 != 0, h[4]&4 != 0
	o.wide, o.a, o.b, o.period = h[5], d.Index(h[6], parties), d.Index(h[7], parties), h[8]
	o.kind, o.picks = events.Kind(h[9]), selection(h[10])
	o.content.Algorithm = events.HashAlgorithm(h[11])
	o.episode, o.Attempts, o.Tried, o.Leaked = le.Uint16(h[16:]), le.Uint16(h[18:]), le.Uint16(h[20:]), le.Uint16(h[22:])
	o.calls0, o.least = le.Uint32(h[24:]), h[28]
	o.Limits = le.Uint32(h[85:])
	// Seven numbers of eight bytes, in the order in which encode lists them.
	stamp := func(i int) events.Stamp { return events.Stamp(le.Uint64(h[29+8*i:])) }
	o.Since, o.Issued, o.Expires, o.Due = stamp(0), stamp(1), stamp(2), stamp(3)
	o.Begun = o.Issued - events.Stamp(le.Uint32(h[89:]))
	o.Revision, o.Observed, o.Limit = int64(stamp(4)), int64(stamp(5)), int64(stamp(6))
	x := d.Take(16)
	o.tokens0, o.content.Value = int64(le.Uint64(x)), le.Uint64(x[8:])
	// What has no fixed length comes last, and its lengths are in the head.
	o.subject = d.Text(int(le.Uint16(h[14:])))
	for range d.Most(h[12], maxOrderCalls) {
		x := d.Take(2)
		o.edges = append(o.edges, edge{d.Index(x[0], parties), d.Index(x[1], parties)})
	}
	for range d.Most(h[13], maxOrderCalls) {
		x := d.Take(10)
		o.calls = append(o.calls, callRef{d.Index(x[0], tools), events.HashAlgorithm(x[1]), le.Uint64(x[2:])})
	}
}

// readPayers reads the values that the flow keeps for budgets.
func (f *Flow) readPayers(d *record.Reader) {
	for range d.Most(d.Take(1)[0], maxPayers) {
		p := payer{kind: budgets.Kind(d.Take(1)[0])}
		p.tag, p.value = d.String(), d.String()
		f.payers = append(f.payers, p)
	}
}
