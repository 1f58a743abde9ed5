package analyzer_test

import (
	"encoding/json"
	"testing"

	"weir/analyzer"
	"weir/analyzer/rules"
)

// peerConfig is a peer's own thresholds for a case.
type peerConfig map[string]any

func (c *peerCase) config() (cfg peerConfig) {
	if len(c.Config) > 0 {
		if err := json.Unmarshal(c.Config, &cfg); err != nil {
			panic(err)
		}
	}
	return cfg
}

// number returns a threshold, or the peer's default when the case does not set it.
func (cfg peerConfig) number(name string, otherwise int64) int64 {
	if v, ok := cfg[name].(float64); ok {
		return int64(v)
	}
	return otherwise
}

func (cfg peerConfig) text(name string) string { s, _ := cfg[name].(string); return s }

func (cfg peerConfig) names(name string) (out []string) {
	list, _ := cfg[name].([]any)
	for _, v := range list {
		out = append(out, v.(string))
	}
	return out
}

const never = rules.Off

// peerRules sets rows of a table in which everything else is off.
type peerRules struct{ l analyzer.Limits }

func onlyThese() *peerRules {
	l := analyzer.Balanced()
	for i := range l.Rules {
		l.Rules[i].Mode = rules.ModeOff
	}
	l.Escalate = analyzer.Escalation{} // no peer widens what it refuses
	return &peerRules{l}
}

func (r *peerRules) set(id analyzer.RuleID, warn, stop int64) *rules.Setting {
	s := &r.l.Rules[id]
	*s = rules.Setting{Warn: warn, Stop: stop, Window: s.Window}
	return s
}

// most allows n and refuses what comes after.
func (r *peerRules) most(id analyzer.RuleID, n int64) *rules.Setting {
	s := r.set(id, never, n+1)
	s.Max = true
	return s
}

// sameCalls counts equal calls among the last window, whatever they brought.
func (r *peerRules) sameCalls(warn, stop, window int64) {
	s := r.set(analyzer.RuleRepetitionBlind, warn, stop)
	s.Window, s.IgnoreResults = window, true
}

func (r *peerRules) sameResults(warn, stop, window int64) {
	r.set(analyzer.RuleRepetition, warn, stop).Window = window
}

// limits is what the case is judged by.
func (c *peerCase) limits(t *testing.T) analyzer.Limits {
	cfg := c.config()
	switch c.Peer {
	case "field-must-stop", "field-must-not-stop":
		return analyzer.Balanced()
	case "openclaw":
		if !c.staysOK() {
			return analyzer.Balanced()
		}
	}
	translate := peerLimits[c.Peer]
	if translate == nil {
		t.Logf("%s: nothing says what the thresholds of this peer are to weir (peerLimits): it runs with the default limits", c.key())
		return analyzer.Balanced()
	}
	r := onlyThese()
	translate(cfg, r)
	return r.l
}

// peerLimits puts the thresholds of each peer in terms of weir's rules, as somebody
// would who moves from that peer to weir. What weir has no rule for is left out.
var peerLimits = map[string]func(cfg peerConfig, r *peerRules){
	"openhands-v0":  openHands,
	"openhands-sdk": openHands,
	"gemini-cli": func(cfg peerConfig, r *peerRules) {
		n := cfg.number("tool_repeat", 5)
		r.sameCalls(never, n, n) // a window of n calls: all of them, hence in a row
		r.set(analyzer.RuleToolCycle, never, n)
	},
	"roo-code": func(cfg peerConfig, r *peerRules) {
		if n := cfg.number("limit", 3); n > 0 {
			r.sameCalls(never, n+1, n+1)
		}
	},
	"cline": func(cfg peerConfig, r *peerRules) {
		hard := cfg.number("hard", 5)
		r.sameCalls(cfg.number("soft", 3), hard, hard)
	},
	"goose": func(cfg peerConfig, r *peerRules) {
		n := cfg.number("max", 2)
		r.sameCalls(never, n+1, n+1)
	},
	"goose-fork-rep003": func(cfg peerConfig, r *peerRules) {
		if n := cfg.number("max", 2); n < 32 { // farther than weir looks back: off
			r.sameCalls(never, n+1, n+1)
		}
		if n := cfg.number("same_error", 0); n > 0 {
			r.set(analyzer.RuleRepeatedError, never, n)
		}
	},
	"goose-fork-staged": func(cfg peerConfig, r *peerRules) {
		if n := cfg.number("max", 0); n > 0 {
			r.sameCalls(never, n+1, 32)
		} else {
			r.sameCalls(cfg.number("warn", 3), cfg.number("stop", 5), 32)
		}
		if n := cfg.number("fail_stop", 0); n > 0 {
			r.set(analyzer.RuleRepeatedError, cfg.number("fail_warn", never), n)
		}
	},
	"openclaw": func(cfg peerConfig, r *peerRules) {
		if cfg["disabled"] == true {
			return
		}
		window, warn, stop := cfg.number("history", 30), cfg.number("warn", 10), cfg.number("stop", 20)
		r.sameCalls(warn, never, window)
		r.sameResults(warn, stop, window)
		r.set(analyzer.RuleToolCycle, warn/2, stop/2)
		r.set(analyzer.RuleRepeatedError, never, cfg.number("unknown_tool", 10))
	},
	"opencode-swarm-prm": func(cfg peerConfig, r *peerRules) {
		r.sameCalls(never, cfg.number("repetition_loop", 2), cfg.number("window", 10))
		// So many delegations in turn are one hop less, and two hops are a round.
		r.set(analyzer.RulePingPongSame, never, max(1, (cfg.number("ping_pong", 3)-1)/2))
	},
	"synthorg": func(cfg peerConfig, r *peerRules) {
		r.set(analyzer.RuleSelfCall, never, 1).All = true
		r.set(analyzer.RuleRevisits, never, 1) // whoever is in the chain is not called again
		r.most(analyzer.RuleStackDepth, cfg.number("max_depth", 5))
		if cfg["dedup_s"] != nil {
			r.set(analyzer.RuleRepeatedDelegation, never, 2)
		}
		if cfg["pair_per_min"] != nil {
			r.most(analyzer.RuleCallerRate, cfg.number("pair_per_min", 10)+cfg.number("burst", 3)).Window = 60
		}
	},
	"strands-swarm": func(cfg peerConfig, r *peerRules) {
		// The first node is no handoff to weir, and the one that uses up the limit fails.
		r.set(analyzer.RuleTotalCalls, never, max(1, min(cfg.number("max_handoffs", 20), cfg.number("max_iterations", 20))-1))
		r.most(analyzer.RuleFlowDuration, cfg.number("timeout_s", 900))
	},
	"caco":     delegationLimits,
	"seed-000": delegationLimits,
	"seed-001": func(peerConfig, *peerRules) {}, // its rate is per target over all flows: agent stage
	"seed-002": func(cfg peerConfig, r *peerRules) {
		r.set(analyzer.RuleLoops, never, cfg.number("max_loops", 3))
		r.set(analyzer.RuleDelegationDepth, never, cfg.number("max_depth", 2))
	},
	"seed-003": func(cfg peerConfig, r *peerRules) {
		r.most(analyzer.RuleToolCalls, cfg.number("max_tool_calls", 10))
		r.most(analyzer.RuleTurns, cfg.number("max_turns", 5))
		r.most(analyzer.RuleChainDepth, cfg.number("max_chain", 4))
		r.sameCalls(never, cfg.number("rep_max", 1)+1, cfg.number("rep_window", 3))
	},
	"litellm": func(cfg peerConfig, r *peerRules) {
		if n := cfg.number("max_iterations", 0); n > 0 {
			r.set(analyzer.RuleLoops, never, n+1)
		}
	},
	"agt-feedback-loop": func(cfg peerConfig, r *peerRules) {
		r.set(analyzer.RuleConversation, never, cfg.number("max_turns", 30))
	},
}

// openHands compares results. Its rule about three equal errors does not care
// whether the errors are equal; weir's does.
func openHands(cfg peerConfig, r *peerRules) {
	equal := cfg.number("action_observation", 4)
	r.sameResults(never, equal, equal)
	errors := cfg.number("action_error", 3)
	if cfg["action_error"] != nil { // the later version warns first
		r.set(analyzer.RuleRepeatedError, errors, errors+1)
	} else {
		r.set(analyzer.RuleRepeatedError, never, errors)
	}
	r.set(analyzer.RuleToolCycle, never, cfg.number("alternating", 6)/2)
}

// delegationLimits counts like a conversation does: the message that began it is one
// of the calls. To weir it is a person's, and no hop.
func delegationLimits(cfg peerConfig, r *peerRules) {
	r.most(analyzer.RuleStackDepth, cfg.number("max_depth", 5))
	if cfg["max_s"] != nil {
		r.most(analyzer.RuleFlowDuration, cfg.number("max_s", 300))
	}
	if cfg["rate"] != nil {
		r.most(analyzer.RuleFlowRate, cfg.number("rate", 20)-1).Window = cfg.number("rate_s", 60)
	}
	if cfg["max_unique"] != nil {
		r.most(analyzer.RuleUniqueSessions, cfg.number("max_unique", 10))
	}
	if cfg["max_total"] != nil {
		r.most(analyzer.RuleTotalCalls, cfg.number("max_total", 100)-1)
	}
}
