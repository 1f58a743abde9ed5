package backtest

import (
	"fmt"

	"weir/analyzer"
)

// Saved is what limits save of failed flows: shares from 0 to 1 of all their calls and of all their
// tokens. Tokens is 0 where no flow reports any.
type Saved struct {
	Calls  float64 `json:"calls"`
	Tokens float64 `json:"tokens"`
}

// In returns the share in a unit, "calls" or "tokens".
func (s Saved) In(name string) float64 {
	if unit(name) == inTokens {
		return s.Tokens
	}
	return s.Calls
}

// Saving is what limits calibrated to a share of good flows would have saved in failed
// runs, beside what a plain step limit and a budget of tokens alone save that are calibrated on the
// same good flows.
type Saving struct {
	Share  float64 `json:"share"`
	Failed int     `json:"failed_flows"`
	// Unit is by which the rules were chosen: tokens, or calls where most failed flows report no tokens.
	Unit  string `json:"unit"`
	Rules Saved  `json:"saved_by_rules"`
	// The step limit is the rival that costs nothing: a run ends after a fixed number of calls.
	Steps Saved `json:"saved_by_step_limit"`
	// Budget is the best of the budgets of input, output and all tokens; nil where the good flows
	// report no tokens.
	Budget *Saved `json:"saved_by_token_budget,omitempty"`
	// The greatest number of good flows that each of them stops, of those that it was calibrated on.
	GoodByRules  int `json:"good_flows_stopped_by_rules"`
	GoodBySteps  int `json:"good_flows_stopped_by_step_limit"`
	GoodByBudget int `json:"good_flows_stopped_by_token_budget"`
}

// rivals are thresholds of the three kinds that are compared, all with the same promise.
type rivals struct {
	rules, budget lines
	steps         int64
	// budgeted is unset where the good flows report no tokens.
	budgeted bool
}

// rivals calibrates all three on the good flows, and chooses rows by the failed ones.
func (t *Trial) rivals(share float64, good, failed []*Flow) (r rivals) {
	r.rules = t.rarity(good, len(failed) > 0).lines(share, good, failed)
	var calls []int64
	for _, f := range good {
		calls = append(calls, f.Calls)
	}
	r.steps = stepLimit(share, calls)
	budgets := t.rarity(good, true).only(countsTokens)
	for id := range analyzer.RuleCount {
		r.budgeted = r.budgeted || budgets.takesPart(id) && budgets.known(id)
	}
	if single := budgets.mixtures(share, good, failed, unitOf(failed), 1); r.budgeted && len(single) > 0 {
		r.budget = budgets.draw(share, good, &single[0], 1)
	}
	return r
}

// over returns where each of the rivals stops the flow: the rules, the step limit, the budget.
func (r *rivals) over(f *Flow) (at [3]step, over [3]bool) {
	at[0], over[0] = r.rules.over(f)
	at[1], over[1] = f.lastOf(r.steps), f.Calls > r.steps
	at[2], over[2] = r.budget.over(f)
	return at, over
}

// lastOf returns where the flow was after that number of calls, before the next one.
func (f *Flow) lastOf(calls int64) step {
	last := step{call: int32(calls)}
	for _, s := range f.steps {
		if int64(s.call) > calls {
			break
		}
		last.tokens = s.tokens
	}
	return last
}

// tally adds up what flows consist of and what is saved of them, by the three rivals.
type tally struct {
	flows         int
	calls, tokens int64
	saved         [3]struct{ calls, tokens int64 }
	stopped       [3]int
}

func (a *tally) add(r *rivals, f *Flow) {
	a.flows++
	a.calls, a.tokens = a.calls+f.Calls, a.tokens+f.Tokens
	at, over := r.over(f)
	for i := range over {
		if over[i] {
			a.stopped[i]++
			a.saved[i].calls += f.after(at[i], inCalls)
			a.saved[i].tokens += f.after(at[i], inTokens)
		}
	}
}

// shares are the savings of each rival.
func (a *tally) shares() (out [3]Saved) {
	for i := range out {
		out[i] = Saved{part(a.saved[i].calls, a.calls), part(a.saved[i].tokens, a.tokens)}
	}
	return out
}

func part(of, all int64) float64 {
	if all == 0 {
		return 0
	}
	return float64(of) / float64(all)
}

// parts is in how many parts the failed flows are divided to measure savings.
const parts = 5

// Savings computes one Saving for each share that there are good flows enough for. Which rows
// take part is chosen without a fifth of the failed flows, and what is saved is measured in that
// fifth, each in its turn.
//
// Without parts rows would be chosen by the runs in which their savings are measured, and
// look better than they are. By halves they would be chosen by too few. A share that there are too few good flows for is left out.
func (t *Trial) Savings(shares []float64, isGood, isFailed func(*Flow) bool) (out []Saving) {
	good, failed := t.partition(isGood, isFailed)
	for _, share := range shares {
		if len(good) < LeastGood(share) || len(failed) == 0 {
			continue
		}
		s := Saving{Share: share, Unit: string(unitOf(failed))}
		var sum tally
		budgeted := false
		for part := range parts {
			others, chosenBy := divide(failed, "", part, parts)
			r := t.rivals(share, good, chosenBy)
			budgeted = r.budgeted
			var honest tally
			for _, f := range good {
				honest.add(&r, f)
			}
			s.GoodByRules, s.GoodBySteps, s.GoodByBudget = max(s.GoodByRules, honest.stopped[0]), max(s.GoodBySteps, honest.stopped[1]), max(s.GoodByBudget, honest.stopped[2])
			for _, f := range others {
				sum.add(&r, f)
			}
		}
		s.Failed = sum.flows
		saved := sum.shares()
		s.Rules, s.Steps = saved[0], saved[1]
		if budgeted {
			s.Budget = &saved[2]
		}
		out = append(out, s)
	}
	return out
}

// Unseen is what calibrated limits do to flows that they were not calibrated on, good ones and failed
// ones, beside the step limit and a budget of tokens.
//
// A calibration is off by what is special about its flows, and a step limit most of all: where many good
// flows end after the same call, one call more or less decides. So flows are halved again and again; what
// one half calibrates is measured in the other.
type Unseen struct {
	Share    float64
	Splits   int
	Unit     string // in which savings are measured
	Budgeted bool   // good flows report tokens
	// Of the rules, the step limit and the budget in this order: the shares of the unit that they save in
	// failed flows, and of good flows that they stop. Means over all splits.
	Saved, Good [3]float64
	// Better is in how many splits the rules saved more than each of the two others.
	Better int
}

// Unseen computes one Unseen for each share that half of the good flows are enough for.
func (t *Trial) Unseen(shares []float64, splits int, isGood, isFailed func(*Flow) bool) (out []Unseen) {
	good, failed := t.partition(isGood, isFailed)
	for _, share := range shares {
		u := Unseen{Share: share, Unit: string(unitOf(failed))}
		for split := range splits {
			saved, stopped, ok := t.split(&u, fmt.Sprint(split), good, failed)
			if !ok {
				continue
			}
			u.Splits++
			for i := range saved {
				u.Saved[i] += saved[i]
				u.Good[i] += stopped[i]
			}
			if saved[0] > max(saved[1], saved[2]) {
				u.Better++
			}
		}
		if u.Splits == 0 {
			continue
		}
		for i := range u.Saved {
			u.Saved[i] /= float64(u.Splits)
			u.Good[i] /= float64(u.Splits)
		}
		out = append(out, u)
	}
	return out
}

// split calibrates on each half of the flows and measures in the other half: what is saved, and what
// share of the good flows is stopped. ok is unset where a half is too small.
func (t *Trial) split(u *Unseen, name string, good, failed []*Flow) (saved, stopped [3]float64, ok bool) {
	var sum, honest tally
	for half := range 2 {
		otherGoods, goods := divide(good, name, half, 2)
		otherFails, fails := divide(failed, name, half, 2)
		if len(goods) < LeastGood(u.Share) {
			return saved, stopped, false
		}
		r := t.rivals(u.Share, goods, fails)
		u.Budgeted = u.Budgeted || r.budgeted
		for _, f := range otherGoods {
			honest.add(&r, f)
		}
		for _, f := range otherFails {
			sum.add(&r, f)
		}
	}
	if sum.flows == 0 || honest.flows == 0 {
		return saved, stopped, false
	}
	for i, s := range sum.shares() {
		saved[i] = s.In(u.Unit)
		stopped[i] = float64(honest.stopped[i]) / float64(honest.flows)
	}
	return saved, stopped, true
}
