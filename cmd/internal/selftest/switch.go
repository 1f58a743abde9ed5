package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/analyzer/standing"
	"weir/events"
	"weir/events/byhand"
)

// expires is when the stop of a self-test ends by itself, if the process does not release it.
const expires = time.Minute

// flip throws the switch for one agent of weir's own flows. Checks of that agent have to be refused by that
// order and by no other one, checks of another agent have to be allowed, and the release has to end the stop.
func (s *Prober) flip(ctx context.Context, flow string) (err error) {
	ctx, over := context.WithTimeout(ctx, Patience)
	defer over()
	stop, release := byhand.SelfTest(), byhand.SelfTest()
	stop.By, stop.Reason, stop.Expires = "weir", "self-test", events.RFC3339(events.StampOf(s.Clock.Now().Add(expires)))
	release.Order, release.By, release.Reason = byhand.Release, "weir", "self-test"
	verdict, err := s.Switch.Throw(ctx, stop)
	if err != nil {
		return fmt.Errorf("the switch: stop: %w", err)
	}
	stopped := errors.Join(s.checked(ctx, flow, byhand.SelfTestAgent, verdict), s.checked(ctx, flow, "selftest-other", ""))
	// The release is given whatever came before.
	if _, err := s.Switch.Throw(context.WithoutCancel(ctx), release); err != nil {
		return errors.Join(stopped, fmt.Errorf("the switch: release: %w", err))
	}
	if stopped != nil {
		return stopped
	}
	return s.checked(ctx, flow, byhand.SelfTestAgent, "")
}

// checked sends one check, which has to be refused by a verdict, or allowed where it is "". An order by hand
// of a person, such as a stop of all, may refuse the check as well: the switch is obeyed then.
func (s *Prober) checked(ctx context.Context, flow, agent, by string) error {
	now := events.StampOf(s.Clock.Now())
	s.mu.Lock()
	s.asked++
	n := s.asked
	s.mu.Unlock()
	ev := &events.Event{ID: fmt.Sprintf("selftest:%d:switch:%d", now, n), Time: now, Source: Source, Kind: events.AgentCall, Ask: true, CorrelationID: flow,
		From: events.Party{Agent: agent}, To: events.Party{Agent: "selftest-target"}, HadWork: events.Yes}
	v, err := s.Switch.Ask(ctx, ev)
	own := byhand.SelfTest()
	switch {
	case err != nil:
		return fmt.Errorf("the switch: a check of %s: %w", agent, err)
	case v.Stops() && v.ByHand != nil && standing.OrderOf(v.ID) != standing.OrderOf(own.ID()+"-0"):
		return nil
	case by == "" && v.Stops():
		return fmt.Errorf("the switch: a check of %s was refused by %s; nothing stops it", agent, v.ID)
	case by != "" && v.ID != by:
		return fmt.Errorf("the switch: a check of %s was answered by %s; the order %s stops it", agent, v.Action, by)
	}
	return nil
}
