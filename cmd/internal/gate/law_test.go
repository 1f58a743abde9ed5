package gate_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

var injectionsFlag = flag.Int("injections", 0, "events that each law injects; 0 injects 20,000, and 4,000 with -short")

// injections is how many events each law injects; a long run takes 1,000,000.
func injections() int {
	if *injectionsFlag == 0 && testing.Short() {
		return 4000
	}
	return cmp.Or(*injectionsFlag, 20_000)
}

const lawStart = events.Stamp(1_795_000_000_000)

// lawLimits are the limits that no report takes back: budgets, a rate, and the stop of an
// operator. Patterns are off, because reported work clears them on purpose (SECURITY.md).
func lawLimits() analyzer.Limits {
	l := analyzer.Balanced()
	l.Escalate = analyzer.Escalation{} // attempts of others change how soon a block gets wider
	for i := range l.Rules {
		switch r, s := &analyzer.Rules[i], &l.Rules[i]; {
		case r.Fixed:
		case r.Name == "max_total_calls", r.Name == "max_tool_calls":
			s.Warn, s.Stop, s.Max = rules.Off, 12, true
		case r.Name == "call_rate_per_flow":
			s.Stop, s.Max = 9, true
		case r.Name == "max_total_tokens":
			s.Warn, s.Stop, s.Max = rules.Off, 5000, true
		default:
			s.Mode = rules.ModeOff
		}
	}
	return l
}

// honestLog returns what a dispatcher checks and reports in the flow "theirs".
func honestLog(r *rand.Rand) []events.Event {
	log := make([]events.Event, 40)
	at := lawStart
	scope := events.UsageScope(r.IntN(3))
	for i := range log {
		at = at.Add(time.Duration(r.IntN(8000)) * time.Millisecond)
		ev := events.Event{ID: fmt.Sprint("h", i), Source: "dispatcher", Time: at, Appended: at, CorrelationID: "theirs", From: events.Party{Agent: "a"}}
		switch n := r.IntN(12); {
		case n < 5:
			ev.Kind, ev.Ask, ev.HadWork, ev.To = events.AgentCall, true, events.Yes, events.Party{Agent: "b"}
		case n < 9:
			ev.Kind, ev.Ask, ev.Tool = events.ToolCall, true, events.Tool{Name: "read", CallID: fmt.Sprint("c", i)}
		case n < 11:
			ev.Kind, ev.Usage = events.LLMCall, events.Usage{Known: true, Scope: scope, Input: int64(200 + 40*i), Total: int64(200 + 40*i)}
		case i > 20:
			ev.Kind, ev.Operator = events.OperatorStop, &events.Operator{Reason: "r", By: "ann"}
		default:
			ev.Kind, ev.TurnID = events.TurnStart, fmt.Sprint("t", i)
		}
		log[i] = ev
	}
	return log
}

// lawFold folds logs and keeps which checks of the dispatcher were refused.
type lawFold struct {
	engine *analyzer.Engine
	part   analyzer.Partition
	fx     analyzer.Effects
	flows  map[string]*analyzer.Flow
}

func newLawFold(e *analyzer.Engine) *lawFold {
	return &lawFold{engine: e, flows: map[string]*analyzer.Flow{}}
}

func (w *lawFold) step(ev *events.Event) (refused bool) {
	f := w.flows[ev.FlowKey()]
	if f == nil {
		f = new(analyzer.Flow)
		w.flows[ev.FlowKey()] = f
	}
	w.fx.Reset()
	w.engine.Step(&w.part, f, ev, &w.fx)
	return ev.Ask && w.fx.Answer != nil && w.fx.Answer.Stops()
}

// injection is an event of a mere sender, and before which event of the dispatcher it comes.
type injection struct {
	before int
	event  events.Event
}

// inject makes the injections into a log. Quiet ones spend nothing of a budget, which would hide
// what else an event does.
func inject(r *rand.Rand, honest []events.Event, flow string) (out []injection) {
	a := adversary(r, honest, flow)
	if r.IntN(3) > 0 {
		a.Plain = func(x *events.Event) bool {
			return !(x.Kind == events.AgentCall && x.By() == events.OriginAgent || x.Kind == events.ToolCall || x.Usage.Known && x.Usage.Input+x.Usage.Output+x.Usage.Total > 0)
		}
	}
	return attack(r, a, honest)
}

// interferes says how the injections break the law; "" if they do not. It counts the checks that
// are refused without them.
func interferes(engine *analyzer.Engine, honest []events.Event, injected []injection, refusals *int) string {
	alone, beside := newLawFold(engine), newLawFold(engine)
	for i := range honest {
		for ; len(injected) > 0 && injected[0].before == i; injected = injected[1:] {
			x := injected[0].event
			beside.step(&x)
		}
		a, b := honest[i], honest[i]
		refused, also := alone.step(&a), beside.step(&b)
		if !honest[i].Ask {
			continue
		}
		if refused {
			*refusals++
		}
		if refused && !also {
			return fmt.Sprintf("event %d: a check passes beside others that is refused alone, by %s", i, alone.fx.Answer.RuleID)
		}
		if refused != also && beside.flows["mine"] != nil {
			return fmt.Sprintf("event %d: events in another flow change the answer: refused %v alone, %v beside them", i, refused, also)
		}
		if also && !refused {
			return "" // reports used up the limit; from here on the flow has made other calls
		}
	}
	return ""
}

// TestOthersInterfereWithNoLimit injects events of a mere sender into logs of a dispatcher.
// In the flow of the dispatcher they let no check pass that a budget, a rate or a stop of an
// operator refused without them. In other flows they change no answer at all.
//
// Reports may use up a limit sooner. From the first check that is refused for that reason the
// two flows have made different calls, so a log is compared up to there.
func TestOthersInterfereWithNoLimit(t *testing.T) {
	t.Parallel()
	engine := analyzer.New(lawLimits())
	total, refusals := 0, 0
	for seed := uint64(1); total < injections(); seed++ {
		r := rand.New(rand.NewPCG(seed, 34))
		honest, flow := honestLog(r), "theirs"
		if seed%3 == 0 {
			flow = "mine"
		}
		injected := inject(r, honest, flow)
		total += len(injected)
		why := interferes(engine, honest, injected, &refusals)
		if why == "" {
			continue
		}
		for i := len(injected) - 1; i >= 0; i-- { // those that are not needed for it
			less := slices.Delete(slices.Clone(injected), i, i+1)
			if again := interferes(engine, honest, less, new(int)); again != "" {
				injected, why = less, again
			}
		}
		for _, x := range injected {
			t.Logf("before %d: %s", x.before, x.event.AppendJSON(nil))
		}
		t.Fatalf("seed %d: %s", seed, why)
	}
	if refusals == 0 {
		t.Error("no check is refused, so the law is about nothing")
	}
	t.Logf("%d events injected, %d checks refused without them", total, refusals)
}
