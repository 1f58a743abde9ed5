package main

import (
	"fmt"

	"weir/cmd/internal/cli"
	"weir/events"
)

// actionCell is the action in one word: arm is a stop of the next call, and what is
// only watched is marked.
//
// clear is an order that is lifted, and shadow what would have been done in mode
// enforce. The summary of a replay counts by these words.
func actionCell(v *events.Verdict) cli.Cell {
	word, paint := string(v.Action), cli.Plain
	switch {
	case v.Stops() && v.Effective == events.EffectiveNow:
		paint = cli.Bad
	case v.Stops():
		word, paint = "arm "+word, cli.Caution
	case v.Action == events.Warn:
		paint = cli.Caution
	case v.Action == events.Allow:
		word, paint = "clear", cli.Good
	}
	if v.Mode != events.ModeEnforce {
		word, paint = "shadow "+word, cli.Faint
	}
	return cli.Cell{Text: word, Paint: paint}
}

// figures are the observed value against the limit.
//
// "" for verdicts that no measure brings about, such as a person's.
func figures(v *events.Verdict) string {
	if v.Observed == nil || v.Limit == nil {
		return ""
	}
	return amount(v.Observed) + "/" + amount(v.Limit)
}

// eventOf is the event that brought the verdict about: the n-th of its flow.
func eventOf(v *events.Verdict) string {
	if v.Trigger == nil {
		return "time" // a deadline
	}
	return fmt.Sprintf("#%d", v.Trigger.Ordinal)
}

// subjectOf names what a verdict is about: a flow, or an agent or a project over all of
// their flows.
func subjectOf(v *events.Verdict) string {
	if v.CorrelationID != "" {
		return v.CorrelationID
	}
	return v.Scope.String()
}

// ruleAndReason is a rule by its name in the limits file, with the reason code behind it. What no rule gave
// has a reason alone.
func ruleAndReason(rule string, reason events.Reason) string {
	switch {
	case rule == "":
		return string(reason)
	case rule == string(reason):
		return rule
	}
	return rule + " (" + string(reason) + ")"
}

// newVerdictLines prints verdicts one after the other.
//
// Replay and flows tail print by it, so both can be read by the same program.
func newVerdictLines(env *cli.Env) *cli.Lines[events.Verdict] {
	return cli.NewLines(env, func(v *events.Verdict) []cli.Cell {
		return []cli.Cell{{Text: subjectOf(v)}, {Text: eventOf(v), Right: true}, actionCell(v), {Text: v.RuleID}, {Text: string(v.Reason)}, {Text: figures(v), Right: true}, {Text: v.IncidentID}, {Text: v.Message}}
	}, "FLOW", "EVENT", "ACTION", "RULE", "REASON", "SEEN/LIMIT", "INCIDENT", "MESSAGE").Secondary("INCIDENT", "REASON", "EVENT")
}
