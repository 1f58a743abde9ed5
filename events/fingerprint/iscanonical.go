package fingerprint

import (
	"bytes"
	"unicode/utf8"

	"weir/events/jsontext"
)

// isCanonical reports whether p is an object or an array in canonical form. The check is quick:
// it may return false for a canonical text, but never true for another. It avoids the writing of
// a text that most producers already send in the right form.
//
// It must never be true for a text that AppendCanonical would write in another way, or equal
// arguments would have two hashes; a fuzz test compares them.
func isCanonical(p []byte) bool {
	if !composite(p) {
		return false
	}
	g := glance{p: p}
	return g.value() && g.at == len(p)
}

// glance reads one text once, and gives up at the first thing that is not plain.
type glance struct {
	p     []byte
	at    int
	depth int
}

// next returns the byte at at, or 0 at the end.
func (g *glance) next() byte {
	if g.at < len(g.p) {
		return g.p[g.at]
	}
	return 0
}

// value reads one value of any kind.
func (g *glance) value() bool {
	switch c := g.next(); {
	case c == '"':
		return g.text()
	case c == '{' || c == '[':
		return g.members(c)
	case c-'0' <= 9:
		return g.number()
	case c == 't':
		return g.word("true")
	case c == 'f':
		return g.word("false")
	case c == 'n':
		return g.word("null")
	}
	return false
}

func (g *glance) word(s string) bool {
	if !bytes.HasPrefix(g.p[g.at:], []byte(s)) {
		return false
	}
	g.at += len(s)
	return true
}

// number takes whole numbers of up to 15 digits, which every reader spells alike.
//
// A minus, a fraction or an exponent may be spelled in several ways.
func (g *glance) number() bool {
	start := g.at
	for g.next()-'0' <= 9 {
		g.at++
	}
	if c := g.next(); c == '.' || c|0x20 == 'e' {
		return false
	}
	n := g.at - start
	return n == 1 || n <= 15 && g.p[start] != '0'
}

// text takes UTF-8 with the short escapes of quotes, backslashes and control characters, which
// are those of the canonical form.
func (g *glance) text() bool {
	start := g.at + 1
	for i := start; ; {
		i = jsontext.StringEnd(g.p, i)
		if i+1 >= len(g.p) && (i >= len(g.p) || g.p[i] != '"') {
			return false
		}
		switch g.p[i] {
		case '"':
			g.at = i + 1
			return utf8.Valid(g.p[start:i])
		case '\\':
			switch g.p[i+1] {
			case '"', '\\', 'b', 'f', 'n', 'r', 't':
				i += 2
				continue
			}
		}
		return false
	}
}

// key takes printable ASCII without escapes: the order of such keys by bytes is that by UTF-16
// code units.
func (g *glance) key() (s []byte, ok bool) {
	start := g.at + 1
	for i := start; i < len(g.p); i++ {
		switch c := g.p[i]; {
		case c == '"':
			g.at = i + 1
			return g.p[start:i], true
		case c < ' ' || c == '\\' || c > '~':
			return nil, false
		}
	}
	return nil, false
}

// members reads an object or an array, from its opening bracket to its closing one. Keys must
// rise, which leaves out equal ones as well.
func (g *glance) members(open byte) bool {
	if g.depth++; g.depth > maxDepth {
		return false
	}
	g.at++
	// In ASCII ] is two after [, and } two after {.
	end := open + 2 // the closing bracket of both kinds
	if g.next() == end {
		g.at++
		g.depth--
		return true
	}
	for last := []byte(nil); ; {
		if open == '{' {
			if g.next() != '"' {
				return false
			}
			key, ok := g.key()
			if !ok || last != nil && bytes.Compare(last, key) >= 0 || g.next() != ':' {
				return false
			}
			g.at++
			last = key
		}
		if !g.value() {
			return false
		}
		switch g.next() {
		case ',':
			g.at++
		case end:
			g.at++
			g.depth--
			return true
		default:
			return false
		}
	}
}
