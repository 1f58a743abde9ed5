package main

import (
	"testing"
	"time"
)

// TestBudgets is the trial of budgets, in short with less of everything. The bound of the stream
// allows for a busy machine.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := &storm{flows: 30, partitions: 4, out: t.Output()}
	m := &market{callers: 16, dollars: 3, kills: 1, latency: 30 * time.Second}
	if !testing.Short() {
		s.flows, s.partitions, m.dollars, m.kills = 1000, 64, 50, 5
	}
	ok, err := m.run(t.Context(), s)
	if err != nil || !ok {
		t.Errorf("ok %v, %v", ok, err)
	}
}
