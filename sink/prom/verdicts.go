package prom

import (
	"slices"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/events"
)

// The series of rules. Those of a rule that the limits have turned off are left out, and
// come with the limits that turn it on. All others are there before the first thing is
// counted. Otherwise a rate would miss the first.

// flowReasons lists the reasons that rules about flows have, each once.
func flowReasons() (out []events.Reason) {
	for i := range analyzer.Rules {
		if r := analyzer.Rules[i].Reason; !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// judging lists the reasons that rules about flows or trees of flows have, each once.
func judging() []events.Reason {
	out := flowReasons()
	// Rules about agents and projects judge no flow.
	for i := range agents.Rules {
		if r := &agents.Rules[i]; r.Counts.OfTree() && !slices.Contains(out, r.Reason) {
			out = append(out, r.Reason)
		}
	}
	return out
}

// refusing lists the reasons of orders that refuse calls, each once.
func refusing() []events.Reason {
	out := flowReasons()
	for i := range agents.Rules {
		if r := &agents.Rules[i]; r.Action.Stops() && !slices.Contains(out, r.Reason) {
			out = append(out, r.Reason)
		}
	}
	return out
}

// grantable lists the reasons of the limits of which a person can grant more, each once.
func grantable() (out []events.Reason) {
	for _, r := range analyzer.Rows() {
		if r.Tells && !slices.Contains(out, r.Reason) {
			out = append(out, r.Reason)
		}
	}
	return out
}

// limited reports whether the limits say anything by a row about flows.
func limited(l *analyzer.Limits, row int) bool {
	r := analyzer.FlowRow(analyzer.RuleID(row))
	return r.Limits(l)
}

// speaks reports whether the rule of a row about flows can trigger under the limits, be it only in
// an override. With limits that are not known yet, all rules can.
func speaks(l *analyzer.Limits, row int) bool {
	return l == nil || analyzer.Rules[row].ID == analyzer.RuleOperator || limited(l, row) ||
		slices.ContainsFunc(l.Overrides, func(o analyzer.Override) bool { return int(o.Rule) == row })
}

// expectation says which verdicts rules give, enforced and in shadow mode.
type expectation [events.ReasonCount][events.ActionCount][2]bool

// silent reports that the rules with the reason, if any, are off.
func (x *expectation) silent(r events.Reason) bool {
	return x[r.Place()] == [events.ActionCount][2]bool{}
}

// expectedVerdicts says which verdicts can come of the limits, or of all rules when these are
// not known.
func expectedVerdicts(l *analyzer.Limits) (x expectation) {
	for i := range analyzer.Rules {
		rule := &analyzer.Rules[i]
		if !speaks(l, i) {
			continue
		}
		e := &x[rule.Reason.Place()]
		// A rule may lift its own order; no dispatcher is notified of that in shadow mode.
		e[events.Allow.Place()][0] = true
		e[rule.Action.Place()][0], e[rule.Action.Place()][1] = true, true
		if l != nil && (l.Rules[i].Hold || rule.HoldsCalls && slices.ContainsFunc(l.Subagents, func(k analyzer.KindLimits) bool { return k.Hold })) {
			e[events.Hold.Place()][0] = true
		}
		// A person's stop neither warns nor grows wider.
		if rule.ID != analyzer.RuleOperator {
			e[events.Warn.Place()][0], e[events.Warn.Place()][1] = true, true
			e[events.Halt.Place()][0] = true // attempts widen an order
		}
	}
	for i := range agents.Rules {
		rule := &agents.Rules[i]
		if l != nil && l.Agents.Rules[i].Mute() {
			continue
		}
		e := &x[rule.Reason.Place()]
		e[events.Allow.Place()][0] = true
		e[events.Warn.Place()][0], e[events.Warn.Place()][1] = true, true
		e[rule.Action.Place()][0], e[rule.Action.Place()][1] = true, true
		if !recovers(rule) {
			continue
		}
		for _, step := range recoverySteps {
			e[step.Place()][0] = true
		}
	}
	// A reason without a table: a caller asked to rescue an agent that was not stuck.
	refused := &x[events.RescueRefusedNotStuck.Place()]
	refused[events.Notify.Place()][0], refused[events.Notify.Place()][1] = true, true
	return x
}

// recoverySteps are the actions of the ladder.
var recoverySteps = [...]events.Action{events.Resume, events.ReviewAgent, events.Archive, events.Notify}

// recovers reports whether the row may find an agent stuck.
func recovers(rule *agents.Rule) bool {
	return rule.Silence || rule.Action == events.Resume
}

// ordered reads one of the calls that orders met, by the reason of the order: those that were made
// against one, those in flight when one went out, and those that were refused by an ask or a
// dispatcher. Of a reason all three are there, or none.
func ordered(get func(*activity.Met) int64) func(*Reading, *series) {
	return func(r *Reading, to *series) {
		expected := expectedVerdicts(r.Limits)
		for _, reason := range refusing() {
			if n := r.Fold.Of(reason.Place()); n.Defied+n.Leaked+n.Refused > 0 || !expected.silent(reason) {
				to.count(get(&n), string(reason))
			}
		}
	}
}

// readVerdicts gives a series to whatever was counted or may be, see expectation.
func readVerdicts(r *Reading, to *series) {
	// What was counted stays to be seen when the limits turn its rule off.
	expected := expectedVerdicts(r.Limits)
	for at, reason := range events.Reasons() {
		for a := events.Allow.Place(); a < events.ActionCount; a++ {
			for shadow, mode := range [...]events.Mode{events.ModeEnforce, events.ModeShadow} {
				if v := &r.Verdicts[at][a][shadow]; v.N > 0 || expected[at][a][shadow] {
					to.example(v, string(reason), string(events.ActionAt(a)), string(mode))
				}
			}
		}
	}
}

// readGrants is about limits that count something of which more can be given.
func readGrants(r *Reading, to *series) {
	expected := expectedVerdicts(r.Limits)
	for _, reason := range grantable() {
		if n := r.Fold.Of(reason.Place()).Granted; n > 0 || !expected.silent(reason) {
			to.count(n, string(reason))
		}
	}
}

// readStops is about flows alone: what is over all flows stops none of them.
func readStops(r *Reading, to *series) {
	expected := expectedVerdicts(r.Limits)
	for _, reason := range flowReasons() {
		if n := r.Fold.Of(reason.Place()).Stops; n > 0 || !expected.silent(reason) {
			to.count(n, string(reason))
		}
	}
}

// readAcks has both answers of a rule or none, so that a share can be made of them.
func readAcks(r *Reading, to *series) {
	expected := expectedVerdicts(r.Limits)
	say := func(rule string, n [2]int64) {
		to.count(n[0], rule, "false")
		to.count(n[1], rule, "true")
	}
	for _, reason := range flowReasons() {
		if n := r.Fold.Of(reason.Place()).Acks; n != [2]int64{} || !expected.silent(reason) {
			say(string(reason), n)
		}
	}
	// Acks that are about no order of a flow are counted last, under one word.
	say("other", r.Fold.Of(events.ReasonCount).Acks)
}

// readStuck adds up rows of one reason. Agents are counted by row, and people know reasons.
func readStuck(r *Reading, to *series) {
	var stuck [events.ReasonCount][2]int64
	var known [events.ReasonCount]bool
	for i := range agents.Rules {
		if rule := &agents.Rules[i]; recovers(rule) {
			at := rule.Reason.Place()
			known[at] = true
			stuck[at][0] += r.Agents.Stuck[i][0]
			stuck[at][1] += r.Agents.Stuck[i][1]
		}
	}
	for at, reason := range events.Reasons() {
		if known[at] {
			to.count(stuck[at][0], string(reason), "potentially_stuck")
			to.count(stuck[at][1], string(reason), "stuck")
		}
	}
}

// readRecoveries counts steps of the ladder by the verdicts that order them, each reason once.
func readRecoveries(r *Reading, to *series) {
	// Verdicts are counted by reason, so rows that share one would be added up twice.
	var known [events.ReasonCount]bool
	var steps [len(recoverySteps)]int64
	for i := range agents.Rules {
		at := agents.Rules[i].Reason.Place()
		if known[at] || !recovers(&agents.Rules[i]) {
			continue
		}
		known[at] = true
		for i, step := range recoverySteps {
			steps[i] += r.Verdicts[at][step.Place()][0].N
		}
	}
	for i, step := range recoverySteps {
		to.count(steps[i], string(step))
	}
}
