package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
)

// identity is what the broker knows a producer by, within a partition.
type identity struct {
	id    int64
	epoch int16
}

// nobody writes without sequence numbers. Producer 0 is somebody.
var nobody = identity{-1, -1}

// Where the fields of a batch's head stand.
const (
	atLength    = 8 // of what follows this field
	atLeader    = 12
	atMagic     = 16
	atCRC       = 17
	atCodec     = 21 // the checksum covers everything from here on
	atLastDelta = 23
	atFirstTime = 27
	atMaxTime   = 35
	atProducer  = 43
	atEpoch     = 51
	atSequence  = 53
	atCount     = 57
	headSize    = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one record batch of format 2 and how it is made.
type batch struct {
	bytes []byte
	count int // of records

	from     identity
	sequence int32            // of its first record; not used by nobody
	lead     []kafkago.Header // further headers of its first record
	codec    kafkago.Compression
	packed   bytes.Buffer
	lent     bool // the library may still read bytes, for an answer that nobody waits for
}

// encode fills the batch with messages, as many as fit into most bytes before they are
// compressed, but at least one.
func (b *batch) encode(msgs []Message, most int) error {
	now := events.StampOf(time.Now())
	stamp := func(m *Message) events.Stamp {
		if m.Time == 0 {
			return now
		}
		return m.Time
	}
	if b.lent {
		b.bytes, b.lent = nil, false
	}
	first := stamp(&msgs[0])
	last := first
	out := append(b.bytes[:0], make([]byte, headSize)...)
	b.count = 0
	lead := b.lead
	for i := range msgs {
		m := &msgs[i]
		at := stamp(m)
		size := recordSize(m, lead, int64(at-first), i)
		if i > 0 && len(out)+size+binary.MaxVarintLen32 > most {
			break
		}
		out = appendRecord(out, m, lead, int64(at-first), i, size)
		last = max(last, at)
		b.count++
		lead = nil
	}
	b.bytes = out
	if b.codec != 0 {
		if err := b.pack(); err != nil {
			return err
		}
	}
	b.seal(first, last)
	return nil
}

// pack compresses the records.
func (b *batch) pack() error {
	b.packed.Reset()
	w := b.codec.Codec().NewWriter(&b.packed)
	if _, err := w.Write(b.bytes[headSize:]); err != nil {
		return fmt.Errorf("compress a batch by %s: %w", b.codec, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress a batch by %s: %w", b.codec, err)
	}
	b.bytes = append(b.bytes[:headSize], b.packed.Bytes()...)
	return nil
}

// seal writes the head.
func (b *batch) seal(first, last events.Stamp) {
	put, h := binary.BigEndian, b.bytes
	put.PutUint64(h, 0) // offset: the broker's
	put.PutUint32(h[atLength:], uint32(len(h)-atLeader))
	put.PutUint32(h[atLeader:], math.MaxUint32) // epoch of the leader: not known
	h[atMagic] = 2
	put.PutUint16(h[atCodec:], uint16(b.codec))
	put.PutUint32(h[atLastDelta:], uint32(b.count-1))
	put.PutUint64(h[atFirstTime:], uint64(first))
	put.PutUint64(h[atMaxTime:], uint64(last))
	put.PutUint64(h[atProducer:], uint64(b.from.id))
	put.PutUint16(h[atEpoch:], uint16(b.from.epoch))
	sequence := b.sequence
	if b.from == nobody {
		sequence = -1
	}
	put.PutUint32(h[atSequence:], uint32(sequence))
	put.PutUint32(h[atCount:], uint32(b.count))
	put.PutUint32(h[atCRC:], crc32.Checksum(h[atCodec:], castagnoli))
}

// appendRecord appends one record whose size was found before.
func appendRecord(b []byte, m *Message, lead []kafkago.Header, time int64, offset, size int) []byte {
	b = binary.AppendVarint(b, int64(size))
	b = append(b, 0) // attributes: there are none
	b = binary.AppendVarint(b, time)
	b = binary.AppendVarint(b, int64(offset))
	b = appendNullable(b, m.Key)
	b = appendNullable(b, m.Value)
	b = binary.AppendVarint(b, int64(len(lead)+len(m.Headers)))
	for _, list := range [...][]kafkago.Header{lead, m.Headers} {
		for i := range list {
			b = binary.AppendVarint(b, int64(len(list[i].Key)))
			b = append(b, list[i].Key...)
			b = appendNullable(b, list[i].Value)
		}
	}
	return b
}

func appendNullable(b, part []byte) []byte {
	if part == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(part))), part...)
}

// recordSize is the size of a record without the field that holds it.
func recordSize(m *Message, lead []kafkago.Header, time int64, offset int) int {
	n := 1 + varintSize(time) + varintSize(int64(offset)) + nullableSize(m.Key) + nullableSize(m.Value) + varintSize(int64(len(lead)+len(m.Headers)))
	for _, list := range [...][]kafkago.Header{lead, m.Headers} {
		for i := range list {
			n += varintSize(int64(len(list[i].Key))) + len(list[i].Key) + nullableSize(list[i].Value)
		}
	}
	return n
}

func nullableSize(part []byte) int {
	if part == nil {
		return 1
	}
	return varintSize(int64(len(part))) + len(part)
}

func varintSize(v int64) int { return (bits.Len64(uint64(v<<1^v>>63)|1) + 6) / 7 }

// advance is the sequence number n records after s. They begin again at 0.
func advance(s int32, n int) int32 { return int32((int64(s) + int64(n)) & math.MaxInt32) }
