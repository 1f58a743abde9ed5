package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/forecast"
	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/costs"
	"weir/events"
)

// Forecasts are measured on runs that they were not calibrated on: runs are halved again and again, what
// one half calibrates is tried on the other.

// measures are what a forecast is measured by. Calls are no measure of weir's forecasts. They are
// measured here because some sets report no tokens for most runs.
var measures = [3]string{"dollars", "tokens", "calls"}

// ran is one run of a set: an episode of a flow.
type ran struct {
	name   string // of the set's run, which may have several episodes
	failed bool
	good   bool
	points [len(measures)][]forecast.Point
	calls  []modelCall
}

// modelCall is a model call of a run: what the next one would read, and the tokens of the run after it.
type modelCall struct{ next, tokens int64 }

// labelledRuns is a labelled set whose runs have usage, and what its labels mean.
type labelledRuns struct {
	name, prefix string
	failed, good func(labels) bool
}

// forecastSets are the sets of which runs have usage.
var forecastSets = []labelledRuns{
	{"terminal tasks", "cc_bench", func(l labels) bool { return l.is("failed") }, func(l labels) bool { return l.is("solved") }},
	{"repository tasks", "shell_agent", func(l labels) bool { return !l.is("good") }, func(l labels) bool { return l.is("good") }},
}

// writeForecasts measures forecasts on the sets below the folders, and writes the page.
func writeForecasts(w io.Writer, folders []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, forecastHead, splits)
	var saved, fixed strings.Builder
	for _, folder := range folders {
		sets, err := courseSets(folder)
		if err != nil {
			return err
		}
		for _, s := range sets {
			s.writeCoverage(&b)
			s.writeSaved(&saved)
			s.writeFixed(&fixed)
		}
	}
	b.WriteString(savedHead)
	b.WriteString(saved.String())
	b.WriteString(fixedHead)
	b.WriteString(fixed.String())
	_, err := io.WriteString(w, b.String())
	return err
}

// courseSet is the runs of one set.
type courseSet struct {
	name string
	runs []*ran
}

// courseSets reads the sets of a folder: labelled ones that are known, else all transcripts below it.
func courseSets(folder string) (sets []*courseSet, err error) {
	for _, k := range forecastSets {
		files, err := filepath.Glob(filepath.Join(folder, k.prefix+"*.events.jsonl.gz"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			said, err := readLabels(strings.Replace(file, ".events.", ".labels.", 1), all)
			if err != nil {
				return nil, err
			}
			byFlow := map[string]labels{}
			for id, l := range said {
				byFlow[strings.TrimPrefix(id, "/")] = l
			}
			runs, err := follow(file, "")
			if err != nil {
				return nil, err
			}
			for _, r := range runs {
				r.failed, r.good = k.failed(byFlow[r.name]), k.good(byFlow[r.name])
			}
			sets = append(sets, &courseSet{k.name, runs})
		}
	}
	if len(sets) > 0 {
		return sets, nil
	}
	s := &courseSet{name: filepath.Base(folder)}
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		runs, err := follow(path, filepath.Base(path))
		for _, r := range runs {
			r.good = true // sessions that ended in commits
		}
		s.runs = append(s.runs, runs...)
		return err
	})
	if err == nil && len(s.runs) == 0 {
		err = fmt.Errorf("%s holds no runs with usage", folder)
	}
	return []*courseSet{s}, err
}

// follow folds a file by limits of which no rule acts, and returns its episodes with calls. name is that
// of the run; "" for a set in which each flow is one.
func follow(file, name string) (out []*ran, err error) {
	l, err := limitfile.Profile("none")
	if err != nil {
		return nil, err
	}
	trial, err := backtest.NewTrial(context.Background(), limitfile.WithPrices(l, costs.BuiltIn()))
	if err != nil {
		return nil, err
	}
	trial.Follow = true
	evs, err := new(recording).read(file)
	if err != nil {
		return nil, err
	}
	type episode struct {
		flow string
		n    int
	}
	models := map[episode][]modelCall{}
	var ev events.Event
	for i := range evs {
		if err := events.Decode(evs[i].json, &ev); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		trial.Fold(&ev)
		at := trial.Flow(ev.FlowKey())
		if ev.Kind != events.LLMCall || !ev.Usage.Known || len(at.Courses()) == 0 {
			continue
		}
		p := prices.Parts(&ev)
		key := episode{at.ID, len(at.Courses())}
		models[key] = append(models[key], modelCall{p.Context() + p.Output + p.Reasoning, at.Courses()[key.n-1].Spent(forecast.Tokens)})
	}
	for _, f := range trial.Flows() {
		for i := range f.Courses() {
			c := &f.Courses()[i]
			if c.Calls() == 0 {
				continue
			}
			r := &ran{name: cmp.Or(name, f.ID), calls: models[episode{f.ID, i + 1}]}
			r.points[0], r.points[1] = c.Of(forecast.USD), c.Of(forecast.Tokens)
			for n := range c.Calls() {
				r.points[2] = append(r.points[2], forecast.Point{Calls: n + 1, Spent: n + 1})
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// learnt reports whether a run is in the half that a split is calibrated on. Episodes of one run stay
// together.
func (r *ran) learnt(split, half int) bool {
	return int(xxhash.Sum64String(fmt.Sprint(split, r.name))>>7&1) == half
}

// spent is what the run spent in the end.
func (r *ran) spent(measure int) int64 {
	if p := r.points[measure]; len(p) > 0 {
		return p[len(p)-1].Spent
	}
	return 0
}

// tableOf is the forecast by one measure of the runs.
func tableOf(runs []*ran, measure int) forecast.Table {
	var all [][]forecast.Point
	for _, r := range runs {
		if len(r.points[measure]) > 0 {
			all = append(all, r.points[measure])
		}
	}
	k := forecast.Kind{Name: forecast.Any}
	k.Rows[forecast.Tokens] = forecast.Calibrate(all)
	return forecast.Table{k}
}

// covered is how forecasts at one moment of the runs did.
type covered struct {
	of, known, in, below, above int
	width, off                  []float64 // logarithms
}

// try forecasts a run at a number of calls.
func (c *covered) try(t forecast.Table, r *ran, measure int, calls int64) {
	for _, p := range r.points[measure] {
		if p.Calls < calls {
			continue
		}
		c.of++
		e, end := t.Of(forecast.Any, forecast.Tokens, p.Calls, p.Spent), r.spent(measure)
		if !e.Known() {
			return
		}
		c.known++
		switch {
		case end < e.Low:
			c.below++
		case end > e.High:
			c.above++
		default:
			c.in++
		}
		c.width = append(c.width, math.Log(float64(e.High)/float64(max(1, e.Low))))
		c.off = append(c.off, math.Abs(math.Log(float64(end)/float64(max(1, e.Expected)))))
		return
	}
}

// writeCoverage writes the lines of the set: of good runs, and where some failed of all.
func (s *courseSet) writeCoverage(w io.Writer) {
	for measure, word := range measures {
		if s.usual(measure) {
			continue
		}
		s.cover(w, word+", good runs", measure, func(r *ran) bool { return r.good })
		if slices.ContainsFunc(s.runs, func(r *ran) bool { return !r.good }) {
			s.cover(w, word+", all runs", measure, func(*ran) bool { return true })
		}
	}
}

// usual reports whether the measure says nothing new of the set: no run has it, or all have tokens and
// so need no calls.
func (s *courseSet) usual(measure int) bool {
	has := func(m int) int {
		n := 0
		for _, r := range s.runs {
			if r.spent(m) > 0 {
				n++
			}
		}
		return n
	}
	return has(measure) == 0 || measure == 2 && 2*has(1) > len(s.runs)
}

// cover writes one line.
func (s *courseSet) cover(w io.Writer, what string, measure int, wanted func(*ran) bool) {
	var quarter, long, fifth covered
	for split := range splits {
		for half := range 2 {
			var learn []*ran
			for _, r := range s.runs {
				if wanted(r) && r.learnt(split, half) {
					learn = append(learn, r)
				}
			}
			t := tableOf(learn, measure)
			for _, r := range s.runs {
				calls := int64(len(r.points[2]))
				if !wanted(r) || r.learnt(split, half) || r.spent(measure) == 0 {
					continue
				}
				quarter.try(t, r, measure, (calls+3)/4)
				if calls >= 4 {
					long.try(t, r, measure, (calls+3)/4)
				}
				if calls >= 5 {
					fifth.try(t, r, measure, 5)
				}
			}
		}
	}
	width, off := "–", "–"
	if quarter.known > 0 {
		width, off = fmt.Sprintf("× %.1f", math.Exp(median(quarter.width))), fmt.Sprintf("× %.1f", math.Exp(median(quarter.off)))
	}
	fmt.Fprintf(w, "| %s | %s | %d | %s | %s | %s | %s | %s |\n", s.name, what, quarter.of/splits, &quarter, &long, &fifth, width, off)
}

// String is a cell: the share of runs in the interval, with those below and above it.
func (c *covered) String() string {
	if c.known == 0 {
		return "unknown"
	}
	p := func(n int) float64 { return 100 * float64(n) / float64(c.known) }
	text := fmt.Sprintf("%.1f %% (%.1f below, %.1f above)", p(c.in), p(c.below), p(c.above))
	if c.known < c.of {
		text += fmt.Sprintf(", known of %.0f %%", 100*float64(c.known)/float64(c.of))
	}
	return text
}

// median sorts the list.
func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// seen is a moment of a run: what a detector measures, and the tokens spent by then.
type seen struct {
	value  float64
	tokens int64
}

// hasFailed reports whether runs of the set failed.
func (s *courseSet) hasFailed() bool {
	return slices.ContainsFunc(s.runs, func(r *ran) bool { return r.failed })
}

// detector is a limit that warns of a run. good are the runs that it may learn from.
type detector struct {
	name   string
	course func(good []*ran) func(r *ran) []seen
}

// detectors are weir's rules about context and forecasts, and their rivals.
var detectors = []detector{
	{"a step limit", func([]*ran) func(*ran) []seen {
		return func(r *ran) (out []seen) {
			// What was spent by a call that reports nothing is what was spent at the call before.
			at, p := int64(0), r.points[1]
			for i := range r.points[2] {
				for len(p) > 0 && p[0].Calls <= int64(i+1) {
					at, p = p[0].Spent, p[1:]
				}
				out = append(out, seen{float64(i + 1), at})
			}
			return out
		}
	}},
	{"a token budget (`max_total_tokens`)", func([]*ran) func(*ran) []seen {
		return func(r *ran) (out []seen) {
			for _, c := range r.calls {
				out = append(out, seen{float64(c.tokens), c.tokens})
			}
			return out
		}
	}},
	{"`context_growth`: the next call against the median of the run's first five", func([]*ran) func(*ran) []seen {
		return func(r *ran) (out []seen) {
			if len(r.calls) < 5 {
				return nil
			}
			var first []float64
			for _, c := range r.calls[:5] {
				first = append(first, float64(max(1, c.next)))
			}
			usual := median(first)
			for _, c := range r.calls[4:] {
				out = append(out, seen{float64(c.next) / usual, c.tokens})
			}
			return out
		}
	}},
	{"the next call against the median of all calls of good runs (as `max_context_tokens`)", func(good []*ran) func(*ran) []seen {
		return func(r *ran) (out []seen) {
			for _, c := range r.calls {
				out = append(out, seen{float64(c.next), c.tokens})
			}
			return out
		}
	}},
	{"the next call against the median of good runs at the same number of model calls", func(good []*ran) func(*ran) []seen {
		at := map[int64][]float64{}
		for _, r := range good {
			for i, c := range r.calls {
				bin := forecast.Bin(int64(i + 1))
				at[bin] = append(at[bin], float64(max(1, c.next)))
			}
		}
		usual := map[int64]float64{}
		for bin, list := range at {
			if len(list) >= forecast.Least {
				usual[bin] = median(list)
			}
		}
		return func(r *ran) (out []seen) {
			for i, c := range r.calls {
				if u := usual[forecast.Bin(int64(i+1))]; u > 0 {
					out = append(out, seen{float64(c.next) / u, c.tokens})
				}
			}
			return out
		}
	}},
	{"`forecast_exceeds_budget`: the expected final tokens", func(good []*ran) func(*ran) []seen {
		return foreseen(good, func(e *forecast.Estimate) int64 { return e.Expected })
	}},
	{"the low end of the forecast", func(good []*ran) func(*ran) []seen {
		return foreseen(good, func(e *forecast.Estimate) int64 { return e.Low })
	}},
}

// foreseen is a figure of the forecast at each call of a run.
func foreseen(good []*ran, figure func(*forecast.Estimate) int64) func(*ran) []seen {
	t := tableOf(good, 1)
	return func(r *ran) (out []seen) {
		for _, p := range r.points[1] {
			if e := t.Of(forecast.Any, forecast.Tokens, p.Calls, p.Spent); e.Known() {
				out = append(out, seen{float64(figure(&e)), p.Spent})
			}
		}
		return out
	}
}

// wrongly is the share of good runs that a detector may warn of.
const wrongly = 0.01

// writeSaved writes what each detector would save in failed runs, when it is set so that at most one
// good run in a hundred is warned of.
func (s *courseSet) writeSaved(w io.Writer) {
	if !s.hasFailed() {
		return
	}
	good, told := 0, 0
	for _, r := range s.runs {
		if r.good {
			good++
			if len(r.calls) > 1 {
				told++
			}
		}
	}
	if 2*told < good {
		fmt.Fprintf(w, "| %s | nothing can be set: %d of %d good runs report the tokens of more than one model call | – | – |\n", s.name, told, good)
		return
	}
	for _, d := range detectors {
		var did warnings
		for split := range splits {
			for half := range 2 {
				limit, course := s.draw(&d, split, half)
				for _, r := range s.runs {
					if !r.learnt(split, half) {
						did.add(r, course(r), limit)
					}
				}
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", s.name, d.name, did.share(), share(did.good > 0, float64(did.warned)/float64(max(1, did.good))))
	}
}

// warnings are what a limit does to runs: the tokens of failed runs, those of them after the warning, and
// how many good runs are warned of.
type warnings struct {
	all, saved   int64
	good, warned int
}

// add has the limit warn of a run.
func (x *warnings) add(r *ran, course []seen, limit float64) {
	at := slices.IndexFunc(course, func(s seen) bool { return s.value > limit })
	switch {
	case r.good:
		x.good++
		if at >= 0 {
			x.warned++
		}
	case r.failed:
		x.all += r.spent(1)
		if at >= 0 {
			x.saved += r.spent(1) - course[at].tokens
		}
	}
}

// share is the share of the tokens of failed runs that is saved.
func (x *warnings) share() string {
	return share(x.all > 0, float64(x.saved)/float64(max(1, x.all)))
}

// fixedLimits are limits that were not set by any of the runs, by the place of their detector.
var fixedLimits = []struct {
	detector int
	name     string
	limit    float64
}{
	{0, "more than 50 calls", 50}, {1, "more than 200,000 tokens", 200_000}, {1, "more than 1,000,000 tokens", 1e6},
	{2, "`context_growth: 2`", 1.999}, {2, "`context_growth: 4`", 3.999}, {2, "`context_growth: 8`", 7.999},
}

// writeFixed writes what limits do to all runs of the set that no run of it has set.
func (s *courseSet) writeFixed(w io.Writer) {
	if !s.hasFailed() {
		return
	}
	for _, x := range fixedLimits {
		var did warnings
		course := detectors[x.detector].course(nil)
		for _, r := range s.runs {
			did.add(r, course(r), x.limit)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %d of %d |\n", s.name, x.name, did.share(), did.warned, did.good)
	}
}

// draw sets the limit of a detector by one half of the good runs.
func (s *courseSet) draw(d *detector, split, half int) (limit float64, course func(*ran) []seen) {
	var good []*ran
	for _, r := range s.runs {
		if r.good && r.learnt(split, half) {
			good = append(good, r)
		}
	}
	course = d.course(good)
	var most []float64
	for _, r := range good {
		top := 0.0
		for _, x := range course(r) {
			top = max(top, x.value)
		}
		most = append(most, top)
	}
	if len(most) == 0 {
		return math.Inf(1), course
	}
	slices.Sort(most)
	limit = most[len(most)-1-int(wrongly*float64(len(most)))]
	if limit == 0 { // no good run has a value, so nothing is known
		limit = math.Inf(1)
	}
	return limit, course
}

const forecastHead = `# Forecasts

How good forecasts of the final spend are, on recorded runs whose end is known. ` + "`make forecasts RUNS=\"FOLDER...\"`" + ` writes this page. It has figures only.

A run is an episode of a flow. The runs are halved %d times. One half calibrates and the other is tried, each in its turn. Episodes of one session stay in one half.
The cells give the share of runs whose 90 %% interval holds the final spend. "At a quarter" is after a quarter of the calls of the run, rounded up.
At a fixed number of calls the interval promises at least 90 %%. A run that is at a quarter does not end at once, so at a quarter it holds more of the long runs.

The width is the median of high ÷ low at a quarter. "Off" is the median factor between the expected and the final spend. Dollars are by the built-in prices. weir forecasts no calls; they stand here
because most terminal tasks report no tokens. Terminal tasks are runs of one command-line agent, repository tasks are runs of one shell agent, and native sessions are coding sessions that ended in commits.

| set | measure | runs | at a quarter | runs of 4 calls and more | at the fifth call | width | off |
|---|---|---|---|---|---|---|---|
`

const fixedHead = `
The same of limits that no run has set:

| set | warns from | tokens of failed runs saved | good runs warned |
|---|---|---|---|
`

const savedHead = `
## What a warning saves

Each limit is set so that it warns of at most one in a hundred good runs of one half. The table shows what it does to the other half: the share of the
tokens of failed runs that come after the warning, and the good runs that it warns of wrongly. If there are fewer than a hundred good runs it may warn of none.

| set | warns by | tokens of failed runs saved | good runs warned |
|---|---|---|---|
`
