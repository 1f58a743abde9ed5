package backtest

import (
	"fmt"
	"hash/fnv"
	"slices"

	"weir/analyzer"
	"weir/events"
)

// unit is what a stop saves of a failed flow.
type unit string

// The units, as they are printed.
const (
	inCalls  unit = "calls"
	inTokens unit = "tokens"
)

// unitOf is the unit by which savings in the flows are compared: tokens where most of the flows
// report them. What a few flows report says nothing of the others.
func unitOf(failed []*Flow) unit {
	reported := 0
	for _, f := range failed {
		if f.Tokens > 0 {
			reported++
		}
	}
	if 2*reported > len(failed) {
		return inTokens
	}
	return inCalls
}

// after is what comes after a step of the flow.
func (f *Flow) after(s step, in unit) int64 {
	if in == inTokens {
		return f.Tokens - s.tokens
	}
	return f.Calls - int64(s.call)
}

// saved returns how much of the flows comes after the thresholds are reached.
//
// It needs flows whose steps were kept.
func (t *lines) saved(flows []*Flow, in unit) (sum int64) {
	for _, f := range flows {
		if at, over := t.over(f); over {
			sum += f.after(at, in)
		}
	}
	return sum
}

// many is how many rows take part.
func (r *rows) many() (n int) {
	for _, weight := range r {
		if weight > 0 {
			n++
		}
	}
	return n
}

// weights are how much less than the others a row may take of the good flows that may be stopped.
//
// A weight of 4 says that a value has to be four times as rare before the row stops it.
var weights = [...]float64{1, 2, 4, 8}

// lines draws the thresholds for the share, by the rows that are worth it in the failed flows.
func (r *rarity) lines(share float64, good, failed []*Flow) lines {
	chosen, cost := r.worth(share, good, failed)
	return r.draw(share, good, &chosen, cost)
}

// worth returns the rows that are worth their share of good flows, and their cost: all of them where
// no runaway is known.
//
// How many rows are combined is decided by halves of the failed flows: what one half chooses is measured
// in the other. A mixture that only fits the runaways by which it was chosen thus gives way to a single
// row, such as a budget of tokens, which then has the whole share for itself.
//
// Each row that is chosen costs one more of the good flows that could be stopped. The one that
// conformal prediction takes is for a line that is drawn once; who picks among many lines picks those
// that chance has put well among these very flows. Measured on others, as EVIDENCE.md has it, a fifth
// more of them were stopped than promised before the cost was taken, and no more than promised since.
func (r *rarity) worth(share float64, good, failed []*Flow) (chosen rows, cost int) {
	if len(failed) == 0 {
		for id := range chosen {
			chosen[id] = 1
		}
		return chosen, 1
	}
	in := unitOf(failed)
	mixtures := r.mixtures(share, good, failed, in, int(analyzer.RuleCount))
	if len(mixtures) == 0 {
		return rows{}, 1
	}
	chosen = mixtures[r.size(share, good, failed, in, len(mixtures))-1]
	return chosen, chosen.many()
}

// fewFailed is below how many failed flows a half of them decides nothing: all rows that save
// something are chosen then.
const fewFailed = 16

// halvings is how often the failed flows are halved to decide how many rows are combined.
const halvings = 3

// size returns how many rows are combined, at most the given number: the least number with which the rows
// that one half of the failed flows chooses save most in the other half.
func (r *rarity) size(share float64, good, failed []*Flow, in unit, most int) int {
	if len(failed) < fewFailed || most == 1 {
		return most
	}
	saved := make([]int64, most)
	for halving := range halvings {
		for half := range 2 {
			others, chosenBy := divide(failed, fmt.Sprint("size", halving), half, 2)
			mixtures := r.mixtures(share, good, chosenBy, in, most)
			for n := range saved {
				if len(mixtures) > 0 {
					chosen := &mixtures[min(n, len(mixtures)-1)]
					stops := r.draw(share, good, chosen, chosen.many())
					saved[n] += stops.saved(others, in)
				}
			}
		}
	}
	best := 0
	for n := range saved {
		if saved[n] > saved[best] {
			best = n
		}
	}
	return best + 1
}

// mixtures returns the best single row, the best row beside it, and so on, until one more row saves
// nothing more in the failed flows, at most the given number of them.
//
// In each round every row that may take part is tried with every weight beside those that were chosen
// before, so its time grows with the square of the rows. -1 begins it, so that a row is chosen also when it
// saves nothing at first.
func (r *rarity) mixtures(share float64, good, failed []*Flow, in unit, most int) (found []rows) {
	var chosen rows
	for saved := int64(-1); len(found) < most; {
		better := chosen
		for id := range analyzer.RuleCount {
			if !r.takesPart(id) || !r.known(id) {
				continue
			}
			for _, weight := range weights {
				tried := chosen
				tried[id] = weight
				cost := tried.many()
				if r.stoppable(share, cost) < 0 {
					continue
				}
				stops := r.draw(share, good, &tried, cost)
				if s := stops.saved(failed, in); s > saved {
					better, saved = tried, s
				}
				if cost == 1 {
					break // a row alone has the same line at any weight
				}
			}
		}
		if better == chosen {
			return found
		}
		chosen = better
		// Another weight of a row that was chosen before is no further row.
		if n := chosen.many(); n > len(found) {
			found = append(found, chosen)
		} else {
			found[n-1] = chosen
		}
	}
	return found
}

// only leaves the rows for which the condition holds, and has all others take no part.
func (r *rarity) only(those func(analyzer.RuleID) bool) *rarity {
	for id := range analyzer.RuleCount {
		if !those(id) {
			r.values[id] = nil
		}
	}
	return r
}

// countsTokens reports whether the row is a budget of the tokens of a flow.
func countsTokens(id analyzer.RuleID) bool {
	return analyzer.Rules[id].Unit == events.UnitTokens && analyzer.Rules[id].Scope == events.ScopeFlow
}

// partOf is the part in which a flow is, of the given number of parts: a number from 0 on, by a hash of the id.
//
// It depends on the id alone, so a flow is in the same part in each run of the command.
func partOf(id string, of int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // it cannot fail
	return int(h.Sum64() >> 7 % uint64(of))
}

// divide returns the flows of one part, and those of all others.
func divide(flows []*Flow, salt string, part, of int) (in, others []*Flow) {
	for _, f := range flows {
		if partOf(salt+f.ID, of) == part {
			in = append(in, f)
		} else {
			others = append(others, f)
		}
	}
	return in, others
}

// partition divides the flows of the trial: a flow that is both counts as good.
func (t *Trial) partition(isGood, isFailed func(*Flow) bool) (good, failed []*Flow) {
	for _, f := range t.list {
		switch {
		case isGood(f):
			good = append(good, f)
		case isFailed(f):
			failed = append(failed, f)
		}
	}
	return slices.Clip(good), slices.Clip(failed)
}
