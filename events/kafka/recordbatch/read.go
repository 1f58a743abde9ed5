package recordbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
)

// Batch is a record batch as it lies in the log: what one producer sent together.
//
// It refers to the bytes that it was cut from and unpacks nothing. Until check nothing of it
// is known to be what the producer wrote.
type Batch struct {
	Offset, Last int64 // of its first and last record, of which compaction may have taken some
	// magic is the number of the format: 2, or 0 and 1 of clients before Kafka 0.11.
	magic int8
	// The sum covers what follows it. Offset and format stand before, since the broker sets
	// offsets.
	sum        uint32 // CRC-32C of summed
	summed     []byte
	attributes int16
	// first and max are of the records' times; max is the broker's own time where it stamps
	// the batch.
	first, max events.Stamp
	count      int
	records    []byte // packed
}

const (
	oldHead = 17 // bytes of the head of the formats before, as far as they have the same fields
	// A larger offset is no offset: it would overflow in sums with counts.
	maxOffset = 1 << 62
)

// Cut takes a batch off the front of b. It is false when less than a whole one is there;
// then Offset and Last are set if they can be seen, and Offset is -1 if not.
//
// Only sizes are checked. The offsets of an incomplete batch let a reader of a too large one
// continue behind it. Formats before 2 are cut as well, to be
// rejected by name.
func Cut(b []byte) (t Batch, rest []byte, whole bool) {
	// With fewer bytes than a head only an old format can be read, whose head is shorter.
	if len(b) < HeadSize {
		if len(b) < oldHead || b[atMagic] >= 2 {
			return Batch{Offset: -1}, nil, false
		}
	}
	be := binary.BigEndian
	t.Offset = int64(be.Uint64(b))
	if t.Offset < 0 || t.Offset > maxOffset {
		return Batch{Offset: -1}, nil, false
	}
	t.magic = int8(b[atMagic])
	// The length field does not count itself nor what stands before it.
	size := atLeader + int64(int32(be.Uint32(b[atLength:])))
	if t.magic < 2 {
		// A message set of Kafka before 0.11: its number is that of its last record.
		t.Last = t.Offset
		if size < oldHead || size > int64(len(b)) {
			return t, nil, false
		}
		return t, b[size:], true
	}
	t.sum = be.Uint32(b[atCRC:])
	t.attributes = int16(be.Uint16(b[atCodec:]))
	// A batch keeps its last offset also when compaction has taken records from its end.
	t.Last = t.Offset + max(0, int64(int32(be.Uint32(b[atLastDelta:]))))
	t.first = events.Stamp(be.Uint64(b[atFirstTime:]))
	t.max = events.Stamp(be.Uint64(b[atMaxTime:]))
	t.count = int(int32(be.Uint32(b[atCount:])))
	// size is the producer's word; what it says beyond b is not there yet, or never will be.
	if size < HeadSize || size > int64(len(b)) {
		return t, nil, false
	}
	t.summed, t.records = b[atCodec:size], b[HeadSize:size]
	return t, b[size:], true
}

// codec and logAppend are bits of the attributes. Bit 4, which marks a batch of a transaction,
// does not matter here, see Reader.
func (t *Batch) codec() int8     { return int8(t.attributes & 7) }
func (t *Batch) logAppend() bool { return t.attributes&8 != 0 } // the broker stamped it

// Control reports whether the batch is a mark of a transaction, whose records are no one's.
func (t *Batch) Control() bool { return t.attributes&32 != 0 }

// Why the records of a batch cannot be had.
//
// After ErrChecksum another reading may do; the other two stay.
var (
	ErrTooLarge  = errors.New("it unpacks to more than the limit")
	ErrChecksum  = errors.New("its checksum is wrong: it was damaged on the way or on the broker's disk")
	ErrMalformed = errors.New("its records do not fit its head: a faulty producer wrote it")
)

// check holds the batch to its checksum.
//
// An old format has another checksum and is refused before.
func (t *Batch) check() error {
	if t.magic != 2 {
		return fmt.Errorf("it has format %d, of clients before Kafka 0.11: copy the topic with a newer client", t.magic)
	}
	if crc32.Checksum(t.summed, castagnoli) != t.sum {
		return ErrChecksum
	}
	return nil
}

// RecordCost is how many unpacked bytes a record or a header counts at least, so that
// many tiny ones cannot take more memory than large ones: about what they need here.
//
// A record of no key and no value takes seven bytes in a batch and 88 as a Record.
const RecordCost = 64

// Decoder appends the records of batches to slices that it is given. What it appends is
// good until Reset: it refers to the bytes of the batches, to what was unpacked of them,
// and to the Decoder's own slice of headers.
//
// It is for one goroutine. Memory for what is unpacked and for headers is used again after
// Reset, so a caller who keeps a record copies it.
type Decoder struct {
	unpacker unpacker
	headers  []kafkago.Header
	// Header keys come again with each record, so a few strings serve all.
	names map[string]string // header keys seen before, so that they need not be copied
}

// NewDecoder returns a Decoder of batches that have at most limit bytes when they are
// unpacked.
//
// Of records and headers it takes as many as RecordCost allows.
func NewDecoder(limit int) *Decoder { return &Decoder{unpacker: unpacker{limit: limit}} }

// Unpacked returns the bytes that were unpacked since Reset.
//
// Batches that are not compressed count nothing, since their bytes are the caller's.
func (d *Decoder) Unpacked() int { return d.unpacker.total }

// Reset gives the memory of what was appended free to be used again. Of what was unpacked
// at most keep bytes are kept for it.
func (d *Decoder) Reset(keep int) {
	d.unpacker.reset(keep)
	d.headers = d.headers[:0]
}

// Close ends the Decoder.
//
// It may be used again, as Reset and Append make what they need.
func (d *Decoder) Close() { d.unpacker.close() }

// Append appends the records of t from offset from on. An error is ErrTooLarge,
// ErrChecksum or ErrMalformed, or names another fault of the batch; dst may then have
// some of its records.
//
// Records before offset from are read and not appended: a broker returns whole batches. The
// checksum is verified first, because all the rest trusts the bytes.
func (d *Decoder) Append(dst []Record, t *Batch, from int64) ([]Record, error) {
	if err := t.check(); err != nil {
		return dst, err
	}
	b, err := d.unpacker.unpack(t.codec(), t.records)
	if err != nil {
		return dst, err
	}
	// The limit of memory also bounds how many records there may be.
	return d.append(dst, t, b, from, d.unpacker.limit/RecordCost)
}

// maxNames bounds what is remembered of header keys.
const maxNames = 64

// append appends the records of t, unpacked in b, from offset from on. budget bounds
// records and headers.
func (d *Decoder) append(dst []Record, t *Batch, b []byte, from int64, budget int) ([]Record, error) {
	// More records than offsets cannot be.
	if t.count < 0 || int64(t.count) > t.Last-t.Offset+1 {
		return dst, ErrMalformed
	}
	if t.count > budget {
		return dst, fmt.Errorf("%w of %d records", ErrTooLarge, budget)
	}
	budget -= t.count
	// Offsets rise within a batch; gaps are what compaction has left.
	before := t.Offset - 1
	for range t.count {
		// A record is as long as it says, and what it holds must fill it to the last byte.
		size, n := binary.Varint(b)
		if n <= 0 || size < 0 || size > int64(len(b)-n) {
			return dst, ErrMalformed
		}
		record := b[n : n+int(size)]
		b = b[n+int(size):]
		v := varints{b: record}
		v.take(1) // attributes: none in use
		at := t.first + events.Stamp(v.next())
		// Where the broker stamps records it does so once, in the head.
		if t.logAppend() {
			at = t.max
		}
		offset := t.Offset + v.next()
		key := v.bytes()
		value := v.bytes()
		many := v.next()
		// A header takes at least two bytes, so its count is held to what is there.
		if v.bad || offset <= before || offset > t.Last || many < 0 || many > int64(len(v.b))/2 {
			return dst, ErrMalformed
		}
		before = offset
		if budget -= int(many); budget < 0 {
			return dst, fmt.Errorf("%w: its records have very many headers", ErrTooLarge)
		}
		// Key and value alias the batch or what was unpacked of it, with no capacity behind
		// them.
		r := Record{Offset: offset, Time: at, Key: key, Value: value}
		if many > 0 {
			start := len(d.headers)
			for range many {
				name := v.bytes()
				content := v.bytes()
				d.headers = append(d.headers, kafkago.Header{Key: d.name(name), Value: content})
			}
			// Capped, since the next record's headers follow in the same slice.
			r.Headers = d.headers[start:len(d.headers):len(d.headers)]
		}
		if v.bad || len(v.b) != 0 {
			return dst, ErrMalformed
		}
		// The whole batch is checked, also its unused part.
		if offset >= from {
			dst = append(dst, r)
		}
	}
	if len(b) != 0 {
		return dst, ErrMalformed
	}
	return dst, nil
}

// name returns b as a string, the same one again for the same bytes.
//
// At most 64 short names are remembered: a producer that makes up a new one for each record
// gains nothing.
func (d *Decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if d.names == nil {
		d.names = make(map[string]string)
	}
	if len(d.names) < maxNames && len(s) <= maxNames {
		d.names[s] = s
	}
	return s
}

// varints takes the fields of a record off the front of b, and zeros once b does not
// hold what it should.
type varints struct {
	b   []byte
	bad bool
}

// next takes a number of the zigzag form that Kafka gives to all numbers of a record.
func (v *varints) next() int64 {
	// Most are of one byte.
	if len(v.b) > 0 && v.b[0] < 0x80 {
		u := v.b[0]
		v.b = v.b[1:]
		return int64(u>>1) ^ -int64(u&1)
	}
	x, n := binary.Varint(v.b)
	if n <= 0 {
		v.bad, v.b = true, nil
		return 0
	}
	v.b = v.b[n:]
	return x
}

// take gives n bytes with no capacity behind them.
func (v *varints) take(n int64) []byte {
	if n < 0 || n > int64(len(v.b)) {
		v.bad, v.b = true, nil
		return nil
	}
	p := v.b[:n:n]
	v.b = v.b[n:]
	return p
}

// bytes takes a length and as many bytes; the length -1 stands for none.
func (v *varints) bytes() []byte {
	n := v.next()
	if n == -1 {
		return nil
	}
	return v.take(n)
}
