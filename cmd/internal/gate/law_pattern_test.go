package gate_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/gate/gatetest"
	"weir/events"
)

// loopingLog returns what dispatchers check and report in the flow "theirs", in which agents and
// tools go in circles of all kinds, with honest work in between.
func loopingLog(r *rand.Rand) (log []events.Event) {
	at, n := lawStart, 0
	add := func(ev events.Event) {
		n++
		at = at.Add(time.Duration(200+r.IntN(6000)) * time.Millisecond)
		ev.ID, ev.Source, ev.Time, ev.Appended, ev.CorrelationID = fmt.Sprint("h", n), "dispatcher", at, at, "theirs"
		log = append(log, ev)
	}
	hash := func(v int) events.Hash { return events.Hash{Algorithm: events.XXH64, Value: uint64(v) + 1} }
	add(events.Event{Kind: events.AgentCall, Origin: events.OriginUser, To: events.Party{Agent: "a"}})
	parties := []string{"a", "b", "c"}[:2+r.IntN(2)]
	call, result, content := r.IntN(3), r.IntN(3), r.IntN(2)
	for round := range 40 {
		honest := r.IntN(12) == 0 // something new
		switch kind := r.IntN(3); {
		case kind > 0 && call != 0:
			from := events.Party{Agent: parties[0]}
			args, answer := hash(call), hash(result)
			if honest {
				args, answer = hash(100+round), hash(200+round)
			}
			id := fmt.Sprint("c", n)
			add(events.Event{Kind: events.ToolCall, Ask: true, From: from, Tool: events.Tool{Name: "read", CallID: id, ArgsHash: args}})
			status := events.StatusOK
			if result == 2 {
				status = events.StatusError
			}
			add(events.Event{Kind: events.ToolResult, From: from, Tool: events.Tool{Name: "read", CallID: id}, Status: status, Content: answer})
		default:
			text := hash(content * round)
			for i := range parties {
				add(events.Event{Kind: events.AgentCall, Ask: true, HadWork: events.No, Content: text, From: events.Party{Agent: parties[i]}, To: events.Party{Agent: parties[(i+1)%len(parties)]}})
			}
		}
	}
	return log
}

// same reports the first event of a log of which the fold says something else than of another log.
func differs(engine *analyzer.Engine, honest []events.Event, injected []injection, refusals *int) string {
	alone, beside := newLawFold(engine), newLawFold(engine)
	for i := range honest {
		for ; len(injected) > 0 && injected[0].before == i; injected = injected[1:] {
			x := injected[0].event
			beside.step(&x)
		}
		a, b := honest[i], honest[i]
		if alone.step(&a) {
			*refusals++
		}
		beside.step(&b)
		if got, want := said(&beside.fx), said(&alone.fx); !bytes.Equal(got, want) {
			return fmt.Sprintf("event %d: beside others\n%salone\n%s", i, got, want)
		}
	}
	return ""
}

// said is all that a step has said.
func said(fx *analyzer.Effects) (text []byte) {
	for i := range fx.Verdicts {
		text = append(fx.Verdicts[i].AppendJSON(text), '\n')
	}
	if fx.Answer != nil {
		text = append(fx.Answer.AppendJSON(text), '\n')
	}
	return text
}

// adversary returns one that knows all names of the honest log.
func adversary(r *rand.Rand, honest []events.Event, flows ...string) *gatetest.Adversary {
	a := &gatetest.Adversary{Rand: r, Names: []string{"a", "b", "c", "z", "read", "c1", "h1", "dispatcher", "t1", "s"}, Flows: flows, Source: "dispatcher"}
	for i := range honest {
		if honest[i].Ask || honest[i].Operator != nil {
			a.IDs = append(a.IDs, honest[i].ID)
		}
	}
	return a
}

// attack makes injections into a log.
func attack(r *rand.Rand, a *gatetest.Adversary, honest []events.Event) (out []injection) {
	few, many := 1+r.IntN(20), 1+r.IntN(6)
	if r.IntN(10) == 0 {
		many = 200 // more than a flow remembers
	}
	for i := range honest {
		if r.IntN(few) > 0 {
			continue
		}
		for range 1 + r.IntN(many) {
			out = append(out, injection{i, a.Event(honest[i].Appended)})
		}
	}
	return out
}

// law runs a law over logs until enough was injected, and shows the fewest injections that break it.
func law(t *testing.T, engine *analyzer.Engine, breaks func(*analyzer.Engine, []events.Event, []injection, *int) string, log func(*rand.Rand) []events.Event, against func(*rand.Rand, []events.Event) *gatetest.Adversary) {
	t.Helper()
	total, refusals := 0, 0
	for seed := uint64(1); total < injections(); seed++ {
		r := rand.New(rand.NewPCG(seed, 35))
		honest := log(r)
		injected := attack(r, against(r, honest), honest)
		total += len(injected)
		why := breaks(engine, honest, injected, &refusals)
		if why == "" {
			continue
		}
		for i := len(injected) - 1; i >= 0; i-- { // those that are not needed for it
			less := slices.Delete(slices.Clone(injected), i, i+1)
			if again := breaks(engine, honest, less, new(int)); again != "" {
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

// TestOthersChangeNothingInOtherFlows injects events of a mere sender, of all kinds and with any
// value in any field, into flows of its own. What weir says of the flow of the dispatcher is the
// same, byte for byte: all rules of the balanced profile, warnings, blocks and answers.
func TestOthersChangeNothingInOtherFlows(t *testing.T) {
	t.Parallel()
	law(t, analyzer.New(analyzer.Balanced()), differs, loopingLog, func(r *rand.Rand, honest []events.Event) *gatetest.Adversary {
		return adversary(r, honest, "mine", "", "their", "theirs2")
	})
}

// TestOthersFreeNoPattern injects events of a mere sender into the flow of the dispatcher. No check
// passes that a rule of the balanced profile refused without them, unless they report calls, work,
// answers or a user's message, of which SECURITY.md has the reason.
func TestOthersFreeNoPattern(t *testing.T) {
	t.Parallel()
	l := analyzer.Balanced()
	l.Escalate = analyzer.Escalation{} // attempts of others change how soon a block gets wider
	law(t, analyzer.New(l), interferes, loopingLog, func(r *rand.Rand, honest []events.Event) *gatetest.Adversary {
		a := adversary(r, honest, "theirs")
		a.Plain = func(ev *events.Event) bool {
			switch ev.Kind {
			case events.AgentCall, events.ToolCall, events.ToolResult, events.AgentReturn:
				return false
			}
			return ev.By() != events.OriginUser
		}
		return a
	})
}
