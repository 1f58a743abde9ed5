package pump

import (
	"testing"
	"time"

	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// TestTurnBack lets a clock be three hours ahead and go back: what comes then is judged by
// its own time, not by that of the future.
func TestTurnBack(t *testing.T) {
	at := func(d time.Duration) events.Stamp { return pumptest.Start.Add(d) }
	selfCall := func(flow string, when time.Duration) []byte {
		ev := pumptest.SelfCall(flow, 1)
		ev.ID, ev.Time = when.String(), at(when)
		return ev.AppendJSON(nil)
	}
	p := newTestPump(t, Options{Sink: &memoryLog{}})
	fold := func(appended time.Duration, value []byte) {
		t.Helper()
		if err := p.Batch(t.Context(), []Record{{Offset: p.Next(), Appended: at(appended), Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	fold(0, selfCall("old", 0))
	fold(3*time.Hour, pumptest.Tick(at(3*time.Hour)))
	fold(3*time.Hour, selfCall("ahead", 3*time.Hour))
	fold(10*time.Second, TurnBackRecord(at(3*time.Hour), at(10*time.Second)))
	if seen := events.Stamp(p.Standing().Watermark.Load()); seen != at(10*time.Second) {
		t.Fatalf("the watermark is %v", seen.Time())
	}
	for _, flow := range []string{"old", "ahead", "new"} {
		fold(20*time.Second, selfCall(flow, 20*time.Second))
		view, known, err := p.View(flow)
		if !known || err != nil || events.Stamp(view.Last) != at(20*time.Second) {
			t.Errorf("%s was last active at %v, %v", flow, view.Last, err)
		}
		if len(view.Orders) != 1 || view.Orders[0].Time > events.RFC3339(at(20*time.Second)) || view.Orders[0].ExpiresAt > events.RFC3339(at(time.Hour)) {
			t.Errorf("%s has the orders %+v", flow, view.Orders)
		}
	}
}

// TestTurnBackFoldsTheSame holds a log whose time goes back twice against itself, cut into
// batches and with restarts between them.
func TestTurnBackFoldsTheSame(t *testing.T) {
	var records []Record
	add := func(appended events.Stamp, value []byte) {
		records = append(records, Record{Offset: int64(len(records)), Appended: appended, Value: value})
	}
	for i, r := range traffic(7, 900) {
		if i == 300 || i == 600 {
			ahead := r.Appended.Add(20 * time.Minute)
			add(ahead, pumptest.Tick(ahead))
			for n := range 40 {
				ev := pumptest.Call("turned", i+n, "a", "b")
				ev.Time = ahead
				add(ahead, ev.AppendJSON(nil))
			}
			add(r.Appended, TurnBackRecord(ahead, r.Appended))
			ev := pumptest.Call("turned", i+100, "a", "b")
			ev.Time = r.Appended
			add(r.Appended, ev.AppendJSON(nil))
		}
		add(r.Appended, r.Value)
	}
	want := undisturbed(t, records)
	got, store := &memoryLog{}, pumptest.OpenState(t)
	for from := 0; from < len(records); from += 37 {
		p := newTestPump(t, Options{Store: store, Sink: got})
		if err := p.Batch(t.Context(), records[from:min(from+37, len(records))]); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sameLog(t, got, want)
}
