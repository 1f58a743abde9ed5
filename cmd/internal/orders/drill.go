package orders

import (
	"context"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
	"weir/events/byhand"
)

// Drill throws the switch in shadow: it gives an order that takes the way of a real one and binds a flow
// that no sender may use, waits for the receipt, and releases the order. Nothing is refused.
type Drill struct {
	Book    *Book
	Receipt func(context.Context, *byhand.Order) *Receipt
	Clock   clock.Clock
}

// DrillReport says who would not have obeyed.
type DrillReport struct {
	Scope    byhand.Scope   `json:"scope"`
	By       string         `json:"by"`
	Time     events.RFC3339 `json:"time"`
	Complete bool           `json:"complete"`
	TookMS   int64          `json:"took_ms"` // from the order to the last confirmation, if it is complete
	Receipt  *Receipt       `json:"receipt"`
	// Unproven says what the drill could not try; "" if at least one guard has confirmed or is named.
	Unproven string `json:"unproven,omitempty"`
}

// noGuards is the Unproven of a drill without guards, which is complete once the processes of weir are.
const noGuards = "no guard is connected: nothing is proven about programs that follow the stream of verdicts; only checks were tried"

// drillLook is how often the receipt is made.
const drillLook = 100 * time.Millisecond

// Run gives the order, and returns when all have confirmed it or the time is over. ctx ends it earlier.
func (d *Drill) Run(ctx context.Context, scope byhand.Scope, by, reason string, wait time.Duration) (*DrillReport, error) {
	now := d.Book.Now()
	o := byhand.DrillOf(scope)
	o.Reason, o.By, o.Expires = reason, by, events.RFC3339(now.Add(wait+time.Minute))
	given, err := d.Book.Give(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	late := d.Clock.After(wait)
	var r *Receipt
	for over := false; !over; {
		if r = d.Receipt(ctx, given); r.Complete {
			break
		}
		select {
		case <-d.Clock.After(drillLook):
		case <-late:
			over = true
		case <-ctx.Done():
			over = true
		}
	}
	release := byhand.DrillOf(scope)
	release.Order, release.Reason, release.By = byhand.Release, "the drill is over", by
	if _, err := d.Book.Give(context.WithoutCancel(ctx), release, nil); err != nil {
		return nil, err
	}
	out := &DrillReport{Scope: scope, By: by, Time: given.Time, Complete: r.Complete, Receipt: r}
	if r.Guards == 0 && len(r.Missing) == 0 {
		out.Unproven = noGuards
	}
	if r.Complete {
		out.TookMS = events.Stamp(r.Since).Sub(events.Stamp(given.Time)).Milliseconds()
	}
	return out, nil
}
