package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
)

// batch is a record batch as it lies in the log: what one producer sent together.
type batch struct {
	offset, last int64 // of its first and last record, of which compaction may have taken some
	magic        int8
	sum          uint32 // CRC-32C of summed
	summed       []byte
	attributes   int16
	first, max   events.Stamp
	count        int
	records      []byte // packed
}

const (
	batchHead = 61 // bytes before the records
	oldHead   = 17 // of the formats before, as far as they have the same fields
	maxOffset = 1 << 62
)

// cutBatch takes a batch off the front of b. It is false when less than a whole one is
// there; then offset and last are set if they can be seen.
func cutBatch(b []byte) (t batch, rest []byte, whole bool) {
	if len(b) < batchHead {
		if len(b) < oldHead || b[16] >= 2 {
			return batch{offset: -1}, nil, false
		}
	}
	be := binary.BigEndian
	t.offset = int64(be.Uint64(b))
	if t.offset < 0 || t.offset > maxOffset {
		return batch{offset: -1}, nil, false
	}
	t.magic = int8(b[16])
	size := 12 + int64(int32(be.Uint32(b[8:])))
	if t.magic < 2 {
		// A message set of Kafka before 0.11: its number is that of its last record.
		t.last = t.offset
		if size < oldHead || size > int64(len(b)) {
			return t, nil, false
		}
		return t, b[size:], true
	}
	t.sum = be.Uint32(b[17:])
	t.attributes = int16(be.Uint16(b[21:]))
	t.last = t.offset + max(0, int64(int32(be.Uint32(b[23:]))))
	t.first = events.Stamp(be.Uint64(b[27:]))
	t.max = events.Stamp(be.Uint64(b[35:]))
	t.count = int(int32(be.Uint32(b[57:])))
	if size < batchHead || size > int64(len(b)) {
		return t, nil, false
	}
	t.summed, t.records = b[21:size], b[batchHead:size]
	return t, b[size:], true
}

func (t *batch) codec() int8     { return int8(t.attributes & 7) }
func (t *batch) logAppend() bool { return t.attributes&8 != 0 }  // the broker stamped it
func (t *batch) control() bool   { return t.attributes&32 != 0 } // a mark of a transaction

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errSum       = errors.New("its checksum is wrong: it was damaged on the way or on the broker's disk")
	errMalformed = errors.New("its records do not fit its head: a faulty producer wrote it")
)

// check holds the batch to its checksum.
func (t *batch) check() error {
	if t.magic != 2 {
		return fmt.Errorf("it has format %d, of clients before Kafka 0.11: copy the topic with a newer client", t.magic)
	}
	if crc32.Checksum(t.summed, castagnoli) != t.sum {
		return errSum
	}
	return nil
}

// recordCost is how many unpacked bytes a record or a header counts at least, so that
// many tiny ones cannot take more memory than large ones: about what they need here.
const recordCost = 64

// decoder appends the records of batches to slices that it is given. What it appends
// refers to the bytes of the batches and to its own slice of headers.
type decoder struct {
	headers []kafkago.Header
	names   map[string]string // header keys seen before, so that they need not be copied
}

// maxNames bounds what is remembered of header keys.
const maxNames = 64

// append appends the records of t, unpacked in b, from offset from on. budget bounds
// records and headers.
func (d *decoder) append(dst []Record, t *batch, b []byte, from int64, budget int) ([]Record, error) {
	if t.count < 0 || int64(t.count) > t.last-t.offset+1 {
		return dst, errMalformed
	}
	if t.count > budget {
		return dst, fmt.Errorf("%w of %d records", ErrTooLarge, budget)
	}
	budget -= t.count
	before := t.offset - 1
	for range t.count {
		size, n := binary.Varint(b)
		if n <= 0 || size < 0 || size > int64(len(b)-n) {
			return dst, errMalformed
		}
		record := b[n : n+int(size)]
		b = b[n+int(size):]
		v := varints{b: record}
		v.take(1) // attributes: none in use
		at := t.first + events.Stamp(v.next())
		if t.logAppend() {
			at = t.max
		}
		offset := t.offset + v.next()
		key := v.bytes()
		value := v.bytes()
		many := v.next()
		if v.bad || offset <= before || offset > t.last || many < 0 || many > int64(len(v.b))/2 {
			return dst, errMalformed
		}
		before = offset
		if budget -= int(many); budget < 0 {
			return dst, fmt.Errorf("%w: its records have very many headers", ErrTooLarge)
		}
		r := Record{Offset: offset, Appended: at, Key: key, Value: value}
		if many > 0 {
			start := len(d.headers)
			for range many {
				name := v.bytes()
				content := v.bytes()
				d.headers = append(d.headers, kafkago.Header{Key: d.name(name), Value: content})
			}
			r.Headers = d.headers[start:len(d.headers):len(d.headers)]
		}
		if v.bad || len(v.b) != 0 {
			return dst, errMalformed
		}
		if offset >= from {
			dst = append(dst, r)
		}
	}
	if len(b) != 0 {
		return dst, errMalformed
	}
	return dst, nil
}

// name returns b as a string, the same one again for the same bytes.
func (d *decoder) name(b []byte) string {
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
