package ask

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
	"weir/state"
)

// oneOrder is a log with one verdict in it, and with a time of its own.
type oneOrder struct {
	verdict []byte
	now     events.Stamp
}

func (l *oneOrder) Read(from int64, _ int, dst []state.Entry) ([]state.Entry, error) {
	return append(dst, state.Entry{Offset: from, Value: l.verdict}), nil
}
func (l *oneOrder) End() int64                                  { return 1 }
func (l *oneOrder) Ready(int64) <-chan struct{}                 { return nil }
func (l *oneOrder) Append(context.Context, []state.Entry) error { return nil }
func (l *oneOrder) Now() events.Stamp                           { return l.now }

// TestOrdersEndByTheTimeOfTheLog sets the clock of the machine three hours ahead: an order
// about an agent stands all the same, then and after the clock was set right.
func TestOrdersEndByTheTimeOfTheLog(t *testing.T) {
	fake := clock.NewFake()
	now := events.StampOf(fake.Now())
	order := events.Verdict{ID: "0123456789abcdef-1", Revision: 1, Time: events.RFC3339(now), Action: events.Deny, Mode: events.ModeEnforce, Reason: "call_rate_exceeded",
		Scope: events.Scope{Kind: events.ScopeAgent, ID: "a"}, ExpiresAt: events.RFC3339(now.Add(time.Hour))}
	log := &oneOrder{order.AppendJSON(nil), now}
	w := &GlobalOrders{Verdicts: log, Log: log, Clock: fake, Logger: slog.New(slog.DiscardHandler)}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx) }()
	<-fake.Asked()
	fake.Set(3 * time.Hour)
	fake.Advance(2 * sweepEvery)
	<-fake.Asked() // what has expired is forgotten
	fake.Set(-3 * time.Hour)
	end()
	<-ended
	if v, err := w.refusing(t.Context(), &events.Event{Kind: events.AgentCall, CorrelationID: "f", From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}); err != nil || v == nil {
		t.Errorf("the order is gone: %v", err)
	}
}

// TestAttemptsSayWhatTheCallBelongsTo holds that a refused call is in the log with the names that
// verdicts about it repeat.
func TestAttemptsSayWhatTheCallBelongsTo(t *testing.T) {
	call := events.Event{ID: "x", Source: "s", Time: 1_795_000_000_000, Kind: events.ToolCall, CorrelationID: "f", From: events.Party{Agent: "a"}, TurnID: "turn", TaskID: "task", ConversationID: "conversation",
		ProjectID: "project", TeamID: "team", TenantID: "tenant", MemoryTraceID: "memory", Tool: events.Tool{Name: "t"}}
	var ack events.Event
	if err := events.Decode(attempt(&call, &events.Verdict{ID: "v"}), &ack); err != nil {
		t.Fatal(err)
	}
	type names struct{ flow, turn, task, conversation, project, team, tenant, memory, tool string }
	of := func(e *events.Event) names {
		return names{e.CorrelationID, e.TurnID, e.TaskID, e.ConversationID, e.ProjectID, e.TeamID, e.TenantID, e.MemoryTraceID, e.Tool.Name}
	}
	if of(&ack) != of(&call) {
		t.Errorf("the attempt says %+v", of(&ack))
	}
}
