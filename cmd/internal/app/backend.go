package app

import (
	"context"

	"weir/analyzer"
	"weir/cmd/internal/api"
	"weir/cmd/internal/pump"
	"weir/events"
)

// backend is how a program comes by its log: it keeps a journal of its own, or it is a
// member of a group that shares the partitions of a Kafka topic. All else is the same.
type backend interface {
	api.Log

	// Start begins to fold.
	Start(ctx context.Context) error

	// SetLimits puts limits into the log unless it has them already. It may be called
	// before Start.
	SetLimits(limits analyzer.Limits) error

	// Ask puts an event that asks into the log and returns what the fold says of it.
	Ask(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error)

	// Now is the time of the log: what it would say of an event that it took now.
	Now() events.Stamp

	// Progress says how far the partitions of events are folded that this process folds.
	Progress() []pump.Progress

	// Stop folds what is there to the end, publishes it, and takes a last checkpoint.
	Stop(ctx context.Context) error
}
