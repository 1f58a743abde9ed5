package fingerprint

import (
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// maxWords is how many words of a text its fingerprint is made of.
const maxWords = 1500

// Text returns the simhash64 of a text: over its lower-cased words and pairs of
// neighbouring words, of the first 1,500 words, each a feature of weight one with
// xxh64 as its hash. A word is a run of letters and digits. A text without words
// gives the zero Fingerprint: not known.
func Text(text []byte) events.Fingerprint {
	var (
		votes votes
		room  [128]byte
		words = room[:0] // the word before, a space, and this word
		last  int        // where this word begins in words
		n     int
	)
	for i := 0; n < maxWords; n++ {
		words, last = append(words[:0], words[last:]...), 0
		if n > 0 {
			words = append(words, ' ')
			last = len(words)
		}
		if words, i = word(words, text, i); len(words) == last {
			break
		}
		votes.add(xxhash.Sum64(words[last:]))
		if n > 0 {
			votes.add(xxhash.Sum64(words))
		}
	}
	if n == 0 {
		return events.Fingerprint{}
	}
	return events.Fingerprint{Algorithm: events.Simhash64, Value: votes.majority()}
}

// word appends the next word of text from i on, lower-cased, and returns where it
// ends. Nothing is appended when there is none.
func word(dst, text []byte, i int) ([]byte, int) {
	start := len(dst)
	for i < len(text) {
		c := text[i]
		if c < utf8.RuneSelf {
			switch {
			case c-'a' < 26 || c-'0' <= 9:
				dst = append(dst, c)
			case c-'A' < 26:
				dst = append(dst, c|0x20)
			case len(dst) > start:
				return dst, i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		case len(dst) > start:
			return dst, i
		}
		i += n
	}
	return dst, i
}

// votes counts, for each of 64 bits, how many hashes had it set. The counts lie
// across: bit b of planes[k] is the k-th binary digit of the count of bit b, so a
// hash is added to all 64 counts at once.
type votes struct {
	planes [12]uint64 // 2 x 1,500 features are below 2^12
	cast   int
}

func (v *votes) add(hash uint64) {
	v.cast++
	for k := 0; hash != 0; k++ {
		v.planes[k], hash = v.planes[k]^hash, v.planes[k]&hash
	}
}

// majority returns the bits that more than half of the hashes had set.
func (v *votes) majority() uint64 {
	var out uint64
	for b := range 64 {
		count := 0
		for k, plane := range v.planes {
			count |= int(plane>>b&1) << k
		}
		if 2*count > v.cast {
			out |= 1 << b
		}
	}
	return out
}
