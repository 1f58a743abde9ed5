package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	kafkago "github.com/segmentio/kafka-go"
)

// Position is where a record of the activity topic comes from: the Part-th one, from 0,
// that the event at an offset of a partition brought about.
type Position struct {
	Partition int
	Offset    int64
	Part      int
}

const (
	fromPartitionHeader = "weir-partition"
	fromOffsetHeader    = "weir-offset"
	fromPartHeader      = "weir-part"
)

func (p Position) headers() []kafkago.Header {
	return []kafkago.Header{decimal(fromPartitionHeader, int64(p.Partition)), decimal(fromOffsetHeader, p.Offset), decimal(fromPartHeader, int64(p.Part))}
}

// PositionOf reads the position of a record of the activity topic from its headers
// weir-partition, weir-offset and weir-part. It fails when one is missing or is not a
// number from 0 on: the record was not written by Activity.
func PositionOf(headers []kafkago.Header) (Position, error) {
	var p Position
	found := 0
	for i := range headers {
		h := &headers[i]
		bits := 31
		if h.Key == fromOffsetHeader {
			bits = 63
		} else if h.Key != fromPartitionHeader && h.Key != fromPartHeader {
			continue
		}
		n, err := strconv.ParseUint(string(h.Value), 10, bits)
		if err != nil {
			return Position{}, fmt.Errorf("record of activity: header %s: %w", h.Key, err)
		}
		switch h.Key {
		case fromPartitionHeader:
			p.Partition, found = int(n), found|1
		case fromOffsetHeader:
			p.Offset, found = int64(n), found|2
		case fromPartHeader:
			p.Part, found = int(n), found|4
		}
	}
	if found != 7 {
		return Position{}, errors.New("record of activity: it does not say where it comes from in weir-partition, weir-offset and weir-part: only weir may write to this topic")
	}
	return p, nil
}

// Repeats tells records of one partition of the activity topic that were seen before.
// Whoever sends them sends all from one source partition in the order of that; a new
// owner begins at or before what was sent, and an old one may go on for a while. So a
// record is new when it is behind all of its source partition that were seen. The zero
// Repeats has seen nothing. It is for one goroutine.
type Repeats struct {
	last map[int]place // by source partition
}

type place struct {
	offset int64
	part   int
}

// Take reports whether the record has not been seen before, and remembers it.
func (r *Repeats) Take(p Position) bool {
	last, ok := r.last[p.Partition]
	if ok && (p.Offset < last.offset || p.Offset == last.offset && p.Part <= last.part) {
		return false
	}
	if r.last == nil {
		r.last = make(map[int]place)
	}
	r.last[p.Partition] = place{p.Offset, p.Part}
	return true
}

const repeatsFormat = 1

// AppendBinary appends what was seen to b. The same is always the same bytes. It
// returns no error.
func (r *Repeats) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, repeatsFormat)
	b = binary.AppendUvarint(b, uint64(len(r.last)))
	for _, partition := range slices.Sorted(maps.Keys(r.last)) {
		last := r.last[partition]
		b = binary.AppendUvarint(b, uint64(partition))
		b = binary.AppendUvarint(b, uint64(last.offset))
		b = binary.AppendUvarint(b, uint64(last.part))
	}
	return b, nil
}

var errRepeats = errors.New("what was seen of the activity topic cannot be read: it was written by another version, or is damaged")

// UnmarshalBinary reads what AppendBinary has written. After an error r is unchanged.
func (r *Repeats) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != repeatsFormat {
		return errRepeats
	}
	b = b[1:]
	good := true
	next := func(most uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > most {
			good = false
			return 0
		}
		b = b[n:]
		return v
	}
	count := next(math.MaxInt32)
	last := make(map[int]place)
	before := -1
	for ; count > 0 && good; count-- {
		partition := int(next(math.MaxInt32))
		last[partition] = place{int64(next(math.MaxInt64)), int(next(math.MaxInt32))}
		good = good && partition > before
		before = partition
	}
	if !good || len(b) > 0 {
		return errRepeats
	}
	r.last = last
	return nil
}
