package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/analyzer/spelling"
)

// rule stands between what happened and what has to be said of it.
const rule = "----"

// Parse reads the cases of a file. Its errors name the file and the line, and what was expected.
// All faulty lines are reported at once. The cases are returned with the errors, those without a
// fault whole.
func Parse(file string, data []byte) ([]Case, error) {
	// Line by line, because each fault is reported with its line and the next line is read all
	// the same.
	p := parser{file: file}
	for i, line := range strings.Split(string(data), "\n") {
		p.line = i + 1
		p.next(strings.TrimRight(line, " \t\r"))
	}
	p.finish()
	return p.cases, errors.Join(p.errs...)
}

// parser reads a file line by line.
type parser struct {
	file string
	// line counts from 1, as editors do.
	line    int
	cases   []Case
	errs    []error
	c       *Case // being read; nil between cases
	wanting bool  // below the rule
}

// fail notes a fault. After 20 of them no more are reported, because the first ones mostly cause
// the rest.
func (p *parser) fail(line int, format string, args ...any) {
	const most = 20
	if len(p.errs) < most {
		p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", p.file, line, fmt.Errorf(format, args...)))
	}
}

// next reads one line. An empty line ends a case below its rule; between the events of one it
// is passed over. A comment below the rule is the title of the next case.
func (p *parser) next(line string) {
	// A sign with something right behind it is no comment: a#tag is an event, and so would be
	// #tag.
	comment := line == "#" || strings.HasPrefix(line, "# ")
	if p.wanting && (line == "" || comment) {
		p.finish()
	}
	// Comments that stand alone belong to no case: they are about the file.
	if line == "" && (p.c == nil || len(p.c.settings)+len(p.c.lines) == 0) {
		p.flush()
		return
	}
	if p.c == nil {
		p.c = &Case{File: p.file, Line: p.line}
	}
	switch c := p.c; {
	case p.wanting:
		if line == rule {
			p.fail(p.line, "a second %s in one case: put an empty line between cases", rule)
		}
		c.Want = append(c.Want, wantLine(line))
	case line == "":
	case comment && len(c.lines) == 0 && len(c.settings) == 0:
		c.Notes = append(c.Notes, strings.TrimSpace(line[1:]))
	case comment:
		// It is kept, so that Format writes it where it stood.
		c.lines = append(c.lines, []item{{kind: itemComment, comment: strings.TrimSpace(line[1:]), line: p.line}})
	case line == rule:
		p.wanting = true
	default:
		p.content(line)
	}
}

// content reads a line of settings or of events.
func (p *parser) content(line string) {
	word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
	// Settings may stand between events, and hold for the case as a whole.
	if isSetting(word) {
		p.c.settings = append(p.c.settings, setting{word, strings.TrimSpace(value), p.line})
		return
	}
	s := scanner{s: line, line: p.line}
	items, err := s.items()
	if err != nil {
		// A line that looks like a setting is more likely one that is misspelled.
		if near := spelling.Nearest(word, settingWords[:]); near != "" && value != "" && !strings.ContainsAny(word, "@>!<=$:([+") {
			err = fmt.Errorf("%q is no setting; did you mean %q", word, near)
		}
		p.fail(p.line, "%w", err)
	}
	p.c.lines = append(p.c.lines, items)
}

// wantLine brings a line of the outcome into its canonical form. What is indented names a
// field of the verdict above, by two spaces whatever the file has.
func wantLine(line string) string {
	trimmed := strings.TrimSpace(line)
	// Only what is indented at its beginning; blanks at the end of a line say nothing.
	if trimmed != line && strings.TrimLeft(line, " \t") != line {
		return "  " + trimmed
	}
	return trimmed
}

// flush forgets comments that no case follows.
func (p *parser) flush() { p.c = nil }

// finish closes the case that is being read. A case with a fault in its settings is not
// expanded: the faults that this would bring about are not its own.
func (p *parser) finish() {
	c := p.c
	wanting := p.wanting
	p.c, p.wanting = nil, false
	if c == nil || len(c.settings)+len(c.lines) == 0 && !wanting {
		return
	}
	// A case without an outcome would pass whatever weir said.
	if !wanting {
		p.fail(c.Line, "the case %q has no outcome: end its events with a line %s, and below it what is to be said", c.Title(), rule)
	}
	// Faults of its settings, and not those of earlier cases.
	failed := len(p.errs)
	x := expansion{step: time.Second}
	p.settle(c, &x)
	if len(p.errs) == failed {
		x.expand(c, p)
	}
	p.cases = append(p.cases, *c)
}

// Each takes the rest of its line as its value.
var settingWords = [...]string{"profile", "limits", "rule", "step"}

// isSetting reports whether the first word of a line makes it one of settings.
func isSetting(word string) bool {
	for _, w := range settingWords {
		if w == word {
			return true
		}
	}
	return false
}

// scanner reads one line of events. It goes through the line once, from left to right, and
// never back.
type scanner struct {
	s    string
	i    int
	line int
}

// rest is what was not read yet.
func (s *scanner) rest() string { return s.s[s.i:] }

// has reports whether the prefix comes next, and take passes over it if it does.
func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.rest(), prefix) }

func (s *scanner) take(prefix string) bool {
	if s.has(prefix) {
		s.i += len(prefix)
		return true
	}
	return false
}

// spaces passes over blanks.
func (s *scanner) spaces() {
	for s.i < len(s.s) && (s.s[s.i] == ' ' || s.s[s.i] == '\t') {
		s.i++
	}
}

// here quotes what is at hand, for errors.
func (s *scanner) here() string {
	word, _, _ := strings.Cut(s.rest(), " ")
	if len(word) > 40 {
		word = word[:40] + "…"
	}
	return strconv.Quote(word)
}

// items reads the line to its end, or to the first fault in it.
func (s *scanner) items() (out []item, err error) {
	for {
		s.spaces()
		if s.i == len(s.s) {
			return out, nil
		}
		it, err := s.item()
		if err != nil {
			return out, err
		}
		it.line = s.line
		out = append(out, it)
	}
}

// item reads one item with the brackets that stand at it.
func (s *scanner) item() (it item, err error) {
	switch {
	case s.take("("):
		return item{kind: itemOpen}, nil
	case s.take(")"):
		// Once is written without parentheses, so how often is always said.
		if !s.take("*") {
			return it, fmt.Errorf("a closing parenthesis says how often: )*20")
		}
		it.kind = itemClose
		it.times, err = s.number()
		return it, err
	case s.take("+"):
		it.kind = itemWait
		it.wait, err = duration(s.until(" \t()"))
		return it, err
	// Brackets that stand alone; those of an event are read with it below.
	case s.has("["):
		it.kind = itemFields
		it.fields, err = s.fields()
		return it, err
	}
	// The beginning of the item, for messages: by the time of the fault it has been read.
	at := s.here()
	if it.act, err = s.action(); err != nil {
		return it, err
	}
	if s.has("[") {
		if it.fields, err = s.fields(); err != nil {
			return it, err
		}
	}
	if s.i < len(s.s) && !strings.ContainsRune(" \t()", rune(s.s[s.i])) {
		return it, fmt.Errorf("%s: %s is left over; quote texts that hold more than letters and digits", at, s.here())
	}
	return it, nil
}

// action reads one event. A name alone is a word such as start.
func (s *scanner) action() (a action, err error) {
	at := s.here()
	// The sign comes before the name, so that it cannot be read as the result of something.
	a.ask = s.take("?")
	if s.take("@") {
		a.verb = verbUser
		if a.to, err = s.name("whom the user calls"); err != nil {
			return a, err
		}
		a.text, err = s.colon()
		return a, err
	}
	// A quoted name is never a word.
	bare := !s.has(`"`)
	if s.i < len(s.s) && (nameByte(s.s, s.i) || !bare) {
		if a.from, err = s.name("a party"); err != nil {
			return a, err
		}
	}
	switch {
	case s.take("->"):
		a.verb = verbCall
		if a.to, err = s.name("whom it calls"); err == nil {
			a.text, err = s.colon()
		}
	case s.take("=>"):
		a.verb = verbReturn
		err = s.answer(&a)
	case s.take("!"):
		a.verb = verbTool
		err = s.tool(&a)
	case s.take("<"):
		a.verb = verbResult
		if err = s.tool(&a); err == nil && a.ended == 0 {
			err = fmt.Errorf("%s: a result says what came: a<tool:args=text, or ?text for an error", at)
		}
	case s.take("^"):
		a.verb = verbStatus
		err = s.status(&a, at)
	case s.take("#"):
		a.verb = verbNote
		err = s.note(&a, at)
	case s.take("~"):
		a.verb = verbOutput
	case s.take("$"):
		a.verb = verbModel
	case bare && a.from.agent == "" && a.from.session != "":
		// What was read as a party was the word.
		a.verb, a.word, a.from = verbWord, a.from.session, name{}
		if err = checkWord(a.word, at); err == nil {
			a.text, err = s.colon()
		}
		if err == nil {
			err = a.checkArgument()
		}
	default:
		err = fmt.Errorf("%s is no event; events are @a a->b a=>b a!tool:args=result a<tool=result a~ a$ a^active a#tag:text +5m ( ... )*3 and words like loop:task", at)
	}
	// An ask is answered before anything comes of the call, so its result cannot stand in the
	// same item.
	if err == nil && a.ask && (a.verb != verbCall && a.verb != verbTool && a.word != "loop" && a.word != "reflect" || a.ended != 0) {
		err = fmt.Errorf("%s: only calls can be asked for: ?a->b or ?a!tool:args, the result apart as a<tool:args=text", at)
	}
	return a, err
}

// answer reads which party gets an answer, and what it says.
func (s *scanner) answer(a *action) (err error) {
	if s.i < len(s.s) && (nameByte(s.s, s.i) || s.has(`"`)) {
		if a.to, err = s.name("whom it answers"); err != nil {
			return err
		}
	}
	if s.take("?") {
		a.ended = '?'
		a.text, err = s.text()
	} else {
		a.text, err = s.colon()
	}
	return err
}

// status reads the status that an agent reports, which may be empty, and the agent that it took
// over from.
func (s *scanner) status(a *action, at string) (err error) {
	if a.from.isZero() {
		return fmt.Errorf("%s: say who reports, as in a^active", at)
	}
	if s.i < len(s.s) && (nameByte(s.s, s.i) || s.has(`"`)) {
		var word name
		word, err = s.plain("its status")
		a.word = word.session
	}
	if err == nil && s.take("->") {
		a.to, err = s.name("from whom it took over")
	}
	return err
}

// note reads the tags of a note, the agent that it is about, and its text.
func (s *scanner) note(a *action, at string) (err error) {
	if a.from.isZero() {
		return fmt.Errorf("%s: say whose note it is, as in a#stuck#help", at)
	}
	for more := true; more; more = s.take("#") {
		tag, err := s.plain("a tag")
		if err != nil {
			return err
		}
		a.tags = append(a.tags, tag.session)
	}
	if s.take("->") {
		if a.to, err = s.name("whom it is about"); err != nil {
			return err
		}
	}
	a.text, err = s.colon()
	return err
}

// tool reads name, arguments and the result of the call.
func (s *scanner) tool(a *action) (err error) {
	if a.to, err = s.plain("the tool"); err != nil {
		return err
	}
	if a.text, err = s.colon(); err != nil {
		return err
	}
	switch {
	// An empty result is a result whose content is not known.
	case s.take("="):
		a.ended = '='
	case s.take("?"):
		a.ended = '?'
	default:
		return nil
	}
	a.result, err = s.text()
	return err
}

// name reads a party: a session, and perhaps its agent after an at sign.
func (s *scanner) name(what string) (n name, err error) {
	// Where there is no at sign the one name is the session; see Identity for what that makes of
	// it.
	if n, err = s.plain(what); err == nil && s.take("@") {
		var agent name
		agent, err = s.plain("the agent of the session")
		n.agent = agent.session
	}
	return n, err
}

// plain reads one name, quoted or bare, into the session; what names its role, for the message.
func (s *scanner) plain(what string) (n name, err error) {
	if s.has(`"`) {
		n.session, err = s.quoted()
		if err == nil && n.session == "" {
			err = fmt.Errorf("an empty name cannot be %s", what)
		}
		return n, err
	}
	start := s.i
	for s.i < len(s.s) && nameByte(s.s, s.i) {
		s.i++
	}
	if s.i == start {
		return n, fmt.Errorf("%s where the name of %s should be", s.orEnd(), what)
	}
	return name{session: s.s[start:s.i]}, nil
}

// orEnd says what stands where something else should.
func (s *scanner) orEnd() string {
	if s.i == len(s.s) {
		return "the line ends"
	}
	return s.here() + " stands"
}

// nameByte reports whether s[i] may stand in a name that is not quoted: letters,
// digits, _ . / { } and a dash that is not part of an arrow.
func nameByte(s string, i int) bool {
	switch c := s[i]; {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '/', c == '{', c == '}':
		return true
	case c == '-':
		return i+1 == len(s) || s[i+1] != '>'
	}
	return false
}

// colon reads a text after a colon, if there is one.
func (s *scanner) colon() (t text, err error) {
	if !s.take(":") {
		return t, nil
	}
	t, err = s.text()
	if err == nil && !t.given {
		err = fmt.Errorf(`%s where a text should be; write "" for an empty one`, s.orEnd())
	}
	return t, err
}

// text reads a text, quoted or not, and its fingerprint; the zero text when there
// is none.
func (s *scanner) text() (t text, err error) {
	if s.has(`"`) {
		t.given = true
		if t.s, err = s.quoted(); err != nil {
			return t, err
		}
	} else {
		start := s.i
		for s.i < len(s.s) && textByte(s.s[s.i]) {
			s.i++
		}
		t.s = s.s[start:s.i]
		// Only a quoted text can be empty and be there.
		t.given = t.s != ""
	}
	if !t.given || !s.take("~") {
		return t, nil
	}
	n, err := s.plain("the texts that are nearly the same")
	if err != nil {
		return t, err
	}
	t.near = n.session
	if s.take("^") {
		if t.bits, err = s.number(); err == nil && t.bits > 64 {
			err = fmt.Errorf("a fingerprint has 64 bits; %d cannot differ", t.bits)
		}
	}
	return t, err
}

// textByte reports whether a text that is not quoted may hold c. Signs that end a text, or
// begin what may follow it, have to be quoted.
func textByte(c byte) bool {
	return c > ' ' && c < 0x7f && !strings.ContainsRune(`[]()"=?~^`, rune(c))
}

// quoted reads a quotation, which is one of Go's, so whatever a case holds can be written.
func (s *scanner) quoted() (string, error) {
	prefix, err := strconv.QuotedPrefix(s.rest())
	if err != nil {
		return "", fmt.Errorf("%s: the quotation does not end, or holds what Go would not quote so", s.here())
	}
	s.i += len(prefix)
	return strconv.Unquote(prefix)
}

// A number is never above maxDeliveries, since all of them count events or bits.
func (s *scanner) number() (int, error) {
	start := s.i
	for s.i < len(s.s) && s.s[s.i] >= '0' && s.s[s.i] <= '9' {
		s.i++
	}
	n, err := strconv.Atoi(s.s[start:s.i])
	if err != nil || n > maxDeliveries {
		return 0, fmt.Errorf("%q: want a number up to %d", s.s[start:s.i], maxDeliveries)
	}
	return n, nil
}

// until reads up to one of the bytes, or to the end of the line.
func (s *scanner) until(stop string) string {
	// The byte itself is left to be read.
	n := strings.IndexAny(s.rest(), stop)
	if n < 0 {
		n = len(s.rest())
	}
	out := s.s[s.i : s.i+n]
	s.i += n
	return out
}

// fields reads brackets; each field is checked as it is read.
func (s *scanner) fields() (out []field, err error) {
	s.take("[")
	for {
		s.spaces()
		if s.take("]") {
			return out, nil
		}
		if s.i == len(s.s) {
			return out, fmt.Errorf("the brackets do not close: [key=value key=value]")
		}
		// A key without a sign behind it is there without a value, as retry is.
		f := field{key: s.until(" \t]=")}
		if s.take("=") {
			f.has = true
			if s.has(`"`) {
				f.value, err = s.quoted()
			} else {
				f.value = s.until(" \t]")
			}
		}
		if err == nil {
			err = checkField(f)
		}
		if err != nil {
			return out, err
		}
		out = append(out, f)
	}
}

// duration reads a length of time up to a year. Finer than milliseconds is refused, which is
// what event time has.
func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 366*24*time.Hour || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%q: want a time like 100ms, 90s, 5m or 2h, up to a year", s)
	}
	return d, nil
}
