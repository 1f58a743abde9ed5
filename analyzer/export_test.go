package analyzer

import "weir/events"

// Fold is Step on a copy: it leaves f alone and returns the new flow and the
// verdicts.
func (e *Engine) Fold(p Partition, f *Flow, ev *events.Event) (Partition, *Flow, []events.Verdict) {
	var fx Effects
	next := f.Clone()
	e.Step(&p, next, ev, &fx)
	return p, next, fx.Verdicts
}
