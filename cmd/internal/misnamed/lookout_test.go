package misnamed

import (
	"testing"

	"weir/events"
)

// TestLateMisspelling has a producer that tells no caller and, long after it, one that misspells
// it: that one is still found, and all that it sends from then on.
func TestLateMisspelling(t *testing.T) {
	found := 0
	l := &Lookout{Report: func(_ *events.Event, near events.Nearby) {
		if near != (events.Nearby{Name: "form", Meant: "from"}) {
			t.Fatalf("reported %+v", near)
		}
		found++
	}}
	look := func(record string) {
		t.Helper()
		var ev events.Event
		if err := events.Decode([]byte(record), &ev); err != nil {
			t.Fatal(err)
		}
		l.Look([]byte(record), &ev)
	}
	const begin = `{"id":"1","source":"s","time":"2026-01-01T00:00:00Z","kind":"agent.call","correlation_id":"c","to":{"agent":"b"}`
	for range 10 * mostVain {
		look(begin + `}`)
	}
	for range 2 * seldom {
		look(begin + `,"form":{"agent":"a"}}`)
	}
	if found < seldom {
		t.Errorf("%d of %d misspelled events were found", found, 2*seldom)
	}
}
