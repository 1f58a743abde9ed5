package kafka

import (
	"errors"
	"fmt"
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

// appendTo appends the headers that say the position, and what these are made of to text.
func (p Position) appendTo(headers []kafkago.Header, text []byte) ([]kafkago.Header, []byte) {
	for _, x := range [...]struct {
		key string
		n   int64
	}{{fromPartitionHeader, int64(p.Partition)}, {fromOffsetHeader, p.Offset}, {fromPartHeader, int64(p.Part)}} {
		start := len(text)
		text = strconv.AppendInt(text, x.n, 10)
		headers = append(headers, kafkago.Header{Key: x.key, Value: text[start:len(text):len(text)]})
	}
	return headers, text
}

// PositionOf reads the position of a record of the activity topic from its headers
// weir-partition, weir-offset and weir-part. It fails when one is missing or is not a
// number from 0 on: the record was not written by Activity.
func PositionOf(headers []kafkago.Header) (Position, error) {
	var p Position
	found := 0
	for i := range headers {
		h := &headers[i]
		// Partitions and parts are int32 in Kafka, offsets int64; neither is negative. No offset has
		// come near a half of what fits, and who keeps one counts on from it.
		bits := 31
		if h.Key == fromOffsetHeader {
			bits = 62
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
