package app

import (
	"context"

	"weir/events"
	"weir/events/byhand"
	"weir/sink/check"
)

// selfSwitch is the switch as the self-test throws it.
type selfSwitch struct{ a *App }

// Throw gives the order by the book that keeps those of persons.
func (s selfSwitch) Throw(ctx context.Context, o byhand.Order) (string, error) {
	given, err := s.a.hand.book.Give(ctx, o, nil)
	if err != nil {
		return "", err
	}
	return given.VerdictID(), nil
}

// Ask answers a check by what answers dispatchers.
func (s selfSwitch) Ask(ctx context.Context, ev *events.Event) (*events.Verdict, error) {
	q := &check.Request{Context: ctx, Event: ev, Raw: ev.AppendJSON(nil)}
	s.a.checks.Check([]*check.Request{q})
	return q.Answer()
}
