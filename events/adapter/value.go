package adapter

import "weir/events/jsontext"

// value follows one JSON object or array from byte to byte, to find its end, or the
// first byte at which it is none. Numbers and words are not looked at closely.
//
// It goes on where it was left, so that a value that comes in pieces is read once.
type value struct {
	open   []byte // the brackets that are not closed yet
	want   want
	isKey  bool // the string that is read is a key
	reason string
}

// want is what may come next.
type want uint8

const (
	wantBracket   want = iota // the bracket that begins it all
	wantValue                 // after a colon, and after a comma in an array
	wantFirst                 // a value, or the end of an array
	wantKey                   // after a comma in an object
	wantFirstKey              // a key, or the end of an object
	wantColon                 // after a key
	wantSeparator             // after a value
	inString
	inEscape // behind a backslash
	inWord   // in a number, true, false or null
)

// state is how far a value was read.
type state uint8

const (
	unfinished state = iota
	finished
	broken
	tooDeep
)

// maxDepth is how many objects and arrays may lie inside each other.
const maxDepth = 256

// read goes on with p and returns how many bytes of it were read: all of them, or,
// when the value is finished, those up to its end.
func (v *value) read(p []byte) (n int, s state) {
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch v.want {
		case inString:
			// In code and in what programs print an escape stands at the end of every line.
			i = jsontext.StringEnd(p, i)
			for i+1 < len(p) && p[i] == '\\' {
				i = jsontext.StringEnd(p, i+2)
			}
			if i >= len(p) {
				return len(p), unfinished
			}
			c = p[i]
			switch {
			case c == '\\':
				v.want = inEscape
			case c < ' ':
				return i, v.broken("a string goes over the end of its line")
			case v.isKey:
				v.want = wantColon
			default:
				v.want = wantSeparator
			}
			continue
		case inEscape:
			// Any one character is an escape here; the reader of the string decides.
			v.want = inString
			continue
		case inWord:
			// A word ends at what cannot be of one, which is then looked at below.
			if c|0x20-'a' < 26 || c-'0' <= 9 || c == '.' || c == '-' || c == '+' {
				continue
			}
			v.want = wantSeparator
		}
		switch {
		case c == ' ' || c == '\n' || c == '\r' || c == '\t':
			if v.want == wantBracket {
				return i, v.broken("want an object or an array here")
			}
			for i+1 < len(p) && p[i+1] == ' ' { // of what is printed for people
				i++
			}
		case c == '{' || c == '[':
			if v.want > wantFirst {
				return i, v.broken("want no bracket here")
			}
			if len(v.open) == maxDepth {
				v.reason = "want at most 256 objects and arrays inside each other"
				return i, tooDeep
			}
			v.open = append(v.open, c)
			if v.want = wantFirst; c == '{' {
				v.want = wantFirstKey
			}
		case c == '}' || c == ']':
			isEnd := v.want == wantSeparator || v.want == wantFirst && c == ']' || v.want == wantFirstKey && c == '}'
			if !isEnd || v.open[len(v.open)-1] != c-2 {
				return i, v.broken("want no closing bracket here")
			}
			v.open = v.open[:len(v.open)-1]
			v.want = wantSeparator
			if len(v.open) == 0 {
				return i + 1, finished
			}
		case c == ',':
			if v.want != wantSeparator {
				return i, v.broken("want no comma here")
			}
			if v.want = wantValue; v.open[len(v.open)-1] == '{' {
				v.want = wantKey
			}
		case c == ':':
			if v.want != wantColon {
				return i, v.broken("want no colon here")
			}
			v.want = wantValue
		case c == '"':
			switch v.want {
			case wantKey, wantFirstKey:
				v.isKey = true
			case wantValue, wantFirst:
				v.isKey = false
			default:
				return i, v.broken("want no string here")
			}
			v.want = inString
		case v.want == wantValue || v.want == wantFirst:
			if c != '-' && c-'0' > 9 && c != 't' && c != 'f' && c != 'n' {
				return i, v.broken("want a value here")
			}
			v.want = inWord
		default:
			return i, v.broken("want JSON here")
		}
	}
	return len(p), unfinished
}

func (v *value) broken(reason string) state {
	v.reason = reason
	return broken
}

// ValueEnd is where the first JSON value of a record ends; where it is no whole value, the
// end of the record.
func ValueEnd(record []byte) int {
	var v value
	if n, state := v.read(record); state == finished {
		return n
	}
	return len(record)
}
