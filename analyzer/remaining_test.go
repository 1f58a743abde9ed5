package analyzer_test

import (
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
)

// asksOf folds asks of a tool, each its own call, and returns the answers.
func asksOf(t *testing.T, l analyzer.Limits, calls int) []events.Verdict {
	return answersTo(t, l, calls, false)
}

// asksWanting are asks that want to be told what is left.
func asksWanting(t *testing.T, l analyzer.Limits, calls int) []events.Verdict {
	return answersTo(t, l, calls, true)
}

func answersTo(t *testing.T, l analyzer.Limits, calls int, tell bool) (answers []events.Verdict) {
	t.Helper()
	if err := limitfile.Validate(&l); err != nil {
		t.Fatal(err)
	}
	e := analyzer.New(l)
	var p analyzer.Partition
	var f analyzer.Flow
	var fx analyzer.Effects
	for i := range calls {
		ev := events.Event{ID: "a" + string(rune('a'+i)), Source: "s", Kind: events.ToolCall, Ask: true, Tell: tell, CorrelationID: "f", CorrelationSource: events.CorrelationExplicit,
			From: events.Party{Agent: "coder"}, Time: events.StampOf(time.Date(2026, 11, 20, 14, 0, i, 0, time.UTC))}
		ev.Tool = events.Tool{Name: "read", ArgsHash: events.Hash{Algorithm: events.XXH64, Value: uint64(i)}}
		e.Step(&p, &f, &ev, &fx)
		answers = append(answers, *fx.Answer)
	}
	return answers
}

// leftOf is what an answer says of a row; -1 for nothing.
func leftOf(v *events.Verdict, rule string) float64 {
	for _, r := range v.Remaining {
		if r.RuleID == rule {
			return r.Left
		}
	}
	return -1
}

func TestAnswersSayWhatIsLeft(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		l := analyzer.Balanced()
		l.Rules[analyzer.RuleToolCalls] = rules.Setting{Warn: rules.Off, Stop: 6, Max: allowed, Tell: 2}
		l.Rules[analyzer.RuleCost] = rules.Setting{Warn: rules.Off, Stop: 5_000_000}
		answers := asksOf(t, l, 7)
		for i := range answers {
			v := &answers[i]
			if got, want := leftOf(v, "max_tool_calls"), float64(max(0, 4-i)); got != want {
				t.Errorf("max %v: after call %d %v are left, want %v", allowed, i+1, got, want)
			}
			if got := leftOf(v, "max_cost_usd"); got != 5 {
				t.Errorf("max %v: %v dollars are left, want 5", allowed, got)
			}
			told := strings.Contains(v.AgentMessage, " of ") && strings.Contains(v.AgentMessage, "Wrap up")
			if want := i >= 2 && i < 5; told != want {
				t.Errorf("max %v: after call %d the model is told %q, want it told to wrap up: %v", allowed, i+1, v.AgentMessage, want)
			}
			if passes := v.Action == "allow" || v.Action == "warn" || v.Effective == "next"; passes != (i < 5) {
				t.Errorf("max %v: call %d is answered %s", allowed, i+1, v.Action)
			}
		}
		if allowed {
			if got, want := answers[3].AgentMessage, "The flow guard counts: 1 of 5 calls left (max_tool_calls). Wrap up: finish what matters most and report what is done and what is not, before calls are refused."; got != want {
				t.Errorf("told %q\nwant %q", got, want)
			}
		}
	}
}

func TestNothingIsLeftToTellOfWhatRefusesNothing(t *testing.T) {
	l := analyzer.Balanced()
	for i := range l.Rules {
		if l.Rules[i].Mode = rules.ModeShadow; analyzer.Rules[i].Fixed {
			l.Rules[i].Mode = rules.ModeEnforce
		}
	}
	for _, v := range asksWanting(t, l, 3) {
		if v.Remaining != nil || v.AgentMessage != "" {
			t.Errorf("says %v, %q", v.Remaining, v.AgentMessage)
		}
	}
}

func TestTimeThatIsLeftHasAnEnd(t *testing.T) {
	l := analyzer.Balanced()
	l.Rules[analyzer.RuleFlowDuration] = rules.Setting{Warn: rules.Off, Stop: 60}
	answers := asksWanting(t, l, 11)
	for _, r := range answers[10].Remaining {
		if r.RuleID == "max_flow_duration" && (r.Left != 50 || r.Until.String() != "2026-11-20T14:01:00.000Z") {
			t.Errorf("%+v", r)
		}
	}
	if leftOf(&answers[10], "max_flow_duration") != 50 {
		t.Error("nothing is said of the time")
	}
}

func TestWhatIsLeftIsWorkedOutOnlyForWhoWantsIt(t *testing.T) {
	l := analyzer.Balanced()
	l.Rules[analyzer.RuleToolCalls] = rules.Setting{Warn: rules.Off, Stop: 6, Max: true}
	for i, v := range asksOf(t, l, 7) {
		if v.Remaining != nil {
			t.Errorf("ask %d, which wants nothing told, is told %v", i+1, v.Remaining)
		}
	}
	for i, v := range asksWanting(t, l, 7) {
		if got, want := leftOf(&v, "max_tool_calls"), float64(max(0, 4-i)); got != want {
			t.Errorf("after call %d %v are left, want %v", i+1, got, want)
		}
	}
	l.Rules[analyzer.RuleToolCalls].Tell = 1
	for i, v := range asksOf(t, l, 7) {
		if v.Remaining == nil {
			t.Errorf("ask %d is told nothing, though the limits tell", i+1)
		}
	}
}

// BenchmarkAsk is one ask of a flow that is within its limits.
func BenchmarkAsk(b *testing.B) {
	for name, tell := range map[string]bool{"plain": false, "tell": true} {
		b.Run(name, func(b *testing.B) {
			e := analyzer.New(analyzer.Balanced())
			var p analyzer.Partition
			var first analyzer.Flow
			var fx analyzer.Effects
			ev := events.Event{ID: "a", Source: "s", Kind: events.ToolCall, Ask: true, Tell: tell, CorrelationID: "f", From: events.Party{Agent: "coder"}, Time: 1_795_183_200_000}
			ev.Tool = events.Tool{Name: "read", ArgsHash: events.Hash{Algorithm: events.XXH64, Value: 1}}
			e.Step(&p, &first, &ev, &fx)
			ev.ID = "b"
			b.ReportAllocs()
			for b.Loop() {
				f := first.Clone()
				fx.Reset()
				e.Step(&p, f, &ev, &fx)
			}
		})
	}
}
