package jsonl

import "bytes"

// cutter finds the end of a record: the end of the line or, for documents, the end
// of the line at which all brackets are closed. It goes on where it stopped when
// more bytes have come.
//
// It only counts brackets and strings: whether a record is JSON is for its reader to say. So a
// broken document costs as little as possible of those behind it.
type cutter struct {
	documents bool

	// done is what makes it go on: no byte is looked at twice.
	done     int // bytes that were looked at
	depth    int
	inString bool
	escaped  bool
}

// reset prepares for the next record, which begins at the first remaining byte.
func (c *cutter) reset() { *c = cutter{documents: c.documents} }

// find returns the length of the first record in buf, its line's end included.
//
// It is false when more bytes are needed; buf then has to be the same and longer at the next
// call.
func (c *cutter) find(buf []byte) (int, bool) {
	for c.done < len(buf) {
		line := bytes.IndexByte(buf[c.done:], '\n')
		if !c.documents {
			// The end of a line ends the record whatever it holds.
			if line < 0 {
				c.done = len(buf)
				return 0, false
			}
			return c.done + line + 1, true
		}
		// A line that opens a value at its first column begins another document,
		// whatever the broken one before it has left open.
		if first := buf[c.done]; c.depth > 0 && (first == '{' || first == '[') && c.atLineStart(buf) {
			return c.done, true
		}
		end := len(buf)
		if line >= 0 {
			end = c.done + line + 1
		}
		c.scan(buf[c.done:end])
		c.done = end
		if line >= 0 {
			// Unlike brackets, a string that is left open is a broken one.
			c.inString, c.escaped = false, false // no string spans lines
			// Nothing is open any more, or never was: a line that is no JSON is a record, too.
			if c.depth <= 0 {
				return end, true
			}
		}
	}
	return 0, false
}

// atLineStart is false for the first byte, which begins the record itself.
func (c *cutter) atLineStart(buf []byte) bool { return c.done > 0 && buf[c.done-1] == '\n' }

// scan follows brackets and strings. depth may fall below 0 in what is no JSON.
func (c *cutter) scan(p []byte) {
	for _, b := range p {
		switch {
		case c.escaped:
			c.escaped = false
		case c.inString:
			c.escaped = b == '\\'
			if b == '"' {
				c.inString = false
			}
		case b == '"':
			c.inString = true
		case b == '{', b == '[':
			c.depth++
		case b == '}', b == ']':
			c.depth--
		}
	}
}
