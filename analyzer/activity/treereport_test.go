package activity_test

import (
	"testing"

	"weir/analyzer/activity"
	"weir/analyzer/ledger"
	"weir/events"
)

// TestTreeReportBytes holds the bytes of reports to trees to those of earlier versions: the members of a
// group read each other's while they are exchanged.
func TestTreeReportBytes(t *testing.T) {
	ev := &events.Event{ID: "e1", Source: "s", CorrelationID: "here", From: events.Party{Agent: "a"}}
	for _, x := range []struct {
		report activity.TreeReport
		want   string
	}{
		{activity.TreeReport{Work: activity.WorkSpent, Flow: "f", Parent: "p", Spends: ledger.Amount{ledger.Calls: 2, ledger.Tokens: 30, ledger.Cost: 4000}},
			`{"id":"e1","source":"s","time":"2023-11-14T22:13:20.000Z","kind":"agent.activity","correlation_id":"f","parent_correlation_id":"p","from":{"agent":"a"},"work":{"tool_calls":2},"usage":{"total_tokens":30,"cost_usd":0.004},"agent_state":{"status":"spent"}}`},
		{activity.TreeReport{Work: activity.WorkBelongs, Flow: "f", Root: "r", Hops: 3, First: "b"},
			`{"id":"e1","source":"s","time":"2023-11-14T22:13:20.000Z","sequence":3,"kind":"agent.activity","correlation_id":"f","root_correlation_id":"r","from":{"agent":"a"},"task_id":"b","agent_state":{"status":"belongs"}}`},
	} {
		var fx activity.Effects
		said := fx.SayTree("root", ev, 1_700_000_000_000, x.report)
		if got := string(said.AppendJSON(nil)); got != x.want {
			t.Errorf("%s", got)
		}
		if fx.Activity[0].Key != activity.TreeKey("root") {
			t.Errorf("key %q", fx.Activity[0].Key)
		}
		var read events.Event
		if err := events.Decode([]byte(x.want), &read); err != nil {
			t.Fatal(err)
		}
		if got := activity.TreeReportOf(&read); got != x.report {
			t.Errorf("read %+v, want %+v", got, x.report)
		}
	}
}
