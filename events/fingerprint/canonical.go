package fingerprint

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"weir/events/jsontext"
)

// maxDepth is how many objects and arrays may lie inside each other. What is
// deeper is taken for text.
//
// It bounds the stack, since values recurse.
const maxDepth = 256

// AppendCanonical appends the canonical form (RFC 8785) of raw to dst and returns the extended
// slice. The form has no white space and one spelling of numbers and strings. Keys are sorted by
// UTF-16 code units; of equal keys the last one is kept. Top-level keys of an object that are
// named in ignore are omitted.
//
// A JSON string that holds a JSON object or array is replaced by that object or array. A text
// that is not JSON is written as a JSON string. The canonical form of a canonical form is itself.
//
// It never fails, because the caller does not control the data that agents send. dst may be nil;
// raw is only read, and the result does not alias it.
func AppendCanonical(dst, raw []byte, ignore []string) []byte {
	raw = bytes.TrimSpace(raw)
	// Many clients send arguments as a string of JSON, and others the same arguments as an
	// object: both are one call. A string that holds a number or a word stays a string, since
	// "1" and 1 are different arguments.
	if len(raw) > 0 && raw[0] == '"' {
		if said, end, ok := text(raw, 0); ok && end == len(raw) {
			if held := bytes.TrimSpace(said); !composite(held) {
				return appendString(dst, said)
			} else if w := (writer{in: held, out: dst, ignore: ignore}); w.document() {
				return w.out
			}
			return appendString(dst, said)
		}
	}
	w := writer{in: raw, out: dst, ignore: ignore}
	if w.document() {
		return w.out
	}
	// What was written of it before the fault is in memory behind dst alone, and is
	// overwritten.
	return appendString(dst, valid(raw))
}

// replacement stands for bytes that are not UTF-8.
const replacement = "\uFFFD"

func composite(p []byte) bool { return len(p) > 0 && (p[0] == '{' || p[0] == '[') }

// writer copies one JSON text in canonical form.
//
// It writes each object as it comes and sorts its members when it ends, so no tree is built.
type writer struct {
	in    []byte
	at    int
	depth int
	out   []byte
	// members is a stack: those of an object lie behind those of the object around it.
	members []member // of all objects that are open
	// scratch holds an object while its members are put into order.
	scratch []byte
	ignore  []string
}

// member is a member of an object as it stands in writer.out, the comma before it left out.
//
// start and end count the bytes of out, so a member stays valid while out grows.
type member struct {
	key        []byte
	start, end int
}

// document is false when in is not one JSON value and nothing else.
func (w *writer) document() bool {
	return w.value() && w.peek() == 0 && w.at == len(w.in)
}

// peek skips white space and returns the byte after it, 0 at the end. A NUL byte is no JSON
// either.
func (w *writer) peek() byte {
	for ; w.at < len(w.in); w.at++ {
		switch c := w.in[w.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// value writes one value of any kind. After false, out is of no use.
func (w *writer) value() bool {
	switch c := w.peek(); {
	case c == '{':
		return w.object()
	case c == '[':
		return w.array()
	case c == '"':
		s, end, ok := text(w.in, w.at)
		if ok {
			w.out, w.at = appendString(w.out, s), end
		}
		return ok
	case c == '-' || c-'0' <= 9:
		return w.number()
	case c == 't':
		return w.word("true")
	case c == 'f':
		return w.word("false")
	case c == 'n':
		return w.word("null")
	}
	return false
}

func (w *writer) word(s string) bool {
	if len(w.in)-w.at < len(s) || string(w.in[w.at:w.at+len(s)]) != s {
		return false
	}
	w.at += len(s)
	w.out = append(w.out, s...)
	return true
}

// enter reads an opening bracket. Whatever is too deep is no document, and is hashed as text.
func (w *writer) enter() bool {
	w.at++
	w.depth++
	return w.depth <= maxDepth
}

func (w *writer) array() bool {
	if !w.enter() {
		return false
	}
	w.out = append(w.out, '[')
	for first := true; ; first = false {
		switch c := w.peek(); {
		case c == ']':
			w.at++
			w.depth--
			w.out = append(w.out, ']')
			return true
		case first:
		case c == ',':
			w.at++
			w.out = append(w.out, ',')
		default:
			return false
		}
		if !w.value() {
			return false
		}
	}
}

func (w *writer) object() bool {
	if !w.enter() {
		return false
	}
	// The braces and commas are written by close, when the order is known.
	base, begin := len(w.members), len(w.out)
	for first := true; ; first = false {
		switch c := w.peek(); {
		case c == '}':
			w.at++
			w.depth--
			w.close(base, begin)
			return true
		case first:
		case c == ',':
			w.at++
		default:
			return false
		}
		if w.peek() != '"' {
			return false
		}
		key, end, ok := text(w.in, w.at)
		if !ok {
			return false
		}
		w.at = end
		if w.peek() != ':' {
			return false
		}
		w.at++
		m := member{key: key, start: len(w.out)}
		w.out = append(appendString(w.out, key), ':')
		if !w.value() {
			return false
		}
		m.end = len(w.out)
		// Ignored members are taken out again and never sorted; the depth of the object that
		// arguments are is 1.
		if w.depth == 1 && w.ignored(key) {
			w.out = w.out[:m.start]
			continue
		}
		w.members = append(w.members, m)
	}
}

func (w *writer) ignored(key []byte) bool {
	for _, name := range w.ignore {
		if string(key) == name {
			return true
		}
	}
	return false
}

// close puts the members of an object, which stand in w.out from begin on, into order.
//
// Members are written again rather than moved, since they differ in length.
func (w *writer) close(base, begin int) {
	members := w.members[base:]
	// Sorting is stable, so that of equal keys the last given comes last and is kept.
	slices.SortStableFunc(members, func(a, b member) int { return compareUTF16(a.key, b.key) })
	w.scratch = append(w.scratch[:0], w.out[begin:]...)
	w.out = append(w.out[:begin], '{')
	// Of equal keys only the last is written: readers of JSON mostly keep that one.
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(members[i+1].key, m.key) {
			continue
		}
		if len(w.out) > begin+1 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, w.scratch[m.start-begin:m.end-begin]...)
	}
	w.out = append(w.out, '}')
	w.members = w.members[:base]
}

// compareUTF16 orders as RFC 8785 wants it: by UTF-16 code units, which differs
// from the order of bytes beyond U+FFFF alone.
//
// Two keys are equal in it exactly if their bytes are.
func compareUTF16(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		x, n := utf8.DecodeRune(a)
		y, m := utf8.DecodeRune(b)
		if x != y {
			return rank(x) - rank(y)
		}
		a, b = a[n:], b[m:]
	}
	return len(a) - len(b)
}

// rank is the place of a rune among all runes by its UTF-16 code units.
// The pairs of code units of runes beyond U+FFFF begin with U+D800 and more, so such runes
// come before those from U+E000 on.
func rank(r rune) int {
	if high, _ := utf16.EncodeRune(r); high != utf8.RuneError {
		return int(high)<<21 + int(r)
	}
	return int(r) << 21
}

// number reads a number and writes it as ECMAScript does. A number beyond the
// range of a float64 keeps its spelling.
//
// 1, 1.0 and 1e0 are one argument, also to the tool that gets them. Whole numbers of up to 15
// digits are copied: their spelling is that of ECMAScript already.
func (w *writer) number() bool {
	start := w.at
	p, i := w.in, w.at
	digits := func() int {
		from := i
		for i < len(p) && p[i]-'0' <= 9 {
			i++
		}
		return i - from
	}
	// -0 is written as 0, so a sign is no plain number.
	if p[i] == '-' {
		i++
	}
	whole := i
	n := digits()
	if n == 0 || n > 1 && p[whole] == '0' {
		return false
	}
	plain := n <= 15 && p[start] != '-'
	if i < len(p) && p[i] == '.' {
		plain = false
		i++
		if digits() == 0 {
			return false
		}
	}
	if i < len(p) && p[i]|0x20 == 'e' {
		plain = false
		i++
		if i < len(p) && (p[i] == '+' || p[i] == '-') {
			i++
		}
		if digits() == 0 {
			return false
		}
	}
	w.at = i
	if plain {
		w.out = append(w.out, p[start:i]...)
		return true
	}
	// ECMAScript writes numbers from 1e-6 to below 1e21 without an exponent, with the fewest
	// digits that read back the same.
	f, err := strconv.ParseFloat(string(p[start:i]), 64)
	switch abs := math.Abs(f); {
	// Beyond the range two readers would differ, so what the producer wrote is kept.
	case err != nil:
		w.out = append(w.out, p[start:i]...)
	case f == 0:
		// Both zeros are one.
		w.out = append(w.out, '0')
	case abs < 1e-6 || abs >= 1e21:
		w.out = strconv.AppendFloat(w.out, f, 'e', -1, 64)
		if n := len(w.out); w.out[n-4] == 'e' && w.out[n-2] == '0' { // e-07 is written e-7
			w.out[n-2] = w.out[n-1]
			w.out = w.out[:n-1]
		}
	default:
		w.out = strconv.AppendFloat(w.out, f, 'f', -1, 64)
	}
	return true
}

// text reads the JSON string that begins at i and returns what it says and where
// it ends. It aliases p when it can.
//
// A bad escape or a control character makes it none. What is not UTF-8 becomes U+FFFD.
func text(p []byte, i int) (s []byte, end int, ok bool) {
	start, escaped := i+1, false
	for end = jsontext.StringEnd(p, start); end+1 < len(p) && p[end] == '\\'; end = jsontext.StringEnd(p, end+2) {
		escaped = true
	}
	if end >= len(p) || p[end] != '"' {
		return nil, 0, false
	}
	s, ok = p[start:end], true
	if escaped {
		s, ok = jsontext.AppendUnescaped(make([]byte, 0, len(s)), s)
	}
	return valid(s), end + 1, ok
}

// valid returns s itself if it is UTF-8.
func valid(s []byte) []byte {
	if utf8.Valid(s) {
		return s
	}
	return bytes.ToValidUTF8(s, []byte(replacement))
}

// appendString appends s, which is UTF-8, as a JSON string with no more escapes
// than needed.
//
// The escapes are those of RFC 8785: the short ones where there are, else \u00xx in lower
// case.
func appendString(dst, s []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] >= ' ' && s[n] != '"' && s[n] != '\\' {
			n++
		}
		dst = append(dst, s[:n]...)
		if s = s[n:]; len(s) == 0 {
			break
		}
		switch c := s[0]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		s = s[1:]
	}
	return append(dst, '"')
}
