// Package jsonwalk reads foreign JSON once, front to back, and skips what an adapter does not need.
//
// It is lenient where nothing is lost: what is skipped is only followed to its end
// (brackets and strings), not checked.
package jsonwalk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"

	"weir/events"
	"weir/events/jsontext"
)

// MaxDepth is how many objects and arrays may lie inside each other, skipped ones
// counted.
//
// It bounds what is skipped as well, though skipping does not recurse: a text that is that
// deep is no log.
const MaxDepth = 256

// Cursor reads one JSON text. After the first fault every method returns its zero value at once,
// so the caller needs to check Err only at the end. A member or an element that the caller does
// not read is skipped.
//
//	c := jsonwalk.New(record)
//	for c.Object(); c.Member(); {
//		switch string(c.Key()) {
//		case "spans":
//			for c.Array(); c.Element(); {
//				...
//			}
//		}
//	}
//	return c.Err()
//
// It is for one goroutine, and one text.
type Cursor struct {
	text  []byte
	at    int
	depth int
	value bool // a value was read in the object or array that is open
	due   bool // its next value was announced, by Member or Element
	// null makes the next Member or Element end at once.
	null bool // instead of an object or an array something else was read
	key  []byte
	room *Room // nil for memory of its own for each string with escapes
	err  *events.DecodeError
}

// New returns a cursor at the beginning of text. What the cursor returns may alias
// text.
func New(text []byte) *Cursor { return &Cursor{text: text} }

// Inside returns a cursor of a text that stands in that of c. It shares the room of c.
func (c *Cursor) Inside(text []byte) *Cursor { return &Cursor{text: text, room: c.room} }

// Err returns the first fault, a *events.DecodeError, or nil.
func (c *Cursor) Err() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

// Fail stops the cursor with a fault of the caller's, unless it has one.
func (c *Cursor) Fail(code events.Code, field, reason string) {
	if c.err == nil {
		c.err = &events.DecodeError{Code: code, Field: field, Offset: c.at, Reason: reason}
	}
}

// fail has no field: the adapter that reads knows what it was looking for, and Offset says
// where.
func (c *Cursor) fail(code events.Code, reason string) { c.Fail(code, "", reason) }

// Offset is the index of the next byte to be read.
//
// After a value was read it is where another one may begin, in logs that have two on a line.
func (c *Cursor) Offset() int { return c.at }

// Peek returns the first byte of the value that follows ('{', '[', '"', a digit, -,
// t, f or n), or 0 at the end of the text or after a fault.
func (c *Cursor) Peek() byte {
	if c.err != nil {
		return 0
	}
	for ; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

// Object enters the object that follows. A null is read as an empty object; any
// other value is a fault.
func (c *Cursor) Object() { c.open('{', "an object") }

// Array enters the array that follows. A null is read as an empty array; any other
// value is a fault.
func (c *Cursor) Array() { c.open('[', "an array") }

// MaybeObject enters the object that follows. Any other value is skipped and read as
// an empty object, for members of which a log does not say what they are.
func (c *Cursor) MaybeObject() { c.maybe('{') }

// MaybeArray enters the array that follows. Any other value is skipped and read as
// an empty array.
func (c *Cursor) MaybeArray() { c.maybe('[') }

// maybe sets null so that the loop over members ends before it begins, although nothing was
// entered.
func (c *Cursor) maybe(bracket byte) {
	if c.Peek() == bracket {
		c.open(bracket, "")
		return
	}
	c.Skip()
	c.null = true
}

// open enters what begins with the bracket. Nothing was read of it yet, so no comma is wanted.
func (c *Cursor) open(bracket byte, want string) {
	switch b := c.Peek(); {
	case c.err != nil:
	case b == bracket:
		c.at++
		c.value, c.due = false, false
		if c.depth++; c.depth > MaxDepth {
			c.tooDeep()
		}
	case b == 'n':
		c.Skip()
		c.null = true
	case b == 0:
		c.fail(events.CodeSyntax, "the text ends where "+want+" is wanted")
	default:
		c.fail(events.CodeWrongType, "want "+want+" here")
	}
}

func (c *Cursor) tooDeep() {
	c.fail(events.CodeTooDeep, "want at most "+strconv.Itoa(MaxDepth)+" objects and arrays inside each other")
}

// Member goes to the next member of the object that was entered last, past the value of the
// one before if that was not read. It is false at the end of the object and after a fault.
func (c *Cursor) Member() bool {
	if !c.more('}') {
		return false
	}
	if c.Peek() != '"' {
		c.fail(events.CodeSyntax, "want a name in double quotes here")
		return false
	}
	c.key = c.quoted()
	if c.Peek() != ':' {
		c.fail(events.CodeSyntax, "want a colon after the name")
		return false
	}
	c.at++
	c.due = true
	return true
}

// Key is the name of the member. It holds until the next call of Member.
//
// It may alias the text; of a name with escapes it is memory of its own.
func (c *Cursor) Key() []byte { return c.key }

// Element goes to the next element of the array that was entered last, past the one before if
// that was not read. It is false at the end of the array and after a fault.
func (c *Cursor) Element() bool {
	c.due = c.more(']')
	return c.due
}

// more skips an unread value, then reads the comma before the next value, or the bracket that
// ends them.
func (c *Cursor) more(end byte) bool {
	if c.null {
		c.null = false
		return false
	}
	// The caller has gone to a value and not read it.
	if c.due && !c.value {
		c.Skip()
	}
	c.due = false
	switch b := c.Peek(); {
	case c.err != nil:
		return false
	case b == end:
		c.at++
		c.depth--
		c.value = true
		return false
	case b == 0:
		c.fail(events.CodeSyntax, "the text ends inside an object or an array")
		return false
	// The first value of all has no comma before it.
	case !c.value:
	case b == ',':
		c.at++
	default:
		c.fail(events.CodeSyntax, "want a comma or a closing bracket here")
		return false
	}
	c.value = false
	return true
}

// Skip reads over the value that follows.
func (c *Cursor) Skip() {
	b := c.Peek()
	if c.err != nil {
		return
	}
	switch b {
	case '"':
		c.skipString()
	case '{', '[':
		c.skipBrackets()
	case 't':
		c.word("true")
	case 'f':
		c.word("false")
	case 'n':
		c.word("null")
	case 0:
		c.fail(events.CodeSyntax, "the text ends where a value is wanted")
	default:
		c.skipNumber()
	}
	c.value = true
}

// Raw reads over the value that follows and returns its text.
//
// It aliases the text, with no capacity behind it. Brackets inside match and strings end;
// nothing else is known of it.
func (c *Cursor) Raw() []byte {
	c.Peek()
	start := c.at
	c.Skip()
	if c.err != nil {
		return nil
	}
	return c.text[start:c.at:c.at]
}

// Text reads a string and returns what it says. What is neither a string nor null
// is skipped and gives nil, as null does: a text that is missing, not a fault.
//
// It aliases the text unless the string has escapes.
func (c *Cursor) Text() []byte {
	if c.Peek() != '"' {
		c.Skip()
		return nil
	}
	s := c.quoted()
	c.value = true
	return s
}

// Scalar reads any value and returns what a string says, and the JSON text of
// anything else; nil for null.
//
// It is for ids that some programs write as numbers.
func (c *Cursor) Scalar() []byte {
	switch c.Peek() {
	case '"':
		return c.Text()
	case 'n':
		c.Skip()
		return nil
	}
	return c.Raw()
}

// Bool reads true or false. Anything else is skipped and is false.
func (c *Cursor) Bool() bool {
	b := c.Peek()
	c.Skip()
	return b == 't' && c.err == nil
}

// Int reads a whole number, also one that is written as a string, and never by way
// of a float. Anything else is skipped and not ok.
//
// A number with a fraction or an exponent is not whole, even if its value is.
func (c *Cursor) Int() (v int64, ok bool) {
	v, err := strconv.ParseInt(string(c.Scalar()), 10, 64)
	if err != nil || c.err != nil {
		return 0, false
	}
	return v, true
}

// Count reads a whole number from 1 to events.MaxNumber, such as a number of tokens,
// as Int does. Anything else is skipped and not ok.
//
// A figure of 0 counts as missing; adapters omit it anyway.
func (c *Cursor) Count() (v int64, ok bool) {
	v, ok = c.Int()
	if !ok || v <= 0 || v > events.MaxNumber {
		return 0, false
	}
	return v, true
}

// End checks that nothing follows the text.
//
// After a fault it leaves that fault as it is.
func (c *Cursor) End() {
	if b := c.Peek(); b != 0 || c.at < len(c.text) {
		c.fail(events.CodeTrailingData, fmt.Sprintf("want nothing after the end of the text, found %q", c.text[c.at]))
	}
}

func (c *Cursor) word(w string) {
	if !bytes.HasPrefix(c.text[c.at:], []byte(w)) {
		c.fail(events.CodeSyntax, "want "+w+" here")
		return
	}
	c.at += len(w)
}

// skipNumber accepts the characters of numbers in any order; a caller that needs the value parses it.
func (c *Cursor) skipNumber() {
	start := c.at
	for ; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; {
		case b-'0' <= 9, b == '-', b == '+', b == '.', b|0x20 == 'e':
			continue
		}
		break
	}
	if c.at == start {
		c.fail(events.CodeSyntax, "want a value here")
	}
}

// skipBrackets reads over an object or an array.
//
// Brackets of both kinds are counted alike, since what is skipped is not checked.
func (c *Cursor) skipBrackets() {
	depth := c.depth
	for ; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case '"':
			if c.skipString(); c.err != nil {
				return
			}
			// skipString leaves c.at behind the quote, and the loop goes on from there.
			c.at--
		case '{', '[':
			if depth++; depth > MaxDepth {
				c.tooDeep()
				return
			}
		case '}', ']':
			if depth--; depth == c.depth {
				c.at++
				return
			}
		}
	}
	c.fail(events.CodeSyntax, "the text ends inside an object or an array")
}

// skipString reads over the string that begins at c.at and reports whether it has escapes.
//
// An escape is a backslash and what follows it, whatever that is.
func (c *Cursor) skipString() (escaped bool) {
	// Most strings are names and short texts, for which a search costs more than a look.
	const short = 24
	i := c.at + 1
	for end := min(i+short, len(c.text)-7); i < end; i += 8 {
		x := binary.LittleEndian.Uint64(c.text[i:])
		stop := jsontext.ZeroBytes(x^jsontext.Ones*'"') | jsontext.ZeroBytes(x^jsontext.Ones*'\\')
		if stop == 0 {
			continue
		}
		if i += bits.TrailingZeros64(stop) >> 3; c.text[i] == '"' {
			c.at = i + 1
			return false
		}
		break
	}
	// begin is where the last quote that was none ended.
	for begin := i; ; {
		n := bytes.IndexByte(c.text[begin:], '"')
		if n < 0 {
			c.fail(events.CodeSyntax, "the string has no end")
			return false
		}
		end := begin + n
		// The quote is the end unless an odd number of backslashes stands before it.
		slashes := 0
		// Right before begin stands no backslash, so none is missed.
		for end-slashes > begin && c.text[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			escaped = escaped || bytes.IndexByte(c.text[begin:end], '\\') >= 0
			c.at = end + 1
			return escaped
		}
		escaped = true
		begin = end + 1
	}
}

// quoted reads the string that begins at c.at.
//
// It aliases the text unless there are escapes.
func (c *Cursor) quoted() []byte {
	start := c.at + 1
	escaped := c.skipString()
	if c.err != nil {
		return nil
	}
	raw := c.text[start : c.at-1 : c.at-1]
	if !escaped {
		return raw
	}
	if c.room == nil {
		return Unescape(raw)
	}
	said, _ := jsontext.AppendUnescaped(c.room.take(len(raw)), raw)
	return said
}

// Unescape returns what the inside of a JSON string says. Unknown escapes stand for
// themselves and halves of surrogate pairs for U+FFFD.
func Unescape(raw []byte) []byte {
	said, _ := jsontext.AppendUnescaped(make([]byte, 0, len(raw)), raw)
	return said
}
