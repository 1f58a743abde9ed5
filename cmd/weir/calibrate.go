package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/forecast"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
)

// calibrateCommand is weir limits calibrate. Unlike suggest it takes a share of good flows
// that may be stopped and draws all thresholds together for it; see backtest.Calibration.
func calibrateCommand() cli.Command {
	return cli.Command{
		Name: "calibrate", Args: "[FILE|DIR...|-]", Short: "print limits that stop at most a given share of good flows",
		Long: `Folds a log of good flows and prints limits that stop at most --share of further flows of
the same kind. It ranks how rare each rule's values are among the good flows (conformal
prediction). It refuses if there are too few flows for such a promise.

With --marks the flows marked right are runaways. Only the rules that save most in them
use the share. Budgets that are not set yet are tried, too. Often it is one row alone,
such as a budget of tokens. All others stay as they are. A budget of tokens needs good
flows most of which report tokens.

With --labels, as in weir replay, the flows labelled honest are the good ones. The savings
in the other flows are printed beside a plain step limit and a token budget alone, both
calibrated on the same flows. Rules are chosen without a fifth of the failed flows and
measured on it, each fifth in turn. Savings are shares of the tokens where most of those
flows report tokens, else of the calls.

A file of labels has one JSON object per line, also compressed.
  {"trace_id":"FLOW","labels":{"looping":true}}
  {"dataset":"D","trace_id":"7","labels":{"success":true}}
FLOW is the correlation id of the flow, D/7 where a dataset is given. Say which labels
mark the flows: --caught looping --honest success, or --caught outcome=loop.

Below 300 good flows a share of 1 % rests on two or three flows: use the limits with care.

With --forecast it also prints the section forecast. It has the final spend of good flows
of each service, as a multiple of their spend after each number of calls. The interval
holds nine of ten of them. It takes 19 good runs. A run is an episode of a flow.`,
		Examples: []string{"weir limits calibrate --share 1% good/ > limits.yaml"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			s := newSource(fs)
			share := fs.String("share", "1%", "the `SHARE` of good flows that may be stopped, such as 0.5%")
			labels := cli.NewList(fs, "labels", "good and failed flows are those that the labels in `FILE` say")
			caught := cli.NewList(fs, "caught", "with --labels: `FIELD[=VALUE]` marks a trace to catch")
			honest := cli.NewList(fs, "honest", "with --labels: `FIELD[=VALUE]` marks an honest trace")
			forecasts := fs.Bool("forecast", false, "also print what good flows of each kind spend in the end")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				s.follow = *forecasts
				// From 0 to 100, with or without the sign.
				var v float64
				if _, err := fmt.Sscanf(strings.TrimSuffix(*share, "%"), "%g", &v); err != nil || v <= 0 || v >= 100 {
					return cli.Usage("--share %s: want a share such as 1%%", *share)
				}
				return s.calibrate(ctx, env, args, v/100, *labels, newCriteria(*caught, *honest))
			}
		},
	}
}

// calibrate folds the log, says which flows are good and which are runaways, and prints the
// limits that come of it. share is from 0 to 1. What people said of flows comes by marks or by
// label files; with labels the marks decide only about runaways.
func (s *source) calibrate(ctx context.Context, env *cli.Env, args []string, share float64, labels []string, by criteria) error {
	marks, err := readMarks(*s.marks)
	if err != nil {
		return err
	}
	said, err := readAllLabels(env, labels, by)
	if err != nil {
		return err
	}
	limits, tried, err := s.one(ctx, env, args, true)
	if err != nil {
		return err
	}
	j, err := newJudged(marks, said, len(labels) > 0, tried)
	if err != nil {
		return err
	}
	var forecasts forecast.Table
	if s.follow {
		if forecasts, err = s.forecasts(env, tried, j.good); err != nil {
			return err
		}
	}
	c, err := tried.Calibrate(share, j.good, j.runaway)
	switch {
	case err != nil && s.follow:
		env.Notice("forecasts alone: %v", err)
		return backtest.WriteLimits(env.Out, limits.Profile, backtest.ForecastRule(limits), forecasts)
	case err != nil:
		return cli.Failure("%w", err).Advise("take more good flows, or a greater --share")
	}
	j.noteCalibration(env, tried, c)
	// Only rows that were moved are printed. Those that are not named are as in the profile.
	list := []backtest.Suggestion{}
	if s.follow {
		list = backtest.ForecastRule(limits)
	}
	for i := range analyzer.Rules {
		id := analyzer.RuleID(i)
		if c.Limits.Rules[i] != limits.Rules[i] {
			list = append(list, backtest.Suggestion{Row: id, Setting: c.Limits.Rules[i], Changed: true,
				Evidence: fmt.Sprintf("calibrated on %d good flows", c.Good)})
		}
	}
	return backtest.WriteLimits(env.Out, limits.Profile, list, forecasts)
}

// judged says which flows are good and which are runaways.
type judged struct {
	marks    backtest.Marks
	says     map[string]string // what the labels say, in the words of marks, by flow
	labelled bool              // there are files of labels
}

func newJudged(marks backtest.Marks, said *labelFile, labelled bool, tried *backtest.Trial) (*judged, error) {
	j := &judged{marks, map[string]string{}, labelled}
	if !labelled {
		return j, nil
	}
	for _, t := range said.traces {
		j.says[t.flow] = t.mark
	}
	// Labels that name no flow of the log would leave no good flow. The error of that case would
	// not mention the labels.
	flows := map[string]*backtest.Flow{}
	for _, f := range tried.Flows() {
		flows[f.ID] = f
	}
	score := said.score(flows)
	if err := said.matched(&score, flows); err != nil {
		return nil, err
	}
	return j, nil
}

func (j *judged) good(f *backtest.Flow) bool {
	if j.labelled {
		return j.says[f.ID] == backtest.Wrong
	}
	// Without labels, all flows with a call that no mark calls a runaway are good, stopped or
	// not: this is for logs that a person calls good.
	return f.Calls > 0 && j.marks[f.ID] != backtest.Right
}

func (j *judged) runaway(f *backtest.Flow) bool {
	return j.marks[f.ID] == backtest.Right || j.says[f.ID] == backtest.Right
}

// unjudged returns how many of the good flows are stopped without anybody having said of them
// that they are good.
func (j *judged) unjudged(t *backtest.Trial) (n int) {
	for _, f := range t.Flows() {
		if f.Stopped != nil && j.good(f) && j.marks[f.ID] == "" && j.says[f.ID] == "" {
			n++
		}
	}
	return n
}

// noteCalibration prints what the limits do to the flows of the log, and what they promise.
func (j *judged) noteCalibration(env *cli.Env, tried *backtest.Trial, c *backtest.Calibration) {
	if n := j.unjudged(tried); n > 0 {
		env.Notice("%d of the %s taken for good are stopped by the limits as they are, and nobody has judged them: those that ran away make the new limits too patient; leave them out by weir review mark FLOW right and --marks review.jsonl", n, cli.Count(int64(c.Good), "flow"))
	}
	env.Notice("%d of %d good flows are stopped by these limits; of further flows of the same kind, with 95 %% certainty, at most %.2g %%", c.Stopped, c.Good, 100*c.Upper)
	if c.Good < fewGood {
		env.Notice("caution: %d good flows are few, and other flows would give other limits: take %d or more", c.Good, fewGood)
	}
	env.Notice("a plain limit of steps that promises the same would be %d", c.Steps)
	if j.labelled {
		noteSavings(env, tried, j.good, j.runaway)
	}
}

// forecasts makes the table of forecasts, and says on what it rests.
func (s *source) forecasts(env *cli.Env, tried *backtest.Trial, good func(*backtest.Flow) bool) (forecast.Table, error) {
	t, episodes := tried.Forecasts(good)
	if len(t) == 0 {
		return nil, cli.Failure("a forecast takes %d good runs of one service that report tokens or costs, and of %s no service has as many", forecast.Least, cli.Count(int64(episodes), "good run")).
			Advise("take more good flows")
	}
	for i := range t {
		k := &t[i]
		for m, rows := range k.Rows {
			if len(rows) > 0 {
				env.Notice("forecasts of %s: %s by %s; from %s on too few of them are left", k.Name, cli.Count(rows[0].Runs, "good run"), forecast.Measure(m), lastKnown(rows))
			}
		}
	}
	return t, nil
}

// lastKnown says at how many calls nothing is known any more.
func lastKnown(rows []forecast.Row) string {
	last := rows[len(rows)-1]
	if last.Runs >= forecast.Least {
		return "more than " + cli.Count(last.Calls, "call")
	}
	return cli.Count(last.Calls, "call")
}

// noteSavings prints what calibrated limits save in the runaways, beside their rivals. The shares are fixed,
// so that figures of different logs can be compared.
func noteSavings(env *cli.Env, tried *backtest.Trial, good, runaway func(*backtest.Flow) bool) {
	for _, x := range tried.Savings([]float64{0.005, 0.01, 0.05}, good, runaway) {
		rivals := fmt.Sprintf("by a limit of steps %.1f %%", 100*x.Steps.In(x.Unit))
		if x.Budget != nil {
			rivals += fmt.Sprintf(", by a token budget alone %.1f %%", 100*x.Budget.In(x.Unit))
		}
		env.Notice("at %.2g %% of good flows stopped, %d failed flows: %.1f %% of their %s saved, %s", 100*x.Share, x.Failed, 100*x.Rules.In(x.Unit), x.Unit, rivals)
	}
}

// readAllLabels reads several files of labels as one: a share of good flows is promised over all of them.
func readAllLabels(env *cli.Env, labels []string, by criteria) (*labelFile, error) {
	said := &labelFile{name: strings.Join(labels, ", ")}
	for _, name := range labels {
		in, err := open(env, name)
		if err != nil {
			return nil, err
		}
		l, err := readLabels(in, by)
		in.Close()
		if err != nil {
			return nil, err
		}
		said.traces, said.fields = append(said.traces, l.traces...), l.fields
	}
	return said, nil
}

// fewGood is below how many good flows limits of a share of 1 % rest on two flows or less.
const fewGood = 300
