package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
)

// trendMinutes is how many minutes the charts of the page show.
const trendMinutes = 120

// trend has figures of the last minutes for the charts of the page. It lives in memory, and a
// restart empties it: metrics are for longer times.
type trend struct {
	counts *pump.Counts
	log    Log // set by Serve
	begun  *time.Time
	clock  clock.Clock

	mu     sync.Mutex
	last   trendPoint   // sums at the end of the last whole minute
	points []trendPoint // whole minutes, the oldest first
}

// trendPoint is one minute.
type trendPoint struct {
	Time     events.RFC3339 `json:"time"`    // of its end
	Stopped  int64          `json:"stopped"` // flows, at its end
	Checks   int64          `json:"checks"`
	Refused  int64          `json:"refused"` // of the checks, and calls that dispatchers reported as refused
	MicroUSD int64          `json:"micro_usd"`
}

// since returns the point with sums reduced to what came after earlier.
func (p trendPoint) since(earlier trendPoint) trendPoint {
	p.Checks, p.Refused, p.MicroUSD = p.Checks-earlier.Checks, p.Refused-earlier.Refused, p.MicroUSD-earlier.MicroUSD
	return p
}

// add ends a minute.
func (t *trend) add(sum trendPoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.points = append(t.points, sum.since(t.last))
	if n := len(t.points) - trendMinutes; n > 0 {
		t.points = append(t.points[:0], t.points[n:]...)
	}
	t.last = sum
}

// read returns the minutes up to now, of which the last one is not over.
func (t *trend) read(sum trendPoint) []trendPoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append(make([]trendPoint, 0, len(t.points)+1), t.points...), sum.since(t.last))
}

// sums are the sums of all that was counted since the start.
func (t *trend) sums() trendPoint {
	c := t.counts.Sum()
	p := trendPoint{Time: events.RFC3339(events.StampOf(t.clock.Now())), Checks: c.Fold.Asks, Refused: c.Fold.Refused}
	for _, s := range c.Spent {
		for _, usd := range s.MicroUSD {
			p.MicroUSD += usd
		}
	}
	for _, of := range t.log.Pumps(pump.FlowStage) {
		p.Stopped += of.Standing().Live[analyzer.Stopped].Load() + of.Standing().Live[analyzer.Held].Load()
	}
	return p
}

// watch ends minutes until the program ends.
func (t *trend) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.clock.After(time.Minute):
			t.add(t.sums())
		}
	}
}

// serve is what the charts of the page show.
func (t *trend) serve(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, struct {
		Since   events.RFC3339 `json:"since"` // the start of weir
		Minutes []trendPoint   `json:"minutes"`
	}{events.RFC3339(events.StampOf(*t.begun)), t.read(t.sums())})
}
