package main

import (
	"fmt"
	"testing"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
)

// TestFlowsOfPartitions lists flows of two partitions: those of both stand in one order, and
// no more of them than were asked for.
func TestFlowsOfPartitions(t *testing.T) {
	ps := new(pumps)
	for partition := range 2 {
		r, err := pump.NewReplay(t.Context(), pump.Options{Limits: limitfile.Default()})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 { // the flows of the partitions take turns
			n = 2*n + partition
			r.Fold(pumptest.Call(fmt.Sprint("f", n), n, "a", "b"), int64(n))
		}
		flows, _ := r.Pumps()
		ps.ofFlows = append(ps.ofFlows, flows)
	}
	list, err := ps.Flows(t.Context(), pump.FlowQuery{Limit: 4})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range list.Flows {
		got = append(got, list.Flows[i].Flow)
	}
	if fmt.Sprint(got) != "[f5 f4 f3 f2]" {
		t.Errorf("listed %v, want the four newest", got)
	}
}
