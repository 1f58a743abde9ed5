package backtest

import (
	"fmt"
	"math"
	"slices"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
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
// those rows take part that are worth it, see rarity.worth. The others keep their thresholds, or one
// that no good flow reaches. Budgets without a setting take part in that choice, too: only a runaway
// shows which of them is worth having, and how high.
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
	all, failed := t.partition(good, runaway)
	if share <= 0 || share >= 1 || len(all) < LeastGood(share) {
		return nil, fmt.Errorf("to promise that at most %s of good flows are stopped takes some %d good flows, and there are %d", percent(share), LeastGood(share), len(all))
	}
	c := &Calibration{Share: share, Good: len(all), Limits: t.Limits}
	c.stops = t.rarity(all, len(failed) > 0).lines(share, all, failed)
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
	c.Steps = stepLimit(share, calls)
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
		if analyzer.Rules[id].Fixed || analyzer.Rules[id].WarnsOnly || set.Mode != rules.ModeEnforce || set.Stop <= 1 {
			continue
		}
		if set.Stop == rules.Off && (!unset || set.Warn != rules.Off) {
			continue
		}
		if !reported(id, flows) {
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

// reported reports whether the flows show what is usual for the row. Of a budget of tokens or money they
// do not where most flows report none: the first that does would seem unusual for that alone.
func reported(id analyzer.RuleID, flows []*Flow) bool {
	if unit := analyzer.Rules[id].Unit; unit != events.UnitTokens && unit != events.UnitUSD {
		return true
	}
	n := 0
	for _, f := range flows {
		if f.most[id] > 0 {
			n++
		}
	}
	return 2*n > len(flows)
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

// stepLimit is the number of calls that at most the share of good flows exceeds, by the calls of each.
func stepLimit(share float64, calls []int64) int64 {
	slices.Sort(calls)
	return calls[min(len(calls), int(math.Ceil(float64(len(calls)+1)*(1-share)-1e-9)))-1]
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
