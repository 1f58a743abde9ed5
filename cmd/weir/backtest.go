package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/operate"
	"weir/events"
	"weir/events/kafka"
)

// backtestCommand is weir backtest: limits are tried on a log before they stop any flow. It
// folds the log in this process and sends nothing to a running weir. See decision 55 for
// how limits are found in a log.
func backtestCommand() cli.Command {
	return cli.Command{
		Name: "backtest", Args: "[FILE|DIR...|-]", Short: "try limits on an existing log: which flows they would stop, and where",
		Long: `Folds agent logs with the code that judges live traffic. It reports which flows would
have been warned and stopped, and what they did after the stop. It reports what each
rule measured, which flows came nearest, what other thresholds would stop, and what the
log cannot show. Logs are read as by weir replay.

--against names a second limits file or profile; flows with a different result are
listed with the reason. --report writes a page (FILE.html) or a table for a pull request
(FILE.md). weir review mark records whether a stop was right. --marks reads those marks,
and --check exits with 3 if a flow marked wrong is stopped again.

With --brokers and no FILE, the topic of events is read. --from and --until are those of
weir replay.`,
		Examples: []string{
			"weir backtest logs/",
			"weir backtest logs/ --against strict.yaml --report backtest.html",
			"weir backtest --brokers kafka-1:9092 --from -7d -o json",
			"weir backtest logs/ --marks review.jsonl --check",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			o := &backtestFlags{source: newSource(fs)}
			against := fs.String("against", "", "compare with the limits in `FILE`, or with a profile")
			report := fs.String("report", "", "write the report to this `FILE`, which ends with .html or .md")
			check := fs.Bool("check", false, "exit with 3 if a flow marked wrong is stopped")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				return o.run(ctx, env, args, *against, *report, *check)
			}
		},
	}
}

// source is the flags that say which log is tried, and by which limits.
//
// The commands that fold a log and do not print its verdicts share it: backtest, costs,
// limits suggest, limits calibrate and test --marks. The last one makes its own without
// brokers and stretch, since it takes files alone; topic must not be called on that one.
type source struct {
	*operate.LimitFlags
	*reading
	brokers *operate.BrokerFlags
	stretch *offsetRange
	marks   *string

	since events.Stamp // costs count from then on; all of the log when no flag sets it
	trees bool         // the trial adds up costs by flow, agent and tool
	// The trial keeps what each flow had spent at each call, by built-in prices for models without one.
	follow bool
	// builtIn prices models without a price by the built-in prices.
	builtIn bool
}

// newSource declares the flags of all that a source consists of. --marks is among them because
// what people said of stops bears on each of these commands but costs, which does not read it.
func newSource(fs *pflag.FlagSet) *source {
	return &source{LimitFlags: operate.NewLimitFlags(fs), reading: newReading(fs), brokers: operate.NewBrokerFlags(fs), stretch: newOffsetRange(fs),
		marks: fs.String("marks", "", "take what people said of flows from this `FILE` (see weir review)")}
}

// one folds the logs by the limits of the command line alone.
//
// With steps the trial remembers, for each flow, when each rule measured more than before,
// which takes memory and which calibration alone needs.
func (s *source) one(ctx context.Context, env *cli.Env, args []string, steps bool) (analyzer.Limits, *backtest.Trial, error) {
	limits, err := s.LimitFlags.Limits()
	if err != nil {
		return limits, nil, err
	}
	tried := limits
	if s.follow || s.builtIn {
		tried = limitfile.WithPrices(limits, costs.BuiltIn())
	}
	trials, _, _, err := s.trial(ctx, env, args, steps, tried)
	if err != nil {
		return limits, nil, err
	}
	return limits, trials[0], nil
}

// trial folds the log by each of the limits.
//
// The log is read once, and each event is given to one trial after the other. So trials of
// several limits see the same events in the same order, also from a pipe. Records that could
// not be read are reported here and counted in bad. A log without any event is an error,
// because the only result would be that no flow is stopped.
func (s *source) trial(ctx context.Context, env *cli.Env, args []string, steps bool, limits ...analyzer.Limits) (trials []*backtest.Trial, bad *refusals, elapsed time.Duration, err error) {
	// If GOGC is set, the operator's choice counts.
	if env.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	}
	for _, l := range limits {
		t, err := backtest.NewTrial(ctx, l)
		if err != nil {
			return nil, nil, 0, err
		}
		t.Steps, t.Follow = steps, s.follow
		// Costs are counted in the same fold, since they depend on what was said before each
		// call.
		t.Count(s.since)
		if s.trees {
			t.Trees = costs.NewForest(costs.MostNodes)
		}
		trials = append(trials, t)
	}
	// Each event goes to all trials before the next one is read, since the reader uses its
	// memory again.
	bad = new(refusals)
	fold := func(ev *events.Event) error {
		for _, t := range trials {
			t.Fold(ev)
		}
		// Looked at for each event, so that an interrupt ends a fold of hours at once.
		return ctx.Err()
	}
	progress := env.Progress("events")
	switch {
	// Files go before a topic that the environment or the configuration file may name.
	case len(args) > 0:
		// Arguments of tools are hashed while a file is read, by what the first limits leave
		// out.
		err = s.files(env, args, &limits[0], fold, bad, progress)
	default:
		err = s.topic(ctx, env, fold, bad, progress)
	}
	progress.Done()
	if err != nil {
		return nil, nil, 0, err
	}
	bad.notice(env)
	// The others were given the same events.
	if n, _ := trials[0].Events(); n == 0 {
		s.reading.noticeUnread(env)
		return nil, nil, 0, cli.Failure("there is no event in the log%s", bad.instead()).Advise("weir events describe says which formats are read")
	}
	return trials, bad, progress.Elapsed(), nil
}

// garbage is how much memory may wait to be collected, in percent of what is in use. Most of a log
// becomes garbage while it is read, so that collecting less often than Go does by itself saves
// some of the time, and takes some 20 MB more.
const garbage = 150

// files folds recorded logs. limits are those that say which arguments of tools are left out
// before calls are compared: adapters hash arguments while they read, so one answer has to do
// for all trials.
func (s *source) files(env *cli.Env, args []string, limits *analyzer.Limits, fold func(*events.Event) error, bad *refusals, progress *cli.Progress) error {
	inputs, err := s.reading.open(env, args)
	if err != nil {
		return err
	}
	// Those that were not reached when something went wrong.
	defer closeAll(inputs)
	// A file that breaks off is reported and left; what was read of it before counts.
	clock := logs.NewClock(fold)
	rd := &logs.Reader{Inputs: inputs, Event: clock.Take, IgnoreArgs: limits.IgnoredArgs, Unread: s.reading.notUnderstood, Bad: bad.add, Broken: func(err error) { s.reading.leave(env, err) }, Tick: progress.At}
	if err := rd.Read(); err != nil {
		return err
	}
	s.reading.ordered(env, rd)
	return s.reading.timed(env, clock)
}

// topic folds a part of the topic of events, partition by partition, as weir replay does. It
// never reads the topic of activity: a trial itself passes on what flows report about agents.
// "limits", "profile" and "set" of the configuration file are those of the weir that runs and
// are left out, because limits are what is tried here.
func (s *source) topic(ctx context.Context, env *cli.Env, fold func(*events.Event) error, bad *refusals, progress *cli.Progress) error {
	if _, err := operate.Settings().Load(s.brokers.Flags, env.Getenv, "limits", "profile", "set"); err != nil {
		return err
	}
	if !s.brokers.Given() {
		return cli.Usage("a FILE is missing").Advise("name files or folders, or the topic of events with --brokers HOST:PORT")
	}
	c, err := s.brokers.Reach(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	topic := s.brokers.Topics.Events
	var list []section
	var all, done int64
	err = operate.Settled(ctx, func(ctx context.Context) (err error) {
		// The ends are asked for before anything is read: a topic that grows meanwhile would
		// have none.
		list, all, err = s.stretch.sections(ctx, c, topic, env.Now())
		return err
	})
	if err != nil {
		return err
	}
	var ev events.Event
	for n, part := range list {
		err := operate.EachRecord(ctx, c, topic, n, part.from, part.to, func(rec *kafka.Record) error {
			if done++; done%tickEvery == 0 {
				progress.At(done, float64(done)/float64(max(all, 1)))
			}
			if err := events.Decode(rec.Value, &ev); err != nil {
				bad.add(badRecordAt(topic, n, rec.Offset, err))
				return nil
			}
			if ev.Kind == events.LimitsSet || ev.Kind == events.Tick {
				// Ticks are left out as well: a trial has no silence but that between its
				// events.
				return nil // the limits are those that are tried
			}
			// A running weir takes the time at which the brokers took a record as that of the
			// log, so a trial has to do the same to say the same.
			ev.Appended = rec.Time
			return fold(&ev)
		}, func(err error) { env.Notice("%v", err) })
		if err != nil {
			return err
		}
	}
	return nil
}

// readMarks reads the file of marks, none without a name.
//
// A file that is named and is not there is an error, or judgements would silently count for
// nothing.
func readMarks(name string) (backtest.Marks, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	marks, err := backtest.ReadMarks(f)
	if err != nil {
		return nil, cli.Failure("%s: %w", name, err).Advise(`a line is {"flow":"ID","mark":"right"} or {"flow":"ID","mark":"wrong"}`)
	}
	return marks, nil
}

// backtestFlags are the flags of weir backtest, which are those of a source; what only
// backtest takes comes as arguments of run.
type backtestFlags struct{ *source }

// run is weir backtest. All that can be wrong with the flags and with the marks is found
// before the log is read, which may take minutes. The report is written before anything is
// printed and before --check decides, so that a pipeline that fails still has it.
func (o *backtestFlags) run(ctx context.Context, env *cli.Env, args []string, against, report string, check bool) error {
	marks, err := readMarks(*o.marks)
	switch {
	case err != nil:
		return err
	case check && len(marks) == 0:
		return cli.Usage("--check is given and there are no marks").Advise("name the file of judgements with --marks FILE")
	// The name gives the form. A name that gives none would be written in a form that the user
	// did not ask for.
	case report != "" && !strings.HasSuffix(report, ".html") && !strings.HasSuffix(report, ".md"):
		return cli.Usage("--report %s: want a name that ends with .html or .md", report)
	case report != "":
		if _, err := os.Stat(filepath.Dir(report)); err != nil {
			return cli.Usage("--report %s: %w", report, err).Advise("name a file in a folder that is there")
		}
	}
	limits, err := o.LimitFlags.Limits()
	if err != nil {
		return err
	}
	// The first limits are those that the report is about, the others what it is compared
	// with.
	all := []analyzer.Limits{limits}
	if against != "" {
		other, err := limitsNamed(against)
		if err != nil {
			return err
		}
		other = pricedLike(other, &limits)
		all = append(all, other)
		// The hashes of arguments were made by the first limits. A second set that leaves out other
		// arguments would be judged by hashes that do not match it. A notice says so, which saves
		// reading the log twice.
		if !sameIgnored(&limits, &other) {
			env.Notice("%s leaves out other arguments of tools (ignore_args); calls of files are told apart as the first limits say", against)
		}
	}
	trials, bad, elapsed, err := o.trial(ctx, env, args, false, all...)
	if err != nil {
		return err
	}
	d := &backtest.Document{Title: "Backtest", Sources: args, Report: trials[0].Report(marks)}
	// Trials are given events, so what could not be read is known only here.
	d.BadRecords = bad.n
	if against != "" {
		d.Against, d.Other, d.Differences = against, trials[1].Report(marks), backtest.Differences(trials[0], trials[1])
	}
	// Marks of flows that are not there are no fault: one file of marks may serve many logs.
	if n := trials[0].Unknown(marks); n > 0 {
		env.Notice("%d of %d marks are of flows that are not in the log", n, len(marks))
	}
	var unwritten error
	if report != "" {
		if unwritten = writeReport(report, d); unwritten == nil {
			env.Notice("the report is in %s", report)
		}
	}
	// What minutes have brought is not lost with a file that cannot be written.
	if err := errors.Join(printBacktest(env, d, elapsed), unwritten); err != nil {
		return err
	}
	// Last, so that all that was found has been printed when a pipeline fails.
	if err := broken(env, trials[0], marks, check); err != nil {
		return err
	}
	if err := bad.most(d.Events + d.Repeats); err != nil {
		return err
	}
	return o.reading.done(env)
}

// sameIgnored reports whether both limits leave out the same arguments.
func sameIgnored(a, b *analyzer.Limits) bool {
	// What a says of its tools has to be what b says of them. Tools that b alone names are
	// found the other way round.
	same := func(a, b *analyzer.Limits) bool {
		for _, t := range a.Tools {
			if !slices.Equal(t.IgnoreArgs, b.IgnoredArgs(t.Name)) {
				return false
			}
		}
		return true
	}
	return same(a, b) && same(b, a)
}

// broken reports flows that a person judged otherwise.
//
// Only flows that are stopped again although they were marked wrong end the command with a
// finding, and only with check. A runaway that is missed is reported and no more: weir
// test --marks checks that.
func broken(env *cli.Env, t *backtest.Trial, marks backtest.Marks, check bool) error {
	// Both are reported, whatever decides the exit code.
	again, missed := t.Broken(marks)
	for _, id := range again {
		env.Notice("marked wrong, and stopped again: %q", id)
	}
	for _, id := range missed {
		env.Notice("marked right, and not stopped: %q", id)
	}
	if check && len(again) > 0 {
		return cli.Exit(cli.CodeFinding)
	}
	return nil
}

// writeReport writes the page or the table by the end of the name. It is made in memory first,
// so a fault in making it leaves the report of an earlier run in place.
func writeReport(name string, d *backtest.Document) error {
	var b bytes.Buffer
	write := d.HTML
	if strings.HasSuffix(name, ".md") {
		write = d.Markdown
	}
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// shownStops is how many stops are listed on a terminal; the reports list more.
const shownStops = 10

// printBacktest prints the report: as one document with all of it in JSON and YAML, and the
// most useful part of it for people.
func printBacktest(env *cli.Env, d *backtest.Document, elapsed time.Duration) error {
	r := d.Report
	// The report's members stand at the top of the document, beside what the comparison adds.
	value := struct {
		*backtest.Report
		Seconds     float64               `json:"seconds"`
		Against     string                `json:"against,omitempty"`
		Other       *backtest.Report      `json:"other,omitempty"`
		Differences []backtest.Difference `json:"differences,omitempty"`
	}{r, round(elapsed.Seconds(), 1000), d.Against, d.Other, d.Differences}
	return env.Value(value, func() error {
		printFlows(env, r, elapsed)
		if err := printBudgets(env, r); err != nil {
			return err
		}
		if err := printRules(env, r); err != nil {
			return err
		}
		printCompared(env, d)
		if len(r.Stops) == 0 {
			return nil
		}
		return printStops(env, r)
	})
}

// printer prints lines. The tables write to the same place and return its errors, so lines ignore them.
func printer(env *cli.Env) func(format string, args ...any) {
	return func(format string, args ...any) { _, _ = cli.Fprintf(env.Out, format+"\n", args...) }
}

// printFlows prints how many flows would be stopped, what came after, and what the log does not report.
func printFlows(env *cli.Env, r *backtest.Report, elapsed time.Duration) {
	say := printer(env)
	rate := ""
	// Below that the rate would measure the start of the process and not the fold.
	if s := elapsed.Seconds(); s >= 0.1 {
		rate = fmt.Sprintf(" in %.1f s (%s a second)", s, cli.Grouped(int64(float64(r.Events)/s)))
	}
	say("%s of %s%s, judged by the profile %s", cli.Count(r.Events, "event"), cli.Count(int64(r.Flows), "flow"), rate, r.Profile)
	say("would be stopped: %d, in %s; warned: %d (the stopped included)", r.Stopped, cli.Count(int64(r.StoppedTimes), "incident"), r.Warned)
	// What is not known is left out: a log without tokens or money has none after a stop
	// either.
	if r.Stopped > 0 {
		after := fmt.Sprintf("%s of %s calls", cli.Grouped(r.CallsAfterStop), cli.Grouped(r.Calls))
		if r.Tokens > 0 {
			after += fmt.Sprintf(", %s of %s tokens", cli.Grouped(r.TokensAfterStop), cli.Grouped(r.Tokens))
		}
		if r.Cost > 0 {
			after = fmt.Sprintf("%s of %s, %s", costs.Dollars(r.CostAfterStop, 2), costs.Dollars(r.Cost, 2), after)
		}
		say("after the stop came %s", after)
	}
	// A rule that has nothing to measure looks like one that found nothing. So what the
	// log does not report is printed before the rules.
	if line := coverage.Line(r.Blind); line != "" {
		say("%s", line)
	}
	for i := range r.BlindFlows {
		say("%s", &r.BlindFlows[i])
	}
	if r.WarnsOnly != "" {
		say("%s", r.WarnsOnly)
	}
	say("")
}

// printBudgets prints what each budget over flows would have done.
func printBudgets(env *cli.Env, r *backtest.Report) error {
	if len(r.Budgets) == 0 {
		return nil
	}
	t := env.Table("BUDGET", "ALLOWS", "SPENT", "BEYOND", "USED UP", "CHECKS", "FULLEST").Secondary("FULLEST", "SPENT")
	for i := range r.Budgets {
		b := &r.Budgets[i]
		n := func(s string) cli.Cell { return cli.Cell{Text: s, Right: true} }
		if err := t.Row(cli.Cell{Text: b.Budget}, cli.Cell{Text: b.Allows()}, n(b.Amount(b.Spent)), n(b.Amount(b.Beyond)),
			n(fmt.Sprintf("%d of %d", b.UsedUp, b.Windows)), cli.Cell{Text: b.Would()}, cli.Cell{Text: b.Fullest()}); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printer(env)("")
	return nil
}

// printRules prints what each rule measured.
func printRules(env *cli.Env, r *backtest.Report) error {
	t := env.Table("RULE", "FLOWS", "P50", "P99", "MAX", "WARNS AT", "STOPS AT", "WARNED FIRST", "STOPPED FIRST", "VALUES").Secondary("VALUES", "P50", "P99", "WARNED FIRST")
	for _, x := range r.Rules {
		// Rules that measured nothing would fill the screen; JSON has them.
		if x.Measured == 0 {
			continue
		}
		n := func(s string) cli.Cell { return cli.Cell{Text: s, Right: true} }
		v := func(v int64) cli.Cell { return n(rowAmount(x.Unit, &v)) }
		if err := t.Row(cli.Cell{Text: x.Rule}, n(cli.Grouped(int64(x.Measured))), v(x.P50), v(x.P99), v(x.Max), n(rowAmount(x.Unit, x.Warn)), n(rowAmount(x.Unit, x.Stop)),
			n(fmt.Sprint(x.Warned)), n(fmt.Sprint(x.Stopped)), cli.Cell{Text: backtest.Spark(x.Bars)}); err != nil {
			return err
		}
	}
	return t.Flush()
}

// printCompared prints what other limits judge differently, and what exemptions let through.
func printCompared(env *cli.Env, d *backtest.Document) {
	r, say := d.Report, printer(env)
	if d.Against != "" {
		say("\nagainst %s: %d flows differ, %d instead of %d would be stopped", d.Against, len(d.Differences), d.Other.Stopped, r.Stopped)
		for _, x := range d.Differences[:min(shownStops, len(d.Differences))] {
			say("  %q: %s -> %s", x.Flow, outcomeText(x.Was), outcomeText(x.Is))
		}
		if n := len(d.Differences) - shownStops; n > 0 {
			say("and %d more; --report FILE.html lists them", n)
		}
	}
	if len(r.Exempted) > 0 {
		say("\nlet through by exemptions, %s that would have been stopped but for tags:", cli.Count(int64(len(r.Exempted)), "flow"))
		for _, s := range r.Exempted[:min(shownStops, len(r.Exempted))] {
			say("  %q by %s at call %d, %s after", s.Flow, s.Rule, s.Call, cli.Count(int64(s.CallsAfter), "call"))
		}
	}
}

// printStops prints the stops that would have saved most.
func printStops(env *cli.Env, r *backtest.Report) error {
	say := printer(env)
	say("\nto review (weir review mark FLOW right|wrong):")
	t := env.Table("FLOW", "RULE", "REASON", "WHO", "AT CALL", "CALLS AFTER", "MARK", "WHY").Secondary("MARK", "WHO", "REASON")
	// Those that would have saved most stand first.
	for _, s := range r.Stops[:min(shownStops, len(r.Stops))] {
		if err := t.Row(cli.Cell{Text: s.Flow}, cli.Cell{Text: s.Rule}, cli.Cell{Text: string(s.Reason)}, cli.Cell{Text: s.Who()}, cli.Cell{Text: fmt.Sprint(s.Call), Right: true}, cli.Cell{Text: fmt.Sprint(s.CallsAfter), Right: true},
			cli.Cell{Text: s.Mark}, cli.Cell{Text: s.Message}); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := len(r.Stops) - shownStops; n > 0 {
		say("and %d more; --report FILE.html lists them", n)
	}
	return nil
}

// outcomeText says what became of a flow, for the comparison of two sets of limits. When is
// nil where no rule said anything.
func outcomeText(o backtest.Outcome) string {
	if o.When == nil {
		return o.Word
	}
	return fmt.Sprintf("%s by %s at call %d", o.Word, o.When.Rule, o.When.Call)
}

// rowAmount is a threshold or a value of a row in its unit, nil for off.
// Thresholds about money are kept in millionths of a US dollar and printed in dollars.
func rowAmount(u events.Unit, v *int64) string {
	switch {
	case v == nil:
		return "off"
	case u == events.UnitUSD:
		return costs.Dollars(*v, 2)
	}
	return cli.Grouped(*v)
}
