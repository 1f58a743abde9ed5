package analyzer

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"weir/events"
)

// decoder reads a record; the first fault sticks and everything after is zero.
type decoder struct {
	b   []byte
	bad bool
}

var zeros [maxCalls * (sizeCall + 8 + 8 + 1)]byte // what take returns when there is too little; never written

func (d *decoder) fail() { d.bad, d.b = true, nil }

func (d *decoder) end(what string) error {
	if d.bad || len(d.b) != 0 {
		return fmt.Errorf("%s is damaged: delete the state directory to fold the log again", what)
	}
	return nil
}

// take returns the next n bytes.
func (d *decoder) take(n int) []byte {
	if len(d.b) < n {
		d.fail()
		return zeros[:n]
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// ago reads what the function of that name has made.
func (d *decoder) ago(clock events.Stamp) events.Stamp {
	v := events.Stamp(d.varint())
	switch {
	case v == 0:
		return 0
	case v > 0:
		v--
	}
	return clock - v
}

// string and text return text that aliases the record.
func (d *decoder) string() string { return d.text(int(min(d.uvarint(), 1<<16))) }

func (d *decoder) text(n int) string {
	if n == 0 {
		return ""
	}
	if n > len(d.b) {
		d.fail()
		return ""
	}
	s := unsafe.String(&d.b[0], n)
	d.b = d.b[n:]
	return s
}

// most checks a stored number against its cap.
func (d *decoder) most(n byte, most int) int {
	if int(n) > most {
		d.fail()
		return 0
	}
	return int(n)
}

// index checks a stored index into a table of n.
func (d *decoder) index(i byte, n int) uint8 {
	if i != none && int(i) >= n {
		d.fail()
		return none
	}
	return i
}

func (d *decoder) rule(b byte) RuleID {
	if b >= byte(RuleCount) {
		d.fail()
		return 0
	}
	return RuleID(b)
}

func (d *decoder) runs(runs []uint16) {
	mask := le.Uint16(d.take(2))
	for i := 0; mask != 0 && i < len(runs); i++ {
		if mask>>i&1 == 1 {
			runs[i] = le.Uint16(d.take(2))
		}
	}
}
