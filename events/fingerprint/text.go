package fingerprint

import (
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/jsontext"
)

// maxWords is how many words of a text its fingerprint is made of.
//
// The beginning of a text is enough to know it again, and the time that it takes is bounded.
const maxWords = 1500

// Text returns the simhash64 of a text: over its lower-cased words and pairs of
// neighbouring words, of the first 1,500 words, each a feature of weight one with
// xxh64 as its hash. A word is a run of letters and digits. A text without words
// gives the zero Fingerprint: not known.
//
// Words keep what a text says, pairs in which order. Texts that differ in few words differ in
// few of the 64 bits, see events.NearBits. As with hashes, the value is part of the log.
func Text(text []byte) events.Fingerprint {
	var (
		votes votes
		room  [1024]byte
		// So the pair that ends with the last word lies in one piece in words.
		words = room[:0] // the words, a space between two
		pair  int        // where the word before the last one begins
		n     int
	)
	// The loop ends at the word that is not there, or after as many as count.
	for i := 0; n < maxWords; n++ {
		if len(words) > cap(words)/2 { // only the last word is needed any more
			words, pair = append(words[:0], words[pair:]...), 0
		}
		if n > 0 {
			words = append(words, ' ')
		}
		last := len(words)
		if words, i = word(words, text, i); len(words) == last {
			break
		}
		// The hash of a pair is that of its two words with a space between.
		votes.add(xxhash.Sum64(words[last:]))
		if n > 0 {
			votes.add(xxhash.Sum64(words[pair:]))
		}
		pair = last
	}
	if n == 0 {
		return events.Fingerprint{}
	}
	return events.Fingerprint{Algorithm: events.Simhash64, Value: votes.majority()}
}

// word appends the next word of text from i on, lower-cased, and returns where it
// ends. Nothing is appended when there is none.
//
// The text is walked eight bytes at a time where it is ASCII. It must be the same as the loop
// over single characters at its end, which alone knows other alphabets.
func word(dst, text []byte, i int) ([]byte, int) {
	start := len(dst)
	for i < len(text) {
		if i+8 <= len(text) {
			x, inWord := lowered(binary.LittleEndian.Uint64(text[i:]))
			if len(dst) == start { // to where a word may begin
				if skip := bits.TrailingZeros64((inWord|x)&jsontext.Tops) >> 3; skip > 0 {
					i += skip
					if skip == 8 {
						continue
					}
					// Most words end within the eight bytes.
					x, inWord = x>>(8*skip), inWord>>(8*skip)
					// A word that ends within the eight bytes, and not before a byte beyond
					// ASCII, which may go on with it.
					n := bits.TrailingZeros64(^inWord&jsontext.Tops) >> 3
					if n == 0 || n >= 8-skip || x>>(8*n)&0x80 != 0 {
						continue
					}
					dst = binary.LittleEndian.AppendUint64(dst, x)
					return dst[:len(dst)-8+n], i + n
				}
			}
			// Eight bytes are written, and as many count as are of the word.
			n := bits.TrailingZeros64(^inWord&jsontext.Tops) >> 3
			dst = binary.LittleEndian.AppendUint64(dst, x)
			dst, i = dst[:len(dst)-8+n], i+n
			switch {
			case n == 8:
				continue
			case x>>(8*n)&0x80 == 0:
				return dst, i
			}
		}
		// One character at a time: near the end of the text, and beyond ASCII.
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
		// Marks are accents that stand behind their letter.
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		case len(dst) > start:
			return dst, i
		}
		i += n
	}
	return dst, i
}

// lowered returns eight bytes of text with the letters of ASCII in lower case, and the top
// bits of those that are letters or digits of ASCII.
//
// All 64 bits are computed without a branch. A byte beyond ASCII is neither and stays as it
// is.
func lowered(x uint64) (lower, inWord uint64) {
	const ones = jsontext.Ones
	// Adding 0x80-c sets the top bit of what is c or more.
	low, ascii := x&^jsontext.Tops, ^x&jsontext.Tops
	small := low | 0x20*ones // in lower case; what was no letter is none now
	letters := (small + (0x80-'a')*ones) &^ (small + (0x80-'z'-1)*ones)
	digits := (low + (0x80-'0')*ones) &^ (low + (0x80-'9'-1)*ones)
	letters &= ascii
	return x | letters>>2, (letters | digits) & ascii
}

// votes counts, for each of 64 bits, how many hashes had it set. The counts lie
// across: bit b of planes[k] is the k-th binary digit of the count of bit b, so a
// hash is added to all 64 counts at once, and eight of them with one carry.
//
// It is added to by add alone, and majority ends it.
type votes struct {
	planes [12]uint64 // 2 x 1,500 features are below 2^12
	cast   int
	wait   [8]uint64 // to be added
}

// add lets hashes wait until there are eight, which are then added by seven additions of three
// digits each.
func (v *votes) add(hash uint64) {
	v.wait[v.cast&7] = hash
	if v.cast++; v.cast&7 == 0 {
		v.carry()
	}
}

// carry adds the hashes that wait.
func (v *votes) carry() {
	// sum adds three digits: the digit of the sum, and what is carried.
	sum := func(a, b, c uint64) (digit, carry uint64) { return a ^ b ^ c, a&b | (a^b)&c }
	p, w := &v.planes, &v.wait
	var a, b, c, d, e, f, over uint64
	// Eight digits of weight one and the plane of ones give four carries, these and the plane
	// of twos two, and these and the next plane one.
	p[0], a = sum(p[0], w[0], w[1])
	p[0], b = sum(p[0], w[2], w[3])
	p[0], c = sum(p[0], w[4], w[5])
	p[0], d = sum(p[0], w[6], w[7])
	p[1], e = sum(p[1], a, b)
	p[1], f = sum(p[1], c, d)
	p[2], over = sum(p[2], e, f)
	// Few carries go further up.
	for k := 3; over != 0; k++ {
		p[k], over = p[k]^over, p[k]&over
	}
	*w = [8]uint64{}
}

// majority returns the bits that more than half of the hashes had set.
//
// A bit that exactly half of them have is not set.
func (v *votes) majority() uint64 {
	v.carry()
	half := v.cast / 2
	// more has the bits whose count is already known to be greater, same those that are equal
	// so far; the highest digit decides first.
	more, same := uint64(0), ^uint64(0) // than half, as far as the digits were compared
	for k := len(v.planes) - 1; k >= 0; k-- {
		if half>>k&1 == 0 {
			more |= same & v.planes[k]
			same &^= v.planes[k]
		} else {
			same &= v.planes[k]
		}
	}
	return more
}
