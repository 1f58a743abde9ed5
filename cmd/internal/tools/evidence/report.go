package main

import (
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"weir/analyzer"
	"weir/analyzer/rules"
)

// oneByOne is the result of reading the stopped runs, which no figure shows.
//
//go:embed onebyone.md
var oneByOne string

// count is how many runs were warned (or stopped, too) and stopped, of how many.
//
// Who is stopped was warned, too, so stopped is never more than warned.
// It counts runs and not verdicts: a run that is warned ten times counts once.
type count struct{ warned, stopped, of int }

// add counts one run.
func (c *count) add(warned, stopped bool) {
	c.of++
	if warned {
		c.warned++
	}
	if stopped {
		c.stopped++
	}
}

// String is a cell of the table: shares in per cent, and the numbers that they are of; a dash
// where there is no run.
func (c count) String() string {
	if c.of == 0 {
		return "–"
	}
	// One decimal: of a few hundred runs a second one would be noise.
	p := func(n int) float64 { return 100 * float64(n) / float64(c.of) }
	return fmt.Sprintf("%.1f / %.1f (%d / %d of %d)", p(c.warned), p(c.stopped), c.warned, c.stopped, c.of)
}

// count counts the runs of the set that are loops, or those that are honest. rule is the one
// that spoke of them, "" for any.
func (s *set) count(loop bool, rule string) count {
	return s.countIf(loop, rule, func(string) bool { return true })
}

// countIf counts only the runs whose names are wanted.
func (s *set) countIf(loop bool, rule string, has func(run string) bool) (c count) {
	for _, o := range s.runs {
		if o.loop != loop || !has(o.name) {
			continue
		}
		if rule == "" {
			c.add(o.warned, o.stop)
			// A rule that is in the map has warned at least.
		} else if r := o.rules[rule]; r != nil {
			c.add(true, r.stop)
		} else {
			c.add(false, false)
		}
	}
	return c
}

// saved is the share of the calls of the loops that came after their first stop.
// A share of all their calls, also of loops that were never stopped.
func (s *set) saved() float64 {
	var after, calls int64
	for _, o := range s.runs {
		if !o.loop {
			continue
		}
		// Loops without a stop count with all their calls and save none.
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
//
// The sets are in the order of the folders. All of it is made before anything is written,
// since the output replaces a page that is under version control.
func writeReport(w io.Writer, l analyzer.Limits, sets []*set) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Evidence

What the rules do on recorded runs of which it is known how they ended, by the profile %s, version %s. Written by
%s; figures only. A cell is the share of runs warned / stopped in per cent, with the numbers behind it; who is stopped
was warned, too. Runs without a loop are honest work: what is said against them is wrong.

`, l.Profile, l.Version, "`make evidence TRACES='FOLDER...'`")
	// Each table says its numbers beside the shares, since some sets are small.
	fmt.Fprintf(&b, "| set | loops | honest | calls of loops saved |\n|---|---|---|---|\n")
	for _, s := range sets {
		// A set without loops has a dash and not a nought.
		fmt.Fprintf(&b, "| %s | %v | %v | %s |\n", s.name, s.count(true, ""), s.count(false, ""), share(s.count(true, "").of > 0, s.saved()))
	}
	// Of one half alone there is nothing to compare.
	if half := sets[0].half; half == "" {
		writeHalves(&b, sets)
	}
	b.WriteString("\n## By rule\n\nOnly rules that said something.\n\n| rule | warns / stops at | set | loops | honest |\n|---|---|---|---|---|\n")
	// In the order of the rows, and within one in that of the sets.
	for _, row := range analyzer.Rows() {
		for _, s := range sets {
			loops, honest := s.count(true, row.Name), s.count(false, row.Name)
			// A rule that said nothing would be a row of noughts.
			if loops.warned+honest.warned > 0 {
				fmt.Fprintf(&b, "| %s | %s | %s | %v | %v |\n", row.Name, thresholds(row.Setting(&l)), s.name, loops, honest)
			}
		}
	}
	writeReached(&b, &l, sets)
	b.WriteString(`
## Against a step limit

The rival that costs nothing: a run is ended after a number of calls. Both are calibrated on the honest runs of the same set, so that at most
the given share of them is stopped: the thresholds of all rows together by how rare their values are ("weir limits calibrate"), and the number of
calls. Which rows take part, and how much of the share each may take, is chosen by one half of the loops and measured in the other, each in its turn.
In the columns stands the share of the calls of loops that each saves. A set with too few honest runs for a share has no line for it.

| set | honest runs stopped | rules save | a step limit saves |
|---|---|---|---|
`)
	for _, s := range sets {
		for _, x := range s.shares {
			// Failed is how many loops the saving was measured on.
			if x.Failed > 0 {
				fmt.Fprintf(&b, "| %s | at most %.1f %% | %s | %s |\n", s.name, 100*x.Share, share(true, x.Rules), share(true, x.Steps))
			}
		}
	}
	fmt.Fprintf(&b, `
The same of runs that were not calibrated on: the honest runs and the loops are halved %d times, what one half calibrates is measured in the other, and the means
are told. How many honest runs are stopped of those that nobody has seen is told for both, since neither meets its share exactly; the last column says in how
many of the halvings the rules saved more.

| set | honest runs stopped | rules save | honest stopped by rules | a step limit saves | honest stopped by it | rules save more |
|---|---|---|---|---|---|---|
`, splits)
	for _, s := range sets {
		for _, x := range s.unseen {
			fmt.Fprintf(&b, "| %s | at most %.1f %% | %s | %.2f %% | %s | %.2f %% | %d of %d |\n", s.name, 100*x.Share, share(true, x.Rules), 100*x.GoodByRules, share(true, x.Steps), 100*x.GoodBySteps, x.Better, x.Splits)
		}
	}
	// It was written by a person and stands behind the figures as it is.
	b.WriteString(oneByOne)
	_, err := io.WriteString(w, b.String())
	return err
}

// share is a share in per cent, or a dash where none is known.
func share(known bool, v float64) string {
	if !known {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

// thresholds are those of a row as the tables have them, a dash for one that is off.
func thresholds(s *rules.Setting) string {
	one := func(v int64) string {
		if v == rules.Off {
			return "–"
		}
		return fmt.Sprint(v)
	}
	return one(s.Warn) + " / " + one(s.Stop)
}

// writeHalves says how the rules do on runs on which a change was tried, and on the others.
//
// A change that was fitted to the runs on which it was tried does worse on the others.
func writeHalves(b *strings.Builder, sets []*set) {
	b.WriteString(`
## By half

Runs fall into two halves by a hash of their names. Changes are tried on the odd half ("-half odd") and judged by the even one, of which more is to be
expected of runs that nobody here has seen.

| set | odd: loops | odd: honest | even: loops | even: honest |
|---|---|---|---|---|
`)
	for _, s := range sets {
		even := func(run string) bool { return !isOdd(run) }
		fmt.Fprintf(b, "| %s | %v | %v | %v | %v |\n", s.name, s.countIf(true, "", isOdd), s.countIf(false, "", isOdd), s.countIf(true, "", even), s.countIf(false, "", even))
	}
}

// writeReached says of each row that is on what honest runs reach, which is what its numbers rest on.
func writeReached(b *strings.Builder, l *analyzer.Limits, sets []*set) {
	b.WriteString(`
## What honest runs reach

Of each row that is on by default, the greatest value in each of the honest runs of all sets: what one in a hundred and one in a thousand of them reaches or
passes, the greatest of all, and how many reach the stop. Slow calls count as rules count them.

| rule | warns / stops at | 1 in 100 | 1 in 1,000 | most | reach the stop |
|---|---|---|---|---|---|
`)
	for id := range analyzer.RuleCount {
		row := analyzer.FlowRow(id)
		set := row.Setting(l)
		// Rows that say nothing, or that measure nothing, have no numbers that could rest on
		// anything.
		if set.Mode == rules.ModeOff || set.Mute() || row.ModeOnly() || row.Fixed {
			continue
		}
		var most []int64
		// over counts runs that reach the stop, whether the rule may stop or only watches.
		over := 0
		for _, s := range sets {
			for _, o := range s.runs {
				if o.loop {
					continue
				}
				// All honest runs of all sets together: a limit is one for all.
				if most = append(most, o.most[id]); o.most[id] >= set.Stop {
					over++
				}
			}
		}
		if len(most) == 0 {
			continue
		}
		slices.Sort(most)
		// The value that one in the given number of runs reaches or passes; with fewer runs
		// than that, the greatest.
		rank := func(one int) int64 { return most[len(most)-1-(len(most)-1)/one] }
		fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %d of %d |\n", row.Name, thresholds(set), rank(100), rank(1000), most[len(most)-1], over, len(most))
	}
}

// listWrong prints a line for each rule that flagged an honest run, with the data to find the
// place in the recording. It names runs, so its output is not for the repository.
func listWrong(w io.Writer, sets []*set) {
	for _, s := range sets {
		for _, o := range s.runs {
			if o.loop || !o.warned {
				continue
			}
			for _, r := range slices.Sorted(maps.Keys(o.rules)) {
				x := o.rules[r]
				// Only the word differs; a stop was a warning before.
				says := "warn"
				if x.stop {
					says = "STOP"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\tobserved %.0f\tat call %d of %d\n", says, s.name, o.name, r, x.observed, x.at, o.calls)
			}
		}
	}
}
