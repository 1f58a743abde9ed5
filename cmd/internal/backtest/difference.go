package backtest

import (
	"cmp"
	"slices"
)

// Difference is a flow of which two sets of limits say different things.
//
// Was is by the limits that were given first, Is by those they are compared with.
type Difference struct {
	Flow  string  `json:"flow"`
	Calls int64   `json:"calls"`
	Was   Outcome `json:"was"`
	Is    Outcome `json:"is"`
}

// Outcome is the strongest thing that was said of a flow; without a Moment nothing was.
//
// A flow that was warned and then stopped is stopped.
type Outcome struct {
	Word string  `json:"outcome"` // stopped, warned or left alone
	When *Moment `json:"when,omitempty"`
}

// The words of outcomes.
const (
	Stopped   = "stopped"
	Warned    = "warned"
	LeftAlone = "left alone"
)

func (f *Flow) outcome() Outcome {
	switch {
	case f.Stopped != nil:
		return Outcome{Stopped, f.Stopped}
	case f.Warned != nil:
		return Outcome{Warned, f.Warned}
	}
	return Outcome{LeftAlone, nil}
}

// Differences lists the flows that b treats otherwise than a, which folded the same
// events: those of another outcome, and those that are stopped at another call or by
// another rule.
//
// Flows that are only warned at another call count as treated alike. Those that only one of them
// stops come first, then those of another outcome; the rest is in the order of their first events.
// The list is never nil, so that JSON has a list.
func Differences(a, b *Trial) []Difference {
	out := []Difference{}
	for _, f := range a.list {
		g := b.flows[f.ID]
		if g == nil {
			continue
		}
		was, is := f.outcome(), g.outcome()
		if was.Word == is.Word && (was.Word != Stopped || was.When.Call == is.When.Call && was.When.Rule == is.When.Rule) {
			continue
		}
		out = append(out, Difference{f.ID, f.Calls, was, is})
	}
	slices.SortStableFunc(out, func(x, y Difference) int { return cmp.Compare(x.weight(), y.weight()) })
	return out
}

// weight is less for a difference that matters more.
func (d *Difference) weight() int {
	switch {
	case (d.Was.Word == Stopped) != (d.Is.Word == Stopped):
		return 0
	case d.Was.Word != d.Is.Word:
		return 1
	}
	return 2
}
