package main

import (
	"weir/analyzer"
	"weir/events/adapter"
)

// needs says how well a log that gives so much meets each need, and what it is that may be
// missing. Without what it needs a rule is silent; only times are made up where a log has
// none.
func needs(g *adapter.Gives) []need {
	return []need{
		{analyzer.NeedTools, g.Tools, "calls of tools"},
		{analyzer.NeedArgs, g.Args, "arguments of tools"},
		{analyzer.NeedResults, g.Results, "results"},
		{analyzer.NeedCaller, g.Caller, "who called an agent"},
		{analyzer.NeedWork, g.Work, "whether a hop came without work"},
		{analyzer.NeedTurn, g.Turn, "goal turns"},
		{analyzer.NeedTokens, g.Tokens, "tokens and money"},
		{analyzer.NeedTime, g.Time, madeUp},
		{analyzer.NeedTasks, g.Tasks, "tasks"},
	}
}

type need struct {
	of    analyzer.Need
	level adapter.Level
	what  string // that is missing, or told at times only
}

// madeUp is what is made up where a log does not tell it.
const madeUp = "times"

// silenced is a rule that a source keeps from saying anything, at times or always.
type silenced struct {
	Rule  string `json:"rule"`
	State string `json:"state"` // off, unfit or depends
	Why   string `json:"why"`
}

// The states of a rule for a source.
const (
	ruleOff     = "off"     // it cannot say anything
	ruleUnfit   = "unfit"   // what it says stands on times that are made up
	ruleDepends = "depends" // on what the log happens to tell
)

// silencedBy lists the rules that are off for a source, and those that depend on what
// its logs happen to tell, in the order of the table of rules.
func silencedBy(g *adapter.Gives) (out []silenced) {
	for i := range analyzer.Rules {
		state, why := "", ""
		for _, n := range needs(g) {
			if analyzer.Rules[i].Needs&n.of == 0 {
				continue
			}
			switch level := n.level; {
			case state == ruleOff:
			case level == adapter.Never && n.what == madeUp:
				state, why = ruleUnfit, "made up, 2 s from record to record: "+madeUp
			case level == adapter.Never:
				state, why = ruleOff, "never told: "+n.what
			case level == adapter.Sometimes && state == "":
				state, why = ruleDepends, "at times only: "+n.what
			}
		}
		if state != "" {
			out = append(out, silenced{analyzer.Rules[i].Name, state, why})
		}
	}
	return out
}
