package webhook

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
)

// TestIncidentsAreFolded sends the verdicts of two incidents to people: a renewal says nothing new,
// a wider halt is an update, and another incident is a message of its own.
func TestIncidentsAreFolded(t *testing.T) {
	var told incidents
	say := func(incident string, action events.Action, scope events.ScopeKind, id string) string {
		t.Helper()
		v := events.Verdict{SchemaVersion: 1, ID: "1-1", Mode: events.ModeEnforce, Action: action, Effective: events.EffectiveNow, IncidentID: incident,
			Scope: events.Scope{Kind: scope, ID: id}, Reason: events.PingPong, RuleID: "ping_pong_same", CorrelationID: "f", Message: "m", ExpiresAt: 1}
		body, err := FormatSlack.body(v.AppendJSON(nil), &told)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if got := say("i1", events.Halt, events.ScopeSession, "a"); !strings.Contains(got, `"text":"An agent is halted in a flow"`) || !strings.Contains(got, `*Incident*\ni1`) {
		t.Errorf("first: %s", got)
	}
	if got := say("i1", events.Halt, events.ScopeSession, "a"); got != "" {
		t.Errorf("a renewal is sent: %s", got)
	}
	if got := say("i1", events.Halt, events.ScopeFlow, "f"); !strings.Contains(got, `"text":"Update 1: A flow is halted"`) {
		t.Errorf("wider: %s", got)
	}
	if got := say("i2", events.Halt, events.ScopeFlow, "f"); !strings.Contains(got, `"text":"A flow is halted"`) {
		t.Errorf("another incident: %s", got)
	}
	if got := say("i1", events.Hold, events.ScopeFlow, "f"); !strings.Contains(got, `"text":"Update 2: A flow is held`) {
		t.Errorf("another action: %s", got)
	}
	for n := range 2 * mostIncidents {
		say(fmt.Sprint("n", n), events.Halt, events.ScopeFlow, "f")
	}
	if len(told.last) != mostIncidents || len(told.order) != mostIncidents {
		t.Errorf("%d incidents are remembered, %d in order", len(told.last), len(told.order))
	}
}
