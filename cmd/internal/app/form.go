package app

import (
	"context"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// form is how a program comes by its log: it keeps a journal of its own, or it is a
// member of a group that shares the partitions of a Kafka topic. All else is the same.
type form interface {
	// start begins to fold. The store is open.
	start(ctx context.Context) error

	// append puts events into the log and returns when they are safe there. It may be
	// called again after an error: repeats are dropped by their ids.
	append(ctx context.Context, entries []state.Entry) error

	// setLimits puts limits into the log unless it has them already.
	setLimits(limits analyzer.Limits) error

	// pumps are those that fold flows now.
	pumps() []*pump.Pump

	// pumpOf returns the pump that folds a flow, or an error that says who does.
	pumpOf(key string) (*pump.Pump, error)

	// agents are those that fold agents now.
	agents() []*pump.Pump

	// agentsOf returns the pump that folds an agent or a project (see
	// analyzer.AgentKey), or an error that says who does.
	agentsOf(key string) (*pump.Pump, error)

	// ask puts an event that asks into the log and returns what the fold says of it.
	ask(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error)

	// eventsOf calls fn for the events of a flow that came into the log at or after
	// since, until it returns false. The line is good until fn returns.
	eventsOf(ctx context.Context, key string, since events.Stamp, fn func(line []byte) bool) error

	// ready adds to the answer what is wrong, and how far behind the fold is.
	ready(out *readyAnswer)

	// stop folds what is there to the end, publishes it, and takes a last checkpoint.
	stop(ctx context.Context) error
}
