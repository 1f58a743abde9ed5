package pump

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer"
	"weir/events"
)

// TestStuckAmongMany lists every agent that is stuck. It includes agents that were silent while others
// reported, in such a number that a list of all ends before the silent ones.
func TestStuckAmongMany(t *testing.T) {
	r, err := NewReplay(t.Context(), Options{Limits: analyzer.Balanced()})
	if err != nil {
		t.Fatal(err)
	}
	const agents, silent = MaxScanned + 2000, 40
	offset := int64(0)
	report := func(i int, at events.Stamp) {
		ev := events.Event{ID: fmt.Sprint("r", offset), Source: "/test", Time: at, Kind: events.AgentStatus, From: events.Party{Agent: fmt.Sprint("a", i)},
			AgentState: &events.AgentState{Status: "active", Margin: "critical"}}
		r.Fold(&ev, offset)
		offset++
	}
	const noon events.Stamp = 1_700_000_000_000
	for minutes := range 4 {
		for i := range agents {
			if minutes == 0 || i >= silent {
				report(i, noon.Add(time.Duration(minutes)*4*time.Minute))
			}
		}
	}
	_, pump := r.Pumps()
	list, err := AgentsOf([]*Pump{pump}, AgentQuery{Stuck: true, Limit: agents})
	if err != nil || len(list.Agents) != silent || list.Stuck != silent || list.Truncated {
		t.Fatalf("%d of %d stuck agents, %d counted, truncated %v, %v", len(list.Agents), silent, list.Stuck, list.Truncated, err)
	}
	for _, a := range list.Agents {
		if a.State != stateStuck || events.Stamp(a.Since) != noon.Add(5*time.Minute)+1 {
			t.Errorf("agent %s is %s since %s", a.Agent, a.State, a.Since)
		}
	}
	all, err := AgentsOf([]*Pump{pump}, AgentQuery{Limit: 10})
	if err != nil || !all.Truncated || all.Scanned != MaxScanned {
		t.Errorf("%d of all scanned, truncated %v, %v", all.Scanned, all.Truncated, err)
	}
}
