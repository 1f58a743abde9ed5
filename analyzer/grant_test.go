package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
)

// TestGrantedView holds a flow, lets a person grant more, and looks at what is shown: the beginning stays what
// it was, the wait and the grant are shown beside it, and the stop has the time at which it happened.
func TestGrantedView(t *testing.T) {
	limits, err := limitfile.Parse("test", []byte("profile: none\nrules: {max_tool_calls: {max: 2, action: hold}, max_flow_duration: {warn: off, stop: 60}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	engine := analyzer.New(limits)
	var p analyzer.Partition
	var flow analyzer.Flow
	var fx analyzer.Effects
	flow.Reset("f")
	begin := events.StampOf(time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	n := 0
	step := func(after time.Duration, ev events.Event) {
		n++
		fx.Reset()
		ev.ID, ev.CorrelationID, ev.Time = fmt.Sprint(n), "f", begin.Add(after)
		ev.Appended = ev.Time
		engine.Step(&p, &flow, &ev, &fx)
	}
	call := events.Event{Kind: events.ToolCall, From: events.Party{Agent: "a"}, Tool: events.Tool{Name: "x"}, Ask: true}
	for i := range 3 {
		step(time.Duration(i)*time.Second, call)
	}
	if v := engine.View(&flow); v.Status != "held" || v.Waited != 0 || v.Grants != nil {
		t.Fatalf("%s, waited %v, %+v", v.Status, v.Waited, v.Grants)
	}
	until := begin.Add(time.Hour)
	step(30*time.Second, events.Event{Kind: events.OverrideSet, Override: &events.Override{Scope: events.ScopeFlow, Rule: "max_tool_calls", Extra: 10, Expires: until}})
	stored, _ := flow.AppendBinary(nil)
	var back analyzer.Flow
	back.Reset("f")
	if err := back.UnmarshalBinary("f", stored); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*analyzer.Flow{&flow, &back} {
		v := engine.View(f)
		want := []rules.GrantView{{Rule: "max_tool_calls", Unit: events.UnitCalls, Limit: 12, Given: events.RFC3339(begin.Add(30 * time.Second)), Until: events.RFC3339(until), More: true}}
		if v.Start != events.RFC3339(begin) || v.Waited != 28 || len(v.Grants) != 1 || v.Grants[0] != want[0] {
			t.Errorf("start %s, waited %v, %+v", v.Start, v.Waited, v.Grants)
		}
		if len(v.Offences) != 1 || v.Offences[0].Last != events.RFC3339(begin.Add(2*time.Second)) {
			t.Errorf("offences: %+v", v.Offences)
		}
		for _, c := range v.Counters {
			if c.Rule == "max_flow_duration" && c.Observed != 2 {
				t.Errorf("it is %v s old, though its time stood still while it waited", c.Observed)
			}
		}
	}
}
