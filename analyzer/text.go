package analyzer

import (
	"fmt"
	"strconv"
	"strings"

	"weir/events"
)

// message is the sentence for people. The shape of the delegation system's texts
// is kept: what was refused, what was seen, what the limit is.
func message(f *Flow, o *order, m *moment, limit, observed float64) string {
	l, n := number(limit), number(observed)
	head := o.head(o.kind)
	if o.wide > 0 && o.attempts > 0 && o.scope != Rules[o.rule].Scope {
		head = fmt.Sprintf("Rejected after %d attempts, now for the whole %s: ", o.attempts, wideName(o.scope))
	}
	rule := &Rules[o.rule]
	warning := ""
	if o.phase == phaseWarn {
		warning = "Warning: "
	}
	return fill(rule.Text, rule.Reason, rule.Unit, "{head}", head, "{warning}", warning, "{over}", o.over(l), "{n}", n,
		"{period}", strconv.Itoa(int(o.period)), "{task}", printable(subject(o, m)))
}

// fill puts words into the text of a row. A row without one says the least that can be
// said of any: its reason and what it counted.
//
// In a text {head} is what was done, such as "Tool call rejected: ", and {warning} the same
// for texts that say by themselves that something was refused; {n} is what was observed, {over} how that
// is to the limit, {period} the length of what repeats, and {task} the task.
func fill(text string, reason events.Reason, unit events.Unit, words ...string) string {
	if text == "" {
		text = "{head}" + reasonText(reason) + ": {n} " + string(unit) + ", {over}"
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text = rest
		named := false
		for i := 0; i < len(words) && !named; i += 2 {
			if text, named = strings.CutPrefix(rest, words[i][1:]); named {
				b.WriteString(words[i+1])
			}
		}
		if !named {
			b.WriteByte('{')
		}
	}
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
