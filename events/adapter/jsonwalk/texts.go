package jsonwalk

import (
	"bytes"
	"strconv"

	"weir/events"
)

// TextOf reads the object that follows and returns what the string says that is its
// member of this name, the last one if there are several. It is nil where the object
// has none, and where the value is no object.
//
// It is for wrappers of which one member matters, such as {"text": "..."}.
func (c *Cursor) TextOf(name string) (text []byte) {
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == name {
			text = c.Text()
		}
	}
	return text
}

// Texts reads a list of blocks and joins their texts, each on lines of its own. Messages and
// results of tools are lists of blocks in many protocols. A block is an object with a string
// named text. A block without it, such as an image, counts as its JSON. A value that is not a
// list is skipped and gives nil.
//
// Blocks without a text still differ in the joined text, so that two images are not the same
// answer.
func (c *Cursor) Texts() []byte {
	var all []byte
	for c.MaybeArray(); c.Element(); {
		block := c.Raw()
		if len(all) > 0 {
			all = append(all, '\n')
		}
		all = append(all, textOfBlock(block)...)
	}
	return all
}

// textOfBlock returns the block itself when it has no text, or is no object.
func textOfBlock(block []byte) []byte {
	text := block
	c := New(block)
	for c.MaybeObject(); c.Member(); {
		if string(c.Key()) == "text" && c.Peek() == '"' {
			text = c.Text()
		}
	}
	return text
}

// Stamp reads a time. Anything else is skipped and not ok.
//
// A time is RFC 3339, also with a space for the T. Without a zone it is treated as UTC. It may
// also be a number of seconds, milliseconds, microseconds or nanoseconds since 1970, also as a
// string. The size of the number decides the unit.
//
// Loggers write times in any of these ways. A time of 0 or before 1973 is a missing one.
func (c *Cursor) Stamp() (at events.Stamp, ok bool) {
	switch c.Peek() {
	case '{', '[', 't', 'f', 'n':
		c.Skip()
		return 0, false
	}
	return Stamp(c.Scalar())
}

// Stamp reads a time as Cursor.Stamp does.
func Stamp(p []byte) (at events.Stamp, ok bool) {
	if at, ok = rfc3339(string(p)); ok {
		return at, true
	}
	// A date and a time need a separator at the eleventh byte; what looks so and is no time is
	// not tried as a number.
	const date, seconds = len("2006-01-02"), len("2006-01-02T15:04:05")
	if len(p) >= seconds && p[4] == '-' && (p[date] == ' ' || p[date] == 'T') {
		text := string(p[:date]) + "T" + string(p[date+1:])
		if at, ok = rfc3339(text); !ok {
			at, ok = rfc3339(text + "Z")
		}
		return at, ok
	}
	// Of the years from 1973 to 5138 no two units can be mistaken for each other.
	// A fraction counts to the millisecond, and only of seconds.
	whole, fraction, _ := bytes.Cut(p, []byte("."))
	v, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || v < 1e8 {
		return 0, false
	}
	switch {
	case v < 1e11:
		v *= 1000
		for i, weight := 0, int64(100); i < min(3, len(fraction)) && fraction[i]-'0' <= 9; i, weight = i+1, weight/10 {
			v += int64(fraction[i]-'0') * weight
		}
	case v < 1e14:
	case v < 1e17:
		v /= 1e3
	default:
		v /= 1e6
	}
	return events.Stamp(v), true
}

// rfc3339 leaves out what is not a time that weir takes.
func rfc3339(text string) (at events.Stamp, ok bool) {
	if at, ok = events.ParseStamp(text); !ok || at <= 0 {
		return 0, false
	}
	return at, true
}
