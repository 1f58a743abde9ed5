package analyzer

import (
	"encoding/binary"
	"errors"

	"weir/analyzer/record"
	"weir/events"
)

// Partition is what is folded over all flows of one partition of the log: how far
// event time has come, and how busy everything together is. The zero Partition is
// one of which nothing was seen.
// It is written with each checkpoint beside the flows, and owned by the goroutine of the pump
// that folds the partition.
type Partition struct {
	// Deadlines of silent flows fire by it. In milliseconds, as all stamps.
	Watermark events.Stamp // the latest time seen; runs backwards by TurnBack alone
	second    events.Stamp // the second that the newest bucket counts
	buckets   [60]uint32   // hops per second of the last minute
	// The sum of the buckets; it is not stored.
	sum    int64
	busy   bool
	turned bool // the time was turned back: flows may be ahead of it
	// Reporting is true if some agent reports its own status (agent.status), here or in another
	// partition. From then on flows report to the agent stage what their parties do. Before, no
	// agent's silence is judged, and such reports would have no use.
	Reporting bool
}

// observe moves the watermark.
func (p *Partition) observe(at events.Stamp) { p.Watermark = max(p.Watermark, at) }

// Busy reports whether limits are shrunk by load.
func (p *Partition) Busy() bool { return p.busy }

// count adds a hop to the load and switches the busy state with hysteresis.
// It goes by the watermark and not by the time of the event: late events count as load when
// they come.
func (p *Partition) count(m *moment, l *Load) {
	// Nothing uses the load, so it is not counted; the buckets stay as they are.
	if l.High == 0 {
		return
	}
	now := p.Watermark / 1000
	if gap := now - p.second; gap > 0 {
		for i := events.Stamp(1); i <= min(gap, 60); i++ {
			// Seconds in which nothing came are emptied, too, or hops of the minute before
			// would be counted again.
			b := &p.buckets[(p.second+i)%60]
			p.sum -= int64(*b)
			*b = 0
		}
		p.second = now
	}
	if m.hop && m.ev.CorrelationSource != events.CorrelationPrincipal {
		p.buckets[now%60]++
		p.sum++
	}
	switch {
	// Between the two figures it stays as it was, so that limits do not shrink and return with
	// each hop.
	case p.sum > l.High:
		p.busy = true
	case p.sum < l.Low:
		p.busy = false
	}
}

// A state of another version is refused, like a flow's record.
const partitionVersion = 1

// AppendBinary appends the partition's record to dst.
func (p *Partition) AppendBinary(dst []byte) ([]byte, error) {
	// Flows of an older weir always reported their parties, and go on to.
	dst = append(dst, partitionVersion, record.Bit(p.busy, 0)|record.Bit(p.turned, 1)|record.Bit(!p.Reporting, 2))
	dst = binary.AppendVarint(dst, int64(p.Watermark))
	dst = binary.AppendVarint(dst, int64(p.second))
	for _, b := range p.buckets {
		dst = binary.AppendUvarint(dst, uint64(b))
	}
	return dst, nil
}

// UnmarshalBinary reads a record that AppendBinary wrote. An empty record is the
// zero Partition.
func (p *Partition) UnmarshalBinary(b []byte) error {
	*p = Partition{}
	if len(b) == 0 {
		return nil
	}
	d := record.NewReader(b)
	h := d.Take(2)
	if h[0] != partitionVersion {
		return errors.New("partition state was written by another version of weir: delete the state to fold the log again")
	}
	p.busy, p.turned, p.Reporting = h[1]&1 != 0, h[1]&2 != 0, h[1]&4 == 0
	p.Watermark = events.Stamp(d.Varint())
	p.second = events.Stamp(d.Varint())
	for i := range p.buckets {
		p.buckets[i] = uint32(d.Uvarint())
		p.sum += int64(p.buckets[i])
	}
	return d.End("partition state")
}
