package analyzer

import (
	"fmt"
	"strconv"
	"strings"

	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// message is the sentence for people. The shape of the delegation system's texts
// is kept: what was refused, what was seen, what the limit is.
// The sentence is that of the limits (Texts) or of the row, with words in braces (decision
// 71). Ids that come from events are made printable: they end up in terminals and logs.
func (e *verdictWriter) message(f *Flow, o *order, m *moment, window int64, limit, observed float64) string {
	head := o.Head(o.kind)
	if o.Action == events.Hold && Rules[o.rule].HoldsCalls {
		switch o.Phase {
		case standing.Armed:
			head = "Limit used up, the next call waits for a person: "
		case standing.Stop:
			head = "Call held for a person to decide: "
		}
	}
	// Only where attempts have made it wider than the rule's own scope.
	if o.wide > 0 && o.Attempts > 0 && o.scope != Rules[o.rule].Scope {
		head = fmt.Sprintf("Rejected after %d attempts, now for the whole %s: ", o.Attempts, wideName(o.scope))
	}
	rule := &Rules[o.rule]
	// What the limits say goes before the rule's own words.
	text := e.limits.Texts[o.rule]
	if text == "" {
		text = rule.Sentence()
	}
	// A word that means nothing here is left to the order, which knows those that all rows
	// share.
	return standing.Fill(text, func(word string) string {
		switch word {
		case "{head}":
			return head
		case "{period}":
			return strconv.Itoa(int(o.period))
		case "{before}":
			// For sentences that speak of the calls before the one at hand.
			return strconv.FormatInt(max(0, window-1), 10)
		case "{window}":
			return strconv.FormatInt(window, 10)
		case "{task}":
			return standing.Printable(subject(o, m))
		case "{bound}":
			set := e.setting(o.rule, f, m)
			if rule.Doubts != nil && rule.Doubts(f, m) {
				set.Stop = rules.Off
			}
			// As it was judged: a stop that the party has too much room for is none.
			if m.ev != nil {
				rule.widen(f, &set, m)
				row := FlowRow(o.rule)
				if most, _ := row.Reach(&set); set.Stop > most {
					set.Stop = rules.Off
				}
			}
			return o.Bound(&set, rules.InUnit(rule.Unit))
		}
		// At a deadline there is no call, nor in a view.
		if m.ev == nil {
			if word == "{from}" {
				return standing.Printable(f.nameOf(o.a))
			}
			return o.Word(word, o.kind, limit, observed)
		}
		switch word {
		case "{from}":
			return standing.Printable(m.ev.From.ID())
		case "{to}":
			return standing.Printable(m.ev.To.ID())
		case "{tool}":
			return standing.Printable(m.ev.Tool.Name)
		case "{asked}":
			return asked(o, m, observed)
		case "{args}":
			_, digits, _ := strings.Cut(m.ev.Tool.ArgsHash.String(), ":")
			// As logs of other guards show it.
			return digits[:min(len(digits), 8)]
		}
		return o.Word(word, o.kind, limit, observed)
	})
}

// asked says that the call at hand is counted, although it has not been made: its check is refused.
func asked(o *order, m *moment, observed float64) string {
	switch {
	case !m.ev.Ask || o.Phase != standing.Stop:
		return ""
	case observed == 1:
		return "; this call would start the first"
	}
	return "; this call would start one of them"
}

// subject is the task that the order is about, or that of the event where it names none.
func subject(o *order, m *moment) string {
	if o.subject == "" && m.ev != nil {
		return m.ev.TaskID
	}
	return o.subject
}

// wideName is the scope in the words of people, who know agents and no sessions.
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
	what := o.Refused(Rules[o.rule].Reason, limit, observed)
	switch advice := Rules[o.rule].Advice; {
	case o.Action == events.Hold && Rules[o.rule].HoldsCalls:
		return what + standing.AdviceHoldCall
	case o.Action == events.Hold:
		return what + standing.AdviceHold
	// The row's own advice comes before that for its action: it knows what would help.
	case advice != "":
		return strings.Replace(advice, "{what}", what, 1)
	case o.Action == events.Throttle:
		return what + standing.AdviceWait
	case o.kind == events.ToolCall && o.Action != events.Halt:
		return what + "Do not repeat it: it brings nothing new. Use what you already know, try another way, or report what blocks you."
	}
	return what + standing.AdviceReport
}
