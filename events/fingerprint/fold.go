package fingerprint

import (
	"encoding/binary"
	"math/bits"

	"weir/events/jsontext"
)

// fold returns text with its volatile parts replaced by fixed words: text itself
// when there are none, else dst with the folded text appended. With isError more
// is taken for volatile.
//
// The result may alias text.
func fold(dst, text []byte, isError bool) []byte {
	rest := pieces(text, isError, func(piece []byte, name string) { dst = append(append(dst, piece...), name...) })
	// Nothing volatile: the text is what it was.
	if len(rest) == len(text) {
		return text
	}
	return append(dst, rest...)
}

// pieces calls piece for each volatile part of text, with the text before it and the word that
// replaces the part. It returns the text after the last part.
//
// It runs on each message and each result, so it looks at 64 bytes at a time. It examines a word
// only when a volatile part can begin there.
func pieces(text []byte, isError bool, piece func(before []byte, name string)) (rest []byte) {
	copied := 0
	// inside spans the step from one 64 bytes to the next.
	inside := uint64(0) // the lowest bit is set if the byte before those that are looked at is of a word
	for i := 0; i < len(text); {
		words, digits, joins := classes(text, i)
		// Volatile parts begin where a word begins.
		begins := words &^ (words<<1 | inside)
		inside = words >> 63
		if !isError {
			begins = suspects(text, i, begins, digits, joins)
		}
		next := i + 64
		for ; begins != 0; begins &= begins - 1 {
			at := i + bits.TrailingZeros64(begins)
			if n, name := volatile(text, at, isError); n > 0 {
				// The search goes on right behind, where a new word may begin.
				piece(text[copied:at], name)
				copied, next, inside = at+n, at+n, 0
				break
			}
		}
		i = next
	}
	return text[copied:]
}

// suspects are those of the words that begin at i and the 64 bytes from there that may be
// volatile in a content: what begins with a digit, what has a dash behind eight letters, as ids
// have, and what labels begin with. What else is called suspect costs a closer look and no more.
func suspects(text []byte, i int, begins, digits, joins uint64) uint64 {
	behind := joinBits(eight(text, i+64))
	near := joins | joins>>1 | joins>>2 | joins>>3 | joins>>8 | behind<<63 | behind<<62 | behind<<61 | behind<<56
	sure := begins & (digits | near)
	// One word in three begins as a label does, which no processor foretells: so the first four
	// letters are looked up without a branch.
	for left := begins &^ sure; left != 0; left &= left - 1 {
		at := i + bits.TrailingZeros64(left)
		first, bit := four(text, at)|0x20202020, uint64(0)
		if labels[first*labelsFactor>>28] == first {
			bit = left & -left
		}
		sure |= bit
		if bit = 0; first&0xff == 'x' {
			bit = left & -left
		}
		sure |= bit
	}
	return sure
}

// eight returns the eight bytes of p from i on, zeros behind its end.
//
// Bytes behind the end are no word, so a word at the end is found as any other.
func eight(p []byte, i int) uint64 {
	if i+8 <= len(p) {
		return binary.LittleEndian.Uint64(p[i:])
	}
	var room [8]byte
	copy(room[:], p[min(i, len(p)):])
	return binary.LittleEndian.Uint64(room[:])
}

// four is eight for four bytes.
func four(p []byte, i int) uint32 {
	if i+4 <= len(p) {
		return binary.LittleEndian.Uint32(p[i:])
	}
	return uint32(eight(p, i))
}

// classes returns a bit for each of the 64 bytes of p from i on: whether isWord is true of it,
// whether it is a decimal digit, and whether it is a dash or an underscore.
func classes(p []byte, i int) (words, digits, joins uint64) {
	var room [64]byte
	at := &room
	if i+len(room) <= len(p) {
		at = (*[64]byte)(p[i:])
	} else {
		copy(room[:], p[i:]) // zeros behind the end are nothing
	}
	for k := 0; k < len(at); k += 8 {
		x := binary.LittleEndian.Uint64(at[k:])
		ascii, low := ^x&jsontext.Tops, x&^jsontext.Tops
		small := low | 0x20*jsontext.Ones
		// Adding 0x80-c sets the top bit of what is c or more.
		letter := (small + (0x80-'a')*jsontext.Ones) &^ (small + (0x80-'z'-1)*jsontext.Ones)
		digit := (low + (0x80-'0')*jsontext.Ones) &^ (low + (0x80-'9'-1)*jsontext.Ones) & ascii
		score := ^((low ^ '_'*jsontext.Ones) + 0x7f*jsontext.Ones)
		dash := ^((low ^ '-'*jsontext.Ones) + 0x7f*jsontext.Ones)
		words |= gather((letter|score)&ascii|digit|x&jsontext.Tops) << k
		digits |= gather(digit) << k
		joins |= gather((score|dash)&ascii) << k
	}
	return words, digits, joins
}

// joinBits is a bit for each of eight bytes: whether it is a dash or an underscore.
func joinBits(x uint64) uint64 {
	low := x &^ jsontext.Tops
	score, dash := ^((low ^ '_'*jsontext.Ones) + 0x7f*jsontext.Ones), ^((low ^ '-'*jsontext.Ones) + 0x7f*jsontext.Ones)
	return gather((score | dash) &^ x & jsontext.Tops)
}

// gather puts the top bits of eight bytes side by side.
func gather(tops uint64) uint64 { return tops >> 7 * 0x0102040810204080 >> 56 }

// volatile returns the number of bytes from i on that are volatile, and their replacement.
//
// i is where a word begins. The order matters: a UUID may begin like a number.
func volatile(p []byte, i int, isError bool) (n int, name string) {
	c := p[i]
	if byteAt(p, i+8) == '-' {
		if n := uuid(p, i); n > 0 {
			return n, "<id>"
		}
	}
	if c-'0' > 9 {
		if n := labelled(p, i); n > 0 {
			return n, "<id>"
		}
		if !isError {
			return 0, ""
		}
		if n := hexRun(p, i); n > 0 {
			return n, "<hex>"
		}
		return 0, ""
	}
	if !isError && isPlainNumber(p, i) {
		return 0, ""
	}
	if n := timestamp(p, i); n > 0 {
		return n, "<time>"
	}
	if n := address(p, i); n > 0 {
		return n, "<address>"
	}
	if n := duration(p, i, isError); n > 0 {
		return n, "<duration>"
	}
	if n := epoch(p, i); n > 0 {
		return n, "<time>"
	}
	if !isError {
		return 0, ""
	}
	if n := clock(p, i); n > 0 {
		return n, "<time>"
	}
	// Five digits and more are ports, process ids, offsets and sizes. Fewer are codes that
	// distinguish errors.
	if n := digits(p, i); n >= 5 && !wordAt(p, i+n) {
		return n, "<number>"
	}
	if n := hexRun(p, i); n > 0 {
		return n, "<hex>"
	}
	return 0, ""
}

// isPlainNumber reports whether the number at i is followed by nothing that makes it a time, an
// address or a duration: most numbers of a content, and one look at each is enough.
func isPlainNumber(p []byte, i int) bool {
	n := digits(p, i)
	switch c := byteAt(p, i+n); {
	case n >= 10 || c == '.': // perhaps a Unix time, or a fraction
		return false
	case c == '-': // behind a year
		return n != 4
	case c == ' ': // before a unit of time
		return !wordAt(p, i+n+1)
	default:
		return !isWord(c)
	}
}

// isWord is true for letters, digits and the underscore, and for all bytes of
// characters beyond ASCII.
func isWord(c byte) bool { return wordBytes[c] }

var wordBytes = func() (table [256]bool) {
	for c := range 256 {
		b := byte(c)
		table[c] = b-'0' <= 9 || b|0x20-'a' < 26 || b == '_' || b >= 0x80
	}
	return table
}()

func wordAt(p []byte, i int) bool { return i < len(p) && isWord(p[i]) }

// byteAt returns 0 behind the end, which fits no shape.
func byteAt(p []byte, i int) byte {
	if i < len(p) {
		return p[i]
	}
	return 0
}

// digits counts the decimal digits from i on.
func digits(p []byte, i int) int {
	n := 0
	for i+n < len(p) && p[i+n]-'0' <= 9 {
		n++
	}
	return n
}

// shaped reports whether p has the shape from i on: 9 stands for a decimal digit,
// f for a hex digit, every other byte for itself.
//
// A longer run than the shape is for the caller to refuse.
func shaped(p []byte, i int, shape string) bool {
	if len(p)-i < len(shape) {
		return false
	}
	for k := range len(shape) {
		c := p[i+k]
		switch shape[k] {
		case '9':
			if c-'0' > 9 {
				return false
			}
		case 'f':
			if !isHex(c) {
				return false
			}
		default:
			if c != shape[k] {
				return false
			}
		}
	}
	return true
}

// uuid matches any version, in either case.
func uuid(p []byte, i int) int {
	const shape = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if !shaped(p, i, shape) || wordAt(p, i+len(shape)) {
		return 0
	}
	return len(shape)
}

// timestamp matches a date with a time of day: 2026-11-21T15:03:36.642Z and kin.
//
// A date alone is content: a report of another day is another answer.
func timestamp(p []byte, i int) int {
	if !shaped(p, i, "9999-99-99") {
		return 0
	}
	n := len("9999-99-99")
	if c := byteAt(p, i+n); c != 'T' && c != 't' && c != ' ' {
		return 0
	}
	t := clock(p, i+n+1)
	if t == 0 {
		return 0
	}
	return n + 1 + t
}

// clock matches a time of day with minutes and seconds, and its zone.
func clock(p []byte, i int) int {
	if !shaped(p, i, "99:99:99") {
		return 0
	}
	// Seconds may have a fraction behind a point or, as in Python's logs, behind a comma.
	n := len("99:99:99")
	if c := byteAt(p, i+n); c == '.' || c == ',' {
		if d := digits(p, i+n+1); d > 0 {
			n += 1 + d
		}
	}
	switch c := byteAt(p, i+n); {
	case c == 'Z' || c == 'z':
		n++
	case (c == '+' || c == '-') && shaped(p, i+n+1, "99:99"):
		n += len("+99:99")
	case (c == '+' || c == '-') && shaped(p, i+n+1, "9999"):
		n += len("+9999")
	}
	// What goes on as a word was no time.
	if wordAt(p, i+n) {
		return 0
	}
	return n
}

// address matches 0x and at least six hex digits.
//
// Five digits and fewer are more often a number than an address.
func address(p []byte, i int) int {
	if !shaped(p, i, "0xffffff") && !shaped(p, i, "0Xffffff") {
		return 0
	}
	n := len("0xffffff")
	for {
		if !isHex(byteAt(p, i+n)) {
			break
		}
		n++
	}
	if wordAt(p, i+n) {
		return 0
	}
	return n
}

// duration matches a number and a unit of time, repeatedly (1m2.5s). Unless anyForm is set, the
// last unit must be below the second, or be the second and have a fraction. Such a duration was
// measured. In contrast, "30 s left" or "2.5 h" may be the only content of the answer to a poll.
func duration(p []byte, i int, anyForm bool) int {
	for n := 0; ; {
		// A run of digits that is longer is an id.
		k := digits(p, i+n)
		if k == 0 || k > 12 {
			return 0
		}
		fraction := 0
		if byteAt(p, i+n+k) == '.' {
			fraction = digits(p, i+n+k+1)
			k += 1 + fraction
		}
		// A space may stand between number and unit, but only of the first number.
		if n == 0 && byteAt(p, i+k) == ' ' {
			k++
		}
		u, size := unit(p, i+n+k)
		if u == 0 {
			return 0
		}
		n += k + u
		// Another number follows, as in 1m2.5s, or the word goes on and was no unit.
		if wordAt(p, i+n) {
			continue
		}
		if anyForm || size == belowSecond || size == aSecond && fraction > 0 {
			return n
		}
		return 0
	}
}

// The sizes of units, by what a duration in them is: measured, or measured if it has a
// fraction, or content.
const (
	belowSecond = iota
	aSecond
	aboveSecond
)

// unit returns the length of the unit of time at i, 0 if there is none, and its size.
//
// Letters of a unit are ASCII but for the two that look like a micro sign.
func unit(p []byte, i int) (n, size int) {
	for n < 12 && i+n < len(p) && (p[i+n]|0x20-'a' < 26 || p[i+n] >= 0x80) {
		n++
	}
	switch string(p[i : i+n]) {
	case "ns", "us", "µs", "μs", "ms", "msec", "millis", "milliseconds", "microseconds", "nanoseconds":
		return n, belowSecond
	case "s", "sec", "secs", "second", "seconds":
		return n, aSecond
	case "m", "min", "mins", "minute", "minutes", "h", "hr", "hrs", "hour", "hours", "d", "day", "days":
		return n, aboveSecond
	}
	return 0, 0
}

// epoch matches a Unix time of the years 2014 to 2039 in seconds, milli-, micro-
// or nanoseconds, with or without a fraction.
//
// Ten digits may be anything else as well, so the years are bounded: 14 to 21 as the first two
// digits.
func epoch(p []byte, i int) int {
	n := digits(p, i)
	switch n {
	case 10, 13, 16, 19:
	default:
		return 0
	}
	// The digits behind a point are a fraction of something.
	if i > 0 && p[i-1] == '.' {
		return 0
	}
	if lead := string(p[i : i+2]); lead < "14" || lead > "21" {
		return 0
	}
	if n == 10 && byteAt(p, i+n) == '.' {
		if f := digits(p, i+n+1); f > 0 {
			n += 1 + f
		}
	}
	if wordAt(p, i+n) {
		return 0
	}
	return n
}
