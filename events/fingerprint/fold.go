package fingerprint

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"weir/events/jsontext"
)

// fold returns text with its volatile parts replaced by fixed words: text itself
// when there are none, else dst with the folded text appended. With isError more
// is taken for volatile.
func fold(dst, text []byte, isError bool) []byte {
	copied := 0
	inside := uint64(0) // the bit of the byte before those that are looked at: it is of a word
	for i := 0; i < len(text); {
		words := wordBits(eight(text, i))
		// Volatile parts begin where a word begins.
		begins := words &^ (words<<8 | inside)
		inside = words >> 56
		next := i + 8
		for ; begins != 0; begins &= begins - 1 {
			at := i + bits.TrailingZeros64(begins)>>3
			if c := text[at]; !isError && c-'0' > 9 && byteAt(text, at+8) != '-' && !(beginsLabel[c] && mayLabel(text, at)) {
				continue
			}
			if n, name := volatile(text, at, isError); n > 0 {
				dst = append(append(dst, text[copied:at]...), name...)
				copied, next, inside = at+n, at+n, 0
				break
			}
		}
		i = next
	}
	if copied == 0 {
		return text
	}
	return append(dst, text[copied:]...)
}

// eight returns the eight bytes of p from i on, zeros behind its end.
func eight(p []byte, i int) uint64 {
	if i+8 <= len(p) {
		return binary.LittleEndian.Uint64(p[i:])
	}
	var room [8]byte
	copy(room[:], p[i:])
	return binary.LittleEndian.Uint64(room[:])
}

// wordBits is isWord of eight bytes, in their top bits.
func wordBits(x uint64) uint64 {
	_, plain := lowered(x)
	scores := x&^jsontext.Tops ^ jsontext.Ones*'_' // zero where there is one, or a byte beyond ASCII
	return plain | (x|^(scores+(jsontext.Ones*0x7f)))&jsontext.Tops
}

// volatile tells how many bytes from i on are volatile, and what to write instead.
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
		if n := hexRun(p, i); isError && n > 0 {
			return n, "<hex>"
		}
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
	if n := digits(p, i); n >= 5 && !wordAt(p, i+n) {
		return n, "<number>"
	}
	if n := hexRun(p, i); n > 0 {
		return n, "<hex>"
	}
	return 0, ""
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

func uuid(p []byte, i int) int {
	const shape = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if !shaped(p, i, shape) || wordAt(p, i+len(shape)) {
		return 0
	}
	return len(shape)
}

// timestamp matches a date with a time of day: 2026-11-21T15:03:36.642Z and kin.
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
	if wordAt(p, i+n) {
		return 0
	}
	return n
}

// address matches 0x and at least six hex digits.
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

// duration matches a number and a unit of time, again and again (1m2.5s). Unless
// anyForm is set the last unit must be below the second, or be the second and have
// a fraction: such a duration was measured, while "30 s left" or "2.5 h" may be all
// that a poll has to tell.
func duration(p []byte, i int, anyForm bool) int {
	for n := 0; ; {
		k := digits(p, i+n)
		if k == 0 || k > 12 {
			return 0
		}
		fraction := 0
		if byteAt(p, i+n+k) == '.' {
			fraction = digits(p, i+n+k+1)
			k += 1 + fraction
		}
		if n == 0 && byteAt(p, i+k) == ' ' {
			k++
		}
		u, size := unit(p, i+n+k)
		if u == 0 {
			return 0
		}
		n += k + u
		if wordAt(p, i+n) {
			continue
		}
		if anyForm || size == belowSecond || size == aSecond && fraction > 0 {
			return n
		}
		return 0
	}
}

const (
	belowSecond = iota
	aSecond
	aboveSecond
)

// unit returns the length of the unit of time at i, 0 if there is none, and its size.
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
func epoch(p []byte, i int) int {
	n := digits(p, i)
	switch n {
	case 10, 13, 16, 19:
	default:
		return 0
	}
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

// hexRun matches eight and more hex digits of which at least one is decimal and one a letter.
func hexRun(p []byte, i int) int {
	n, decimal, letter := 0, false, false
	if byteAt(p, i) == '0' && byteAt(p, i+1)|0x20 == 'x' {
		n, letter = 2, true
	}
	start := n
	for ; ; n++ {
		c := byteAt(p, i+n)
		if !isHex(c) {
			break
		}
		if c-'0' <= 9 {
			decimal = true
		} else {
			letter = true
		}
	}
	if n-start < 8 || !decimal || !letter || wordAt(p, i+n) {
		return 0
	}
	return n
}

// labelled matches an id that says of itself that it is one: by its prefix
// (call_bb923d07ce), or by the name before it ("request_id": "q-7"). The name is
// part of the match.
func labelled(p []byte, i int) int {
	if !beginsLabel[p[i]] || !mayLabel(p, i) {
		return 0
	}
	if n := prefixed(p, i); n > 0 {
		return n
	}
	n := 0
	for n < 24 && i+n < len(p) && (isWord(p[i+n]) && p[i+n] < 0x80 || p[i+n] == '-') {
		n++
	}
	if n < 5 || !idName(p[i:i+n]) {
		return 0
	}
	// At most a quote, a colon or equals sign, a space and a quote lie between name and value.
	gap, assigned := 0, false
	for gap < 5 {
		c := byteAt(p, i+n+gap)
		if c == ':' || c == '=' {
			assigned = true
		} else if c != '"' && c != '\'' && c != ' ' && c != '\\' {
			break
		}
		gap++
	}
	k := idLength(p, i+n+gap)
	if !assigned || k < 3 {
		return 0
	}
	return n + gap + k
}

// beginsLabel is true for the letters that names and prefixes below begin with.
var beginsLabel = [256]bool{'a': true, 'c': true, 'm': true, 'r': true, 's': true, 't': true, 'x': true,
	'A': true, 'C': true, 'M': true, 'R': true, 'S': true, 'T': true, 'X': true}

// mayLabel reports whether a name or prefix below may begin at i, by its first four
// letters, which spares most words a closer look.
func mayLabel(p []byte, i int) bool {
	switch {
	case p[i]|0x20 == 'x':
		return true
	case len(p)-i < 4:
		return false // the shortest is longer
	}
	first := binary.LittleEndian.Uint32(p[i:]) | 0x20202020
	switch first {
	case 'a' | 'i'<<8 | 't'<<16 | 'x'<<24,
		'c' | 'a'<<8 | 'l'<<16 | 'l'<<24,
		'c' | 'h'<<8 | 'a'<<16 | 't'<<24,
		'c' | 'o'<<8 | 'r'<<16 | 'r'<<24,
		'r' | 'e'<<8 | 'q'<<16 | 'u'<<24,
		'r' | 'e'<<8 | 's'<<16 | 'p'<<24,
		'r' | 'u'<<8 | 'n'<<16 | 'i'<<24,
		's' | 'p'<<8 | 'a'<<16 | 'n'<<24,
		't' | 'o'<<8 | 'o'<<16 | 'l'<<24,
		't' | 'r'<<8 | 'a'<<16 | 'c'<<24:
		return true
	}
	const ones, tops = 0x01010101, 0x80808080
	isZero := func(x uint32) bool { return (x-ones)&^x&tops != 0 }
	return isZero(first^('_'|0x20)*ones) || isZero(first^'-'*ones) // which names may hold anywhere
}

// idName tells whether a name is that of an id that is new for every request.
func idName(name []byte) bool {
	var room [24]byte
	plain := room[:0]
	for _, c := range name {
		if c != '_' && c != '-' {
			plain = append(plain, c|0x20)
		}
	}
	plain = bytes.TrimPrefix(plain, []byte("x"))
	switch string(plain) {
	case "requestid", "traceid", "spanid", "correlationid", "toolcallid", "callid", "responseid", "runid":
		return true
	}
	return false
}

var idPrefixes = [...]string{"call_", "toolu_", "req_", "req-", "msg_", "resp_", "chatcmpl-", "run_", "run-", "trace_", "span_", "adk-", "aitxt-"}

// prefixed matches ids as services mint them: a known prefix and at least eight
// letters and digits, a digit among them.
func prefixed(p []byte, i int) int {
	for _, prefix := range idPrefixes {
		if p[i] != prefix[0] || len(p)-i < len(prefix) || string(p[i:i+len(prefix)]) != prefix {
			continue
		}
		n := idLength(p, i+len(prefix))
		id := p[i+len(prefix) : i+len(prefix)+n]
		if n >= 8 && bytes.ContainsAny(id, "0123456789") {
			return len(prefix) + n
		}
	}
	return 0
}

func idLength(p []byte, i int) int {
	n := 0
	for i+n < len(p) && (isWord(p[i+n]) && p[i+n] < 0x80 || p[i+n] == '-') {
		n++
	}
	return n
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' < 6 }
