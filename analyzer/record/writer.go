package record

import (
	"encoding/binary"
	"slices"

	"weir/events"
)

// Ago is a time as so long before a clock that it fits in a few bytes; 0 for none.
func Ago(clock, at events.Stamp) int64 {
	if at == 0 {
		return 0
	}
	// One more, so that the clock's own time differs from no time.
	d := int64(clock - at)
	if d >= 0 {
		d++
	}
	return d
}

// Room lengthens b by n bytes and returns it and the new part, which holds
// garbage: every byte of it must be written.
func Room(b []byte, n int) (whole, part []byte) {
	l := len(b)
	if cap(b)-l < n {
		// More than is asked for, because a record is written in many small parts.
		b = slices.Grow(b, n+1024)
	}
	b = b[:l+n]
	return b, b[l:]
}

// Bit is a byte with bit n set if v, else 0.
// It is for flags that share a byte.
func Bit(v bool, n int) byte {
	if v {
		return 1 << n
	}
	return 0
}

// AppendString appends text behind its length.
func AppendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// AppendRuns appends a list of at most 16 numbers, most of which are 0 as a rule.
// Only those that are not 0 are written, behind a bit for each that says which these are.
func AppendRuns(b []byte, runs []uint16) []byte {
	mask := uint16(0)
	for i, r := range runs {
		if r != 0 {
			mask |= 1 << i
		}
	}
	b = binary.LittleEndian.AppendUint16(b, mask)
	for _, r := range runs {
		if r != 0 {
			b = binary.LittleEndian.AppendUint16(b, r)
		}
	}
	return b
}

// AppendMarks appends at most 255 hashes behind their number.
func AppendMarks(b []byte, marks []uint64) []byte {
	b = append(b, byte(len(marks)))
	for _, m := range marks {
		b = binary.LittleEndian.AppendUint64(b, m)
	}
	return b
}

// Sized returns s with n elements, whatever they hold: each must be written.
func Sized[E any](s []E, n int) []E {
	if n > cap(s) {
		return make([]E, n, max(n, 8))
	}
	return s[:n]
}

// Cut returns at most n bytes of the text, whole characters of it.
// It aliases s; who keeps the text clones it.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
