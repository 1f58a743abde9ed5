package analyzer

import "weir/events"

// Observing returns an engine that judges as e does and hands what it measures to
// observe: for every event, the value of each row about flows that follows events of its
// kind, rows that are off included, and the age of the episode; not at deadlines. The
// value of a row whose thresholds the pace of a party widens is divided by as much, so
// that all of them can be held against the thresholds as they stand in the limits.
// Backtests ask so which other thresholds would have warned or stopped; observe is called
// by the goroutine that calls Step, for the flow whose event is folded.
func (e *Engine) Observing(observe func(row RuleID, value int64)) *Engine {
	x := *e
	x.observe = observe
	for k := range x.byKind {
		x.byKind[k] = nil
	}
	for i := range Rules {
		for _, k := range events.Kinds() {
			if Rules[i].On.Has(k) {
				x.byKind[k] = append(x.byKind[k], RuleID(i))
			}
		}
	}
	return &x
}
