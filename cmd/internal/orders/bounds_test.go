package orders

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
	"weir/events/byhand"
	"weir/state"
)

// TestGuardsAreBounded has one guard less than are named, as many, and one more. That one makes
// receipts incomplete until an hour after it was last turned away: by then it has come in.
func TestGuardsAreBounded(t *testing.T) {
	const now = events.Stamp(1_795_000_000_000)
	var g Guards
	more := func(at events.Stamp) int { return g.Confirm("v-1", true, at).More - max(0, len(g.byName)-MostMissing) }
	for n := range mostGuards {
		g.Heard("p", Beat{Guard: "g", Instance: fmt.Sprint(n)}, now)
		if n >= mostGuards-2 && (len(g.byName) != n+1 || more(now) != 0) {
			t.Errorf("%d guards: %d are known, %d more", n+1, len(g.byName), more(now))
		}
	}
	g.Heard("p", Beat{Guard: "late", Instance: "1"}, now)
	g.Connected("p", "late", "2", now)
	if len(g.byName) != mostGuards || more(now) != 1 {
		t.Errorf("more guards than are named: %d are known, %d more", len(g.byName), more(now))
	}
	// One that is known is still heard.
	g.Heard("p", Beat{Guard: "g", Instance: "1", Language: "go", Held: []string{"v-1"}}, now)
	if got := g.Confirm("v-1", true, now).Guards; got != 1 {
		t.Errorf("%d guards have confirmed", got)
	}
	later := now.Add(forgotten + time.Second)
	g.Heard("p", Beat{Guard: "late", Instance: "1", Language: "go", Held: []string{"v-1"}}, later)
	if got := g.Confirm("v-1", true, later); got.Guards != 1 || got.More != 0 || len(got.Missing) != 0 {
		t.Errorf("an hour later: %+v", got)
	}
}

// noLog is a log of verdicts that takes all.
type noLog struct{}

func (noLog) Append([]state.Entry) (int64, error) { return 0, nil }

// TestOrdersAreBounded gives an order where one less than the most are kept, and where the most are.
func TestOrdersAreBounded(t *testing.T) {
	const now = events.Stamp(1_795_000_000_000)
	for _, have := range []int{MaxOrders - 1, MaxOrders} {
		b := &Book{Now: func() events.Stamp { return now }, Enforce: func(*events.Verdict) {}, Verdicts: noLog{}, Clock: clock.NewFake(), Logger: slog.New(slog.DiscardHandler), orders: make(map[string]*byhand.Order)}
		for n := range have {
			b.orders[fmt.Sprint(n)] = &byhand.Order{}
		}
		o := byhand.Order{Order: byhand.Stop, Scope: byhand.Scope{Kind: events.ScopeAll}, By: "ann", Reason: "r"}
		if _, err := b.number(&o, nil); errors.Is(err, ErrFull) != (have == MaxOrders) {
			t.Errorf("beside %d orders: %v", have, err)
		}
	}
}
