package main

import (
	"testing"
	"time"
)

// TestSwitch is the trial of the switch with the guard of Go and few checks. It allows for a busy machine.
func TestSwitch(t *testing.T) {
	t.Parallel()
	s := &storm{flows: 50, partitions: 8, out: t.Output()}
	w := &switches{rounds: 1, tries: 200, guards: 3, within: time.Minute}
	if !testing.Short() {
		s.partitions, w.rounds, w.tries, w.guards = 64, 4, 5000, 8
	}
	ok, err := w.run(t.Context(), s)
	if err != nil || !ok {
		t.Errorf("ok %v, %v", ok, err)
	}
}
