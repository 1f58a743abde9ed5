package backtest

// Difference is a flow of which two sets of limits say different things.
type Difference struct {
	Flow  string  `json:"flow"`
	Calls int64   `json:"calls"`
	Was   Outcome `json:"was"`
	Is    Outcome `json:"is"`
}

// Outcome is the strongest thing that was said of a flow; without a Moment nothing was.
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
	return out
}
