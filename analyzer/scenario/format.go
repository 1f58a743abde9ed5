package scenario

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"weir/events"
)

// Format writes the cases as Parse reads them, in canonical form: single spaces,
// quotes only where they are needed, one empty line between cases. What it writes
// it reads and writes again unchanged.
func Format(cases []Case) []byte {
	var b bytes.Buffer
	for i := range cases {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(cases[i].String())
	}
	return b.Bytes()
}

// format writes the case. Settings and events keep their order and lines; only the spaces
// between items are made one.
func (c *Case) format(b *strings.Builder) {
	for _, n := range c.Notes {
		writeComment(b, n)
	}
	for _, s := range c.settings {
		b.WriteString(strings.TrimRight(s.word+" "+s.value, " "))
		b.WriteByte('\n')
	}
	for _, line := range c.lines {
		if len(line) == 1 && line[0].kind == itemComment {
			writeComment(b, line[0].comment)
			continue
		}
		for i := range line {
			if i > 0 {
				b.WriteByte(' ')
			}
			line[i].format(b)
		}
		b.WriteByte('\n')
	}
	b.WriteString(rule + "\n")
	// Parse has brought them into their form already.
	for _, w := range c.Want {
		b.WriteString(w)
		b.WriteByte('\n')
	}
}

// writeComment writes an empty comment without a space at its end.
func writeComment(b *strings.Builder, s string) {
	b.WriteString(strings.TrimRight("# "+s, " "))
	b.WriteByte('\n')
}

// format writes an item. Brackets of an event stand at it; brackets that stand alone are an item
// of their own.
func (it *item) format(b *strings.Builder) {
	switch it.kind {
	case itemOpen:
		b.WriteByte('(')
	case itemClose:
		fmt.Fprintf(b, ")*%d", it.times)
	case itemWait:
		b.WriteString("+" + events.DurationText(it.wait))
	case itemFields:
		writeFields(b, it.fields)
	case itemEvent:
		it.act.format(b)
		if len(it.fields) > 0 {
			writeFields(b, it.fields)
		}
	}
}

// format writes an event. It is the other direction of scanner.action, case by case.
func (a *action) format(b *strings.Builder) {
	if a.ask {
		b.WriteByte('?')
	}
	a.from.format(b)
	switch a.verb {
	case verbUser:
		b.WriteByte('@')
		a.to.format(b)
	case verbCall:
		b.WriteString("->")
		a.to.format(b)
	case verbReturn:
		b.WriteString("=>")
		a.to.format(b)
		if a.ended == '?' {
			b.WriteByte('?')
			a.text.format(b)
			return
		}
	case verbTool:
		b.WriteByte('!')
		a.to.format(b)
	case verbResult:
		b.WriteByte('<')
		a.to.format(b)
	case verbOutput:
		b.WriteByte('~')
	case verbModel:
		b.WriteByte('$')
	case verbStatus:
		b.WriteByte('^')
		if a.word != "" {
			b.WriteString(bareOrQuoted(a.word, nameByte))
		}
		if !a.to.isZero() {
			b.WriteString("->")
			a.to.format(b)
		}
	case verbNote:
		for _, tag := range a.tags {
			b.WriteString("#" + bareOrQuoted(tag, nameByte))
		}
		if !a.to.isZero() {
			b.WriteString("->")
			a.to.format(b)
		}
	case verbWord:
		b.WriteString(a.word)
	}
	if a.text.given {
		b.WriteByte(':')
		a.text.format(b)
	}
	if a.ended != 0 {
		b.WriteByte(a.ended)
		a.result.format(b)
	}
}

// format writes a party, or nothing for one that is left out.
func (n name) format(b *strings.Builder) {
	if n.isZero() {
		return
	}
	b.WriteString(bareOrQuoted(n.session, nameByte))
	if n.agent != "" {
		b.WriteByte('@')
		b.WriteString(bareOrQuoted(n.agent, nameByte))
	}
}

// format writes a text with its fingerprint; nothing for one that was not given, which is not an
// empty one.
func (t text) format(b *strings.Builder) {
	if !t.given {
		return
	}
	b.WriteString(bareOrQuoted(t.s, func(s string, i int) bool { return textByte(s[i]) }))
	if t.near != "" {
		b.WriteByte('~')
		b.WriteString(bareOrQuoted(t.near, nameByte))
		if t.bits > 0 {
			fmt.Fprintf(b, "^%d", t.bits)
		}
	}
}

// bareOrQuoted quotes what the scanner would read otherwise: every byte has to be one that may
// stand bare.
func bareOrQuoted(s string, bare func(s string, i int) bool) string {
	// By bytes, because whether a dash may stand bare depends on the byte behind it.
	for i := range len(s) {
		if !bare(s, i) {
			return strconv.Quote(s)
		}
	}
	if s == "" || strings.HasSuffix(s, "-") { // a dash at the end could be read as half an arrow
		return strconv.Quote(s)
	}
	return s
}

// writeFields writes brackets; a value is quoted where its end would be unclear.
func writeFields(b *strings.Builder, fields []field) {
	b.WriteByte('[')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.key)
		if !f.has {
			continue
		}
		b.WriteByte('=')
		if strings.ContainsAny(f.value, " \t]\"") || strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
			b.WriteString(strconv.Quote(f.value))
		} else {
			b.WriteString(f.value)
		}
	}
	b.WriteByte(']')
}
