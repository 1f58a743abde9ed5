package backtest

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"weir/analyzer"
	"weir/analyzer/rules"
)

// Calibration is limits of which at most a share of good flows is stopped.
//
// Rows that measure different things are compared by how rare a value is among good flows: for every
// row and value, the part of the flows that reaches it. A flow is as unusual as its rarest value.
// Each good flow is compared with all others, as a later flow will be. The limit is drawn by conformal
// prediction: of n flows at most the floor(share*(n+1)) most unusual may lie beyond it. If the next
// flow is of the same kind, it is stopped with a probability of about share. This holds whatever the
// rules measure and however many there are. To rank one half and draw the line by the other would make
// the promise exact and the line twice as coarse. At half a per cent of a thousand flows, two of them
// would decide.
//
// Every row that takes part costs its share of the good flows. Where runaways are known, only
// those rows take part that are worth it. One row after the other is chosen, each time the one that
// saves most in the runaways, until no row saves more. The others keep their thresholds, or one that no
// good flow reaches. Budgets without a setting take part in that choice, too: only a runaway shows which
// of them is worth having, and how high.
type Calibration struct {
	// Share is from 0 to 1, as it was asked for.
	Share float64 `json:"share"`
	// Good is how many flows the promise stands on.
	Good    int             `json:"good_flows"`
	Stopped int             `json:"good_flows_stopped"` // of those that it was calibrated on
	Upper   float64         `json:"stopped_share_95"`   // the exact upper bound of the share, at 95 % (Clopper and Pearson)
	Steps   int64           `json:"step_limit"`         // the plain limit of calls calibrated on the same flows
	Limits  analyzer.Limits `json:"-"`

	// stops are the thresholds as drawn, before those that a row can never reach are turned
	// off.
	stops lines
}

// LeastGood is how many good flows a calibration for the share needs: with fewer, no
// threshold can promise it.
//
// At least one flow has to be allowed beyond the line, which takes 1/share-1 of them; twice
// that many keeps the line from standing on a single flow. The small number taken off is
// against shares that a float64 writes a little too small.
func LeastGood(share float64) int { return 2 * int(math.Ceil(1/share-1-1e-9)) }

// Calibrate calibrates the limits of a trial that kept steps on the good flows in it, and by the
// runaways as far as any are known. Rows that are turned off, or that are only to warn, take no
// part.
func (t *Trial) Calibrate(share float64, good, runaway func(*Flow) bool) (*Calibration, error) {
	var all, failed []*Flow
	for _, f := range t.list {
		switch {
		// A flow that is both counts as good.
		case good(f):
			all = append(all, f)
		case runaway(f):
			failed = append(failed, f)
		}
	}
	if share <= 0 || share >= 1 || len(all) < LeastGood(share) {
		return nil, fmt.Errorf("to promise that at most %s of good flows are stopped takes some %d good flows, and there are %d", percent(share), LeastGood(share), len(all))
	}
	r := t.rarity(all, len(failed) > 0)
	c := &Calibration{Share: share, Good: len(all), Limits: t.Limits}
	chosen, cost := r.worth(share, all, failed)
	c.stops = r.draw(share, all, &chosen, cost)
	// Rows whose threshold is where it was keep their setting, so that nothing is printed of
	// them.
	for id := range analyzer.RuleCount {
		if stop := c.stops[id]; stop != 0 && int64(stop) != t.Limits.Rules[id].Stop {
			c.Limits.Rules[id] = moved(id, t.Limits.Rules[id], int64(stop))
		}
	}
	var calls []int64
	for _, f := range all {
		calls = append(calls, f.Calls)
		if _, over := c.stops.over(f); over {
			c.Stopped++
		}
	}
	slices.Sort(calls)
	c.Steps = calls[min(len(calls), int(math.Ceil(float64(len(calls)+1)*(1-share)-1e-9)))-1]
	c.Upper = upper(c.Stopped, c.Good)
	return c, nil
}

// lines are the values at which rows stop; 0 for rows that take no part.
//
// 32 bits are enough, as for all that a trial keeps of values: greater ones count as the
// greatest.
type lines [analyzer.RuleCount]int32

// rows says of each row how much rarer than one of weight 1 its values are taken to be; 0 for a
// row that does not take part.
type rows [analyzer.RuleCount]float64

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

// worth returns the rows that are worth their share of good flows: all of them where no
// runaway is known.
//
// In each round every row that may take part is tried with every weight beside those that
// were chosen, and the best one is taken, so its time grows with the square of the rows. -1
// begins it, so that a row is chosen also when it saves nothing at first.
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
	for most := int64(-1); ; {
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
				if saved := stops.saved(failed); saved > most {
					better, most = tried, saved
				}
			}
		}
		if better == chosen {
			return chosen, max(1, chosen.many())
		}
		chosen = better
	}
}

// stoppable is how many of the good flows may still be stopped after the cost of the rows. It is negative
// where there are too few flows for that.
func (r *rarity) stoppable(share float64, cost int) int {
	return int(share*float64(r.n+1)+1e-9) - cost
}

// draw draws the line for the chosen rows at a cost, see worth. The others stop where they did, or
// where none of the good flows has come.
func (r *rarity) draw(share float64, good []*Flow, chosen *rows, cost int) (stops lines) {
	unusual := make([]float64, len(good))
	for i, f := range good {
		unusual[i] = r.of(f, chosen)
	}
	slices.Sort(unusual)
	// The line lies at the first flow that may not be stopped: those that are rarer than it lie
	// beyond.
	line := unusual[r.stoppable(share, cost)]
	for id := range analyzer.RuleCount {
		switch {
		case !r.takesPart(id):
		case chosen[id] > 0 && r.known(id):
			stops[id] = int32(r.first(id, line/chosen[id]))
		default:
			if r.stops[id] == rules.Off {
				continue // it has no setting, and is not worth one
			}
			list := r.values[id]
			// As patient as a suggested limit, and never stricter than the row was.
			beyond := int64(math.Ceil(float64(list[len(list)-1])*headroom)) + 1
			stops[id] = int32(min(math.MaxInt32, max(beyond, r.stops[id])))
		}
	}
	return stops
}

// saved returns how many calls of the flows come after the thresholds are reached.
//
// It needs flows whose steps were kept.
func (t *lines) saved(flows []*Flow) (calls int64) {
	for _, f := range flows {
		if at, over := t.over(f); over {
			calls += f.Calls - int64(at.call)
		}
	}
	return calls
}

// rarity says how rare values of rows are among flows.
//
// It is made of the good flows once and asked many times; all lists of values have n
// members.
type rarity struct {
	n      int
	stops  [analyzer.RuleCount]int64
	values [analyzer.RuleCount][]int32 // greatest values of the flows, sorted; nil: the row takes no part
	lasts  [analyzer.RuleCount]int32   // see Trial.lasts
}

// rarity gathers the values of the rows that can be moved: those that enforce and stop. With unset, it
// also gathers those without a threshold. A row that stops at 1 is not moved, since it has no value
// below its stop.
func (t *Trial) rarity(flows []*Flow, unset bool) *rarity {
	r := &rarity{n: len(flows)}
	for id := range analyzer.RuleCount {
		set := &t.Limits.Rules[id]
		if analyzer.Rules[id].Fixed || set.Mode != rules.ModeEnforce || set.Stop <= 1 {
			continue
		}
		if set.Stop == rules.Off && (!unset || set.Warn != rules.Off) {
			continue
		}
		r.lasts[id], r.stops[id] = t.lasts(id), set.Stop
		list := make([]int32, 0, len(flows))
		for _, f := range flows {
			list = append(list, f.most[id]+r.lasts[id])
		}
		slices.Sort(list)
		r.values[id] = list
	}
	return r
}

func (r *rarity) takesPart(id analyzer.RuleID) bool { return r.values[id] != nil }

// known reports whether any good flow did more than once what the row counts. Flows that never
// repeat themselves give no measure for the first that does.
func (r *rarity) known(id analyzer.RuleID) bool { return r.values[id][r.n-1]-r.lasts[id] > 1 }

// share is the part of the flows that reach the value. Beyond the greatest value it keeps falling as
// the value grows, so that values that no flow reached differ.
func (r *rarity) share(id analyzer.RuleID, value int32) float64 {
	list := r.values[id]
	at, _ := slices.BinarySearch(list, value)
	if reach := r.n - at; reach > 0 {
		return float64(1+reach) / float64(r.n+1)
	}
	return float64(max(1, list[r.n-1])) / float64(value) / float64(r.n+1)
}

// of is the share of the flow's rarest value among the others, of the chosen rows.
func (r *rarity) of(f *Flow, chosen *rows) float64 {
	least := math.Inf(1)
	for id := range analyzer.RuleCount {
		if chosen[id] > 0 && r.takesPart(id) && f.most[id] > 1 {
			least = min(least, chosen[id]*r.amongOthers(id, f.most[id]+r.lasts[id]))
		}
	}
	return least
}

// amongOthers is share for a flow that is itself one of the n: what it is without it.
func (r *rarity) amongOthers(id analyzer.RuleID, value int32) float64 {
	list := r.values[id]
	at, _ := slices.BinarySearch(list, value)
	if reach := r.n - 1 - at; reach > 0 {
		return float64(1+reach) / float64(r.n)
	}
	most := int32(1)
	if r.n > 1 {
		most = max(1, list[r.n-2])
	}
	return float64(most) / float64(value) / float64(r.n)
}

// first is the least value of the row that is rarer than the line; nothing is stopped at
// its first sight, since once is no loop.
func (r *rarity) first(id analyzer.RuleID, line float64) int64 {
	lo, hi := int64(2), int64(math.MaxInt32)
	for lo < hi {
		if mid := (lo + hi) / 2; r.share(id, int32(mid)) < line {
			// share falls as the value grows, so the least one that is rare enough is found by
			// halves.
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// moved is a setting with another stop, and a warning as far before it as it was. A stop
// that the row can never reach is none.
func moved(id analyzer.RuleID, s rules.Setting, stop int64) rules.Setting {
	row := analyzer.FlowRow(id)
	reach, _ := row.Reach(&s)
	if s.Warn != rules.Off {
		s.Warn = max(1, min(stop-1, reach, int64(math.Round(float64(s.Warn)/float64(s.Stop)*float64(stop)))))
	}
	if s.Stop = stop; stop > reach {
		s.Stop = rules.Off
	}
	return s
}

// over returns where the flow first reaches a threshold.
//
// steps are in the order of the log, so the first that reaches any threshold is where the
// flow would be stopped.
func (t *lines) over(f *Flow) (step, bool) {
	for _, s := range f.steps {
		if stop := t[s.row]; stop != 0 && s.value >= stop {
			return s, true
		}
	}
	return step{}, false
}

// upper is the upper end of the one-sided exact interval at 95 % for k of n.
func upper(k, n int) float64 {
	if k >= n {
		return 1
	}
	// The share at which so few would be seen one time in twenty, by bisection.
	lo, hi := 0.0, 1.0
	for range 60 {
		mid := (lo + hi) / 2
		if atMost(k, n, mid) > 0.05 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// atMost is the probability of at most k of n at a share p.
//
// By logarithms, since the factorials of thousands of flows are too large for a float64.
func atMost(k, n int, p float64) float64 {
	sum := 0.0
	choose, _ := math.Lgamma(float64(n + 1))
	for i := 0; i <= k; i++ {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(choose - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// Saving is what limits calibrated to a share of good flows would have saved in failed
// runs, beside the plain step limit that is calibrated on the same good flows.
type Saving struct {
	Share  float64 `json:"share"`
	Failed int     `json:"failed_flows"`
	Rules  float64 `json:"saved_by_rules"` // share of the tokens, or of the calls where no tokens are reported
	// The step limit is the rival that costs nothing: a run ends after a fixed number of calls.
	Steps       float64 `json:"saved_by_step_limit"`
	GoodByRules int     `json:"good_flows_stopped_by_rules"`
	GoodBySteps int     `json:"good_flows_stopped_by_step_limit"`
	Unit        string  `json:"unit"`
}

// Savings computes one Saving for each share that there are good flows enough for. Which rows
// take part is chosen by one half of the failed flows, and what is saved is measured in the
// other, each in its turn.
//
// Without halves rows would be chosen by the runs in which their savings are measured, and
// look better than they are. A share that there are too few good flows for is left out.
func (t *Trial) Savings(shares []float64, good, failed func(*Flow) bool) (out []Saving) {
	for _, share := range shares {
		s := Saving{Share: share, Unit: "tokens"}
		var all, byRules, bySteps, calls, callsByRules, callsBySteps int64
		told := 0 // failed flows that report tokens
		if good := t.count(good); good < LeastGood(share) {
			continue
		}
		for half := range 2 {
			inHalf := func(f *Flow) bool { return halfOf(f.ID) == half }
			c, err := t.Calibrate(share, good, func(f *Flow) bool { return failed(f) && !inHalf(f) })
			if err != nil {
				return out // there are good flows enough
			}
			s.GoodByRules, s.GoodBySteps = max(s.GoodByRules, c.Stopped), 0
			for _, f := range t.list {
				if good(f) && f.Calls > c.Steps {
					s.GoodBySteps++
				}
				if !failed(f) || !inHalf(f) {
					continue
				}
				s.Failed++
				if f.Tokens > 0 {
					told++
				}
				all, calls = all+f.Tokens, calls+f.Calls
				if at, over := c.stops.over(f); over {
					byRules, callsByRules = byRules+f.Tokens-at.tokens, callsByRules+f.Calls-int64(at.call)
				}
				if f.Calls > c.Steps {
					callsBySteps += f.Calls - c.Steps
					// Where in a run the tokens were spent is not known for a limit of calls,
					// so they are taken to be spread evenly.
					bySteps += f.Tokens * (f.Calls - c.Steps) / f.Calls
				}
			}
		}
		// What a few flows report says nothing of the others.
		if 2*told <= s.Failed {
			s.Unit, all, byRules, bySteps = "calls", calls, callsByRules, callsBySteps
		}
		if all > 0 {
			s.Rules, s.Steps = float64(byRules)/float64(all), float64(bySteps)/float64(all)
		}
		out = append(out, s)
	}
	return out
}

// Unseen is what calibrated limits do to flows that they were not calibrated on, good ones and failed
// ones, beside the step limit.
//
// A calibration is off by what is special about its flows, and a step limit most of all: where many good
// flows end after the same call, one call more or less decides. So flows are halved again and again; what
// one half calibrates is measured in the other.
type Unseen struct {
	Share  float64
	Splits int
	// Shares of calls saved in failed flows, and of good flows stopped: the means over all
	// splits.
	Rules, Steps             float64
	GoodByRules, GoodBySteps float64
	// Better is in how many splits the rules saved more calls than the step limit.
	Better int
}

// Unseen computes one Unseen for each share that half of the good flows are enough for.
func (t *Trial) Unseen(shares []float64, splits int, good, failed func(*Flow) bool) (out []Unseen) {
	for _, share := range shares {
		u := Unseen{Share: share}
		for split := range splits {
			var calls, byRules, bySteps, goods, goodByRules, goodBySteps int64
			for half := range 2 {
				learnt := func(f *Flow) bool { return halfOf(fmt.Sprint(split, f.ID)) != half }
				c, err := t.Calibrate(share, func(f *Flow) bool { return learnt(f) && good(f) }, func(f *Flow) bool { return learnt(f) && failed(f) })
				if err != nil {
					break // this half is too small
				}
				for _, f := range t.list {
					isGood := good(f)
					if learnt(f) || !isGood && !failed(f) {
						continue
					}
					at, over := c.stops.over(f)
					if isGood {
						goods, goodByRules, goodBySteps = goods+1, goodByRules+once(over), goodBySteps+once(f.Calls > c.Steps)
						continue
					}
					calls, bySteps = calls+f.Calls, bySteps+max(0, f.Calls-c.Steps)
					if over {
						byRules += f.Calls - int64(at.call)
					}
				}
			}
			if calls == 0 || goods == 0 {
				continue
			}
			u.Splits++
			u.Rules += float64(byRules) / float64(calls)
			u.Steps += float64(bySteps) / float64(calls)
			u.GoodByRules += float64(goodByRules) / float64(goods)
			u.GoodBySteps += float64(goodBySteps) / float64(goods)
			u.Better += int(once(byRules > bySteps))
		}
		if u.Splits == 0 {
			continue
		}
		for _, sum := range []*float64{&u.Rules, &u.Steps, &u.GoodByRules, &u.GoodBySteps} {
			*sum /= float64(u.Splits)
		}
		out = append(out, u)
	}
	return out
}

// once is 1 for what is so, to add up.
func once(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// halfOf is 0 or 1, by a hash of the id.
//
// It depends on the id alone, so a flow is in the same half in each run of the command.
func halfOf(id string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // it cannot fail
	return int(h.Sum64() >> 7 & 1)
}

func (t *Trial) count(those func(*Flow) bool) (n int) {
	for _, f := range t.list {
		if those(f) {
			n++
		}
	}
	return n
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
