package fingerprint

import (
	"bytes"
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
	var f features
	for i := 0; i < len(text) && f.n < maxWords; {
		f.makeRoom()
		plain := false
		if i, plain = f.plainWords(text, i); !plain {
			i = f.anyWord(text, i)
		}
	}
	if f.n == 0 {
		return events.Fingerprint{}
	}
	f.hashAll()
	return events.Fingerprint{Algorithm: events.Simhash64, Value: f.votes.majority()}
}

// features are the words and pairs of a text. They are hashed by their length, all of one length
// together: a hash of few bytes is mostly steps that depend on how many they are, and with
// lengths in turn a processor foretells none of them.
type features struct {
	votes votes
	// words are lower-cased, a space behind each, so that a pair lies in one piece.
	words [roomForWords]byte
	last  int    // where the last word begins
	end   int    // where the next one goes
	long  []byte // the last word, where it is too long for words
	n     int    // how many there were
	// waiting are those that are not hashed yet, by their length. Longer ones do not wait.
	waiting [shortFeature]struct {
		n  int
		at [manyFeatures]uint16 // in words
	}
}

const (
	block = 64 // bytes that are looked at together

	// overhang is how many bytes may be read and written at the end of a word that are none of
	// it: short words are copied whole, without asking how long they are.
	overhang = 16

	// A list that is full is hashed; most words are shorter than 16 letters, and their pairs
	// than 32.
	manyFeatures = 64
	shortFeature = 32

	// Of roomForWords bytes enough are kept free for the words of a block, and all that is
	// written behind them.
	roomForWords = 4 << 10
	enough       = 4 * block
)

// makeRoom sees to it that there is room for the words of one more block.
func (f *features) makeRoom() {
	if f.end <= roomForWords-enough {
		return
	}
	// Of what was hashed only the last word is needed any more.
	f.hashAll()
	f.end, f.last = copy(f.words[:], f.words[f.last:f.end]), 0
}

// plainWords takes the words of ASCII that end in the 64 bytes of text from i on and returns where
// to go on. It is false where anyWord has to read the word from there.
func (f *features) plainWords(text []byte, i int) (next int, plain bool) {
	var room [block + overhang]byte // for the end of the text, with zeros behind it
	src := &room
	if i+len(room) <= len(text) {
		src = (*[block + overhang]byte)(text[i:])
	} else {
		copy(room[:], text[i:])
	}
	inWord, beyond := wordMask(src)
	// A word that goes on up to here may go on behind it.
	limit := bits.TrailingZeros64(beyond)
	switch {
	case limit < block:
		inWord &= 1<<limit - 1
	case i+block >= len(text):
		limit = block + 1
	}
	for inWord != 0 {
		begin := bits.TrailingZeros64(inWord)
		size := bits.TrailingZeros64(^(inWord >> begin))
		if begin+size >= limit {
			return i + begin, beyond == 0 && begin > 0
		}
		inWord = inWord >> (begin + size) << (begin + size)
		// Of digits and letters this bit alone makes lower case.
		const lower = 0x20 * jsontext.Ones
		dst, from := f.words[f.end:f.end+overhang], src[begin:begin+overhang]
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(from)|lower)
		binary.LittleEndian.PutUint64(dst[8:], binary.LittleEndian.Uint64(from[8:])|lower)
		for k := overhang; k < size; k += 8 {
			binary.LittleEndian.PutUint64(f.words[f.end+k:], binary.LittleEndian.Uint64(src[begin+k:])|lower)
		}
		if f.take(size); f.n == maxWords {
			return i, true
		}
	}
	return i + min(limit, block), beyond == 0
}

// anyWord takes the next word of text from i on, whatever it is made of, and returns where it ends.
func (f *features) anyWord(text []byte, i int) (next int) {
	w, next := word(f.words[:f.end], text, i)
	switch size := len(w) - f.end; {
	case size == 0:
	case size <= enough/2:
		// The word may have been written elsewhere when it found no room.
		f.take(copy(f.words[f.end:], w[f.end:]))
	default:
		f.takeLong(bytes.Clone(w[f.end:]))
	}
	return next
}

// take counts a word that stands at the end of words, and its pair with the one before.
func (f *features) take(size int) {
	end := f.end + size
	f.words[end] = ' '
	f.add(f.end, end)
	switch {
	case f.long != nil:
		f.votes.add(xxhash.Sum64(append(append(f.long, ' '), f.words[f.end:end]...)))
		f.long = nil
	case f.n > 0:
		f.add(f.last, end)
	}
	f.last, f.end = f.end, end+1
	f.n++
}

// takeLong counts a word that is too long for words, and its pair with the one before.
func (f *features) takeLong(w []byte) {
	f.votes.add(xxhash.Sum64(w))
	before := f.long
	if before == nil && f.n > 0 {
		before = bytes.Clone(f.words[f.last : f.end-1])
	}
	if f.n > 0 {
		f.votes.add(xxhash.Sum64(append(append(before, ' '), w...)))
	}
	// What is read next goes where it would have stood.
	f.long = w
	f.n++
}

// add lets a feature wait until there are many of its length.
func (f *features) add(begin, end int) {
	size := end - begin
	if size >= shortFeature {
		f.votes.add(xxhash.Sum64(f.words[begin:end]))
		return
	}
	w := &f.waiting[size]
	w.at[w.n%manyFeatures] = uint16(begin)
	if w.n++; w.n == manyFeatures {
		f.hash(size)
	}
}

// hash counts the features of one length that wait.
func (f *features) hash(size int) {
	w, words := &f.waiting[size], f.words[:]
	for _, at := range w.at[:w.n] {
		f.votes.add(xxhash.Sum64(words[at : int(at)+size]))
	}
	w.n = 0
}

// hashAll counts all that wait.
func (f *features) hashAll() {
	for size := range f.waiting {
		if f.waiting[size].n > 0 {
			f.hash(size)
		}
	}
}

// wordMask returns a bit for each of the first 64 bytes: whether it is a letter or a digit of
// ASCII, and whether it is beyond ASCII.
func wordMask(p *[block + overhang]byte) (inWord, beyond uint64) {
	const ones = jsontext.Ones
	for k := 0; k < block; k += 8 {
		x := binary.LittleEndian.Uint64(p[k:])
		// Adding 0x80-c sets the top bit of what is c or more.
		low := x &^ jsontext.Tops
		small := low | 0x20*ones // in lower case; what was no letter is none now
		letters := (small + (0x80-'a')*ones) &^ (small + (0x80-'z'-1)*ones)
		digits := (low + (0x80-'0')*ones) &^ (low + (0x80-'9'-1)*ones)
		inWord |= gather((letters|digits)&^x&jsontext.Tops) << k
		beyond |= gather(x&jsontext.Tops) << k
	}
	return inWord, beyond
}

// word appends the next word of text from i on, lower-cased, and returns where it
// ends. Nothing is appended when there is none.
//
// It takes one character at a time, for what plainWords leaves to it: words of other alphabets, and
// those that are longer than a block.
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
		// Marks are accents that stand behind their letter.
		case !isSign(r) && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)):
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		case len(dst) > start:
			return dst, i
		}
		i += n
	}
	return dst, i
}

// isSign knows the dashes and quotes, arrows, boxes and emblems that programs draw with, of
// which none is a letter, a number or a mark: the tables of package unicode are asked three
// times for each else.
func isSign(r rune) bool {
	return r >= 0x2010 && r < 0x2070 || r >= 0x2190 && r < 0x2460 || r >= 0x2500 && r < 0x2768
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
