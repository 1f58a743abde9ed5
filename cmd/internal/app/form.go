package app

import (
	"context"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

// form is how a program comes by its log: it keeps a journal of its own, or it is a
// member of a group that shares the partitions of a Kafka topic. All else is the same.
type form interface {
	// Start begins to fold.
	Start(ctx context.Context) error

	// Append puts events into the log and returns when they are safe there. It may be
	// called again after an error: repeats are dropped by their ids.
	Append(ctx context.Context, entries []state.Entry) error

	// SetLimits puts limits into the log unless it has them already. It may be called
	// before Start.
	SetLimits(limits analyzer.Limits) error

	// Pumps are those that fold flows now.
	Pumps() []*pump.Pump

	// PumpOf returns the pump that folds a flow, or an error that says who does.
	PumpOf(key string) (*pump.Pump, error)

	// Agents are those that fold agents now.
	Agents() []*pump.Pump

	// AgentsOf returns the pump that folds an agent or a project (see
	// analyzer.AgentKey), or an error that says who does.
	AgentsOf(key string) (*pump.Pump, error)

	// Ask puts an event that asks into the log and returns what the fold says of it.
	Ask(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error)

	// AskHere is Ask for an event that another process passes on, which is not passed on
	// again.
	AskHere(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error)

	// Others returns the addresses of other processes that fold flows, and says which
	// partitions nobody folds who could be asked.
	Others(ctx context.Context) (addresses, missed []string)

	// EventsOf calls fn for the events of a flow that came into the log at or after
	// since, until it returns false. The line is good until fn returns.
	EventsOf(ctx context.Context, key string, since events.Stamp, fn func(line []byte) bool) error

	// Ready says what is wrong, and how many records the fold is behind.
	Ready() (why []string, lag int64)

	// ClockDiffers says by how much the clock of the machine and the log disagree; "" when
	// they do not.
	ClockDiffers() string

	// Turned is when the loop that folds last turned, of the one that stands still for the
	// longest.
	Turned() time.Time

	// Measure fills in the sources and what is told beside them: how far behind the fold is
	// with each, and what trouble there was.
	Measure(r *prom.Reading)

	// Stop folds what is there to the end, publishes it, and takes a last checkpoint.
	Stop(ctx context.Context) error
}
