package fingerprint

import (
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// ArgsText returns a fingerprint of the arguments of a call that tells the same call in other
// words from the next one in a row. It is Text of the words without a digit, and no nearer than
// chance to that of arguments in which another word has one: a page, an offset, a cursor or an id
// that goes on is asked for something else, however long the rest of the command is.
// A text without words gives the zero Fingerprint: not known.
func ArgsText(text []byte) events.Fingerprint {
	words := make([]byte, 0, len(text))
	var numbers xxhash.Digest
	numbers.Reset()
	found := false
	for i := 0; i < len(text); {
		begin, digit := i, false
		for i < len(text) && (isWordByte(text[i]) || text[i] >= utf8.RuneSelf) {
			digit = digit || text[i]-'0' <= 9
			i++
		}
		switch {
		case digit:
			_, _ = numbers.Write(text[begin:i])
			_, _ = numbers.Write([]byte{' '})
			found = true
		default:
			words = append(words, text[begin:i]...)
		}
		if i < len(text) {
			words = append(words, text[i])
			i++
		}
	}
	f := Text(words)
	if found {
		f.Algorithm = events.Simhash64
		f.Value ^= numbers.Sum64()
	}
	return f
}

// isWordByte is true for letters and digits of ASCII.
func isWordByte(c byte) bool { return c-'0' <= 9 || c|0x20-'a' < 26 }
