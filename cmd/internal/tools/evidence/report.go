package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"weir/analyzer"
)

// count is how many runs were warned (or stopped, too) and stopped, of how many.
type count struct{ warned, stopped, of int }

func (c *count) add(warned, stopped bool) {
	c.of++
	if warned {
		c.warned++
	}
	if stopped {
		c.stopped++
	}
}

func (c count) String() string {
	if c.of == 0 {
		return "–"
	}
	p := func(n int) float64 { return 100 * float64(n) / float64(c.of) }
	return fmt.Sprintf("%.1f / %.1f (%d / %d of %d)", p(c.warned), p(c.stopped), c.warned, c.stopped, c.of)
}

func (s *set) count(loop bool, rule string) (c count) {
	for _, o := range s.runs {
		if o.loop != loop {
			continue
		}
		if rule == "" {
			c.add(o.warned, o.stop)
		} else if r := o.rules[rule]; r != nil {
			c.add(true, r.stop)
		} else {
			c.add(false, false)
		}
	}
	return c
}

// saved is the share of the calls of the loops that came after their first stop.
func (s *set) saved() float64 {
	var after, calls int64
	for _, o := range s.runs {
		if !o.loop {
			continue
		}
		calls += o.calls
		if o.stop {
			after += o.calls - o.atStop
		}
	}
	if calls == 0 {
		return 0
	}
	return float64(after) / float64(calls)
}

// writeReport writes the tables.
func writeReport(w io.Writer, l analyzer.Limits, sets []*set) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Evidence

What the rules do on recorded runs of which it is known how they ended, by the profile %s, version %s. Written by
%s; figures only. A cell is the share of runs warned / stopped in per cent, with the numbers behind it; who is stopped
was warned, too. Runs without a loop are honest work: what is said against them is wrong.

`, l.Profile, l.Version, "`make evidence TRACES='FOLDER...'`")
	fmt.Fprintf(&b, "| set | loops | honest | calls of loops saved |\n|---|---|---|---|\n")
	for _, s := range sets {
		fmt.Fprintf(&b, "| %s | %v | %v | %s |\n", s.name, s.count(true, ""), s.count(false, ""), share(s.count(true, "").of > 0, s.saved()))
	}
	b.WriteString("\n## By rule\n\nOnly rules that said something.\n\n| rule | warns / stops at | set | loops | honest |\n|---|---|---|---|---|\n")
	for _, row := range analyzer.Rows() {
		for _, s := range sets {
			loops, honest := s.count(true, row.Name), s.count(false, row.Name)
			if loops.warned+honest.warned > 0 {
				fmt.Fprintf(&b, "| %s | %s | %s | %v | %v |\n", row.Name, thresholds(row.Setting(&l)), s.name, loops, honest)
			}
		}
	}
	b.WriteString(`
## Against a step limit

The rival that costs nothing: a run is ended after a number of calls, set so that at most this share of the honest runs of the same set
is cut. In the columns stands the share of the calls of loops that it saves, and for the rules the share that they save and of honest
runs that they stop, as they are.

| set | step limit at 0.5 % | at 1 % | at 5 % | rules save | rules stop wrongly |
|---|---|---|---|---|---|
`)
	for _, s := range sets {
		if loops, honest := s.count(true, ""), s.count(false, ""); loops.of > 0 && honest.of > 0 {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.name, s.stepLimit(0.005), s.stepLimit(0.01), s.stepLimit(0.05),
				share(true, s.saved()), share(true, float64(honest.stopped)/float64(honest.of)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func share(known bool, v float64) string {
	if !known {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func thresholds(s *analyzer.Setting) string {
	one := func(v int64) string {
		if v == analyzer.Off {
			return "–"
		}
		return fmt.Sprint(v)
	}
	return one(s.Warn) + " / " + one(s.Stop)
}

// stepLimit says which number of calls at most the given share of the honest runs passes, and
// how much of the loops' calls come after it.
func (s *set) stepLimit(wrong float64) string {
	var honest []int64
	var after, calls int64
	for _, o := range s.runs {
		if !o.loop {
			honest = append(honest, o.calls)
		}
	}
	slices.Sort(honest)
	limit := honest[len(honest)-1-min(len(honest)-1, int(wrong*float64(len(honest))))]
	for _, o := range s.runs {
		if o.loop {
			calls += o.calls
			after += max(0, o.calls-limit)
		}
	}
	return fmt.Sprintf("%.1f %% (%d calls)", 100*float64(after)/float64(max(1, calls)), limit)
}

func listWrong(w io.Writer, sets []*set) {
	for _, s := range sets {
		for _, o := range s.runs {
			if o.loop || !o.warned {
				continue
			}
			for _, r := range slices.Sorted(maps.Keys(o.rules)) {
				x := o.rules[r]
				says := "warn"
				if x.stop {
					says = "STOP"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\tobserved %.0f\tat call %d of %d\n", says, s.name, o.name, r, x.observed, x.at, o.calls)
			}
		}
	}
}
