package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// quoting is where all that a program prints goes through. What agents have written comes
// back in notes, ids and names, and must not move the cursor, retitle the window or turn
// text around: control characters, invalid UTF-8 and what changes the direction of text are
// written as \u escapes, which in JSON mean the same. Colours of our own pass.
type quoting struct {
	out  io.Writer
	rest []byte // the beginning of a character that was not written to its end
}

// ownSequences are what the program itself sends to terminals.
var ownSequences = [][]byte{[]byte("\r\x1b[K"), []byte("\x1b[0m"), []byte("\x1b[32m"), []byte("\x1b[33m"), []byte("\x1b[31m"), []byte("\x1b[2m")}

// Write writes p with what is not fit for a terminal quoted.
//
// A character that is cut at the end of p waits for the next call, so a write may pass on
// less than it was given; it reports all of p, as writers have to. It is for one goroutine at
// a time.
func (v *quoting) Write(p []byte) (int, error) {
	text := p
	if len(v.rest) > 0 {
		text = append(v.rest, p...)
		v.rest = nil
	}
	var out []byte // nil as long as nothing had to be quoted
	start := 0
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f || c == '\n' || c == '\t' {
			i++
			continue
		}
		if n := ownSequence(text[i:]); n > 0 {
			i += n
			continue
		}
		if !utf8.FullRune(text[i:]) {
			v.rest = bytes.Clone(text[i:])
			text = text[:i]
			break
		}
		r, size := utf8.DecodeRune(text[i:])
		// Below 0xa0 are the control characters C1, of which a terminal takes 0x9b for an
		// escape.
		if r >= 0xa0 && !turnsText(r) && !(r == utf8.RuneError && size == 1) {
			i += size
			continue
		}
		if r == utf8.RuneError && size == 1 {
			r = rune(text[i])
		}
		out = fmt.Appendf(append(out, text[start:i]...), `\u%04x`, r)
		i += size
		start = i
	}
	if out != nil {
		text = append(out, text[start:]...)
	}
	if _, err := v.out.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes what is left of a character that never came to its end.
func (v *quoting) end() {
	for _, b := range v.rest {
		_, _ = fmt.Fprintf(v.out, `\u%04x`, b) // nobody is left to be told
	}
	v.rest = nil
}

// quoted is a text of others, in which not even colours are our own, on one line.
//
// Cells of tables go through it before they are painted. Most texts are plain, and come
// back as they are.
func quoted(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f {
			var out bytes.Buffer
			v := quoting{out: &out}
			for len(s) > 0 {
				n := strings.IndexAny(s, "\x1b\r\n\t")
				if n < 0 {
					n = len(s)
				}
				_, _ = v.Write([]byte(s[:n])) // a buffer takes all
				if s = s[n:]; s != "" {
					v.end()
					_, _ = fmt.Fprintf(&out, `\u%04x`, s[0])
					s = s[1:]
				}
			}
			v.end()
			return out.String()
		}
	}
	return s
}

// ownSequence returns how long the sequence of our own is with which p begins, 0 for none.
// Only whole ones count: a write of ours never cuts one in two.
func ownSequence(p []byte) int {
	for _, s := range ownSequences {
		if bytes.HasPrefix(p, s) {
			return len(s)
		}
	}
	return 0
}

// turnsText is true for the characters that change the direction of text, separate lines
// or are not seen at all.
func turnsText(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200b, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}
