package main

import (
	"slices"

	"weir/analyzer"
	"weir/events/adapter"
)

// ruleNeed is something that a log must tell for some rules to say anything.
type ruleNeed struct {
	level func(g *adapter.Gives) adapter.Level
	what  string // that is missing, or told at times only
	rules []analyzer.RuleID
}

// ruleNeeds says which rules need what. A rule that needs several things stands in several
// rows. Without what it needs a rule is silent, since unknown is never taken for no;
// only times are made up where a log has none.
func ruleNeeds() []ruleNeed {
	repetition := []analyzer.RuleID{analyzer.RuleRepetition, analyzer.RuleCircling, analyzer.RuleToolCycle, analyzer.RuleToolCycleLong}
	rounds := []analyzer.RuleID{analyzer.RuleStaleDelegation, analyzer.RuleStaleAnswers}
	hops := []analyzer.RuleID{analyzer.RuleCorrelationID, analyzer.RuleSelfCall, analyzer.RuleStackDepth, analyzer.RuleUniqueSessions, analyzer.RuleCallerRate,
		analyzer.RuleFlowRate, analyzer.RuleTotalCalls, analyzer.RuleRevisits, analyzer.RulePingPongSame, analyzer.RulePingPongOther,
		analyzer.RuleRepeatedDelegation, analyzer.RuleNoWorkHops, analyzer.RuleNoWorkBurst, analyzer.RuleConversation, analyzer.RuleDelegationDepth}
	return []ruleNeed{
		{func(g *adapter.Gives) adapter.Level { return g.Tools }, "calls of tools",
			slices.Concat(repetition, rounds, []analyzer.RuleID{analyzer.RuleRepetitionBlind, analyzer.RuleRepetitionAny, analyzer.RuleRepeatedError, analyzer.RuleNoProgress,
				analyzer.RuleToolCalls, analyzer.RuleChainDepth})},
		{func(g *adapter.Gives) adapter.Level { return g.Args }, "arguments of tools",
			slices.Concat(repetition, rounds, []analyzer.RuleID{analyzer.RuleRepetitionBlind, analyzer.RuleRepetitionAny})},
		{func(g *adapter.Gives) adapter.Level { return g.Results }, "results",
			slices.Concat(repetition, []analyzer.RuleID{analyzer.RuleStaleAnswers, analyzer.RuleNoProgress})},
		{func(g *adapter.Gives) adapter.Level { return g.Caller }, "who called an agent", slices.Concat(hops, rounds)},
		{func(g *adapter.Gives) adapter.Level { return g.Work }, "whether a hop came without work",
			[]analyzer.RuleID{analyzer.RulePingPongSame, analyzer.RulePingPongOther, analyzer.RuleNoWorkHops, analyzer.RuleNoWorkBurst}},
		{func(g *adapter.Gives) adapter.Level { return g.Turn }, "goal turns", []analyzer.RuleID{analyzer.RuleTurns}},
		{func(g *adapter.Gives) adapter.Level { return g.Tokens }, "tokens and money",
			[]analyzer.RuleID{analyzer.RuleInputTokens, analyzer.RuleOutputTokens, analyzer.RuleTotalTokens, analyzer.RuleCost}},
		{func(g *adapter.Gives) adapter.Level { return g.Time }, madeUp,
			[]analyzer.RuleID{analyzer.RuleFlowDuration, analyzer.RuleCallerRate, analyzer.RuleFlowRate, analyzer.RuleNoWorkBurst}},
		{func(g *adapter.Gives) adapter.Level { return g.Tasks }, "tasks",
			[]analyzer.RuleID{analyzer.RuleLoops, analyzer.RuleReflectLoops}},
	}
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
		for _, n := range ruleNeeds() {
			if !slices.Contains(n.rules, analyzer.RuleID(i)) {
				continue
			}
			switch level := n.level(g); {
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
