package analyzer

import (
	"fmt"
	"strconv"
	"strings"

	"weir/events"
)

// message is the sentence for people. The shape of the delegation system's texts
// is kept: what was refused, what was seen, what the limit is.
func (e *Engine) message(f *Flow, o *order, m *moment, window int64, limit, observed float64) string {
	head := o.head(o.kind)
	if o.wide > 0 && o.attempts > 0 && o.scope != Rules[o.rule].Scope {
		head = fmt.Sprintf("Rejected after %d attempts, now for the whole %s: ", o.attempts, wideName(o.scope))
	}
	rule := &Rules[o.rule]
	text := e.limits.Texts[o.rule]
	if text == "" {
		text = textOf(rule)
	}
	return fill(text, func(word string) string {
		switch word {
		case "{head}":
			return head
		case "{period}":
			return strconv.Itoa(int(o.period))
		case "{before}":
			return strconv.FormatInt(max(0, window-1), 10)
		case "{window}":
			return strconv.FormatInt(window, 10)
		case "{task}":
			return printable(subject(o, m))
		case "{bound}":
			set := e.setting(o.rule, f, m)
			return o.bound(&set, inUnit(rule.Unit))
		}
		if m.ev == nil {
			return o.word(word, o.kind, limit, observed)
		}
		switch word {
		case "{from}":
			return printable(m.ev.From.ID())
		case "{to}":
			return printable(m.ev.To.ID())
		case "{tool}":
			return printable(m.ev.Tool.Name)
		case "{args}":
			_, digits, _ := strings.Cut(m.ev.Tool.ArgsHash.String(), ":")
			return digits[:min(len(digits), 8)]
		}
		return o.word(word, o.kind, limit, observed)
	})
}

// fill puts what words in braces stand for into a text.
func fill(text string, stands func(word string) string) string {
	var b strings.Builder
	for {
		begin := strings.IndexByte(text, '{')
		if begin < 0 {
			break
		}
		end := strings.IndexByte(text[begin:], '}')
		if end < 0 {
			break
		}
		b.WriteString(text[:begin])
		b.WriteString(stands(text[begin : begin+end+1]))
		text = text[begin+end+1:]
	}
	b.WriteString(text)
	return b.String()
}

// Words are what a text of limits may name, and what each stands for.
var Words = [...][2]string{
	{"{head}", "what was done, such as \"Tool call rejected: \", \"Warning: \" or that the limit is used up"},
	{"{rejected}", "the same, but a call that has to wait is rejected, too"},
	{"{warning}", "\"Warning: \" where nothing was refused, else nothing"},
	{"{n}", "what was observed"},
	{"{limit}", "the limit"},
	{"{minutes}", "the limit in minutes, of limits in seconds"},
	{"{over}", "how what was observed is to the limit, as the predicate of a sentence"},
	{"{bound}", "the limit in brackets: when it stops, where it only warns so far"},
	{"{window}", "the length of the window, in seconds or calls"},
	{"{period}", "the length of what repeats"},
	{"{before}", "how many calls before the one at hand the window has"},
	{"{task}", "the task"},
	{"{from}", "who calls"},
	{"{to}", "who is called"},
	{"{tool}", "the tool"},
	{"{args}", "the first eight digits of the hash of the arguments"},
}

// textOf is what people are told of a row's orders, with Words in it. A row without a text says the
// least that can be said of any: what it counted.
func textOf[S any, ID ~uint8](r *Rule[S, ID]) string {
	switch {
	case r.Text != "":
		return r.Text
	case r.Silence, r.Unit == events.UnitNone:
		return ""
	}
	return "{head}{n} " + string(r.Unit) + " in the flow {bound}"
}

// word is what a word of a text stands for as far as that takes no flow.
func (o *standingOrder) word(word string, kind events.Kind, limit, observed float64) string {
	switch word {
	case "{head}":
		return o.head(kind)
	case "{rejected}":
		if o.phase == phaseStop && o.action == events.Throttle {
			return "Agent call rejected: "
		}
		return o.head(kind)
	case "{warning}":
		if o.phase == phaseWarn {
			return o.head(kind)
		}
	case "{n}":
		return number(observed)
	case "{limit}":
		return number(limit)
	case "{minutes}":
		return number(limit / 60)
	case "{over}":
		return o.over(number(limit))
	}
	return ""
}

func subject(o *order, m *moment) string {
	if o.subject == "" && m.ev != nil {
		return m.ev.TaskID
	}
	return o.subject
}

func wideName(s events.ScopeKind) string {
	switch s {
	case events.ScopeSession:
		return "agent"
	case events.ScopePair:
		return "pair"
	}
	return "flow"
}

// agentMessage is the sentence for the model: fixed words and numbers only, since
// text of an event would be a way to give the model instructions.
func agentMessage(o *order, limit, observed float64) string {
	what := o.refused(Rules[o.rule].Reason, limit, observed)
	switch advice := Rules[o.rule].Advice; {
	case o.action == events.Hold:
		return what + adviceHold
	case advice != "":
		return strings.Replace(advice, "{what}", what, 1)
	case o.action == events.Throttle:
		return what + adviceWait
	case o.kind == events.ToolCall && o.action != events.Halt:
		return what + "Do not repeat it: it brings nothing new. Use what you already know, try another way, or report what blocks you."
	}
	return what + adviceReport
}

func number(v float64) string {
	if v >= Off {
		return "none"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// printable keeps ids from events out of terminals and logs as anything but text.
func printable(s string) string {
	if len(s) > 128 {
		s = s[:128]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, s)
}

// clearedText says to people that an order is taken back.
func clearedText(r events.Reason) string { return "Cleared: " + reasonText(r) + " no longer holds." }

func reasonText(r events.Reason) string { return strings.ReplaceAll(string(r), "_", " ") }
