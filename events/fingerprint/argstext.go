package fingerprint

import (
	"bytes"
	"regexp"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// ArgsText returns a fingerprint of the arguments of a call, which are JSON. It distinguishes the
// same call in other words from the next call of a series.
//
// It is Text of the words. Arguments with another literal are no nearer to it than chance. A
// literal is a word with a digit in it, or a quoted part of a string. A page, an offset, a cursor
// or the name of a table in a query asks for something else, even in a long command.
// Of a short shell command only the operation and its operands count. Flags, redirections to nowhere,
// and pages such as "| head -20" are omitted.
// A text without words and literals gives the zero Fingerprint: not known.
func ArgsText(text []byte) events.Fingerprint {
	if command, ok := shortCommand(text); ok {
		text = command
	}
	words := make([]byte, 0, len(text))
	var literals xxhash.Digest
	literals.Reset()
	found := false
	literal := func(p []byte) {
		_, _ = literals.Write(p)
		_, _ = literals.Write([]byte{' '})
		found = true
	}
	for i := 0; i < len(text); {
		begin, digit := i, false
		for i < len(text) && isWord(text[i]) && text[i] != '_' {
			digit = digit || text[i]-'0' <= 9
			i++
		}
		if digit {
			literal(text[begin:i])
		} else {
			words = append(words, text[begin:i]...)
		}
		if i == len(text) {
			break
		}
		// A quote behind a letter is an apostrophe.
		if n := quoted(text[i:]); n > 0 && begin == i {
			literal(text[i : i+n])
			i += n
			continue
		}
		words = append(words, text[i])
		i++
	}
	f := Text(words)
	if found {
		f.Algorithm = events.Simhash64
		f.Value ^= literals.Sum64()
	}
	return f
}

// quoted returns how long the text in quotes is that p begins with, quotes included: single ones,
// or double ones as they stand inside a string of JSON. 0 means that there is none.
func quoted(p []byte) int {
	for _, quote := range []string{`'`, `\"`} {
		if bytes.HasPrefix(p, []byte(quote)) {
			if n := bytes.Index(p[len(quote):], []byte(quote)); n >= 0 {
				return n + 2*len(quote)
			}
		}
	}
	return 0
}

// maxCommand is the most bytes of a shell command that is compared without its flags. What a
// longer one does is in its text.
const maxCommand = 256

var (
	commandMember = regexp.MustCompile(`"(?:command|cmd)"\s*:\s*"((?:[^"\\]|\\.)*)"`)
	commandForm   = regexp.MustCompile(`\s*[12&]?>+\s*(?:&[12]|/dev/null)|\s*\|\s*(?:head|tail|cat|less|more)\b[^|;&]*|(\s)--?[A-Za-z][A-Za-z-]*\b`)
)

// shortCommand returns the shell command in the arguments of a call, without its flags, what it
// redirects to nowhere, and how much of its output it shows; false where there is none, or a
// long one.
func shortCommand(args []byte) (command []byte, ok bool) {
	if len(args) > 2*maxCommand {
		return nil, false
	}
	m := commandMember.FindSubmatch(args)
	if m == nil || len(m[1]) > maxCommand || bytes.Contains(m[1], []byte(`\n`)) {
		return nil, false
	}
	return commandForm.ReplaceAll(m[1], []byte("$1")), true
}
