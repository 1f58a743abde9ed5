package agents

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// codecVersion is the first byte of an agent's record. A reader knows all older
// versions; a newer one is refused.
// Times are varints here and not of fixed width as in flows, for most of an agent is times
// close to each other.
const codecVersion = 2

// treeCodecVersion is that of a record with a ledger, which an older weir must not read. In
// the one before nothing was said of the tree above and of grants.
const (
	treeCodecVersion = 4
	// It is read and never written.
	loneTreeCodecVersion = 3
	// Of a record with the account of a budget in place of a ledger.
	budgetCodecVersion = 5
	// Of a record with a ledger that knows which children have started.
	startedCodecVersion = 6
)

var le = binary.LittleEndian

// Presence bits of an agent's record.
const (
	// Their numbers are never reused; MayBeStuck reads them without the rest of the record.
	// Each stands for what most agents have nothing of.
	hasCaps byte = 1 << iota
	hasStuck
	hasShadow
	hasFigures
	hasMarks
)

// version, presence bits, which figures were reported, and the lengths of eight lists, a byte each.
const sizeHead = 11

// AppendBinary appends the agent's record to dst. The key is not part of it. When the
// record would be too long the agent forgets notes, the oldest first: a record of what
// was said is worth less than what stands.
// It fails only for an agent whose own texts are longer than any event may carry. A tree gives
// up what it knows of single flows first, whose sums stay.
func (a *Agent) AppendBinary(dst []byte) ([]byte, error) {
	// dst may hold other things before the record.
	start := len(dst)
	for dst = a.encode(dst); len(dst)-start > MaxRecord; dst = a.encode(dst[:start]) {
		switch {
		case a.isTree() && a.tree.Living() > 0:
			a.tree.ForgetOldest()
		case len(a.notes) > 0:
			a.notes = a.notes[:copy(a.notes, a.notes[1:])]
		case len(a.orders) > 0:
			a.orders = a.orders[:copy(a.orders, a.orders[1:])]
		default:
			return dst[:start], fmt.Errorf("record of %s takes %d bytes without its notes, at most %d fit: its texts are longer than an event may hold", standing.Printable(a.key), len(dst)-start, MaxRecord)
		}
	}
	return dst, nil
}

// The layout: the numbers of things, then what they hold. Times are relative to the
// agent's clock, or to the time before them, and take a few bytes each.
func (a *Agent) encode(b []byte) []byte {
	// What is zero is not written, so the bits have to be known before the head is.
	has := byte(0)
	if a.caps.width != 0 {
		has |= hasCaps
	}
	if a.stuck != (stuck{}) {
		has |= hasStuck
	}
	if a.shadow != (stuck{}) {
		has |= hasShadow
	}
	if a.coherence != 0 || a.risk != 0 {
		has |= hasFigures
	}
	if len(a.marks) > 0 {
		has |= hasMarks
	}
	version := byte(codecVersion)
	// Agents and projects keep the older version, so that a weir from before trees reads them
	// still.
	if a.tree.Began() {
		version = treeCodecVersion
		if a.tree.Started > 0 {
			version = startedCodecVersion
		}
	}
	if a.budget.Began != 0 {
		version = budgetCodecVersion
	}
	// Lists have caps below 256, so one byte each is enough.
	b = append(b, version, has, byte(a.figures), byte(len(a.ids)), byte(len(a.stamps)), byte(len(a.works)),
		byte(len(a.messages)), byte(len(a.opened)), byte(len(a.tries)), byte(len(a.orders)), byte(len(a.notes)))
	// The clock comes first, since all other times are relative to it.
	b = binary.AppendVarint(b, int64(a.clock))
	b = a.putTimes(b, a.last, a.reported)
	b = binary.AppendUvarint(b, uint64(a.revision))
	b = binary.AppendUvarint(b, uint64(a.events))
	b = binary.AppendUvarint(b, uint64(a.reports))
	// As the agent reported them: weir does not shorten their texts.
	b = record.AppendString(record.AppendString(record.AppendString(b, a.status), a.margin), a.health)
	if has&hasFigures != 0 {
		b = le.AppendUint64(le.AppendUint64(b, math.Float64bits(a.coherence)), math.Float64bits(a.risk))
	}
	if has&hasMarks != 0 {
		b = record.AppendMarks(b, a.marks)
	}
	for _, id := range a.ids {
		b = le.AppendUint64(b, id)
	}
	for _, w := range a.works {
		b = le.AppendUint64(append(b, byte(w.state)), w.flow)
		b = a.putTimes(b, w.at)
	}
	for _, list := range [...][]events.Stamp{a.stamps, a.messages, a.opened, a.tries} {
		// Each time is relative to the one before it: reports that come in a rhythm take two or
		// three bytes each.
		before := a.clock
		for _, at := range list {
			b = binary.AppendVarint(b, int64(at-before))
			before = at
		}
	}
	if has&hasCaps != 0 {
		b = a.caps.encode(b)
	}
	for i := range a.orders {
		b = a.encodeOrder(b, &a.orders[i])
	}
	if has&hasStuck != 0 {
		b = a.encodeStuck(b, &a.stuck)
	}
	if has&hasShadow != 0 {
		b = a.encodeStuck(b, &a.shadow)
	}
	for i := range a.notes {
		n := &a.notes[i]
		b = record.AppendString(record.AppendString(a.putTimes(b, n.Time), n.Author), n.Summary)
		b = append(b, byte(len(n.Tags)))
		for _, tag := range n.Tags {
			b = record.AppendString(b, tag)
		}
	}
	// The ledger comes last, so a reader of agents alone never meets it.
	if version == treeCodecVersion || version == startedCodecVersion {
		b = record.AppendString(a.tree.AppendBinary(b, a.clock), a.within)
		b = append(b, byte(len(a.grants)))
		for i := range a.grants {
			g := &a.grants[i]
			b = a.putTimes(binary.AppendUvarint(append(b, byte(g.rule)), uint64(g.most)), g.expires)
		}
	}
	if version == startedCodecVersion {
		b = a.tree.AppendStarted(b)
	}
	if version == budgetCodecVersion {
		b = a.budget.AppendBinary(b, a.clock)
	}
	return b
}

// putTimes appends times as what they are before or after the agent's clock.
func (a *Agent) putTimes(b []byte, times ...events.Stamp) []byte {
	for _, at := range times {
		b = binary.AppendVarint(b, int64(at-a.clock))
	}
	return b
}

// encode writes only the buckets that are not 0, behind a mask of which they are.
func (c *agentCap) encode(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.width)), uint64(c.newest))
	mask := uint64(0)
	for i, n := range c.counts {
		if n != 0 {
			mask |= 1 << i
		}
	}
	b = le.AppendUint64(b, mask)
	for _, n := range c.counts {
		if n != 0 {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// encodeOrder writes an order; it is about the agent itself.
func (a *Agent) encodeOrder(b []byte, o *order) []byte {
	b = append(b, byte(o.rule), byte(o.Phase), byte(o.Action.Place()), record.Bit(o.Shadow, 0))
	b = le.AppendUint32(b, o.Limits)
	b = a.putTimes(b, o.Since, o.Begun, o.Issued, o.Expires, o.Due)
	for _, n := range [...]uint64{uint64(o.Revision), uint64(o.Observed), uint64(o.Limit), uint64(o.Attempts), uint64(o.Tried), uint64(o.Leaked)} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// encodeStuck writes an episode of being stuck, of the rows in shadow mode or of the others
// alike.
func (a *Agent) encodeStuck(b []byte, s *stuck) []byte {
	b = append(b, byte(s.rule), byte(s.step), record.Bit(s.certain, 0)|record.Bit(s.extended, 1))
	b = a.putTimes(b, s.since, s.silentSince, s.due, s.issued)
	b = binary.AppendUvarint(b, uint64(s.revision))
	return record.AppendString(record.AppendString(b, s.reviewer), s.requestedBy)
}

// UnmarshalBinary reads the record of the agent called key, keeping the memory of a's
// slices. The agent's strings alias b. It fails on a record that is damaged or was
// written by a newer weir.
// Between the head and the end nothing is looked at for damage: a record.Reader that has
// failed returns zeros, and End reports it.
func (a *Agent) UnmarshalBinary(key string, b []byte) error {
	a.Reset(key)
	d := record.NewReader(b)
	// No weir writes one so long.
	if len(b) > MaxRecord {
		d.Fail()
	}
	h := d.Take(sizeHead)
	// A record that is too short has no version to report; it is damage.
	if !d.Bad() && h[0] != codecVersion && h[0] != treeCodecVersion && h[0] != loneTreeCodecVersion && h[0] != budgetCodecVersion && h[0] != startedCodecVersion {
		return fmt.Errorf("agent record has version %d, this weir reads version %d: use the weir that wrote it, or delete the state and fold the log again", h[0], codecVersion)
	}
	has := h[1]
	a.figures = figureSet(h[2])
	a.clock = d.Stamp(0)
	a.last, a.reported = d.Stamp(a.clock), d.Stamp(a.clock)
	// Bounds leave room for one to be added without running over.
	a.revision = d.Count(1 << 62)
	a.events, a.reports = uint32(d.Uvarint()), uint32(d.Uvarint())
	a.status, a.margin, a.health = d.String(), d.String(), d.String()
	if has&hasFigures != 0 {
		x := d.Take(16)
		a.coherence, a.risk = math.Float64frombits(le.Uint64(x)), math.Float64frombits(le.Uint64(x[8:]))
		// One NaN would compare as neither safe nor unsafe, and would never equal itself when
		// states are compared.
		if sum := a.coherence + a.risk; math.IsNaN(sum) || math.IsInf(sum, 0) { // no event says so
			d.Fail()
		}
	}
	if has&hasMarks != 0 {
		a.marks = d.Marks(a.marks, rules.MostMarks)
	}
	a.ids = record.Sized(a.ids, d.Most(h[3], a.mostIDs()))
	for i := range a.ids {
		a.ids[i] = le.Uint64(d.Take(8))
	}
	for range d.Most(h[5], maxFlows) {
		x := d.Take(9)
		// A state that this weir does not know counts for nothing, see quietOf.
		a.works = append(a.works, agentWork{state: doing(x[0]), flow: le.Uint64(x[1:]), at: d.Stamp(a.clock)})
	}
	a.stamps = readStamps(&d, a.stamps, h[4], a.clock)
	a.messages = readStamps(&d, a.messages, h[6], a.clock)
	a.opened = readStamps(&d, a.opened, h[7], a.clock)
	a.tries = readStamps(&d, a.tries, h[8], a.clock)
	if has&hasCaps != 0 {
		a.caps.decode(&d)
	}
	a.orders = record.Sized(a.orders, d.Most(h[9], maxOrders))
	for i := range a.orders {
		a.orders[i] = readOrder(&d, a.clock)
	}
	if has&hasStuck != 0 {
		a.stuck = readStuck(&d, a.clock)
	}
	if has&hasShadow != 0 {
		a.shadow = readStuck(&d, a.clock)
	}
	a.notes = record.Sized(a.notes, d.Most(h[10], maxNotes))
	for i := range a.notes {
		n := &a.notes[i]
		*n = Note{Time: d.Stamp(a.clock), Author: d.String(), Summary: d.String()}
		// All tags share one slice of the agent, so that notes cost no allocation each.
		first := len(a.tags)
		for range d.Most(d.Take(1)[0], maxNoteTags) {
			a.tags = append(a.tags, d.String())
		}
		if len(a.tags) > first {
			n.Tags = slices.Clip(a.tags[first:])
		}
	}
	// Versions of records with a ledger are the higher ones.
	if !d.Bad() && h[0] == budgetCodecVersion {
		a.budget.Read(&d, a.clock)
	} else if !d.Bad() && h[0] >= loneTreeCodecVersion {
		a.tree.Read(&d, a.clock)
		if !d.Bad() && h[0] != loneTreeCodecVersion {
			a.within = d.String()
			for range d.Most(d.Take(1)[0], maxTreeGrants) {
				a.grants = append(a.grants, treeGrant{RuleID(d.Most(d.Take(1)[0], int(RuleCount)-1)), d.Count(1 << 62), d.Stamp(a.clock)})
			}
			if h[0] == startedCodecVersion {
				a.tree.ReadStarted(&d)
			}
		}
	}
	return d.End("agent record")
}

// decode checks that the times of the buckets stay below lastStamp, since sum and below
// multiply by the width without a look.
func (c *agentCap) decode(d *record.Reader) {
	c.width, c.newest = events.Stamp(d.Count(1<<62)), events.Stamp(d.Count(1<<62))
	if c.width == 0 || c.newest > lastStamp/c.width {
		d.Fail()
		*c = agentCap{}
		return
	}
	mask := le.Uint64(d.Take(8))
	// A bit behind the last bucket would be written outside of counts.
	if mask>>capBuckets != 0 {
		d.Fail()
		return
	}
	for ; mask != 0; mask &= mask - 1 {
		c.counts[bits.TrailingZeros64(mask)] = uint32(d.Uvarint())
	}
}

// readOrder refuses an order without a deadline, which would stand for ever, and one of a row
// that counts nothing.
func readOrder(d *record.Reader, clock events.Stamp) (o order) {
	h := d.Take(8)
	o.rule, o.Phase, o.Action, o.Shadow = RuleID(d.Most(h[0], int(RuleCount)-1)), standing.Phase(d.Most(h[1], int(standing.Stop))), events.ActionAt(int(d.Most(h[2], events.Hold.Place()))), h[3] == 1
	o.Limits = le.Uint32(h[4:])
	o.Since, o.Begun, o.Issued, o.Expires, o.Due = d.Stamp(clock), d.Stamp(clock), d.Stamp(clock), d.Stamp(clock), d.Stamp(clock)
	o.Revision, o.Observed, o.Limit = d.Count(1<<62), d.Count(1<<62), d.Count(1<<62)
	o.Attempts, o.Tried, o.Leaked = uint16(d.Uvarint()), uint16(d.Uvarint()), uint16(d.Uvarint())
	if o.Due == 0 || Rules[o.rule].Counts == CountedNothing {
		d.Fail()
	}
	return o
}

// readStuck reads what encodeStuck has written.
func readStuck(d *record.Reader, clock events.Stamp) (s stuck) {
	h := d.Take(3)
	s.rule, s.step = RuleID(d.Most(h[0], int(RuleCount)-1)), recoveryStep(d.Most(h[1], int(stepNotified)))
	s.certain, s.extended = h[2]&1 != 0, h[2]&2 != 0
	s.since, s.silentSince, s.due, s.issued = d.Stamp(clock), d.Stamp(clock), d.Stamp(clock), d.Stamp(clock)
	s.revision = d.Count(1 << 62)
	s.reviewer, s.requestedBy = d.String(), d.String()
	return s
}

// readStamps reads times that are each relative to the one before, the first to clock. They are
// sorted, and searches in them rely on that.
func readStamps(d *record.Reader, list []events.Stamp, n byte, clock events.Stamp) []events.Stamp {
	for i := range d.Most(n, maxStamps) {
		at := d.Stamp(clock)
		if i > 0 && at < clock { // they are kept sorted
			d.Fail()
		}
		list = append(list, at)
		clock = at
	}
	return list
}

// MayBeStuck reports whether the record is of an agent that is stuck, may be, or was
// archived for it, without reading all of it. Where it is true the agent has to be looked at.
// Trees have records of another version, and are never stuck.
func MayBeStuck(record []byte) bool {
	return len(record) > 1 && record[0] == codecVersion && record[1]&hasStuck != 0
}

// Clone returns a copy that shares no memory with a.
func (a *Agent) Clone() *Agent {
	c := new(Agent)
	if err := c.UnmarshalBinary(strings.Clone(a.key), a.encode(nil)); err != nil {
		panic("agent " + standing.Printable(a.key) + " does not read its own record: " + err.Error())
	}
	return c
}
