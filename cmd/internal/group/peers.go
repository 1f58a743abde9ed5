package group

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/check"
)

// Members pass an ask on to the one that folds its flow, once: it is answered there
// and nowhere else, because only there the fold says something of it.

// For how long it is remembered who owns which partition, and that nobody could say.
const (
	ownersFor  = 2 * time.Second
	unknownFor = 500 * time.Millisecond
)

// ownerAddresses are the addresses of the members of a group.
// They are asked for by every ask of a flow that is folded elsewhere, so they are remembered, and
// many callers make one question.
type ownerAddresses struct {
	mu    sync.Mutex // never held while somebody is asked
	until time.Time  // known and err hold
	// known has "" for a member that does not say where it can be reached.
	known  map[int]string
	err    error
	asking chan struct{} // closed when the answer is there; nil when nobody asks
}

// get returns the addresses by partition, which it lets one of its callers find out for
// all of them. The caller waits no longer than ctx; the question goes on without it, for
// at most timeout.
// find is called in a goroutine of its own and never under the lock.
func (o *ownerAddresses) get(ctx context.Context, c clock.Clock, timeout time.Duration, find func(context.Context) (map[int]string, error)) (map[int]string, error) {
	o.mu.Lock()
	if c.Now().Before(o.until) {
		defer o.mu.Unlock()
		return o.known, o.err
	}
	if o.asking == nil {
		asking := make(chan struct{})
		o.asking = asking
		go func() {
			// The context of the caller is not used: the first one may go away while others wait.
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			var known map[int]string
			// A panic is an error of this question: the callers wait for its end.
			err := check.Caught(func() (err error) {
				known, err = find(ctx)
				return err
			})
			o.mu.Lock()
			defer o.mu.Unlock()
			o.known, o.err, o.until = known, err, c.Now().Add(ownersFor)
			// An error is remembered for a shorter time, and still keeps callers off a broken broker.
			if err != nil {
				o.until = c.Now().Add(unknownFor)
			}
			o.asking = nil
			close(asking)
		}()
	}
	// Taken under the lock, since the next question has another channel.
	asking := o.asking
	o.mu.Unlock()
	select {
	case <-asking:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known, o.err
}

// forget lets the next caller ask anew.
// An ask that was not answered calls it: the owner may be another one. An answer that is under way
// still counts.
func (o *ownerAddresses) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Time{}
}

// Ask puts an event that asks into the log and returns what the fold says of it, or lets
// the member answer that folds its flow.
// The error is check.ErrTimeout when nobody answered in time, else one to answer with.
//
// Looking for the owner, passing the check on and appending it share one time, AnswerTimeout.
func (m *Member) Ask(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
	return m.inTime(ctx, func(ctx context.Context) (*events.Verdict, error) { return m.askOwner(ctx, ev, raw) })
}

// inTime answers a check within AnswerTimeout, whatever it waits for.
func (m *Member) inTime(ctx context.Context, answer func(context.Context) (*events.Verdict, error)) (*events.Verdict, error) {
	limited, cancel := context.WithTimeout(ctx, m.host.AnswerTimeout)
	defer cancel()
	v, err := answer(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, check.ErrTimeout
	}
	return v, err
}

func (m *Member) askOwner(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
	number := m.flowSet.partitionOf(ev.FlowKey())
	if m.ownerHere(m.flowSet, number) != nil {
		return m.askHere(ctx, number, ev, raw)
	}
	address, err := m.ownerOf(ctx, m.flowSet, number)
	if err != nil {
		return nil, err
	}
	return m.forward(ctx, address, raw)
}

// Together asks for several at the same time, each by itself: they are folded by several
// members.
func (m *Member) Together(asks []*check.Asked) {
	for _, q := range asks {
		q.Wait = func() (*events.Verdict, error) { return m.Ask(q.Context, q.Event, q.Raw) }
	}
}

// elsewhere is the error of a request that another member could answer.
// 421 says that the request is right and the server is not; where to ask stands in the
// detail.
func (m *Member) elsewhere(l *partitionSet, partition int) error {
	ctx, cancel := context.WithTimeout(context.Background(), m.host.AnswerTimeout)
	defer cancel()
	address, err := m.ownerOf(ctx, l, partition)
	if err != nil {
		return err
	}
	what := "flow"
	if l.stage == pump.AgentStage {
		what = "agent"
	}
	return &problem.Error{Status: http.StatusMisdirectedRequest, Detail: fmt.Sprintf("another member of the group folds this %s: ask %s", what, address)}
}

// ownerOf returns the address of the member that folds a partition.
// Its errors say what a client can do: try again in a second, or tell the operator.
// What it says may be two seconds old; the member that is asked then says that it is not
// the owner.
func (m *Member) ownerOf(ctx context.Context, l *partitionSet, partition int) (string, error) {
	what := l.describe(partition)
	known, err := l.addresses.get(ctx, m.clock, m.host.AnswerTimeout, l.group.Owners)
	if err != nil {
		return "", &problem.Error{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("the group does not say who folds %s: %v", what, err), RetryAfter: 1}
	}
	address, owned := known[partition]
	switch {
	case !owned:
		return "", &problem.Error{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("nobody folds %s at this moment", what), RetryAfter: 1}
	case address == "":
		return "", &problem.Error{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("%s is folded by a member that does not say where it can be reached; start it with --advertise", what)}
	}
	return address, nil
}

// askHere lets the ask go through the log like any event, and waits for what its fold says.
// It may be folded by another member after all, if the partition changes hands meanwhile;
// then nobody answers here, and the ask times out.
func (m *Member) askHere(ctx context.Context, number int, ev *events.Event, raw []byte) (*events.Verdict, error) {
	return m.host.Await(ctx, ev, func() error {
		_, err := m.appendTo(ctx, m.o.Topics.Events, number, m.message(ev.FlowKey(), raw))
		return err
	})
}

// forward lets the owner answer. When the owner does not answer in time, the caller gets
// an error and goes by the active orders that it knows.
func (m *Member) forward(ctx context.Context, address string, raw []byte) (*events.Verdict, error) {
	_, body, err := m.host.Peer.Post(ctx, address, check.MemberPath, raw)
	if err != nil {
		return nil, m.unanswered(ctx, address, err)
	}
	// A refusal is a verdict like any: members answer each other with 200.
	v := new(events.Verdict)
	if err := events.DecodeVerdict(body, v); err != nil {
		return nil, m.unanswered(ctx, address, err)
	}
	return v, nil
}

// unanswered makes the error for who asked. What has taken too long is ErrTimeout, on which guards
// go by what they know.
func (m *Member) unanswered(ctx context.Context, address string, err error) error {
	m.flowSet.addresses.forget() // it may have changed
	if ctx.Err() != nil {
		return check.ErrTimeout
	}
	m.logger.Warn("the member that folds a flow does not answer", "address", address, "error", err)
	return &problem.Error{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("the member that folds this flow, at %s, does not answer", address), RetryAfter: 1}
}

// AskHere answers an ask that another member has passed on. When the flow has another
// owner by now, it is not passed on again.
// To pass it on again could go round in a circle between two members that each believe the other.
func (m *Member) AskHere(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
	number := m.flowSet.partitionOf(ev.FlowKey())
	if m.ownerHere(m.flowSet, number) == nil {
		return nil, &problem.Error{Status: http.StatusServiceUnavailable, Detail: m.flowSet.describe(number) + " has another owner now", RetryAfter: 1}
	}
	return m.inTime(ctx, func(ctx context.Context) (*events.Verdict, error) { return m.askHere(ctx, number, ev, raw) })
}

// Others are the addresses of the other members that fold flows; missed says which
// partitions nobody folds who could be asked.
// It is for lists over all flows, which each member can only answer for its own part.
func (m *Member) Others(ctx context.Context) (addresses, missed []string) {
	l := m.flowSet
	known, err := l.group.Owners(ctx)
	if err != nil {
		return nil, []string{fmt.Sprintf("the group does not say who folds the other partitions: %v", err)}
	}
	for _, n := range l.partitions {
		if m.ownerHere(l, n) != nil {
			continue
		}
		switch address := known[n]; {
		// Its own address means that the partition is on its way here, or from here.
		case address == "" || address == m.o.Advertise:
			missed = append(missed, l.describe(n)+": nobody who can be reached folds it at this moment")
		case !slices.Contains(addresses, address):
			addresses = append(addresses, address)
		}
	}
	return addresses, missed
}
