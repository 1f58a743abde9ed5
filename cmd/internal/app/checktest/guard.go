package checktest

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard"
	"weir/sink/guard/conformance"
)

// goGuard checks calls by the guard of Go.
type goGuard struct{ *guard.Guard }

// NewGuard returns a way to check calls by the guard of Go, which follows the weir at a URL until the test ends.
func NewGuard(t testing.TB, url string) conformance.Transport {
	t.Helper()
	g, err := guard.New(guard.Options{URL: url, Quiet: true, AskTimeout: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return goGuard{g}
}

// Name returns "go".
func (goGuard) Name() string { return "go" }

// Check sends checks, those of one time one after the other, to the weir that the guard follows.
func (g goGuard) Check(t testing.TB, _ string, checks []conformance.Check) (answers []map[string]any) {
	t.Helper()
	for _, c := range checks {
		var call guard.Call
		text, err := json.Marshal(c.Call)
		if err == nil {
			err = json.Unmarshal(text, &call)
		}
		if err != nil {
			t.Fatal(err)
		}
		switch c.Call["had_work"] {
		case true:
			call.HadWork = events.Yes
		case false:
			call.HadWork = events.No
		}
		d := g.Ask(t.Context(), call)
		got := map[string]any{"action": string(d.Action), "source": d.Source.String()}
		if len(d.Remaining) > 0 {
			got["left"] = len(d.Remaining)
		}
		if s, ok := errors.AsType[*guard.Stop](d.Err()); ok {
			got["reason"], got["message"], got["agent_message"] = string(s.Reason), s.Message, s.AgentMessage
			if !math.IsNaN(s.Limit) {
				got["limit"], got["observed"] = s.Limit, s.Observed
			}
			if s.RetryAfter > 0 {
				got["retry_after_s"] = s.RetryAfter.Seconds()
			}
		}
		answers = append(answers, got)
	}
	return answers
}
