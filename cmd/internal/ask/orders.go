package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/check"
	"weir/sink/guard"
	"weir/state"
)

// GlobalOrders are the standing orders that bind more than one flow: those about agents,
// projects and trees of flows, and about one flow because of its tree. They are given elsewhere than where asks are folded, so the fold of a flow
// does not know them. They are held as a dispatcher holds them.
//
// The exported fields are set before Run. Any goroutine may ask.
type GlobalOrders struct {
	Verdicts Verdicts
	Log      AttemptLog
	Clock    clock.Clock
	Logger   *slog.Logger
	// Above is the tree that a tree of flows belongs to, as far as this process folds it; ""
	// for none. nil knows of none.
	Above func(tree string) string
	// Waits is what it costs a flow to wait from now on, as far as this process folds it; nil for nothing.
	// nil knows of no flow.
	Waits func(flow string) *events.Waiting
	// Limits are those in force. nil: answers by armed orders of trees keep the words of the order.
	Limits func() *analyzer.Limits
	// Principal is the sender of a request, for orders by hand about principals; nil knows none.
	Principal func(ctx context.Context) string

	// table is held as dispatchers hold theirs, so both decide alike.
	table guard.Table
	mu    sync.Mutex // of those who read the log
	// next is read without mu: a check with no new verdicts to read does not wait.
	next atomic.Int64 // what is before it was read
}

// Verdicts is the log of verdicts.
type Verdicts interface {
	Read(from int64, max int, dst []state.Entry) ([]state.Entry, error)
	End() int64
	Ready(next int64) <-chan struct{}
}

// AttemptLog is where attempts against orders are recorded, and what time it is there.
type AttemptLog interface {
	// Append puts events into the log and returns when they are safe there.
	Append(ctx context.Context, entries []state.Entry) error
	// Now is the time of the log: what it would say of an event that it took now.
	Now() events.Stamp
}

// readBatch is how many verdicts are read at one time.
const readBatch = 256

// sweepEvery is how often orders that have expired are forgotten.
const sweepEvery = time.Minute

// Run reads on as verdicts come, so that an ask seldom has to, until ctx ends.
func (w *GlobalOrders) Run(ctx context.Context) error {
	sweep := w.Clock.After(sweepEvery)
	for {
		if err := w.readOn(ctx); err != nil {
			if errors.Is(err, state.ErrClosed) || ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		select {
		case <-w.Verdicts.Ready(w.next.Load()):
		case <-sweep:
			w.table.Sweep(w.Log.Now())
			sweep = w.Clock.After(sweepEvery)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refusing returns the order that refuses the call that an event asks for; nil when
// none does. Every verdict that was in the log when it was called is gone by.
func (w *GlobalOrders) refusing(ctx context.Context, ev *events.Event) (*events.Verdict, error) {
	if err := w.readOn(ctx); err != nil {
		return nil, err
	}
	if w.table.Len() == 0 {
		return nil, nil // mostly, and no call is made of the event, whose hashes that would write out
	}
	c := guard.CallIn(ev)
	v := w.table.Refusing(&c, w.Log.Now())
	if v != nil && agents.BeginsWait(v) {
		return nil, nil // the tree begins to wait with this call, and knows until when
	}
	return v, nil
}

// Standing returns the active orders and warnings by which checks are refused. They are about the
// tree of a flow, about one above it, or about the flow because of its tree. root is the root that
// the flow reported; "" for none. They must not be changed.
func (w *GlobalOrders) Standing(ctx context.Context, flow, root string) ([]*events.Verdict, error) {
	if err := w.readOn(ctx); err != nil {
		return nil, err
	}
	if w.table.Len() == 0 {
		return nil, nil
	}
	trees, err := agents.Trees(root, func(tree string) (string, error) {
		if w.Above == nil {
			return "", nil
		}
		return w.Above(tree), nil
	})
	if err != nil {
		return nil, err
	}
	if !slices.Contains(trees, flow) {
		trees = append(trees, flow)
	}
	return w.table.Standing(flow, trees, w.Log.Now()), nil
}

// readOn takes in what the log has.
func (w *GlobalOrders) readOn(ctx context.Context) error {
	end := w.Verdicts.End()
	// Most asks end here, with two reads of memory.
	if w.next.Load() >= end {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for next := w.next.Load(); next < end && ctx.Err() == nil; next = w.next.Load() {
		first, entries, err := state.ReadOn(w.Verdicts.Read, next, readBatch, nil) // orders of expired verdicts have expired
		if err != nil {
			return fmt.Errorf("read the orders of all flows: %w", err)
		}
		for i := range entries {
			w.take(&entries[i])
		}
		w.next.Store(first + int64(len(entries)))
	}
	return context.Cause(ctx)
}

// ofOneFlow is what a verdict holds that binds one flow alone.
const ofOneFlow = `"correlation_id":"`

// ofOneTree is what a verdict holds that is about a tree of flows, or about one flow because
// of its tree: it is given where trees are folded.
const ofOneTree = `"root_correlation_id":"`

// take enters one verdict. Verdicts about one flow are recognized by a search in the bytes, since
// nearly all are, and need not be decoded.
func (w *GlobalOrders) take(e *state.Entry) {
	if bytes.Contains(e.Value, []byte(ofOneFlow)) && !bytes.Contains(e.Value, []byte(ofOneTree)) {
		return
	}
	v := new(events.Verdict)
	if err := events.DecodeVerdict(e.Value, v); err != nil {
		w.Logger.Error("a verdict of the log cannot be read; if it was an order, nobody here knows it", "offset", e.Offset, "error", err)
		return
	}
	if v.Scope.Kind == events.ScopeTree {
		w.table.Keep(v) // a warning is shown, see Standing
		return
	}
	w.table.Take(v)
}

// sift returns the requests of a batch that no order refuses; the others are answered by their
// order. A user's message is held against orders by hand alone.
func (w *GlobalOrders) sift(batch []*check.Request) []*check.Request {
	return check.Sift(batch, func(q *check.Request) bool {
		if v := w.stopped(q.Context, q.Event); v != nil {
			q.Wait = func() (*events.Verdict, error) { return w.refuseStopped(q.Context, q.Event, v), nil }
			return false
		}
		if !guard.Refusable(q.Event) {
			return true
		}
		v, err := w.refusing(q.Context, q.Event)
		switch {
		case err != nil:
			q.Err = err
		case v == nil:
			return true
		default:
			q.Wait = func() (*events.Verdict, error) {
				c := guard.CallIn(q.Event)
				return w.refuse(q.Context, q.Event, &c, v), nil
			}
		}
		return false
	})
}

// refuse answers by the order that refuses a call.
func (w *GlobalOrders) refuse(ctx context.Context, ev *events.Event, c *guard.Call, v *events.Verdict) *events.Verdict {
	// The attempt stands in the log in place of the ask. When the log takes nothing, the
	// order refuses the call all the same.
	if err := w.Log.Append(ctx, []state.Entry{{Value: attempt(ev, v)}}); err != nil {
		w.Logger.Warn("a call that an order refused is not in the log", "flow", ev.FlowKey(), "verdict", v.ID, "error", err)
	}
	answer := guard.Answer(v, c, w.Log.Now())
	if w.Limits != nil {
		w.Limits().Agents.SayRefused(answer, v)
	}
	if answer.Action == events.Hold && w.Waits != nil {
		agents.SayWaiting(answer, w.Waits(ev.FlowKey()))
	}
	return answer
}

// checkSource is the source of the events by which weir reports calls that it refused.
const checkSource = "weir/check"

// attempt is the event that says that an order was applied to what was asked for. Who
// asks again with the same id has tried once.
func attempt(ev *events.Event, v *events.Verdict) []byte {
	id := xxhash.Sum64String(ev.Source + "\x00" + ev.ID + "\x00" + v.ID)
	origin := ev.Origin
	if origin == events.OriginUser { // the message was refused, so it does not count as a user's
		origin = events.OriginUnset
	}
	source := checkSource
	if strings.HasPrefix(ev.CorrelationID, events.SelfTestFlows) { // where other sources are strangers
		source = ev.Source
	}
	ack := events.Event{ID: fmt.Sprintf("refused-%016x", id), Source: source, Time: ev.Time, Kind: events.VerdictAck,
		CorrelationID: ev.CorrelationID, CorrelationSource: ev.CorrelationSource, From: ev.From, To: ev.To, Origin: origin,
		TurnID: ev.TurnID, TaskID: ev.TaskID, ConversationID: ev.ConversationID, ProjectID: ev.ProjectID, TeamID: ev.TeamID, TenantID: ev.TenantID, MemoryTraceID: ev.MemoryTraceID,
		ParentCorrelationID: ev.ParentCorrelationID, RootCorrelationID: ev.RootCorrelationID,
		Ack: &events.Ack{VerdictID: v.ID, Applied: true}}
	ack.Tool.Name, ack.Tool.ArgsHash = ev.Tool.Name, ev.Tool.ArgsHash
	return ack.AppendJSON(nil)
}
