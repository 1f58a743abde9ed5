package recordbatch

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

// Producer is how the broker identifies a producer within a partition.
//
// Broker and producer count batches by sequence numbers, which reveal a repetition. A higher
// epoch shuts a lower one out (decision 22).
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer writes without sequence numbers. Producer 0 is a real id.
//
// Kafka uses minus one for none.
var NoProducer = Producer{-1, -1}

// Encoder makes batches of format 2, one after another in the same memory.
//
// The bytes hold the sequence number, so a batch that is sent again is sent as it is and not
// encoded anew.
type Encoder struct {
	Bytes []byte // the batch, good until the next one
	Count int    // of its records

	From     Producer
	Sequence int32 // of its first record; not used by NoProducer
	// Lead goes with the first record alone, for what is of the batch as a whole.
	Lead  []kafkago.Header // further headers of its first record
	Codec kafkago.Compression
	// Lent is set by who hands Bytes to a sender that may still hold them after an error.
	Lent bool // Bytes may still be in use: the next batch gets memory of its own

	packed bytes.Buffer
}

// Encode makes a batch of records, as many as fit into most bytes before they are
// compressed, but at least one. Offsets are the broker's to give; a record without a time
// gets the present one.
//
// The records are the first Count of those that were given; the others are for the next batch.
// It fails only when the codec does. records must not be empty.
func (b *Encoder) Encode(records []Record, most int) error {
	// One present for all of a batch.
	now := events.StampOf(time.Now())
	stamp := func(m *Record) events.Stamp {
		if m.Time == 0 {
			return now
		}
		return m.Time
	}
	if b.Lent {
		b.Bytes, b.Lent = nil, false
	}
	first := stamp(&records[0])
	last := first
	out := append(b.Bytes[:0], make([]byte, HeadSize)...)
	b.Count = 0
	lead := b.Lead
	for i := range records {
		m := &records[i]
		at := stamp(m)
		size := recordSize(m, lead, int64(at-first), i)
		// Bytes of the length field are not known before, so its longest form is allowed for.
		// A record that is larger than most goes alone and is the broker's to refuse.
		if i > 0 && len(out)+size+binary.MaxVarintLen32 > most {
			break
		}
		out = appendRecord(out, m, lead, int64(at-first), i, size)
		// Times need not rise within a batch; the head has the first one and the largest.
		last = max(last, at)
		b.Count++
		lead = nil
	}
	b.Bytes = out
	// The bound is before compression, so that a reader's limit of unpacked bytes holds
	// whatever the codec.
	if b.Codec != 0 {
		if err := b.pack(); err != nil {
			return err
		}
	}
	b.seal(first, last)
	return nil
}

// pack compresses the records.
//
// The head is left out, since brokers and readers need it as it is.
func (b *Encoder) pack() error {
	b.packed.Reset()
	w := b.Codec.Codec().NewWriter(&b.packed)
	if _, err := w.Write(b.Bytes[HeadSize:]); err != nil {
		return fmt.Errorf("compress a batch by %s: %w", b.Codec, err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress a batch by %s: %w", b.Codec, err)
	}
	b.Bytes = append(b.Bytes[:HeadSize], b.packed.Bytes()...)
	return nil
}

// seal writes the head.
//
// Whatever is packed is sealed last: the checksum covers it.
func (b *Encoder) seal(first, last events.Stamp) {
	put, h := binary.BigEndian, b.Bytes
	put.PutUint64(h, 0) // offset: the broker's
	put.PutUint32(h[atLength:], uint32(len(h)-atLeader))
	put.PutUint32(h[atLeader:], math.MaxUint32) // epoch of the leader: not known
	h[atMagic] = 2
	put.PutUint16(h[atCodec:], uint16(b.Codec))
	// Offsets in a batch are counted from 0, without gaps.
	put.PutUint32(h[atLastDelta:], uint32(b.Count-1))
	put.PutUint64(h[atFirstTime:], uint64(first))
	put.PutUint64(h[atMaxTime:], uint64(last))
	put.PutUint64(h[atProducer:], uint64(b.From.ID))
	put.PutUint16(h[atEpoch:], uint16(b.From.Epoch))
	sequence := b.Sequence
	if b.From == NoProducer {
		// A Producer's batch with the wrong number is refused; -1 asks for no such look.
		sequence = -1
	}
	put.PutUint32(h[atSequence:], uint32(sequence))
	put.PutUint32(h[atCount:], uint32(b.Count))
	put.PutUint32(h[atCRC:], crc32.Checksum(h[atCodec:], castagnoli))
}

// appendRecord appends one record whose size was found before.
//
// offset is the place in the batch, and time the milliseconds since its first record; both are
// what readers add to the head.
func appendRecord(b []byte, m *Record, lead []kafkago.Header, time int64, offset, size int) []byte {
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

// appendNullable keeps nil and empty apart: a nil value deletes in a compacted topic.
func appendNullable(b, part []byte) []byte {
	if part == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(part))), part...)
}

// recordSize is the size of a record without the field that holds it.
//
// It has to give exactly what appendRecord writes, for the length stands before the record.
func recordSize(m *Record, lead []kafkago.Header, time int64, offset int) int {
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

// varintSize is how many bytes binary.AppendVarint writes.
func varintSize(v int64) int { return (bits.Len64(uint64(v<<1^v>>63)|1) + 6) / 7 }

// Advance returns the sequence number n records after s. They begin again at 0.
//
// A Kafka sequence is 31 bits wide.
func Advance(s int32, n int) int32 { return int32((int64(s) + int64(n)) & math.MaxInt32) }
