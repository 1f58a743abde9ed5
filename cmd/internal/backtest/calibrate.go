package backtest

import (
	"fmt"
	"math"
	"slices"

	"weir/analyzer"
)

// Calibration is limits of which at most a share of good flows is stopped.
//
// All thresholds are the given ones times one factor, so that one figure per flow, how
// near it came to any of them, decides. The factor is the quantile of that figure over
// the good flows that split conformal prediction takes: of n good flows the one at rank
// ceil((n+1)(1-share)). If the next flow is of the same kind as those n, it is stopped
// with a probability of at most share, whatever the rules measure.
type Calibration struct {
	Share   float64         `json:"share"`
	Good    int             `json:"good_flows"`
	Factor  float64         `json:"factor"`             // by which the stop thresholds are multiplied
	Stopped int             `json:"good_flows_stopped"` // of those that it was calibrated on
	Upper   float64         `json:"stopped_share_95"`   // the exact upper bound of the share, at 95 % (Clopper and Pearson)
	Steps   int64           `json:"step_limit"`         // the plain limit of calls calibrated in the same way
	Limits  analyzer.Limits `json:"-"`
}

// LeastGood is how many good flows a calibration for the share needs: with fewer, no
// threshold can promise it.
func LeastGood(share float64) int { return int(math.Ceil(1/share - 1 - 1e-9)) }

// Calibrate calibrates the limits of a trial that kept steps on the good flows in it.
func (t *Trial) Calibrate(share float64, good func(*Flow) bool) (*Calibration, error) {
	var ratios []float64
	var calls []int64
	for _, f := range t.list {
		if good(f) {
			ratios, calls = append(ratios, f.nearest()), append(calls, f.Calls)
		}
	}
	if n := len(ratios); share <= 0 || share >= 1 || n < LeastGood(share) {
		return nil, fmt.Errorf("to promise that at most %s of good flows are stopped takes %d good flows, and there are %d", percent(share), LeastGood(share), n)
	}
	slices.Sort(ratios)
	slices.Sort(calls)
	rank := conformal(len(ratios), share)
	c := &Calibration{Share: share, Good: len(ratios), Factor: ratios[rank], Steps: calls[rank]}
	c.Limits = t.Limits
	for i := range analyzer.Rules {
		c.Limits.Rules[i] = scaled(t.Limits.Rules[i], c.Factor)
	}
	for _, v := range ratios {
		if v > c.Factor {
			c.Stopped++
		}
	}
	c.Upper = upper(c.Stopped, c.Good)
	return c, nil
}

// conformal is the place, from 0, of the value that may still pass.
func conformal(n int, share float64) int {
	return min(n, int(math.Ceil(float64(n+1)*(1-share)-1e-9))) - 1
}

// nearest is how near the flow came to any threshold, as a part of it.
func (f *Flow) nearest() float64 {
	if len(f.steps) == 0 {
		return 0
	}
	return float64(f.steps[len(f.steps)-1].ratio)
}

// scaled moves the thresholds of a row that stops. The flow at exactly the factor
// passes; nothing is stopped at its first sight, since once is no loop.
func scaled(s analyzer.Setting, factor float64) analyzer.Setting {
	if s.Mode != analyzer.ModeEnforce || s.Stop == analyzer.Off || s.Stop <= 1 {
		return s
	}
	stop := max(2, int64(math.Floor(float64(s.Stop)*factor+1e-4))+1)
	if s.Warn != analyzer.Off {
		s.Warn = max(1, min(stop-1, int64(math.Round(float64(s.Warn)/float64(s.Stop)*float64(stop)))))
	}
	s.Stop = stop
	return s
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
	Share       float64 `json:"share"`
	Failed      int     `json:"failed_flows"`
	Rules       float64 `json:"saved_by_rules"` // share of the tokens, or of the calls where no tokens are told
	Steps       float64 `json:"saved_by_step_limit"`
	GoodByRules int     `json:"good_flows_stopped_by_rules"`
	GoodBySteps int     `json:"good_flows_stopped_by_step_limit"`
	Unit        string  `json:"unit"`
}

// Savings computes one Saving for each share that there are good flows enough for.
func (t *Trial) Savings(shares []float64, good, failed func(*Flow) bool) (out []Saving) {
	for _, share := range shares {
		c, err := t.Calibrate(share, good)
		if err != nil {
			continue
		}
		s := Saving{Share: share, Unit: "tokens", GoodByRules: c.Stopped}
		var all, byRules, bySteps, calls, callsByRules, callsBySteps int64
		for _, f := range t.list {
			if good(f) && f.Calls > c.Steps {
				s.GoodBySteps++
			}
			if !failed(f) {
				continue
			}
			s.Failed++
			all, calls = all+f.Tokens, calls+f.Calls
			if at, ok := f.over(c.Factor); ok {
				byRules, callsByRules = byRules+f.Tokens-at.tokens, callsByRules+f.Calls-int64(at.call)
			}
			if f.Calls > c.Steps {
				callsBySteps += f.Calls - c.Steps
				bySteps += f.Tokens * (f.Calls - c.Steps) / f.Calls
			}
		}
		if all == 0 {
			s.Unit, all, byRules, bySteps = "calls", calls, callsByRules, callsBySteps
		}
		if all > 0 {
			s.Rules, s.Steps = float64(byRules)/float64(all), float64(bySteps)/float64(all)
		}
		out = append(out, s)
	}
	return out
}

// over returns where the flow was first nearer than the factor.
func (f *Flow) over(factor float64) (step, bool) {
	i, _ := slices.BinarySearchFunc(f.steps, factor, func(s step, v float64) int {
		if float64(s.ratio) > v {
			return 1
		}
		return -1
	})
	if i == len(f.steps) {
		return step{}, false
	}
	return f.steps[i], true
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
