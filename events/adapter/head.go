package adapter

import (
	"bytes"
	"iter"
	"slices"

	"weir/events/adapter/jsonwalk"
)

// Top is the outermost level of one record: its member names, each with the text
// of a string, the JSON text of another scalar, or an opening bracket for what is
// inside one.
type Top map[string]string

// Has reports whether the record has all of the members.
func (t Top) Has(names ...string) bool {
	for _, name := range names {
		if _, ok := t[name]; !ok {
			return false
		}
	}
	return true
}

// Bounds of what is looked at, whatever an input begins with.
const (
	maxProbed  = 16  // records looked at
	maxMembers = 128 // members looked at in one
)

// Head is the beginning of an input, which identifies its format. The first format that asks
// reads what many formats look at; it is read once. It is for one goroutine.
type Head struct {
	Bytes []byte
	tops  []Top
	read  bool
}

// Tops is Tops of the bytes.
func (h *Head) Tops() iter.Seq[Top] {
	if !h.read {
		h.tops, h.read = slices.Collect(Tops(h.Bytes)), true
	}
	return slices.Values(h.tops)
}

// Any reports whether one of Tops fits. Scores that look further into records ask it first, for
// what they look for is in hardly any log.
func (h *Head) Any(fits func(Top) bool) bool {
	for top := range h.Tops() {
		if fits(top) {
			return true
		}
	}
	return false
}

// CertainWith returns the score of a format that is certain where a record has all of the members.
func CertainWith(names ...string) func(*Head) Match {
	return func(h *Head) Match {
		if h.Any(func(t Top) bool { return t.Has(names...) }) {
			return Certain
		}
		return NoMatch
	}
}

// Tops reads the outermost level of the first records of an input, of which head is
// the beginning: lines, the elements of an array, or one document that may be cut
// off. It ends at what is no JSON object.
func Tops(head []byte) iter.Seq[Top] {
	return func(yield func(Top) bool) {
		for c := range Heads(head) {
			top := Top{}
			for c.Object(); len(top) < maxMembers && c.Member(); {
				name := string(c.Key())
				switch b := c.Peek(); b {
				case '{', '[':
					top[name] = string(b)
					c.Skip()
				default:
					top[name] = string(c.Scalar())
				}
			}
			if !yield(top) {
				return
			}
		}
	}
}

// Heads goes to the first records of an input, of which head is the beginning, and
// gives a cursor that stands before the object. It goes on where that was read to,
// and ends at a fault and at what is no JSON object.
func Heads(head []byte) iter.Seq[*jsonwalk.Cursor] {
	return func(yield func(*jsonwalk.Cursor) bool) {
		// A byte order mark is no part of the first record.
		rest := bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
		for range maxProbed {
			// What may stand before a record: white space, the bracket of an array around all,
			// and the comma between two.
			rest = bytes.TrimLeft(rest, " \t\r\n[,")
			c := jsonwalk.New(rest)
			if c.Peek() != '{' || !yield(c) || c.Err() != nil {
				return
			}
			rest = rest[c.Offset():]
		}
	}
}
