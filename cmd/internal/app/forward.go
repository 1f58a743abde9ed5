package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/check"
)

// Members pass an ask on to the one that folds its flow, once: it is answered there
// and nowhere else, because only there the fold says something of it.

// forwardPath is where a member takes the asks that others pass on to it.
const forwardPath = "/v1/asks"

// ownersFor is for how long it is remembered who owns which partition.
const ownersFor = 2 * time.Second

// owners are the addresses of the members of a group.
type owners struct {
	mu    sync.Mutex
	at    time.Time
	known map[int]string
}

func (m *member) ask(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
	number := m.flowLanes.partitionOf(ev.FlowKey())
	if m.ownerHere(m.flowLanes, number) != nil {
		return m.askHere(ctx, number, ev, raw)
	}
	address, err := m.ownerOf(ctx, m.flowLanes, number)
	if err != nil {
		return nil, err
	}
	return m.forward(ctx, address, raw)
}

// elsewhere is the error of a request that another member could answer.
func (m *member) elsewhere(l *lanes, partition int) error {
	ctx, cancel := context.WithTimeout(context.Background(), m.app.o.AnswerTimeout)
	defer cancel()
	address, err := m.ownerOf(ctx, l, partition)
	if err != nil {
		return err
	}
	what := "flow"
	if l.stage == pump.AgentStage {
		what = "agent"
	}
	return &httpError{status: http.StatusMisdirectedRequest, detail: fmt.Sprintf("another member of the group folds this %s: ask %s", what, address)}
}

// ownerOf returns the address of the member that folds a partition.
func (m *member) ownerOf(ctx context.Context, l *lanes, partition int) (string, error) {
	what, o := l.describe(partition), &l.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := m.app.clock.Now(); now.Sub(o.at) >= ownersFor {
		known, err := l.group.Owners(ctx)
		if err != nil {
			return "", &httpError{status: http.StatusServiceUnavailable, detail: fmt.Sprintf("the group does not say who folds %s: %v", what, err), retryAfter: 1}
		}
		o.known, o.at = known, now
	}
	address, owned := o.known[partition]
	switch {
	case !owned:
		return "", &httpError{status: http.StatusServiceUnavailable, detail: fmt.Sprintf("nobody folds %s at this moment", what), retryAfter: 1}
	case address == "":
		return "", &httpError{status: http.StatusServiceUnavailable, detail: fmt.Sprintf("%s is folded by a member that does not say where it can be reached; start it with --advertise", what)}
	}
	return address, nil
}

func (m *member) askHere(ctx context.Context, number int, ev *events.Event, raw []byte) (*events.Verdict, error) {
	return m.app.answered(ctx, ev, func() error {
		return m.appendTo(ctx, m.o.Topics.Events, number, m.message(ev.FlowKey(), raw))
	})
}

// forward lets the owner answer. When it cannot be reached in time, the dispatcher is
// told so, and goes by its standing orders.
func (m *member) forward(ctx context.Context, address string, raw []byte) (*events.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, m.app.o.AnswerTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(address, "/")+forwardPath, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("pass the ask on: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if len(m.token) > 0 {
		r.Header.Set("Authorization", "Bearer "+string(m.token))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, m.unanswered(ctx, address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxForwarded))
	if err != nil {
		return nil, m.unanswered(ctx, address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, m.unanswered(ctx, address, fmt.Errorf("it answers %s: %s", response.Status, bytes.TrimSpace(body)))
	}
	v := new(events.Verdict)
	if err := events.DecodeVerdict(body, v); err != nil {
		return nil, m.unanswered(ctx, address, err)
	}
	return v, nil
}

const maxForwarded = 64 << 10 // bytes of a verdict

func (m *member) unanswered(ctx context.Context, address string, err error) error {
	o := &m.flowLanes.owners
	o.mu.Lock()
	o.at = time.Time{} // it may have changed
	o.mu.Unlock()
	if ctx.Err() != nil {
		return check.ErrTimeout
	}
	m.app.logger.Warn("the member that folds a flow does not answer", "address", address, "error", err)
	return &httpError{status: http.StatusServiceUnavailable, detail: fmt.Sprintf("the member that folds this flow, at %s, does not answer", address), retryAfter: 1}
}

// serveForwarded is where other members pass asks on to.
func (a *App) serveForwarded(w http.ResponseWriter, r *http.Request) error {
	m, ok := a.form.(*member)
	if !ok {
		return &httpError{status: http.StatusNotFound, detail: "this weir is not a member of a group; use /v1/check"}
	}
	raw, err := readBody(w, r, events.MaxEventBytes)
	if err != nil {
		return err
	}
	var ev events.Event
	if err := events.Decode(raw, &ev); err != nil {
		return err
	}
	if err := ev.FromProducer(); err != nil {
		return err
	}
	if !ev.Ask || ev.Kind != events.AgentCall && ev.Kind != events.ToolCall {
		return &httpError{status: http.StatusBadRequest, detail: "only asks are passed on"}
	}
	number := m.flowLanes.partitionOf(ev.FlowKey())
	if m.ownerHere(m.flowLanes, number) == nil {
		return &httpError{status: http.StatusServiceUnavailable, detail: m.flowLanes.describe(number) + " has another owner now", retryAfter: 1}
	}
	v, err := m.askHere(r.Context(), number, &ev, raw)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(v.AppendJSON(nil)) // an error means that the other side is gone
	return nil
}
