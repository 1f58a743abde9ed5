package limitfile_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
)

// faults returns the places of all that is wrong with the limits.
func faults(t *testing.T, l *analyzer.Limits) (paths []string) {
	t.Helper()
	err := limitfile.Validate(l)
	if err == nil {
		return nil
	}
	all, ok := errors.AsType[*limitfile.Problems](err)
	if !ok {
		t.Fatalf("%T is no list of problems", err)
	}
	for _, p := range all.List {
		if p.Message == "" || !strings.Contains(err.Error(), p.Path+": "+p.Message) || strings.Contains(p.Message+p.Hint, "\n") {
			t.Errorf("%+v", p)
			continue
		}
		paths = append(paths, p.Path)
	}
	return paths
}

func TestValidate(t *testing.T) {
	f := func(spoil func(l *analyzer.Limits), want ...string) {
		t.Helper()
		l := analyzer.Balanced()
		spoil(&l)
		if got := faults(t, &l); !slices.Equal(got, want) {
			t.Errorf("faults at %v, want %v: %v", got, want, limitfile.Validate(&l))
		}
	}
	rule := func(id analyzer.RuleID, change func(s *rules.Setting)) func(*analyzer.Limits) {
		return func(l *analyzer.Limits) { change(&l.Rules[id]) }
	}
	override := func(o analyzer.Override) func(*analyzer.Limits) {
		return func(l *analyzer.Limits) {
			o.Setting = l.Rules[min(o.Rule, analyzer.RuleOperator)]
			l.Overrides = append(l.Overrides, o)
		}
	}
	f(func(*analyzer.Limits) {})
	f(func(l *analyzer.Limits) { l.Identity = 2 }, "identity")
	f(func(l *analyzer.Limits) { l.Profile = "a\x1b[2J" }, "profile")
	f(func(l *analyzer.Limits) { l.WarnOnly = 1 << 9; l.Flow.UserStarts = 1 << 15 }, "flow.user_starts", "warn_only")
	f(func(l *analyzer.Limits) { l.Flow = analyzer.FlowLimits{} }, "flow.idle", "flow.max_age")
	f(func(l *analyzer.Limits) { l.Order.TTL = -1; l.Order.Grace = time.Microsecond }, "orders.ttl", "orders.grace", "orders.grace")
	f(func(l *analyzer.Limits) { l.Escalate = analyzer.Escalation{Pair: -1, Agent: 9, Flow: 8} }, "escalate.pair", "escalate.flow")
	f(func(l *analyzer.Limits) { l.Escalate = analyzer.Escalation{Pair: 9, Flow: 8} }, "escalate.flow")
	f(func(l *analyzer.Limits) { l.Escalate = analyzer.Escalation{Agent: 2, Flow: 2} })
	f(func(l *analyzer.Limits) { l.Load = analyzer.Load{High: -1, Low: -2, Percent: 101} }, "load.high", "load.low", "load.percent")
	f(func(l *analyzer.Limits) { l.Load.Scale = 1 << 63 }, "load.scale")
	f(rule(analyzer.RuleTurns, func(s *rules.Setting) { s.Mode = 9 }), "rules.max_turns.mode")
	f(rule(analyzer.RuleTurns, func(s *rules.Setting) { s.Warn, s.Stop = 0, -3 }), "rules.max_turns.warn", "rules.max_turns.stop")
	f(rule(analyzer.RuleTurns, func(s *rules.Setting) { s.Stop, s.Max = 0, true }), "rules.max_turns.max")
	f(rule(analyzer.RuleTurns, func(s *rules.Setting) { s.Window = 1 }), "rules.max_turns.window")
	f(rule(analyzer.RuleTurns, func(s *rules.Setting) { s.IgnoreResults = true }), "rules.max_turns.ignore_results")
	f(rule(analyzer.RuleTotalTokens, func(s *rules.Setting) { s.Stop = rules.Off - 1 }), "rules.max_total_tokens.max")
	f(rule(analyzer.RuleFlowRate, func(s *rules.Setting) { s.Window = 0 }), "rules.call_rate_per_flow.window")
	f(rule(analyzer.RuleFlowRate, func(s *rules.Setting) { s.Window = -1 }), "rules.call_rate_per_flow.window")
	f(rule(analyzer.RuleFlowRate, func(s *rules.Setting) { s.Stop = 128 })) // a max of 127
	f(rule(analyzer.RuleFlowRate, func(s *rules.Setting) { s.Stop = 129 }), "rules.call_rate_per_flow.max")
	f(rule(analyzer.RuleRepetition, func(s *rules.Setting) { s.Window = 5 }), "rules.repetition.stop")
	f(rule(analyzer.RuleOperator, func(s *rules.Setting) { s.Mode = rules.ModeOff }), "rules.operator_stop")
	ofAgents := func(id agents.RuleID, change func(s *rules.Setting)) func(*analyzer.Limits) {
		return func(l *analyzer.Limits) { change(&l.Agents.Rules[id]) }
	}
	f(ofAgents(agents.RuleRate, func(s *rules.Setting) { s.All, s.Stop, s.Window = true, 128, 3600 }))
	f(ofAgents(agents.RuleRate, func(s *rules.Setting) { s.Stop = 129 }), "rules.agent_message_rate.max")
	f(ofAgents(agents.RuleMinted, func(s *rules.Setting) { s.Window = 3601 }), "rules.agent_flow_rate.window")
	f(ofAgents(agents.RuleMinted, func(s *rules.Setting) { s.All = true }), "rules.agent_flow_rate.count")
	f(ofAgents(agents.RuleProject, func(s *rules.Setting) { s.Stop, s.Window = 1e9, 60 }))
	f(ofAgents(agents.RuleProject, func(s *rules.Setting) { s.Window = 59 }), "rules.max_project_messages.window")
	f(ofAgents(agents.RuleActivity, func(s *rules.Setting) { s.Warn = 120 }))
	f(ofAgents(agents.RuleActivity, func(s *rules.Setting) { s.Warn, s.Stop = 119, 119 }), "rules.activity_timeout.warn", "rules.activity_timeout.stop")
	f(ofAgents(agents.RuleActivity, func(s *rules.Setting) { s.Warn, s.Mode = 119, rules.ModeOff }))
	f(ofAgents(agents.RuleActivity, func(s *rules.Setting) { s.Stop = s.Warn - 1 }), "rules.activity_timeout.warn")
	f(ofAgents(agents.RuleActivity, func(s *rules.Setting) { s.Max = true }), "rules.activity_timeout.max")
	f(ofAgents(agents.RuleCadence, func(s *rules.Setting) { s.Window = 0 }), "rules.cadence_broken.window")
	f(ofAgents(agents.RuleRescue, func(s *rules.Setting) { s.Stop = 1 }), "rules.rescue")
	f(func(l *analyzer.Limits) {
		l.Agents.Report, l.Agents.Rules[agents.RuleActivity].Warn = 0, 1
	})
	f(func(l *analyzer.Limits) {
		l.Agents.Report, l.Agents.Patience, l.Agents.ResumeWithin, l.Agents.ReviewWithin = -1, 0, time.Microsecond, 1<<62
		l.Agents.SafeCoherence, l.Agents.SafeRisk = -1, 101
	}, "agents.report", "agents.patience", "agents.resume_within", "agents.review_within", "agents.safe_coherence", "agents.safe_risk")
	f(func(l *analyzer.Limits) { l.Agents.Report = 2 * time.Hour }, "agents.report")
	f(func(l *analyzer.Limits) {
		l.Agents.HTTPStatus[agents.RuleRate], l.Agents.HTTPStatus[agents.RuleRescue] = 302, 429
	}, "http_status.agent_message_rate", "http_status.rescue")
	f(func(l *analyzer.Limits) { l.HTTPStatus[analyzer.RuleTurns] = 302 }, "http_status.max_turns")
	f(func(l *analyzer.Limits) {
		l.Texts[analyzer.RuleTurns], l.Texts[analyzer.RuleLoops], l.Texts[analyzer.RuleOperator] = "{number} turns", "a\x1b[31m", "stop"
		l.Texts[analyzer.RuleSelfCall], l.Agents.Texts[agents.RuleActivity] = "{head", "silent"
	}, "texts.self_call", "texts.max_turns", "texts.max_loops", "texts.operator_stop", "texts.activity_timeout")
	f(func(l *analyzer.Limits) {
		l.Tools = []analyzer.ToolLimits{{Name: "a"}, {Name: "a"}, {Name: strings.Repeat("x", 300)}}
	}, "tools.a", `tools."`+strings.Repeat("x", 60)+`…"`)
	f(func(l *analyzer.Limits) {
		l.Tools = []analyzer.ToolLimits{{Name: "a", IgnoreArgs: slices.Repeat([]string{"x"}, 65)}}
	}, "tools.a.ignore_args")
	f(override(analyzer.Override{}), "overrides[0]")
	f(override(analyzer.Override{Scope: events.ScopePair, Rule: analyzer.RuleTurns}), "overrides[0]")
	f(override(analyzer.Override{Scope: events.ScopeFlow, Rule: analyzer.RuleCount}), "overrides[0].rule")
	f(override(analyzer.Override{Scope: events.ScopeFlow, Rule: analyzer.RuleTurns}), "overrides[0].flow", "overrides[0].reason", "overrides[0].expires")
	f(override(analyzer.Override{Scope: events.ScopeFlow, ID: "f", Reason: "a\nb", Expires: 1}), "overrides[0].reason")
	f(func(l *analyzer.Limits) {
		l.Identity, l.Load.Percent, l.Rules[analyzer.RuleTurns].Warn = 7, 0, 0
		l.Overrides = make([]analyzer.Override, 300)
	}, "identity", "rules.max_turns.warn", "load.percent", "overrides")
}

func TestBalancedIsValidAsItIs(t *testing.T) {
	l := analyzer.Balanced()
	if err := limitfile.Validate(&l); err != nil {
		t.Fatal(err)
	}
	if want := analyzer.Balanced(); !reflect.DeepEqual(l, want) {
		t.Errorf("validation changed\n%+v to\n%+v", want, l)
	}
}

func TestValidateArranges(t *testing.T) {
	override := func(scope events.ScopeKind, id string, rule analyzer.RuleID) analyzer.Override {
		return analyzer.Override{Scope: scope, ID: id, Rule: rule, Setting: analyzer.Balanced().Rules[rule], Reason: "why", Expires: 1}
	}
	tools := []analyzer.ToolLimits{{Name: "b", IgnoreArgs: []string{"z", "a"}}, {Name: "nothing"}, {Name: "a", Exempt: true}}
	overrides := []analyzer.Override{
		override(events.ScopeFlow, "f", analyzer.RuleTurns),
		override(events.ScopeTool, "t", analyzer.RuleToolCalls),
		override(events.ScopeAgent, "b", analyzer.RuleTurns),
		override(events.ScopeAgent, "a", analyzer.RuleToolCalls),
		override(events.ScopeAgent, "a", analyzer.RuleTurns),
		override(events.ScopeProject, "p", analyzer.RuleTurns),
	}
	l := analyzer.Balanced()
	l.Tools, l.Overrides = slices.Clone(tools), slices.Clone(overrides)
	givenTools, givenOverrides := l.Tools, l.Overrides
	l.HTTPStatus[analyzer.RuleTurns] = 402 // its own
	l.Rules[analyzer.RuleCost].Max = false
	if err := limitfile.Validate(&l); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(givenTools, tools) || !reflect.DeepEqual(givenOverrides, overrides) {
		t.Error("the slices of the caller were written to")
	}
	if want := []analyzer.ToolLimits{{Name: "a", Exempt: true}, {Name: "b", IgnoreArgs: []string{"a", "z"}}}; !reflect.DeepEqual(l.Tools, want) {
		t.Errorf("tools %+v", l.Tools)
	}
	var got []string
	for _, o := range l.Overrides {
		got = append(got, string(o.Scope)+" "+o.ID+" "+analyzer.Rules[o.Rule].Name)
	}
	if want := []string{"project p max_turns", "agent a max_tool_calls", "agent a max_turns", "agent b max_turns", "tool t max_tool_calls", "flow f max_turns"}; !slices.Equal(got, want) {
		t.Errorf("overrides %v", got)
	}
	if l.HTTPStatus[analyzer.RuleTurns] != 0 || !l.Rules[analyzer.RuleCost].Max {
		t.Errorf("status %d, cost %+v", l.HTTPStatus[analyzer.RuleTurns], l.Rules[analyzer.RuleCost])
	}
}

func TestAmount(t *testing.T) {
	f := func(unit events.Unit, v int64, want string) {
		t.Helper()
		if got := limitfile.Amount(unit, v); got != want {
			t.Errorf("%d %s is %q, want %q", v, unit, got, want)
		}
	}
	f(events.UnitCalls, 5, "5")
	f(events.UnitCalls, rules.Off, "off")
	f(events.UnitUSD, 2_500_000, "2.5")
	f(events.UnitUSD, 1, "0.000001")
	f(events.UnitUSD, -1_000_000, "-1")
	f(events.UnitSeconds, 90, "1m30s")
	f(events.UnitSeconds, 600, "10m")
	f(events.UnitSeconds, 7200, "2h")
	f(events.UnitSeconds, 0, "0s")
	f(events.UnitSeconds, 1<<60, "1152921504606846976")
}

// TestRemarks holds that a deep limit is remarked upon, and a usual one is not.
func TestRemarks(t *testing.T) {
	l := analyzer.Balanced()
	if r := limitfile.Remarks(&l); len(r) != 0 {
		t.Errorf("of the default: %v", r)
	}
	l.Rules[analyzer.RuleStackDepth].Stop = 7
	if r := limitfile.Remarks(&l); len(r) != 1 || r[0].Path != "rules.max_stack_depth" || r[0].Message != "a limit above 5 is a design smell" {
		t.Errorf("of a depth of 6: %v", r)
	}
	l.Rules[analyzer.RuleStackDepth].Mode = rules.ModeOff
	if r := limitfile.Remarks(&l); len(r) != 0 {
		t.Errorf("of a rule that is off: %v", r)
	}
}
