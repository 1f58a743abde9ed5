package guard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"weir/events"
	"weir/sink/guard/guardtest"
)

// dispatcher is a small one: people, schedulers and agents send messages to agents, and
// agents use tools. The agents name the agent that they call and nothing else.
//
// It plays what dispatch.py and dispatch.mjs play, and all three have to ask the same.
func dispatcher(t *testing.T, g *Guard, url string) {
	ctx := t.Context()
	ok := func(d Decision) {
		t.Helper()
		if d.Stopped() {
			t.Error(d.Err())
		}
	}
	// A person writes to the coordinator, which calls a worker, which uses a tool and reports back.
	coordinator, d := g.Dispatch(ctx, Call{To: "s1", ToAgent: "coordinator"})
	ok(d)
	worker, d := g.Dispatch(coordinator, Call{To: "s2", ToAgent: "worker"})
	ok(d)
	ok(g.Ask(worker, Call{Tool: "search"}))
	_, d = g.Dispatch(worker, Call{To: "s1", ToAgent: "coordinator"})
	ok(d)
	// Another person's message in the middle of it, and one of a scheduler, belong to flows of their own.
	_, d = g.Dispatch(worker, Call{To: "s2", Origin: events.OriginUser})
	ok(d)
	_, d = g.Dispatch(worker, Call{To: "s3", From: "cron", Origin: events.OriginScheduler})
	ok(d)
	// What a call says itself holds.
	ok(g.Ask(worker, Call{Flow: "mine", From: "x", To: "y"}))
	ok(g.Ask(worker, Call{Flow: "mine", To: "y"}))
	// Work goes to another process.
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/hop", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := WorkOf(worker)
	w.SetHeader(r.Header)
	there, _ := WorkFrom(r.Header)
	_, d = g.Dispatch(WithWork(ctx, there), Call{To: "s4"})
	ok(d)
	// A refused call begins nothing: what comes after it is still the worker's.
	refused, d := g.Dispatch(worker, Call{To: "forbidden"})
	if !d.Stopped() {
		t.Error("the forbidden call was allowed")
	}
	ok(g.Ask(refused, Call{Tool: "write"}))
	// Outside of all work an agent has no flow, and weir is asked so.
	ok(g.Ask(ctx, Call{From: "s9", To: "s1"}))
}

// asked is what a dispatcher asks, with each flow that was made for it by its number.
func asked(evs []events.Event) (lines []string) {
	made := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	flows := map[string]string{}
	for i := range evs {
		ev := &evs[i]
		flow := ev.CorrelationID
		if made.MatchString(flow) {
			if flows[flow] == "" {
				flows[flow] = "made" + string(rune('1'+len(flows)))
			}
			flow = flows[flow]
		}
		party := func(p events.Party) string { return strings.Trim(p.Session+"/"+p.Agent, "/") }
		origin := ""
		if ev.Origin != events.OriginUnset {
			origin = " by " + ev.Origin.String()
		}
		lines = append(lines, strings.TrimRight(flow+": "+party(ev.From)+"->"+party(ev.To)+" "+ev.Tool.Name, " ")+origin)
	}
	return lines
}

var wantAsked = []string{
	"made1: ->s1/coordinator",
	"made1: s1/coordinator->s2/worker",
	"made1: s2/worker-> search",
	"made1: s2/worker->s1/coordinator",
	"made2: ->s2 by user",
	"made3: cron->s3 by scheduler",
	"mine: x->y",
	"mine: s2/worker->y",
	"made1: s2/worker->s4",
	"made1: s2/worker->forbidden",
	"made1: s2/worker-> write",
	": s9->s1",
}

// TestDispatch plays a dispatcher in each language and compares what weir is asked.
func TestDispatch(t *testing.T) {
	forbid := func(ev *events.Event) *events.Verdict {
		if ev.To.Agent == "forbidden" {
			return &events.Verdict{ID: "v", Mode: "enforce", Action: "deny", Reason: "operator_stop", HTTPStatus: 403, Message: "no"}
		}
		return nil
	}
	compare := func(t *testing.T, weir *guardtest.Weir) {
		t.Helper()
		got := strings.Join(asked(weir.Asks()), "\n")
		if want := strings.Join(wantAsked, "\n"); got != want {
			t.Errorf("asked:\n%s\nwant:\n%s", got, want)
		}
	}
	t.Run("go", func(t *testing.T) {
		weir := guardtest.New()
		weir.Answer(forbid)
		g, err := New(Options{URL: guardtest.URL, Client: weir.Client()})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		dispatcher(t, g, guardtest.URL)
		compare(t, weir)
	})
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			command := l.command(t)
			command[1] = strings.Replace(command[1], "conformance", "dispatch", 1)
			weir := guardtest.New()
			weir.Answer(forbid)
			server := httptest.NewServer(weir)
			defer server.Close()
			defer weir.Set(guardtest.Away)
			run := exec.CommandContext(t.Context(), command[0], append(command[1:], server.URL)...)
			run.Stderr = os.Stderr
			if out, err := run.Output(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			compare(t, weir)
		})
	}
}

// TestFlowFromWeir checks a person's call without a flow: weir makes one, and the guard returns it.
func TestFlowFromWeir(t *testing.T) {
	weir := guardtest.New()
	weir.Answer(func(*events.Event) *events.Verdict {
		return &events.Verdict{ID: "v", Mode: "enforce", Action: "allow", CorrelationID: "made-by-weir"}
	})
	g, err := New(Options{URL: guardtest.URL, Client: weir.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if d := g.Ask(t.Context(), Call{To: "s1"}); d.Flow != "made-by-weir" {
		t.Errorf("the flow is %q", d.Flow)
	}
	if d := g.Ask(t.Context(), Call{Flow: "own", To: "s1"}); d.Flow != "own" {
		t.Errorf("the flow is %q", d.Flow)
	}
	ctx, _ := g.Dispatch(context.Background(), Call{To: "s1"})
	if w, ok := WorkOf(ctx); !ok || w.Flow == "" || w.Flow == "made-by-weir" || w.Party != "s1" {
		t.Errorf("work %+v", w)
	}
	if d := g.Check(ctx, Call{To: "s2"}); d.Flow == "" {
		t.Error("Check does not take the flow of the context")
	}
}
