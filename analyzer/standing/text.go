package standing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/analyzer/rules"
	"weir/events"
)

// Head says to people what becomes of a call of the kind, and over how what was observed
// is to the limit. It is the same for all rows, so people know a warning from a refusal by the
// first word.
func (o *Order) Head(kind events.Kind) string {
	switch {
	// The phase before the action: what only warns refuses nothing, whatever its row would do.
	case o.Phase == Warn:
		return "Warning: "
	case o.BeginsWait():
		return "Limit used up, from the next call on the flow waits for a person: "
	case o.Phase == Armed:
		return "Limit used up, the next call will be rejected: "
	case o.Action == events.Hold:
		return "Flow held for a person to decide: "
	case o.Action == events.Throttle:
		return "Agent call delayed: "
	case kind == events.ToolCall:
		return "Tool call rejected: "
	}
	return "Agent call rejected: "
}

// over says to people how what was observed is to the limit.
func (o *Order) over(limit string) string {
	switch {
	case o.Phase == Warn:
		return "is near its limit (warns at " + limit + ")"
	// Who is at the limit has not exceeded it, though the next call is refused.
	case o.Phase != Stop || o.Observed <= o.Limit:
		return "has reached the limit (" + limit + ")"
	}
	return "exceeds limit (max " + limit + ")"
}

// Bound says to people beside a figure how far it may go. Who is warned wants to know when it
// will be refused, which is in the setting and not in the order.
func (o *Order) Bound(set *rules.Setting, unit float64) string {
	// In the unit that people read, as in the limits file.
	limit := float64(o.Limit) / unit
	switch {
	case o.Phase == Stop && o.Observed > o.Limit:
		return "(max " + Number(limit) + ")"
	case o.Phase != Warn:
		return "(limit " + Number(limit) + ")"
	case set.Stop == rules.Off || set.Mode == rules.ModeWarn:
		return "(only warns, from " + Number(limit) + " on)"
	case set.Max:
		return "(max " + Number(float64(set.Limit())/unit) + ")"
	}
	return "(stops at " + Number(float64(set.Stop)/unit) + ")"
}

// Refused says to the model that its call was refused, or the next one will be. It names the
// reason code and figures alone: nothing that an event said may become an instruction to a
// model.
func (o *Order) Refused(reason events.Reason, limit, observed float64) string {
	if o.Phase == Armed {
		return "The flow guard refuses the next call (" + string(reason) + ", limit " + Number(limit) + " used up). "
	}
	return "The call was refused by the flow guard (" + string(reason) + ", " + Number(observed) + " of " + Number(limit) + "). "
}

// The advice to the model.
const (
	// They differ in the action that they ask for, not in politeness: a model that only reads a refusal
	// tries again.
	AdviceHold = "The flow waits for a person, who may grant more. What is done is kept. Do not try the call again: end your turn and say what you wait for."
	// AdviceHoldCall is for a call that waits by itself, while the flow goes on.
	AdviceHoldCall = "This call waits for a person, who may agree to it. Do not try it again: do what you can without it, then end your turn and say what you wait for."
	AdviceWait     = "Wait before you call again; do other work meanwhile."
	AdviceReport   = "Do not try it again. Finish with what you have and report back."
)

// Fill puts what words in braces stand for into a text. A brace that does not close stays as
// it is, and so does what comes after it.
func Fill(text string, stands func(word string) string) string {
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
		word := text[begin : begin+end+1]
		value := stands(word)
		b.WriteString(value)
		text = text[begin+end+1:]
		if word == "{n}" && value == "1" {
			text = singular(text)
		}
	}
	b.WriteString(text)
	return b.String()
}

// singular makes the noun with which a text begins one of one: " tool calls in the flow" becomes " tool call in
// the flow". Texts of limits may begin with other nouns, which stay.
func singular(text string) string {
	for _, noun := range nouns {
		before, rest, ok := strings.Cut(text, noun)
		if !ok || before != " " && !slices.Contains(adjectives, strings.TrimSpace(before)) || rest != "" && rest[0] != ' ' {
			continue
		}
		for _, x := range withOne {
			if after, ok := strings.CutPrefix(rest, x[0]); ok {
				rest = x[1] + after
			}
		}
		return before + strings.TrimSuffix(noun, "s") + rest
	}
	return text
}

// nouns are those that the texts of rules count, adjectives what stands before them, and withOne what changes
// behind them.
var (
	nouns      = [...]string{"calls", "tokens", "turns", "times", "rounds", "flows", "messages", "subagents", "agents", "looks", "points"}
	adjectives = []string{"tool", "input", "output", "background"}
	withOne    = [...][2]string{{" or sessions ", " or session "}, {" of the tree are ", " of the tree is "}, {" of the tree have ", " of the tree has "}}
)

// Word is what a word of a text stands for as far as that takes no flow. Other words are ""
// here; who fills a text about a flow looks for those itself.
func (o *Order) Word(word string, kind events.Kind, limit, observed float64) string {
	switch word {
	case "{head}":
		return o.Head(kind)
	// Some systems say so of throttles, too, and their words are kept.
	case "{rejected}":
		if o.Phase == Stop && o.Action == events.Throttle {
			return "Agent call rejected: "
		}
		return o.Head(kind)
	case "{warning}":
		if o.Phase == Warn {
			return o.Head(kind)
		}
	case "{n}":
		return Number(observed)
	case "{limit}":
		return Number(limit)
	case "{minutes}":
		return Number(limit / 60)
	case "{over}":
		return o.over(Number(limit))
	}
	return ""
}

// Number is a figure for people, without needless digits.
func Number(v float64) string {
	// Off is the greatest threshold, and no figure.
	if v >= rules.Off {
		return "none"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Printable keeps ids from events out of terminals and logs as anything but text. Besides
// control characters it takes out those that turn the direction of text, by which a line could
// be made to read as another. It is cut at 128 bytes.
func Printable(s string) string {
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

// Cleared is the sentence for people that an order is lifted.
func Cleared(r events.Reason) string { return "Cleared: " + ReasonText(r) + " no longer holds." }

// ReasonText is a reason code as words.
func ReasonText(r events.Reason) string { return strings.ReplaceAll(string(r), "_", " ") }

// WrapUp says to the model that not much is left, in fixed words and numbers only.
func WrapUp(few []events.Remaining) string {
	var b strings.Builder
	for i, r := range few {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s of %s %s left (%s)", Number(r.Left), Number(r.Limit), r.Unit, r.RuleID)
	}
	return "The flow guard counts: " + b.String() + ". Wrap up: finish what matters most and report what is done and what is not, before calls are refused."
}
