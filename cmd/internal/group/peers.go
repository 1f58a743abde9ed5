package group

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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

// How long the owners of partitions are remembered, and for how long that they are unknown.
const (
	ownersFor  = 2 * time.Second
	unknownFor = 500 * time.Millisecond
)

// ownerAddresses are the addresses of the members of a group.
// They are asked for by every ask of a flow that is folded elsewhere, so they are remembered, and
// many callers make one question.
type ownerAddresses struct {
	mu    sync.Mutex // never held during a request
	until time.Time  // known and err hold
	// known has "" for a member that does not say where it can be reached.
	known  map[int]string
	err    error
	asking chan struct{} // closed when the answer is there; nil when no request is under way
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

// peers are the members of the group, as far as a request goes: which of them folds a flow, and what it
// answers. Any goroutine may use them once the sets are there.
type peers struct {
	o      *Options
	host   *Host
	clock  clock.Clock
	logger *slog.Logger
	sets   *topicSets
	owners *owners
}

// Forward returns the answer of the member that folds a flow. here says that it is this one, and
// that nothing was passed on.
// The error is check.ErrTimeout when ctx ended before the answer, else one to answer with.
func (w *peers) Forward(ctx context.Context, flow string, raw []byte) (v *events.Verdict, here bool, err error) {
	number := w.sets.flows.partitionOf(flow)
	if w.owners.at(w.sets.flows, number) != nil {
		return nil, true, nil
	}
	address, err := w.ownerOf(ctx, w.sets.flows, number)
	if err != nil {
		return nil, false, err
	}
	v, err = w.forward(ctx, address, raw)
	return v, false, err
}

// Folds fails when another member folds a flow by now. A check request that was passed on once is
// not passed on again.
func (w *peers) Folds(flow string) error {
	number := w.sets.flows.partitionOf(flow)
	if w.owners.at(w.sets.flows, number) != nil {
		return nil
	}
	return &problem.Error{Status: http.StatusServiceUnavailable, Detail: w.sets.flows.describe(number) + " has another owner now", RetryAfter: 1}
}

// elsewhere is the error of a request that another member could answer.
// 421 says that the request is right and the server is not; where to ask stands in the
// detail.
func (w *peers) elsewhere(l *partitionSet, partition int) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.host.AnswerTimeout)
	defer cancel()
	address, err := w.ownerOf(ctx, l, partition)
	if err != nil {
		return err
	}
	what := "flow"
	if l.stage == pump.AgentStage {
		what = "agent"
	}
	return &problem.Error{Status: http.StatusMisdirectedRequest, Detail: fmt.Sprintf("another member of the group folds this %s: ask %s", what, address)}
}

// ownerOf returns the address of the member that folds a partition. Its errors say what a client can
// do: try again in a second, or notify the operator. The address may be two seconds old. A member at
// an old address answers that it is not the owner.
func (w *peers) ownerOf(ctx context.Context, l *partitionSet, partition int) (string, error) {
	what := l.describe(partition)
	known, err := l.addresses.get(ctx, w.clock, w.host.AnswerTimeout, l.group.Owners)
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

// forward lets the owner answer. When the owner does not answer in time, the caller gets
// an error and goes by the active orders that it knows.
func (w *peers) forward(ctx context.Context, address string, raw []byte) (*events.Verdict, error) {
	status, body, err := w.host.Peer.Post(ctx, address, check.MemberPath, raw)
	if err != nil {
		return nil, w.unanswered(ctx, address, err)
	}
	if status == http.StatusConflict { // the check is wrong
		refused := new(check.Error)
		if err := json.Unmarshal(body, refused); err != nil || refused.Status != status {
			return nil, w.unanswered(ctx, address, fmt.Errorf("it answers %d: %s", status, body))
		}
		return nil, refused
	}
	// A refusal is a verdict like any: members answer each other with 200.
	v := new(events.Verdict)
	if err := events.DecodeVerdict(body, v); err != nil {
		return nil, w.unanswered(ctx, address, err)
	}
	return v, nil
}

// unanswered makes the error for who asked. What has taken too long is ErrTimeout, on which guards
// go by what they know.
func (w *peers) unanswered(ctx context.Context, address string, err error) error {
	w.sets.flows.addresses.forget() // it may have changed
	if ctx.Err() != nil {
		return check.ErrTimeout
	}
	w.logger.Warn("the member that folds a flow does not answer", "address", address, "error", err)
	return &problem.Error{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("the member that folds this flow, at %s, does not answer", address), RetryAfter: 1}
}

// Others returns the addresses of the other members that fold flows. missed lists the partitions that
// no reachable member folds. It is for lists over all flows, which each member can only answer for its
// own part.
func (w *peers) Others(ctx context.Context) (addresses, missed []string) {
	l := w.sets.flows
	known, err := l.group.Owners(ctx)
	if err != nil {
		return nil, []string{fmt.Sprintf("the group does not say who folds the other partitions: %v", err)}
	}
	for _, n := range l.partitions {
		if w.owners.at(l, n) != nil {
			continue
		}
		switch address := known[n]; {
		// Its own address means that the partition is on its way here, or from here.
		case address == "" || address == w.o.Advertise:
			missed = append(missed, l.describe(n)+": nobody who can be reached folds it at this moment")
		case !slices.Contains(addresses, address):
			addresses = append(addresses, address)
		}
	}
	return addresses, missed
}
