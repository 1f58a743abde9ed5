package main

import (
	"strings"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/events"
)

// heldView describes a hold for people. The zero value is no hold.
type heldView struct {
	waits string // for what, how long, and what follows
	calls bool   // only the refused calls wait
	kinds string // of subagents, if other kinds are not held
}

// hold replaces the action of the row by that of the limits file.
func (v *ruleView) hold(r *analyzer.Row, l *analyzer.Limits) {
	if r.Setting(l).Hold {
		v.Action = events.Hold
		if !r.HoldsCalls() && v.Scope != events.ScopeTree {
			v.Scope = events.ScopeFlow
		}
	} else {
		v.held.kinds = strings.Join(l.HeldKinds(r), ", ")
	}
	if v.Action != events.Hold && v.held.kinds == "" {
		return
	}
	v.held.calls = r.HoldsCalls()
	then := "the " + string(v.Scope) + " is halted"
	if v.held.calls {
		then = "the calls are denied"
	}
	v.held.waits = "for a person, at most " + events.DurationText(l.Order.Hold) + "; then " + then
	if r.Counts() == agents.CountedTreeSpawns {
		v.held.waits = "for a person; the caller checks again each minute"
	}
}
