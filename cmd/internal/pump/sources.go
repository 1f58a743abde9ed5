package pump

import (
	"encoding/binary"
	"errors"
	"math"

	"weir/analyzer/record"
	"weir/events"
)

// sources is what an agent stage knows of the partitions of events that report to it: how far it has
// read each one, and the low watermark of each.
//
// The owner of a source sends all of its activity in the order of the source. A new owner begins at or
// before the end of what was sent, and an old owner may continue for a while. So a record is new if it
// is after all records of its source that were seen.
type sources struct {
	want int // sources without which there is no low watermark
	// last is by the number of the source, as long as the highest that was seen.
	last []source
}

// source is one partition of events, or of the activity, as far as this one has seen it.
type source struct {
	any    bool // something was seen of it
	offset int64
	part   int
	low    events.Stamp // its low watermark: it has reported everything up to here; 0 for none
}

// mostSources is how many partitions of events there may be.
// It bounds what a damaged state can make weir allocate.
const mostSources = 1 << 16

func newSources(n int) sources { return sources{want: max(1, n)} }

// take reports whether a record has not been seen before, and remembers it.
func (s *sources) take(at Position) bool {
	x := s.of(at.Source)
	if x.any && (at.Offset < x.offset || at.Offset == x.offset && at.Part <= x.part) {
		return false
	}
	x.any, x.offset, x.part = true, at.Offset, at.Part
	return true
}

// raise notes a low watermark of a source.
func (s *sources) raise(n int, at events.Stamp) {
	x := s.of(n)
	x.low = max(x.low, at)
}

// turnBack notes that the low watermark of a source was ahead.
func (s *sources) turnBack(n int, at events.Stamp) { s.of(n).low = at }

// lowWatermark is the time up to which all sources have reported everything. It is 0 if a source has
// reported nothing yet.
func (s *sources) lowWatermark() events.Stamp {
	// Without a record of a source, the activity of its agents is unknown.
	if len(s.last) < s.want {
		return 0
	}
	first := s.last[0].low
	for i := range s.last[:s.want] { // the others pass on reports about trees
		first = min(first, s.last[i].low)
	}
	return first
}

// of returns what is known of a source, good until the next call. A number that was not seen
// before is new; fresh has refused those that cannot be.
func (s *sources) of(n int) *source {
	for len(s.last) <= n {
		s.last = append(s.last, source{})
	}
	return &s.last[n]
}

// appendBinary appends what is known to b: the same is always the same bytes.
func (s *sources) appendBinary(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s.last)))
	for i := range s.last {
		x := &s.last[i]
		if !x.any { // so it has reported nothing
			b = binary.AppendUvarint(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(x.offset)+1)
		b = binary.AppendUvarint(b, uint64(x.part))
		b = binary.AppendVarint(b, int64(x.low))
	}
	return b
}

// read reads what appendBinary has written, and leaves the rest.
func (s *sources) read(d *record.Reader) {
	n := d.Count(mostSources)
	last := make([]source, 0, min(int(n), len(d.Rest())))
	for ; n > 0 && !d.Bad(); n-- {
		var x source
		if offset := d.Count(math.MaxInt64); offset > 0 {
			x = source{any: true, offset: offset - 1, part: int(d.Count(math.MaxInt32)), low: events.Stamp(d.Varint())}
		}
		last = append(last, x)
	}
	if !d.Bad() {
		s.last = last
	}
}

var errState = errors.New("the state of the partition is damaged; fold the log again with an empty state directory")
