package gate_test

import (
	"slices"
	"testing"

	"weir/cmd/internal/gate"
	"weir/events"
)

// TestWeigh walks every source under every setting.
func TestWeigh(t *testing.T) {
	for list, believed := range map[string][]gate.Source{
		"none":            nil,
		"files,hooks":     {gate.File, gate.Hook},
		"hooks":           {gate.Hook},
		"http":            {gate.Producer, gate.Ask},
		"otlp":            {gate.Spans},
		"runs":            {gate.Runs},
		gate.DefaultTrust: {gate.File},
		"http, otlp":      {gate.Producer, gate.Ask, gate.Spans},
	} {
		trust, err := gate.ParseTrust(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range gate.Sources() {
			claimed := s != gate.Admin && s != gate.Topic && !slices.Contains(believed, s)
			for _, ev := range []events.Event{
				{Kind: events.AgentCall, To: events.Party{Agent: "a"}},
				{Kind: events.AgentCall, From: events.Party{Agent: "ann", Type: events.PartyHuman}, To: events.Party{Agent: "a"}},
				{Kind: events.NoteAdded, Origin: events.OriginUser, From: events.Party{Agent: "a"}},
				{Kind: events.AgentCall, Origin: events.OriginScheduler, From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}},
				{Kind: events.AgentCall, Origin: events.OriginSystem, From: events.Party{Session: "a"}, To: events.Party{Agent: "b"}},
				{Kind: events.AgentCall, Origin: events.OriginApplet, To: events.Party{Agent: "b"}},
			} {
				if changed := trust.Weigh(s, &ev); changed != claimed || ev.Claimed != claimed {
					t.Errorf("%s from %s under %q: a claim: %t", ev.Kind, s, list, ev.Claimed)
				}
			}
			ev := events.Event{Kind: events.AgentCall, From: events.Party{Agent: "b"}, To: events.Party{Agent: "a"}}
			if trust.Weigh(s, &ev) || ev.Claimed {
				t.Errorf("%s under %q: an agent's call is marked", s, list)
			}
			for _, marked := range []bool{false, true} {
				ev.Ask, ev.Claimed = true, marked
				report := claimed && s != gate.Ask
				if changed := trust.Weigh(s, &ev); changed != report || ev.Ask == report || ev.Claimed != marked {
					t.Errorf("%s under %q: a check, marked as a claim %v, is one: %v", s, list, marked, ev.Ask)
				}
			}
		}
	}
	ev := events.Event{Kind: events.AgentCall, From: events.Party{Agent: "b"}, To: events.Party{Agent: "a"}, CorrelationSource: events.CorrelationPrincipal}
	if trust, _ := gate.ParseTrust("none"); !trust.Weigh(gate.Producer, &ev) || ev.CorrelationSource != events.CorrelationExplicit {
		t.Errorf("a producer's event is of a client of a gateway: %v", ev.CorrelationSource)
	}
	for _, bad := range []string{"", "everybody", "http,", "none,http", "topic"} {
		if _, err := gate.ParseTrust(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
