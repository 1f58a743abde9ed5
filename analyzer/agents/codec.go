package agents

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"weir/analyzer/record"
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

// version is that of the agent's record. Agents and projects keep the older version, so that a weir from before trees
// reads them still.
func (a *Agent) version() byte {
	switch {
	case a.budget.Began != 0:
		return budgetCodecVersion
	case !a.tree.Began():
		return codecVersion
	case a.tree.Started > 0:
		return startedCodecVersion
	}
	return treeCodecVersion
}

// putStamps writes times, each relative to the one before it, the first to clock.
func putStamps(b []byte, list []events.Stamp, clock events.Stamp) []byte {
	for _, at := range list {
		b = binary.AppendVarint(b, int64(at-clock))
		clock = at
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

// putTags writes the tags of a note.
func putTags(b []byte, tags []string) []byte {
	b = append(b, byte(len(tags)))
	for _, tag := range tags {
		b = record.AppendString(b, tag)
	}
	return b
}

// readTags reads the tags of a note. All tags share one slice of the agent, so that notes cost no allocation each.
func (a *Agent) readTags(d *record.Reader) []string {
	first := len(a.tags)
	for range d.Most(d.Take(1)[0], maxNoteTags) {
		a.tags = append(a.tags, d.String())
	}
	if len(a.tags) == first {
		return nil
	}
	return slices.Clip(a.tags[first:])
}

// one adds an element to a list and returns it.
func one[E any](list *[]E) *E {
	var e E
	*list = append(*list, e)
	return &(*list)[len(*list)-1]
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
	h := d.Take(agentHead)
	// A record that is too short has no version to report; it is damage.
	if !d.Bad() && h[0] != codecVersion && h[0] != treeCodecVersion && h[0] != loneTreeCodecVersion && h[0] != budgetCodecVersion && h[0] != startedCodecVersion {
		return fmt.Errorf("agent record has version %d, this weir reads version %d: use the weir that wrote it, or delete the state and fold the log again", h[0], codecVersion)
	}
	a.decode(&d, h)
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
