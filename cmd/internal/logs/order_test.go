package logs

import (
	"fmt"
	"slices"
	"testing"

	"weir/events"
)

// TestOrder puts events in the order of time within its window.
func TestOrder(t *testing.T) {
	f := func(window int, times, want []int) {
		t.Helper()
		var got []int
		o := &order{window: window, tick: func() {}, bad: func(b BadRecord) { t.Error(b) }, emit: func(ev *events.Event) error {
			got = append(got, int(ev.Time))
			return nil
		}}
		for i, at := range times {
			ev := events.Event{ID: fmt.Sprint(i), Time: events.Stamp(at), Kind: events.FlowStart, CorrelationID: "f"}
			if err := o.add(&ev, ev.Time); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.flush(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("window %d, %v: got %v, want %v", window, times, got, want)
		}
	}
	f(10, []int{3, 1, 2, 1}, []int{1, 1, 2, 3})
	f(2, []int{4, 3, 2, 1}, []int{1, 2, 3, 4})
	f(2, []int{5, 4, 3, 2, 1, 9}, []int{2, 3, 1, 4, 5, 9}) // the last one came too late for its place
	f(1, nil, nil)
}
