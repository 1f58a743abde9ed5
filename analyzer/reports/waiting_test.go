package reports_test

import (
	"fmt"
	"testing"

	"weir/analyzer/activity"
	"weir/analyzer/reports"
	"weir/events"
)

// TestWaiting adds reports about two parties of two flows in turn, and keeps the last of each
// in the order in which they first came.
func TestWaiting(t *testing.T) {
	var w reports.Waiting
	for range 2 { // the second time in memory that is used again
		name := []byte("party-0")
		for i := range 9 {
			name[6] = '0' + byte(i%2)
			w.Add(&activity.Report{Flow: uint64(i / 2 % 2), Name: string(name), Agent: "agent", Did: events.Stamp(100 + i), Work: activity.Work(i % int(activity.WorkCount))})
		}
		var got []string
		for i := range w.Len() {
			r := w.At(i)
			got = append(got, fmt.Sprint(r.Flow, " ", r.Name, " ", r.Agent, " ", r.Did, " ", r.Work))
		}
		want := []string{"0 party-0 agent 108 waiting_backoff", "0 party-1 agent 105 active", "1 party-0 agent 106 in_tool", "1 party-1 agent 107 waiting_child"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("waiting\n%q\nwant\n%q", got, want)
		}
		w.Reset()
		if w.Len() != 0 {
			t.Errorf("%d wait after a reset", w.Len())
		}
	}
	for i := 0; !w.Full(); i++ {
		if i > 5000 {
			t.Fatal("it is never full")
		}
		w.Add(&activity.Report{Flow: uint64(i), Name: "party"})
	}
}

// TestUrge sends some tries at once, with those that wait, and leaves all other reports where they are.
func TestUrge(t *testing.T) {
	var w reports.Waiting
	tried := func(party string, at events.Stamp, nth uint16) *activity.Report {
		r := &activity.Report{Name: party, Tries: 1, Tried: at, Nth: nth}
		r.Identify()
		return r
	}
	w.Add(tried("a", 10, 1))
	w.Add(&activity.Report{Name: "b", Did: 11, Work: activity.InTool})
	w.Add(tried("b", 14, 1))
	w.Add(tried("b", 13, 2))
	w.Add(tried("a", 15, 2))
	f := func(got activity.Report, want string) {
		t.Helper()
		if got := fmt.Sprint(got.Name, " ", got.Did, " ", got.Work, " ", got.Tries, " ", got.Tried, " ", got.Nth); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(w.Urge(tried("a", 16, 3)), "a 0 active 3 16 3")
	f(w.Urge(tried("c", 17, 1)), "c 0 active 1 17 1")
	if w.Len() != 2 {
		t.Fatalf("%d wait, want 2", w.Len())
	}
	f(w.At(0), "a 0 active 0 0 0")
	f(w.At(1), "b 11 in_tool 2 14 2")
	w.Add(tried("a", 18, 4))
	f(w.At(0), "a 0 active 1 18 4")
}
