package events

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"weir/events/jsontext"
)

// MaxDepth is how many objects and arrays may lie inside each other, the event itself counted.
// skip recurses, so a text of a million brackets would take as much stack.
const MaxDepth = 32

// scanner reads one JSON text from front to back, once. Its methods report by a bool whether
// to go on; the first fault is kept in err. encoding/json does not serve: of equal names it
// takes the last, it folds the case of names, and it copies all strings, where Decode promises
// the opposite. One scanner reads one text, in one goroutine.
type scanner struct {
	p     []byte
	i     int // next byte to read
	depth int // objects and arrays that are open
	err   *DecodeError

	// The unknown names of all open objects, to find those given twice. An object that finds
	// no room keeps its own in a map. As on a stack, an object takes its room behind that of
	// the object around it and gives it back at its end.
	names [fewNames]string
	named int

	// anyCase takes names that differ in case alone for the same name.
	anyCase bool
}

// object is one JSON object while it is read.
//
// It lives on the stack of the method that reads the object; only many is ever allocated.
type object struct {
	known *fields
	field uint8               // the field just read
	begun bool                // a field was read
	key   string              // its name as given
	at    int                 // where its name begins
	seen  uint64              // one bit for each known field
	base  int                 // where the unknown names of this object begin in scanner.names
	many  map[string]struct{} // all its unknown names, if they found no room there
}

// fewNames is up to how many unknown names are compared one by one.
//
// Sixteen strings are compared sooner than a map is made.
const fewNames = 16

// open reads the brace that begins an object. The object is fresh: known is set, and all else
// is zero.
func (s *scanner) open(o *object) bool {
	if c := s.peek(); c != '{' {
		return s.unexpected(c, "an object")
	}
	o.base = s.named
	return s.deeper()
}

// next reads the name of the next known field and the colon behind it. Unknown
// fields are read over. It is false at the end of the object and at a fault.
func (s *scanner) next(o *object) bool {
	for s.quickName(o) || s.name(o) {
		if o.field != 0 {
			// A field has a bit of seen, so a list of names has at most 63 of them.
			bit := uint64(1) << o.field
			if o.seen&bit != 0 {
				return s.twice(o)
			}
			o.seen |= bit
			return true
		}
		if !s.unknown(o) || !s.skip() {
			return s.in(o)
		}
	}
	return false
}

// quickName is name for what nearly all names are: known, without escapes and without white
// space around. Otherwise it is false and has read nothing. It compares the first eight bytes
// as one number, and the rest only of longer names.
func (s *scanner) quickName(o *object) bool {
	p, i := s.p, s.i
	if o.begun {
		if i >= len(p) || p[i] != ',' {
			return false
		}
		i++
	}
	// At least a quote, a name of seven bytes and a quote, or eight bytes of whatever follows
	// a short name, so that eight can be read at once. An event that ends sooner is read by
	// name.
	if i+9 > len(p) || p[i] != '"' {
		return false
	}
	at := i
	i++
	first := binary.LittleEndian.Uint64(p[i:])
	n := 8
	if quote := jsontext.ZeroBytes(first ^ jsontext.Ones*'"'); quote != 0 {
		n = bits.TrailingZeros64(quote) >> 3
		// What lies behind the name is cleared, since the heads in the table are filled with
		// zeros.
		first &= quote&-quote>>7 - 1 // the bytes before the quote
	} else {
		for ; n < maxFolded; n += 8 {
			if i+n+8 > len(p) {
				return false
			}
			if quote := jsontext.ZeroBytes(binary.LittleEndian.Uint64(p[i+n:]) ^ jsontext.Ones*'"'); quote != 0 {
				n += bits.TrailingZeros64(quote) >> 3
				break
			}
		}
	}
	end := i + n
	if end+1 >= len(p) || p[end+1] != ':' {
		return false
	}
	// Names that share a slot are a chain, which a free slot (field 0) ends.
	x := &o.known.exact
	for e := &x[slot(first, n)]; e.field != 0; e = &x[e.next] {
		if e.head == first && len(e.name) == n && (n <= 8 || e.name == string(p[i:end])) {
			o.begun, o.at, o.key, o.field = true, at, e.name, e.field
			s.i = end + 2
			return true
		}
	}
	return false
}

// nextAny is next for an object of which no field is known: each one is given. The caller
// reads the value; that a name is given twice is found here.
func (s *scanner) nextAny(o *object) bool {
	return s.name(o) && (s.unknown(o) || s.in(o))
}

// name reads the name of the next field, the colon behind it and what stands before.
// At the closing brace it gives back the room of the object's unknown names.
func (s *scanner) name(o *object) (ok bool) {
	c := s.peek()
	switch {
	case c == '}':
		s.i++
		s.depth--
		s.named = o.base
		return false
	case !o.begun:
		o.begun = true
	case c == ',':
		s.i++
		c = s.peek()
	default:
		return s.fail(CodeSyntax, s.i, "want a comma or the end of the object here")
	}
	if c != '"' {
		return s.fail(CodeSyntax, s.i, "want a name in double quotes here")
	}
	o.at = s.i
	// plain serves for nearly all; its bound of bytes is of no meaning, for longer names are
	// read by quoted.
	if o.key, ok = s.plain(maxFolded); !ok {
		o.key, _, ok = s.quoted()
	}
	if !ok {
		return false
	}
	if s.peek() != ':' {
		return s.fail(CodeSyntax, s.i, "want a colon after the name")
	}
	s.i++
	o.field = o.known.exact.find(o.key)
	return true
}

// has reports whether the field was given.
func (o *object) has(field uint8) bool { return o.seen&(1<<field) != 0 }

// path is the field's own name, also when it was given by an alias.
//
// Faults are told by the name that the schema has.
func (o *object) path() string {
	if o.field != 0 {
		return o.known.names[o.field]
	}
	return cut(o.key)
}

// unknown refuses an unknown name that was given before or is a known one misspelled. Skipped
// like other unknown names, a misspelled one would leave a rule blind without anyone knowing
// why.
func (s *scanner) unknown(o *object) bool {
	if meant, ok := o.known.misspelled(o.key); ok {
		return s.fail(CodeMisspelledField, o.at, "is not a known name; write "+meant)
	}
	name := o.key
	// Up and down again brings letters with two lower-case forms together, as encoding/json
	// does when it matches names: it is what reads a verdict after this.
	if s.anyCase {
		name = strings.ToLower(strings.ToUpper(name))
	}
	// When the room is used up, the names of this object move to a map, so that an object of a
	// hundred thousand names takes no quadratic time. Objects further out keep their room.
	if o.many == nil && s.named == len(s.names) {
		o.many = make(map[string]struct{}, s.named-o.base+1)
		for _, n := range s.names[o.base:] {
			o.many[n] = struct{}{}
		}
		s.named = o.base
	}
	if o.many != nil {
		before := len(o.many)
		if o.many[name] = struct{}{}; len(o.many) == before {
			return s.fail(CodeDuplicateField, o.at, givenTwice)
		}
		return true
	}
	for _, n := range s.names[o.base:s.named] {
		if n == name {
			return s.fail(CodeDuplicateField, o.at, givenTwice)
		}
	}
	s.names[s.named] = name
	s.named++
	return true
}

// Readers differ in which of two equal names counts, so a sender could show weir one value and
// others another.
const givenTwice = "is given twice in one object; give it once"

// twice refuses a known field that was given before.
//
// An alias beside the name is twice as well: the two could differ.
func (s *scanner) twice(o *object) bool {
	reason := givenTwice
	if o.key != o.path() {
		reason = "is given twice, once as " + o.key + "; give it once"
	}
	s.fail(CodeDuplicateField, o.at, reason)
	return s.in(o)
}

// in puts the object's field before the path of the fault. It is called on the way out of each
// object, from the inside to the outside. Something must have failed.
func (s *scanner) in(o *object) bool {
	if s.err.Field != "" {
		s.err.Field = o.path() + "." + s.err.Field
	} else {
		s.err.Field = o.path()
	}
	return false
}

// fail keeps the first fault, for later ones are consequences of it. It returns false, as all
// methods do that cannot go on.
func (s *scanner) fail(code Code, at int, reason string) bool {
	if s.err == nil {
		s.err = &DecodeError{Code: code, Offset: at, Reason: reason}
	}
	return false
}

// unexpected refuses c, the first byte of a value, where want belongs. What could begin a
// value is of the wrong type; all else is not JSON.
func (s *scanner) unexpected(c byte, want string) bool {
	switch c {
	case '"', '{', '[', 't', 'f', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.fail(CodeWrongType, s.i, "want "+want)
	}
	return s.fail(CodeSyntax, s.i, "want "+want+" here")
}

// peek skips white space and returns the byte after it, or 0 at the end, without reading it. A
// NUL byte in the text is no mistake for the end, since both are refused wherever something is
// wanted.
func (s *scanner) peek() byte {
	if s.i < len(s.p) && s.p[s.i] > ' ' {
		return s.p[s.i]
	}
	return s.peekAfterSpace()
}

// peekAfterSpace is apart so that peek is short enough to be inlined.
func (s *scanner) peekAfterSpace() byte {
	for ; s.i < len(s.p); s.i++ {
		switch c := s.p[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// deeper reads the brace or bracket that begins an object or an array. Who reads its end takes
// depth back; after a fault nobody does.
func (s *scanner) deeper() bool {
	if s.depth++; s.depth > MaxDepth {
		return s.fail(CodeTooDeep, s.i, "want at most 32 objects and arrays inside each other")
	}
	s.i++
	return true
}

// plain reads a string of 1 to most bytes of ASCII without escapes, which nearly all strings
// of an event are. Otherwise it is false and has read nothing. It does not skip white space:
// behind some of it, text reads the string.
func (s *scanner) plain(most int) (string, bool) {
	p, start := s.p, s.i+1
	if start >= len(p) || p[start-1] != '"' {
		return "", false
		// Not a string, or one behind white space.
	}
	i := start
	for ; ; i += 8 {
		// Fewer than eight bytes are left.
		if i+8 > len(p) {
			for i < len(p) && p[i] != '"' && p[i] != '\\' && p[i] >= ' ' && p[i] < utf8.RuneSelf {
				i++
			}
			break
		}
		// Eight bytes at a time: a byte of stop has its top bit set where the text has a
		// quote, a backslash, a control character or no ASCII. Borrows may set more of
		// them, but only after the first.
		x := binary.LittleEndian.Uint64(p[i:])
		if stop := jsontext.ZeroBytes(x^jsontext.Ones*'"') | jsontext.ZeroBytes(x^jsontext.Ones*'\\') | (x-jsontext.Ones*' '|x)&jsontext.Tops; stop != 0 {
			i += bits.TrailingZeros64(stop) >> 3
			break
		}
	}
	// The subtraction wraps for the empty string, which is longer than any bound by it.
	if i >= len(p) || p[i] != '"' || uint(i-start-1) >= uint(most) {
		return "", false
	}
	s.i = i + 1
	// The string aliases the event's bytes, as Decode promises.
	return unsafe.String(&p[start], i-start), true
}

// quoted reads a string, which begins at s.i. It aliases the text unless it has escapes;
// whether it has is the second result. What an escape stands for is never longer than the
// escape, so the raw length is enough room.
func (s *scanner) quoted() (v string, escaped, ok bool) {
	start := s.i + 1
	if !s.skipString() {
		return "", false, false
	}
	raw := s.p[start : s.i-1]
	if bytes.IndexByte(raw, '\\') >= 0 {
		said, _ := jsontext.AppendUnescaped(make([]byte, 0, len(raw)), raw)
		return unsafe.String(unsafe.SliceData(said), len(said)), true, true
	}
	return unsafe.String(unsafe.SliceData(raw), len(raw)), false, true
}

// skipString reads over a string, which begins at s.i, and checks all of it. Whether it is
// UTF-8 is asked of the raw text as a whole, since escapes are ASCII.
func (s *scanner) skipString() bool {
	start := s.i + 1
	for i := start; ; {
		end := jsontext.StringEnd(s.p, i)
		switch {
		case end == len(s.p):
			return s.fail(CodeSyntax, s.i, "the string has no end")
		case s.p[end] == '"':
			if !utf8.Valid(s.p[start:end]) {
				return s.fail(CodeInvalidUTF8, s.i, "the string is not UTF-8")
			}
			s.i = end + 1
			return true
		case s.p[end] != '\\':
			return s.fail(CodeSyntax, end, "control character in a string; write it as an escape")
		}
		n, ok := s.escape(end)
		if !ok {
			return false
		}
		i = end + n
	}
}

// escape checks the escape at i and returns its length in bytes. Half of a surrogate pair
// stands for no character: readers differ in what they make of it, and so would their hashes.
func (s *scanner) escape(i int) (int, bool) {
	if i+1 == len(s.p) {
		return 0, s.fail(CodeSyntax, i, "the string has no end")
	}
	switch s.p[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, true
	case 'u':
		r, ok := jsontext.Hex4(s.p, i+2)
		if !ok {
			return 0, s.fail(CodeSyntax, i, "want four hex digits after \\u")
		}
		if !utf16.IsSurrogate(r) {
			return 6, true
		}
		if low, ok := jsontext.Hex4(s.p, i+8); ok && s.p[i+6] == '\\' && s.p[i+7] == 'u' && utf16.DecodeRune(r, low) != utf8.RuneError {
			return 12, true
		}
		return 0, s.fail(CodeInvalidUTF8, i, "half a surrogate pair; write both halves or the character itself")
	}
	return 0, s.fail(CodeSyntax, i, "unknown escape")
}
