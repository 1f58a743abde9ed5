package guarded_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"weir/events"
	"weir/events/fingerprint"
	"weir/sink/guard"
	"weir/sink/guard/guarded"
	"weir/sink/guard/guardtest"
)

// TestRun runs calls of tools and agents: weir hears of each call and its outcome once, with their
// hashes, and a check comes after the reports about its flow.
func TestRun(t *testing.T) {
	weir := guardtest.New()
	early := 0
	weir.Answer(func(ev *events.Event) *events.Verdict {
		if ev.Tool.Name == "forbidden" {
			return &events.Verdict{ID: "v", Mode: events.ModeEnforce, Action: "deny", Reason: events.SelfCall, HTTPStatus: 403}
		}
		if n := len(weir.Reports()); ev.Tool.Name == "search" && n < early {
			t.Errorf("a check came after %d reports, want %d", n, early)
		}
		early++
		return nil
	})
	g, err := guard.New(guard.Options{URL: guardtest.URL, Client: weir.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := g.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	found := func(context.Context) ([]byte, error) { return []byte("found call_bb923d07ce"), nil }
	for range 5 {
		if out, err := guarded.Tool(ctx, g, guard.Call{Flow: "f", From: "a", Tool: "search"}, []byte(`{"b":1,"a":2.0}`), found); err != nil || string(out) != "found call_bb923d07ce" {
			t.Fatalf("%s, %v", out, err)
		}
	}
	_, err = guarded.Tool(ctx, g, guard.Call{Flow: "f", From: "a", Tool: "forbidden"}, []byte(`{}`), func(context.Context) ([]byte, error) {
		t.Error("a refused call was run")
		return nil, nil
	})
	if stop, ok := errors.AsType[*guard.Stop](err); !ok || stop.Reason != events.SelfCall {
		t.Errorf("a refused call: %v", err)
	}
	_, err = guarded.Agent(ctx, g, guard.Call{Flow: "g", From: "a", To: "b"}, []byte("do it"), func(ctx context.Context) ([]byte, error) {
		if w, ok := guard.WorkOf(ctx); !ok || w.Flow != "g" || w.Party != "b" {
			t.Errorf("the work is %+v", w)
		}
		return nil, errors.New("no way")
	})
	if err == nil || err.Error() != "no way" {
		t.Error(err)
	}
	g.Spent(ctx, guard.Call{Flow: "f", From: "a"}, "m", events.Usage{Input: 7, Output: 3, CostMicroUSD: 500_000})
	g.Close()

	asks := weir.Asks()
	if len(asks) != 7 || !asks[0].Ask || asks[0].Tool.ArgsHash != fingerprint.Args([]byte(`{"a":2,"b":1}`), nil) || asks[0].Tool.ArgsSim != fingerprint.ArgsText([]byte(`{"a":2,"b":1}`)) || asks[6].Content != fingerprint.Content([]byte("do it")) {
		t.Errorf("asked %+v", asks)
	}
	got := map[string]int{}
	for _, ev := range weir.Reports() {
		got[fmt.Sprintf("%s %s %s %s>%s %s", ev.Kind, ev.CorrelationID, ev.Tool.Name, ev.From.Agent, ev.To.Agent, ev.Status)]++
		if ev.Kind == events.ToolResult && (ev.Content != fingerprint.Content([]byte("found call_00000000")) || ev.Sim.IsZero() || ev.Tool.ResultSize != 21 || ev.Tool.CallID == "" || !ev.Tool.ArgsSim.IsZero()) {
			t.Errorf("a result was reported as %+v", ev)
		}
		if ev.Kind == events.LLMCall && (ev.Usage.Input != 7 || ev.Usage.CostMicroUSD != 500_000 || ev.Model != "m") {
			t.Errorf("a request was reported as %+v", ev)
		}
	}
	want := map[string]int{"tool.result f search a> ok": 5, "agent.return g  b>a error": 1, "llm.call f  a> ": 1}
	if !maps.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}

// TestAway reports a call that weir did not answer when weir is back.
func TestAway(t *testing.T) {
	weir := guardtest.New()
	weir.Set(guardtest.Erred)
	g, err := guard.New(guard.Options{URL: guardtest.URL, Client: weir.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := guarded.Tool(t.Context(), g, guard.Call{Flow: "f", From: "a", Tool: "search"}, nil, func(context.Context) ([]byte, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
	}
	weir.Set(guardtest.Up)
	g.Close()
	if n := len(weir.Reports()); n != 6 {
		t.Errorf("%d reports, want 3 calls and 3 outcomes", n)
	}
}
