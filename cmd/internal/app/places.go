package app

import (
	"weir/cmd/internal/pump"
)

// Place is how far a partition of the log is folded.
// Tests wait for it.
type Place struct {
	Partition int
	Next      int64 // the first offset that is not folded
}

// Places returns the partitions of events that are folded here, in order.
func (a *App) Places() []Place { return placesOf(a.backend.Pumps(pump.FlowStage)) }

// AgentPlaces returns those of the activity that are folded here, in order. They are
// numbered as their output is: behind all partitions of events.
func (a *App) AgentPlaces() []Place { return placesOf(a.backend.Pumps(pump.AgentStage)) }

// placesOf reads where each stands at this moment; the next one may be later by the time it
// is read.
func placesOf(pumps []*pump.Pump) (out []Place) {
	for _, p := range pumps {
		out = append(out, Place{p.Partition(), p.Next()})
	}
	return out
}
