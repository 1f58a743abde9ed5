package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/events"
)

// TestPersonsCallGetsAFlow asks for the call of a person who names no flow: weir makes one, the
// same when it is asked again, which the agents' calls belong to; an agent gets none.
func TestPersonsCallGetsAFlow(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: delegation\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, Options{LimitsFile: limits})
	flowOf := func(body string) string {
		t.Helper()
		got := r.do("POST", "/v1/check", body)
		r.want(got, 200)
		var answer struct{ Verdict events.Verdict }
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
			t.Fatal(err)
		}
		return answer.Verdict.CorrelationID
	}
	const person = `{"id":"m-1","source":"chat","time":"2026-11-20T14:00:00Z","kind":"agent.call","to":{"session":"1"}}`
	flow := flowOf(person)
	if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(flow) {
		t.Fatalf("the flow is %q", flow)
	}
	if again := flowOf(person); again != flow {
		t.Errorf("asked again, the flow is %q, not %q", again, flow)
	}
	if other := flowOf(strings.Replace(person, "m-1", "m-2", 1)); other == flow {
		t.Error("another call belongs to the same flow")
	}
	for _, origin := range []string{"scheduler", "applet"} {
		if flowOf(`{"id":"`+origin+`","source":"chat","time":"2026-11-20T14:00:00Z","kind":"agent.call","origin":"`+origin+`","from":{"agent":"x"},"to":{"session":"1"}}`) == "" {
			t.Errorf("the call of a %s has no flow", origin)
		}
	}
	agent := `{"id":"m-3","source":"chat","time":"2026-11-20T14:00:01Z","kind":"agent.call","correlation_id":"FLOW","from":{"session":"1"},"to":{"session":"2"}}`
	if got := flowOf(strings.Replace(agent, "FLOW", flow, 1)); got != flow {
		t.Errorf("the agent's call is of %q", got)
	}
	r.want(r.do("POST", "/v1/check", strings.Replace(agent, `"correlation_id":"FLOW",`, "", 1)), 400, "Agent call rejected: correlation ID required for agent-initiated calls")
	r.folded()
	r.want(r.do("GET", "/v1/flows/"+flow, ""), 200, `"hops":1`)
}
