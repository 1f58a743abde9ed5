// Package jsontext decodes the inside of JSON strings. Walking a text stays with each of them, because they differ in
// what they promise. Events are read strictly, with the place of each fault; foreign logs are followed to their end and
// no more; fingerprints write what they read in its canonical form.
package jsontext

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Ones and Tops have the lowest and the highest bit of each byte.
//
// They are what a word of eight bytes is compared with all at once.
const (
	Ones = 0x0101010101010101
	Tops = 0x8080808080808080
)

// ZeroBytes has the top bit set of the first byte of x that is zero, if there is one, and
// perhaps of later bytes, but of none before.
//
// Borrows run upwards from a zero byte, so only the lowest set bit is reliable. In a
// little-endian word the first byte is found by its trailing zeros.
func ZeroBytes(x uint64) uint64 { return (x - Ones) &^ x & Tops }

// StringEnd returns the index of the first quote, backslash or control character of p from
// i on, or the length of p.
//
// Bytes of 0x80 and more never stop it: whether they are UTF-8 is for the caller to see.
func StringEnd(p []byte, i int) int {
	for ; i+8 <= len(p); i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		// Of x-Ones*' ' the top bit is set for bytes below a space, and &^x leaves out those
		// that had it before.
		if stop := ZeroBytes(x^Ones*'"') | ZeroBytes(x^Ones*'\\') | (x-Ones*' ')&^x&Tops; stop != 0 {
			return i + bits.TrailingZeros64(stop)>>3
		}
	}
	// The last bytes, which are fewer than eight.
	for i < len(p) && p[i] != '"' && p[i] != '\\' && p[i] >= ' ' {
		i++
	}
	return i
}

// Hex4 reads the four hex digits of p at i.
func Hex4(p []byte, i int) (r rune, ok bool) {
	if i+4 > len(p) {
		return 0, false
	}
	for _, c := range p[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// AppendUnescaped appends the meaning of the inside of a JSON string. An escape unknown to
// JSON stands for the character behind the backslash, and half a surrogate pair for
// U+FFFD. known is false if there was an unknown escape or one that is cut off.
//
// The result is never longer than raw, so a dst with room for raw is not moved. The bytes of
// raw are not checked to be UTF-8.
func AppendUnescaped(dst, raw []byte) (out []byte, known bool) {
	known = true
	dst = slices.Grow(dst, len(raw))
	for len(raw) > 0 {
		// In code and in what programs print an escape stands at the end of every line, so that
		// a search and a copy of what lies between cost more than taking eight bytes with each
		// step. There is always room for eight, since dst does not grow faster than raw ends.
		n := 0
		for n+8 <= len(raw) {
			x := binary.LittleEndian.Uint64(raw[n:])
			binary.LittleEndian.PutUint64(dst[len(dst):len(dst)+8], x)
			if stop := ZeroBytes(x ^ Ones*'\\'); stop != 0 {
				k := bits.TrailingZeros64(stop) >> 3
				n += k
				dst = dst[:len(dst)+k]
				break
			}
			n += 8
			dst = dst[:len(dst)+8]
		}
		for n < len(raw) && raw[n] != '\\' {
			dst = append(dst, raw[n])
			n++
		}
		if n == len(raw) {
			break
		}
		// A backslash at the end is cut off.
		if n+1 == len(raw) {
			return append(dst, '\\'), false
		}
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case '"', '\\', '/':
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, ok := Hex4(raw, 0)
			if !ok {
				known = false
				break
			}
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				// The other half follows as an escape of its own; if it is not there, r
				// becomes U+FFFD and what follows is read as usual.
				low, ok := rune(0), len(raw) > 1 && raw[0] == '\\' && raw[1] == 'u'
				if ok {
					low, ok = Hex4(raw, 2)
				}
				if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		default:
			known = false
		}
		dst = append(dst, c)
	}
	return dst, known
}
