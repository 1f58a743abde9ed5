package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"weir/events"
)

// None stands in a record for no element of a table, see Reader.Index.
// So a table has at most 255 elements.
const None = 0xff

// latest is later than any time that is folded.
// It is far beyond any clock, and sums of such times do not run over.
const latest events.Stamp = 1 << 53

// Reader reads a record from its beginning. Text that it returns aliases the record.
// The caller reads on after a fault and asks at the end, so code that reads has no errors in
// between.
type Reader struct {
	b   []byte
	bad bool
}

// NewReader returns a reader of the record.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Fail has the record be damaged: there is nothing left to read.
func (d *Reader) Fail() { d.bad, d.b = true, nil }

// Bad reports whether the record is damaged, as far as it was read.
func (d *Reader) Bad() bool { return d.bad }

// End returns an error that says what the user can do when the record is damaged, or longer
// than what was read. It is called when all was read; what names the record.
func (d *Reader) End(what string) error {
	if d.bad || len(d.b) != 0 {
		return fmt.Errorf("%s is damaged, or a newer weir wrote it: use that, or delete the state directory to fold the log again", what)
	}
	return nil
}

// It bounds what one Take may ask for, and so the lists that are read as one piece.
var zeros [2048]byte // what Take returns when there is too little; never written

// Take returns the next n bytes, at most 2,048. They are zero when fewer than n bytes remain.
func (d *Reader) Take(n int) []byte {
	if len(d.b) < n {
		d.Fail()
		return zeros[:n]
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

// Rest returns the bytes that remain to be read; nothing after a fault. It is part of the record's memory.
func (d *Reader) Rest() []byte { return d.b }

// Field reads bytes with their length before them. They are part of the record's memory.
func (d *Reader) Field() []byte {
	n := int(d.Count(math.MaxInt32))
	if n > len(d.b) {
		d.Fail()
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

// Uvarint reads a number of variable length.
func (d *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.Fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// Varint reads a number with a sign.
// As binary.AppendVarint writes it.
func (d *Reader) Varint() int64 {
	u := d.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Count reads a number from 0 to the greatest.
func (d *Reader) Count(greatest uint64) int64 {
	n := d.Uvarint()
	if n > greatest {
		d.Fail()
		return 0
	}
	return int64(n)
}

// Ago reads what the function of that name has made.
// 0 is no time; what is after the clock is below 0 and has no 1 added.
func (d *Reader) Ago(clock events.Stamp) events.Stamp {
	v := events.Stamp(d.Varint())
	switch {
	case v == 0:
		return 0
	case v > 0:
		v--
	}
	return clock - v
}

// Stamp reads a time that was written relative to another.
// A time before 1970 or beyond latest is damage.
func (d *Reader) Stamp(from events.Stamp) events.Stamp {
	at := from + events.Stamp(d.Varint())
	if at < 0 || at > latest {
		d.Fail()
		return 0
	}
	return at
}

// String reads text behind its length.
// A length above 64 KiB is more than any text of a record has, and ends as damage.
func (d *Reader) String() string { return d.Text(int(min(d.Uvarint(), 1<<16))) }

// Text reads n bytes of text.
func (d *Reader) Text(n int) string {
	if n == 0 {
		return ""
	}
	if n > len(d.b) {
		d.Fail()
		return ""
	}
	s := unsafe.String(&d.b[0], n)
	d.b = d.b[n:]
	return s
}

// Most checks a number that was read against its maximum.
// A caller that allocates n elements is thereby safe from a changed byte.
func (d *Reader) Most(n byte, most int) int {
	if int(n) > most {
		d.Fail()
		return 0
	}
	return int(n)
}

// Index checks an index that was read into a table of n, or None.
func (d *Reader) Index(i byte, n int) uint8 {
	if i != None && int(i) >= n {
		d.Fail()
		return None
	}
	return i
}

// Runs reads what AppendRuns wrote into a list that is zero, of as many elements as then.
func (d *Reader) Runs(runs []uint16) {
	mask := binary.LittleEndian.Uint16(d.Take(2))
	for i := 0; mask != 0 && i < len(runs); i++ {
		if mask>>i&1 == 1 {
			runs[i] = binary.LittleEndian.Uint16(d.Take(2))
		}
	}
}

// Marks reads what AppendMarks wrote and appends it to list. most is the maximum number of marks.
func (d *Reader) Marks(list []uint64, most int) []uint64 {
	for range d.Most(d.Take(1)[0], most) {
		list = append(list, binary.LittleEndian.Uint64(d.Take(8)))
	}
	return list
}
