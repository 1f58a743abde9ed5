package pumptest

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// StuckLog takes no line about one flow until it is let go: what writes it, the pump, waits.
type StuckLog struct {
	slog.Handler
	flow  atomic.Value  // string
	Stuck chan struct{} // is closed when the pump waits
	free  chan struct{}
}

// NewStuckLog returns a log that holds nobody up before At.
func NewStuckLog() *StuckLog {
	return &StuckLog{Handler: slog.DiscardHandler, Stuck: make(chan struct{}), free: make(chan struct{})}
}

// At says which flow it is about.
func (h *StuckLog) At(flow string) { h.flow.Store(flow) }

// Free lets the pump go on.
func (h *StuckLog) Free() { close(h.free) }

// Handle drops the line, and waits first if it is about the flow.
func (h *StuckLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "flow" && a.Value.String() == h.flow.Load() {
			close(h.Stuck)
			<-h.free
			return false
		}
		return true
	})
	return nil
}

// Enabled says that all lines are wanted.
func (h *StuckLog) Enabled(context.Context, slog.Level) bool { return true }
