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
	"weir/cmd/internal/backtest"
)

// oneByOne is the result of reading the stopped runs, which no figure shows.
//
//go:embed onebyone.md
var oneByOne string

// earlier has the last figures of sets that were not at hand since.
//
//go:embed earlier.md
var earlier string

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
%s; figures only. A cell is the share of runs warned / stopped in per cent, with the numbers behind it; a stopped
run was warned, too. Runs without a loop are honest work: each warning or stop in them is wrong.

Live events are what an adapter reports of a running agent: with the sizes of results, with statuses and with times. Neutral traces have none of
these: some loops are found better without them, others worse. Where only live events of a set were recorded, its neutral column shows the same runs with all of that removed.

`, l.Profile, l.Version, "`make evidence TRACES='FOLDER...'`")
	writeFound(&b, sets)
	sets = shown(sets)
	// Of one half alone there is nothing to compare.
	if half := sets[0].half; half == "" {
		writeHalves(&b, sets)
	}
	b.WriteString("\n## By rule\n\nOnly rules that warned or stopped.\n\n| rule | warns / stops at | set | loops | honest |\n|---|---|---|---|---|\n")
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
	writeRivals(&b, sets)
	// It was written by a person and stands behind the figures as it is.
	b.WriteString(oneByOne)
	b.WriteString(earlier)
	_, err := io.WriteString(w, b.String())
	return err
}

// shown are the sets of which one form is enough: the live one of a name, if there is one.
func shown(sets []*set) (out []*set) {
	for _, s := range sets {
		live := func(o *set) bool { return o.name == s.name && o.live }
		if s.live || !slices.ContainsFunc(sets, live) {
			out = append(out, s)
		}
	}
	return out
}

// writeFound writes what is found and what is wrong in both forms of each set, in the order of the sets.
func writeFound(b *strings.Builder, sets []*set) {
	fmt.Fprint(b, "| set | loops, neutral | honest, neutral | loops, live | honest, live | calls of loops saved, neutral / live |\n|---|---|---|---|---|---|\n")
	var names []string
	for _, s := range sets {
		if !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	for _, name := range names {
		var loops, honest [2]count
		saved := [2]string{"–", "–"}
		for _, s := range sets {
			if s.name != name {
				continue
			}
			form := 0
			if s.live {
				form = 1
			}
			loops[form], honest[form] = s.count(true, ""), s.count(false, "")
			// A set without loops has a dash and not a nought.
			saved[form] = share(loops[form].of > 0, s.saved())
		}
		fmt.Fprintf(b, "| %s | %v | %v | %v | %v | %s / %s |\n", name, loops[0], honest[0], loops[1], honest[1], saved[0], saved[1])
	}
}

// writeRivals writes what calibrated rules save beside the limits that cost nothing.
func writeRivals(b *strings.Builder, sets []*set) {
	b.WriteString(`
## Against a step limit and a token budget

The rivals that cost nothing: a run ends after a number of calls, or of tokens. All three are calibrated on the honest runs of the same set, so that at most
the given share of them is stopped: the thresholds of all rows together by how rare their values are ("weir limits calibrate"), the number of
calls, and the best budget of input, output or all tokens. Which rows take part is chosen without a fifth of the loops and measured in that fifth, each in its turn.
A cell has the shares of the calls and of the tokens of loops that are saved, a dash where the runs report no tokens.

| set | honest runs stopped | rules save | a step limit saves | a token budget saves |
|---|---|---|---|---|
`)
	for _, s := range sets {
		if !s.calibrated || s.count(true, "").of == 0 {
			continue
		}
		for _, at := range shares {
			i := slices.IndexFunc(s.shares, func(x backtest.Saving) bool { return x.Share == at })
			if i < 0 {
				fmt.Fprintf(b, "| %s | at most %.1f %% | takes %d honest runs, and there are %d | | |\n", s.name, 100*at, backtest.LeastGood(at), s.count(false, "").of)
				continue
			}
			x := &s.shares[i]
			cell := func(saved *backtest.Saved) string {
				if saved == nil {
					return "–"
				}
				return share(true, saved.Calls) + " / " + share(saved.Tokens > 0 || x.Budget != nil, saved.Tokens)
			}
			fmt.Fprintf(b, "| %s | at most %.1f %% | %s | %s | %s |\n", s.name, 100*at, cell(&x.Rules), cell(&x.Steps), cell(x.Budget))
		}
	}
	fmt.Fprintf(b, `
The same of runs that were not calibrated on: the honest runs and the loops are halved %d times, what one half calibrates is measured in the other, and the means
are given. A cell has the share that is saved, and after "wrong" the share of the honest runs that are stopped, since none of the three meets its share exactly.
Savings are in the unit of the second column. The last column counts the halvings in which the rules saved more than both rivals.

| set | in | honest runs stopped | rules | a step limit | a token budget | rules save most |
|---|---|---|---|---|---|---|
`, splits)
	for _, s := range sets {
		for _, x := range s.unseen {
			cell := func(i int) string {
				return fmt.Sprintf("%s, wrong %.2f %%", share(true, x.Saved[i]), 100*x.Good[i])
			}
			budget := "–"
			if x.Budgeted {
				budget = cell(2)
			}
			fmt.Fprintf(b, "| %s | %s | at most %.1f %% | %s | %s | %s | %d of %d |\n", s.name, x.Unit, 100*x.Share, cell(0), cell(1), budget, x.Better, x.Splits)
		}
	}
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
