package ask

import (
	"context"
	"errors"
	"time"

	"weir/events"
	"weir/sink/check"
	"weir/state"
)

// Service answers check requests. Each goes the same way: active orders of all flows, degraded
// mode, append to the log, wait for the fold. A single request is a batch of one.
//
// The fields are set before the first request. Any goroutine may call it.
type Service struct {
	Orders   *GlobalOrders
	Degraded *Degraded
	Answers  *Answers
	Log      Log
	// End is where the log ends; nil where several processes append to it.
	End func() int64
	// Members are the other processes that fold the log; nil for none. With them an append waits
	// for brokers, so each request is appended by the goroutine that waits for its answer.
	Members Members
	// Timeout is the one deadline of a request that may be passed on to another member.
	Timeout time.Duration
}

// Log is the log of events.
type Log interface {
	// AppendChecks puts the check requests of a batch into the log by one write. It returns when no
	// end of the process takes them from there.
	AppendChecks(ctx context.Context, batch []*check.Request) error
	// Append puts events into the log and returns when they are safe there.
	Append(ctx context.Context, entries []state.Entry) error
	// Now is the time of the log: what it would say of an event that it took now.
	Now() events.Stamp
}

// Members pass requests on to the process that folds their flow.
type Members interface {
	// Forward returns the answer of the process that folds a flow. here says that it is this one,
	// and that there is no answer yet.
	Forward(ctx context.Context, flow string, raw []byte) (v *events.Verdict, here bool, err error)
}

// Check answers a batch, see check.Checker. It waits for no answer, but as long as a disk may take.
func (s *Service) Check(batch []*check.Request) {
	free := s.Orders.sift(batch)
	if s.Members != nil {
		for _, q := range free {
			q.Wait = func() (*events.Verdict, error) {
				return s.inTime(q.Context, func(ctx context.Context) (*events.Verdict, error) { return s.anywhere(ctx, q) })
			}
		}
		return
	}
	in := make([]pending, 0, len(free))
	for _, q := range free {
		beginning, on := s.Degraded.modeOf(q.Event.FlowKey())
		if on {
			q.Wait = func() (*events.Verdict, error) { return s.here(q.Context, q) }
			continue
		}
		in = append(in, pending{Request: q, beginning: beginning})
	}
	s.append(context.Background(), in)
	for i := range in {
		if p := &in[i]; p.waiter != nil {
			p.Wait = func() (*events.Verdict, error) {
				return s.await(p.Context, p.Request, p.beginning, func(ctx context.Context) (*events.Verdict, error) { return s.Answers.await(ctx, p.waiter) })
			}
		}
	}
}

// CheckHere answers a request that another member has passed on, about a flow that this process
// folds. It waits for the answer, and does not pass the request on again: two members that each
// believe the other would do so for ever.
func (s *Service) CheckHere(q *check.Request) (*events.Verdict, error) {
	return s.inTime(q.Context, func(ctx context.Context) (*events.Verdict, error) { return s.here(ctx, q) })
}

// inTime answers a request within Timeout, whatever it waits for.
func (s *Service) inTime(ctx context.Context, answer func(context.Context) (*events.Verdict, error)) (*events.Verdict, error) {
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	v, err := answer(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, check.ErrTimeout
	}
	return v, err
}

// anywhere answers a request by the process that folds its flow.
func (s *Service) anywhere(ctx context.Context, q *check.Request) (*events.Verdict, error) {
	v, here, err := s.Members.Forward(ctx, q.Event.FlowKey(), q.Raw)
	if !here {
		return v, err
	}
	return s.here(ctx, q)
}

// here answers a request about a flow that this process folds, and waits for the answer. In
// degraded mode the fold answers only for a tree of flows that has the last word: no copy knows what
// other flows spend of its budget.
func (s *Service) here(ctx context.Context, q *check.Request) (*events.Verdict, error) {
	beginning, on := s.Degraded.modeOf(q.Event.FlowKey())
	if !on {
		return s.await(ctx, q, beginning, func(ctx context.Context) (*events.Verdict, error) { return s.fold(ctx, q) })
	}
	v, err := s.Degraded.answer(ctx, q.Event, true)
	if errors.Is(err, errTree) {
		return s.fold(ctx, q)
	}
	return v, err
}

// await waits for what the fold says. If degraded mode begins meanwhile, the request is answered by
// what is known, once.
func (s *Service) await(ctx context.Context, q *check.Request, beginning context.Context, wait func(ctx context.Context) (*events.Verdict, error)) (*events.Verdict, error) {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(beginning, func() { stop(errBegun) })()
	v, err := wait(waiting)
	if !errors.Is(err, errBegun) {
		return v, err
	}
	if _, on := s.Degraded.modeOf(q.Event.FlowKey()); !on {
		return nil, check.ErrTimeout // the partition has another owner, which has the request
	}
	v, err = s.Degraded.answer(ctx, q.Event, false) // the log has the request already
	if errors.Is(err, errTree) {
		return s.fold(ctx, q) // the fold knows the id
	}
	return v, err
}

// fold appends a request and waits for what the fold says. A request that is repeated is answered
// by what the fold says now.
func (s *Service) fold(ctx context.Context, q *check.Request) (*events.Verdict, error) {
	in := []pending{{Request: &check.Request{Context: ctx, Event: q.Event, Raw: q.Raw}}}
	s.append(ctx, in)
	if in[0].waiter == nil {
		return in[0].Verdict, in[0].Err
	}
	return s.Answers.await(ctx, in[0].waiter)
}

// pending is a request on its way through the log.
type pending struct {
	*check.Request
	waiter    *waiter         // nil when the request has its answer, or none to come
	beginning context.Context // ends when degraded mode begins for its flow
}

// append puts requests into the log by one write. Those whose answer is there by then have it, and
// no waiter.
func (s *Service) append(ctx context.Context, in []pending) {
	batch := make([]*check.Request, 0, len(in))
	whole := false
	defer func() {
		for i := 0; !whole && i < len(in); i++ { // a panic, after which no caller waits for an answer
			if in[i].waiter != nil {
				s.Answers.leave(in[i].waiter)
			}
		}
	}()
	end := int64(endUnknown)
	for i := range in {
		p := &in[i]
		if s.End != nil {
			end = s.End()
		}
		// Before the request is in the log: the fold may be done before the write returns.
		if p.waiter, p.Verdict, p.Err = s.Answers.enter(p.Event, p.Raw, end); p.waiter != nil {
			batch = append(batch, p.Request)
		}
	}
	if len(batch) == 0 {
		whole = true
		return
	}
	err := s.Log.AppendChecks(ctx, batch)
	whole = true
	for i := range in {
		p := &in[i]
		switch {
		case p.waiter == nil:
		case err != nil:
			s.Answers.leave(p.waiter)
			p.waiter, p.Err = nil, err
		default:
			if v, verr, ok := s.Answers.said(p.waiter); ok {
				p.waiter, p.Verdict, p.Err = nil, v, verr
			}
		}
	}
}
