package app

import (
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestClockAheadForSeconds sets the clock of the machine three hours ahead and back: the
// orders stand as if nothing had been, and meanwhile /readyz says what is wrong.
func TestClockAheadForSeconds(t *testing.T) {
	r := begin(t, Options{})
	ask := stoppedPair(r)
	r.fake.Set(3 * time.Hour)
	r.want(r.do("GET", "/readyz", ""), 503, "3h0m0s ahead of the log")
	ahead := events.Event{ID: "ahead", Time: events.StampOf(r.clock.Now()), Kind: events.ToolCall, CorrelationID: "f", From: events.Party{Agent: "c"}, Tool: events.Tool{Name: "t"}}
	r.want(r.do("POST", "/v1/events", lines(&ahead)), 202) // from a producer with the same clock
	r.folded()
	r.fake.Set(-3 * time.Hour)
	if got := ask("after", 100); !strings.Contains(got.body, `"deny"`) {
		t.Errorf("the order is gone: %s", got.body)
	}
	if seen := events.Stamp(r.pump().Standing().Watermark.Load()); seen > events.StampOf(r.clock.Now())+1000 {
		t.Errorf("the log is at %v, the clock at %v", seen.Time(), r.clock.Now())
	}
	r.want(r.do("GET", "/readyz", ""), 200)
}

// TestClockWasAhead begins with a clock that is three hours ahead, which weir cannot know,
// and sets it right: the log goes back after a while, and verdicts have the right time.
func TestClockWasAhead(t *testing.T) {
	r := begin(t, Options{})
	stoppedPair(r)
	r.fake.Set(-3 * time.Hour)
	r.want(r.do("GET", "/readyz", ""), 503, "3h0m0s behind the log")
	for !strings.Contains(strings.Join(r.journalLines(), "\n"), `:back"`) {
		r.passASecond()
	}
	r.folded()
	// Time has run while the log was looked at, which is a clock that is ahead again: it is believed
	// when it has stayed so.
	for range 1000 {
		if r.do("GET", "/readyz", "").status == 200 {
			break
		}
		r.passASecond()
	}
	r.want(r.do("GET", "/readyz", ""), 200)
	now := events.StampOf(r.clock.Now())
	if seen := events.Stamp(r.pump().Standing().Watermark.Load()); seen > now+1000 {
		t.Errorf("the log is at %v, the clock at %v", seen.Time(), r.clock.Now())
	}
	for _, flow := range []string{"f", "new"} { // one from the time ahead, and one from now
		ev := events.Event{ID: "later", Time: now, Kind: events.AgentCall, CorrelationID: flow, From: events.Party{Agent: "c"}, To: events.Party{Agent: "c"},
			TransferMode: events.ReturnToCaller}
		r.want(r.do("POST", "/v1/events", lines(&ev)), 202)
		r.folded()
		view, known, err := r.pump().View(flow)
		if err != nil || !known || events.Stamp(view.Last) != now || len(view.Orders) == 0 {
			t.Fatalf("%s: %+v, %v", flow, view, err)
		}
		for _, o := range view.Orders {
			if o.Time > events.RFC3339(now) || o.ExpiresAt > events.RFC3339(now+3600_000) {
				t.Errorf("%s: order of %v until %v, now is %v", flow, o.Time, o.ExpiresAt, now.Time())
			}
		}
	}
}
