package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"reflect"
	"slices"
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

// own begins each sequence that the program itself sends to terminals. It is random and never leaves
// the process, so no text of others can hold it: quoting removes it and lets the sequence pass.
var own = "\x1b" + rand.Text()

// sequences are what may stand after own.
var sequences = [...]string{wipe, "\x1b[0m", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m"}

// wipe goes back to the begin of the line and erases the line.
const wipe = "\r\x1b[K"

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
			out = append(append(out, text[start:i]...), text[i+len(own):i+n]...)
			i += n
			start = i
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

// end writes the remaining bytes of an incomplete character.
func (v *quoting) end() {
	for _, b := range v.rest {
		_, _ = fmt.Fprintf(v.out, `\u%04x`, b) // an error cannot be reported any more
	}
	v.rest = nil
}

// quoted is a text of others on one line. What was painted by Painted stays so.
//
// Most texts are plain, and come back as they are.
func quoted(s string) string {
	if !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
		return s
	}
	var out bytes.Buffer
	v := quoting{out: &out}
	for len(s) > 0 {
		n := strings.IndexAny(s, "\x1b\n\t")
		if n < 0 {
			n = len(s)
		}
		_, _ = v.Write([]byte(s[:n])) // a buffer takes all
		if s = s[n:]; s != "" {
			v.end()
			n := ownSequence([]byte(s))
			if n > 0 {
				out.WriteString(s[:n])
			} else {
				n = 1
				_, _ = fmt.Fprintf(&out, `\u%04x`, s[0])
			}
			s = s[n:]
		}
	}
	v.end()
	return out.String()
}

// Fprintf is fmt.Fprintf for what people read: each text among args is quoted and stays on its line.
// The format is the program's own and may have more lines. Commands print by it, by Table or by
// Value; a test in package house looks for other ways.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, quotedArgs(args)...)
}

// Sprintf returns what Fprintf writes.
func Sprintf(format string, args ...any) string { return fmt.Sprintf(format, quotedArgs(args)...) }

// quotedArgs returns args with each text quoted. Further lines of an error are indented.
func quotedArgs(args []any) []any {
	out := slices.Clone(args)
	for i, a := range out {
		switch a := a.(type) {
		case string:
			out[i] = quoted(a)
		case error:
			var lines []string // of errors that were joined
			for line := range strings.SplitSeq(a.Error(), "\n") {
				lines = append(lines, quoted(line))
			}
			out[i] = strings.Join(lines, "\n  ")
		default:
			if v := reflect.ValueOf(a); v.Kind() == reflect.String {
				out[i] = quoted(fmt.Sprint(a))
			}
		}
	}
	return out
}

// ownSequence returns the length of the sequence of our own that p begins with, with its mark; 0
// for none. Only whole ones count: a write of ours never cuts one in two.
func ownSequence(p []byte) int {
	rest, marked := bytes.CutPrefix(p, []byte(own))
	if !marked {
		return 0
	}
	for _, s := range sequences {
		if bytes.HasPrefix(rest, []byte(s)) {
			return len(own) + len(s)
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
