package main

import (
	"fmt"
	"testing"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
)

// TestFlowsOfATreeInLogs holds that flows of logs and of state folders show what stands against
// the trees that they belong to, as those of a running weir do.
func TestFlowsOfATreeInLogs(t *testing.T) {
	limits := limitfile.Default()
	row, _ := analyzer.RowNamed("max_tree_calls")
	*row.Setting(&limits) = rules.Setting{Warn: rules.Off, Stop: 4, Max: true, Hold: true}
	r, err := pump.NewReplay(t.Context(), pump.Options{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		ev := pumptest.Call([]string{"top", "child", "grandchild"}[n%3], n, "a", "b")
		ev.ParentCorrelationID = []string{"", "top", "child"}[n%3]
		r.Fold(ev, int64(n))
	}
	r.Fold(pumptest.Call("other", 6, "a", "b"), 6)
	flows, trees := r.Pumps()
	ps := &pumps{[]*pump.Pump{flows}, []*pump.Pump{trees}}
	list, err := ps.Flows(t.Context(), pump.FlowQuery{Limit: 10})
	if err != nil || len(list.Flows) != 4 {
		t.Fatal(list, err)
	}
	for _, f := range list.Flows {
		want := "held"
		if f.Flow == "other" {
			want = "ok"
		}
		view, ok, err := ps.View(t.Context(), f.Flow)
		if err != nil || !ok || f.Status != want || view.Status != want || f.Orders != len(view.Orders) {
			t.Errorf("%s is %s in the list and %s in its view, want %s: %+v, %v", f.Flow, f.Status, view.Status, want, view.Orders, err)
		}
	}
}

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
