package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/operate"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

func replayCommand() cli.Command {
	return cli.Command{
		Name: "replay", Args: "[FILE...|-]", Short: "judge logs that exist and print what would have been said",
		Long: `Reads logs of agents as they are, plain or compressed with gzip, and folds them by the
very code that judges live traffic. The format is detected from the beginning of each
file, and reported on standard error; --format names it where that is not possible. Logs
of weir's own format are taken in the order in which they stand, all others are put in
the order of time first.

SEEN/LIMIT is the observed value against the limit, EVENT the number of the event in
its flow. "arm" is an order that takes effect with the next call.

With --labels the outcome is compared with what is known of the traces: a label file
has lines such as {"dataset":"d","trace_id":"1","labels":{"looping":true}}, and files
that look like it may stand anywhere among the arguments. --caught and --honest say
which labels mean that a trace should be caught or left alone; without them the labels
of the published sets are known.

With --brokers, and without a FILE, the topic of events is read instead: partition by
partition, each in the order of the log, which is also the order of what is printed.
Rules about agents are judged by the topic of activity, which is read after it: by what
the flows passed on when it was live.
Limits that the log says (limits.set) are in force from there on, as they were when it
was live; --limits, --profile and --set judge all of it by other limits and pass over
those. Flows that began before --from are judged by what is left of them.`,
		Examples: []string{
			"weir replay session.jsonl",
			"weir replay --profile delegation -o json *.jsonl.gz",
			"kcat -C -b localhost -t agent-events -e | weir replay -",
			"weir replay --brokers kafka-1:9092 --from -1h -o json",
			"weir replay --brokers kafka-1:9092 --from @2026-11-20T14:00:00Z --until @2026-11-20T15:00:00Z --profile team",
			"weir replay --labels traces/*.labels.jsonl.gz -o json traces/*.events.jsonl.gz",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			o := &replayFlags{LimitFlags: operate.NewLimitFlags(fs), reading: newReading(fs), brokers: operate.NewBrokerFlags(fs), stretch: newOffsetRange(fs)}
			fs.BoolVar(&o.summary, "summary", false, "print the summary only, not the verdicts")
			o.labels = cli.NewList(fs, "labels", "compare with the labels in `FILE`; more may follow among the arguments")
			o.caught = cli.NewList(fs, "caught", "with --labels: `FIELD[=VALUE]` says that a trace should be caught")
			o.honest = cli.NewList(fs, "honest", "with --labels: `FIELD[=VALUE]` says that a trace should be left alone")
			return func(ctx context.Context, env *cli.Env, args []string) error { return o.run(ctx, env, args) }
		},
	}
}

// reading is the flags that say how logs are read.
type reading struct {
	format *cli.Choice
	left   int // files that could not be read, and were left out
}

func newReading(fs *pflag.FlagSet) *reading {
	var names []string
	for _, f := range registry.Formats() {
		names = append(names, f.Name)
	}
	format := cli.NewChoice(fs, "format", "", "read the files as this `FORMAT` instead of detecting it from their beginning; FORMAT@conversation,trace says what flows are called by", names...)
	format.Other = operate.IsFormat
	fs.Var(operate.MapFlag{Format: format}, "map", "read JSON objects of any kind by this mapping: `FIELD=PATH,...`, such as from=.sender.id; may be given many times")
	fs.Var(operate.MapFlag{Format: format, IsFile: true}, "map-file", "the same from a `FILE`, one FIELD=PATH per line")
	return &reading{format: format}
}

// toldFiles is up to how many files are named one by one.
const toldFiles = 8

// open opens the files, finds their formats and says what was found. A file that cannot be
// read ends it only when it is the only one that was named.
func (r *reading) open(env *cli.Env, names []string) (inputs []*logs.Input, err error) {
	defer func() {
		if err != nil {
			closeAll(inputs)
		}
	}()
	files, err := logs.Expand(names)
	if err != nil {
		return nil, err
	}
	var unknown, empty []string
	for _, file := range files {
		in, err := open(env, file.Path)
		if err == nil {
			if err = recognize(in, r.format.Value); err != nil {
				in.Close()
			} else {
				in.Rest()
			}
		}
		switch {
		case err == nil:
			inputs = append(inputs, in)
		case errors.Is(err, logs.ErrEmpty) && (file.InFolder || len(files) > 1):
			empty = append(empty, file.Path)
		case errors.Is(err, registry.ErrUnknown) && file.InFolder && r.format.Value == "":
			unknown = append(unknown, file.Path)
		case len(files) > 1:
			r.leave(env, err)
		default:
			return inputs, err
		}
	}
	r.tell(env, inputs)
	tellFiles(env, unknown, "skipped", "unknown format")
	tellFiles(env, empty, "empty", "")
	switch {
	case len(inputs) > 0:
		return inputs, nil
	case len(empty) > 0 && len(unknown) == 0 && r.left == 0:
		return nil, cli.Failure("all files in %s are empty", strings.Join(names, ", "))
	}
	return nil, cli.Failure("no file in %s has a format that is known", strings.Join(names, ", ")).Advise("weir events describe says what each format is")
}

// leave names a file that cannot be read, or not to its end. The others are read.
func (r *reading) leave(env *cli.Env, err error) {
	r.left++
	env.Notice("%v; the other files are read", err)
}

// done is what a command ends with that did all it was asked for: a finding when files were
// left out.
func (r *reading) done(env *cli.Env) error {
	if r.left == 0 {
		return nil
	}
	env.Notice("%s could not be read", cli.Count(int64(r.left), "file"))
	return cli.Exit(cli.CodeFinding)
}

// tell says which formats were found.
func (r *reading) tell(env *cli.Env, inputs []*logs.Input) {
	if r.format.Value != "" {
		return
	}
	if len(inputs) <= toldFiles {
		for _, in := range inputs {
			env.Notice("reading %s as %s (detected)", in.Name, in.Says())
		}
		return
	}
	count, order := map[string]int64{}, []string(nil)
	for _, in := range inputs {
		if count[in.Says()]++; count[in.Says()] == 1 {
			order = append(order, in.Says())
		}
	}
	for i, says := range order {
		order[i] = fmt.Sprintf("%d as %s", count[says], says)
	}
	env.Notice("reading %s (detected): %s", cli.Count(int64(len(inputs)), "file"), strings.Join(order, ", "))
}

// tellFiles names the first files that are left out for one reason.
func tellFiles(env *cli.Env, files []string, what, why string) {
	if why != "" {
		why = ": " + why
	}
	switch n := len(files); n {
	case 0:
	case 1:
		env.Notice("%s is %s%s", files[0], what, why)
	default:
		list := strings.Join(files[:min(n, toldRefusals)], ", ")
		if n > toldRefusals {
			list += fmt.Sprintf(" and %d more", n-toldRefusals)
		}
		env.Notice("%d files are %s%s: %s", n, what, why, list)
	}
}

func closeAll(inputs []*logs.Input) {
	for _, in := range inputs {
		in.Close()
	}
}

type replayFlags struct {
	*operate.LimitFlags
	*reading
	brokers                *operate.BrokerFlags
	stretch                *offsetRange
	summary                bool
	labels, caught, honest *cli.List
}

func (o *replayFlags) run(ctx context.Context, env *cli.Env, args []string) error {
	topic, err := o.fromTopic(env, args)
	if err != nil {
		return err
	}
	files, labels, err := o.sortOut(env, args, topic)
	if err != nil {
		return err
	}
	limits, err := o.LimitFlags.Limits()
	if err != nil {
		return err
	}
	lines := newVerdictLines(env)
	r, err := newReplay(ctx, limits, func(v *events.Verdict) error {
		if o.summary {
			return nil
		}
		return lines.Print(v)
	})
	if err != nil {
		return err
	}
	read := o.readFiles
	if topic {
		read = o.readTopic
	}
	elapsed, err := read(ctx, env, r, files)
	if err != nil {
		return err
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	r.bad.tell(env)
	s := r.summary(elapsed)
	if err := s.print(env, lines.Any()); err != nil {
		return err
	}
	if err := printScores(env, labels, r.flows); err != nil {
		return err
	}
	return o.reading.done(env)
}

// fromTopic reports whether a topic is read, and not files. Brokers that only the
// environment or the configuration file names are passed over when there are files.
func (o *replayFlags) fromTopic(env *cli.Env, args []string) (bool, error) {
	switch {
	case len(args) > 0 && (o.brokers.Given() || o.stretch.given()):
		return false, cli.Usage("%s is given beside --brokers, --from or --until", args[0]).Advise("replay a FILE, or the topic of events with --brokers")
	case len(args) > 0:
		return false, nil
	}
	if _, err := operate.Settings().Load(o.brokers.Flags, env.Getenv, "limits", "profile", "set"); err != nil {
		return false, err
	}
	switch {
	case o.stretch.given() && !o.brokers.Given():
		return false, cli.Usage("--from and --until are for a topic").Advise("name its brokers with --brokers HOST:PORT")
	case o.brokers.Given() && o.reading.format.Value != "":
		return false, cli.Usage("--format is for files").Advise("weir ingest turns other formats into events on the topic")
	}
	return o.brokers.Given(), nil
}

func (o *replayFlags) readFiles(_ context.Context, env *cli.Env, r *replay, files []string) (time.Duration, error) {
	inputs, err := o.reading.open(env, files)
	if err != nil {
		return 0, err
	}
	defer closeAll(inputs)
	elapsed, err := r.read(env, inputs, o.reading)
	if err == nil && r.counts.Events.Load() == 0 {
		r.bad.tell(env)
		what := ""
		if unheard := strings.TrimSpace(r.summary(elapsed).unheard()); unheard != "" {
			what = ": " + unheard
		}
		err = cli.Failure("there is no event in %s%s", inputs[0].Name, what).Advise("is it %s? weir events describe says what each format is", inputs[0].Format.Name)
	}
	return elapsed, err
}

func (o *replayFlags) readTopic(ctx context.Context, env *cli.Env, r *replay, _ []string) (time.Duration, error) {
	c, err := o.brokers.Reach(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	recorded := *o.LimitFlags.File == "" && o.LimitFlags.Profile.Value == "" && len(*o.LimitFlags.Sets) == 0
	return r.readTopics(ctx, env, c, o.brokers.Topics, o.stretch, recorded)
}

// sortOut tells label files from logs: the former may stand among the arguments when
// the shell made many names out of one pattern.
func (o *replayFlags) sortOut(env *cli.Env, args []string, topic bool) (files []string, labels []*labelFile, err error) {
	by := newCriteria(*o.caught, *o.honest)
	take := func(in *logs.Input) error {
		l, err := readLabels(in, by)
		if err == nil {
			labels = append(labels, l)
		}
		return err
	}
	for _, name := range *o.labels {
		in, err := open(env, name)
		if err != nil {
			return nil, nil, err
		}
		err = take(in)
		in.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	for _, name := range args {
		if name == logs.Stdin || len(*o.labels) == 0 {
			files = append(files, name)
			continue
		}
		in, err := open(env, name)
		if err != nil {
			return nil, nil, err
		}
		if isLabels(in.Body().Head()) {
			err = take(in)
		} else {
			files = append(files, name)
		}
		in.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	if len(files) == 0 && !topic {
		return nil, nil, cli.Usage("a FILE is missing").Advise("weir replay FILE, or weir replay - for standard input; --brokers HOST:PORT reads a topic")
	}
	return files, labels, nil
}

// replay folds events as the running program does, in memory and without ticks:
// the time is that of the events.
type replay struct {
	pump      *pump.Pump // of flows
	agentPump *pump.Pump // of agents
	judge     func(ev *events.Event, offset int64) []events.Verdict
	counts    pump.Counts
	offset    int64
	last      events.Stamp    // latest time
	answer    *events.Verdict // to the last ask
	limits    analyzer.Limits
	verdict   func(*events.Verdict) error

	progress *cli.Progress // of topics
	done     int64         // records
	all      int64

	flows  map[string]*tally
	agents map[string]struct{} // and projects, about which something was said
	rules  map[ruleAction]*ruleCount
	bad    refusals
	told   coverage.Coverage
	silent adapter.Silences
	files  []*fileCoverage
}

type ruleAction struct{ rule, action string }

type ruleCount struct {
	verdicts      int64
	flows, agents map[string]struct{}
}

func newReplay(ctx context.Context, limits analyzer.Limits, verdict func(*events.Verdict) error) (*replay, error) {
	r := &replay{limits: limits, verdict: verdict, flows: map[string]*tally{}, agents: map[string]struct{}{}, rules: map[ruleAction]*ruleCount{}}
	both, err := pump.NewReplay(ctx, pump.Options{Limits: limits, Counts: &r.counts, Answer: r.answered})
	if err != nil {
		return nil, err
	}
	r.pump, r.agentPump = both.Pumps()
	r.judge = both.Fold
	return r, nil
}

// answered keeps what the fold said to an ask.
func (r *replay) answered(_ int64, _ *events.Event, v *events.Verdict) { r.answer = v }

// read folds all events of the inputs.
func (r *replay) read(env *cli.Env, inputs []*logs.Input, by *reading) (time.Duration, error) {
	progress := env.Progress("events")
	of := map[*logs.Input]*fileCoverage{}
	for _, in := range inputs {
		of[in] = &fileCoverage{File: in.Name, Format: in.Says()}
		r.files = append(r.files, of[in])
	}
	near := newMisspelled(env, false)
	rd := &logs.Reader{Inputs: inputs, Event: r.fold, Seen: func(in *logs.Input, ev *events.Event) { of[in].Coverage.Add(ev) },
		IgnoreArgs: r.limits.IgnoredArgs, Whole: near.at, Own: near.Look, Silent: func(why adapter.Silence) { r.silent[why]++ },
		Bad: r.bad.add, Broken: func(err error) { by.leave(env, err) }, Tick: progress.At}
	err := rd.Read()
	progress.Done()
	near.rest()
	return progress.Elapsed(), err
}

// fold takes one event, and what is said because of it.
func (r *replay) fold(ev *events.Event) error {
	r.told.Add(ev)
	t := &tally{}
	if !aboutAgentAlone(ev) {
		t = r.flow(ev.FlowKey())
	}
	repeats := r.counts.Duplicates.Load() + r.counts.TooLate.Load()
	given := r.judge(ev, r.offset)
	r.offset++
	r.last = max(r.last, ev.Time)
	if ev.Refusable() && r.counts.Duplicates.Load()+r.counts.TooLate.Load() == repeats {
		t.calls++
	}
	return r.heard(given)
}

// heard counts and prints verdicts.
func (r *replay) heard(given []events.Verdict) error {
	for i := range given {
		v := &given[i]
		if v.CorrelationID != "" { // or it is about an agent or a project, and binds all flows
			r.flow(v.CorrelationID).note(v)
		} else {
			r.agents[subjectOf(v)] = struct{}{}
		}
		r.count(v)
		if err := r.verdict(v); err != nil {
			return err
		}
	}
	return nil
}

// ask folds an event that asks and returns the answer.
func (r *replay) ask(ev *events.Event) (*events.Verdict, error) {
	r.answer = nil
	if err := r.fold(ev); err != nil {
		return nil, err
	}
	switch {
	case r.answer != nil:
		return r.answer, nil
	case ev.By() == events.OriginUser:
		return &events.Verdict{Mode: events.ModeEnforce, Action: events.Allow, Reason: analyzer.Allowed, CorrelationID: ev.FlowKey()}, nil
	}
	return nil, cli.Failure("this event was folded before").Advise("ask with an id of its own, or without one")
}

// aboutAgentAlone reports whether an event belongs to no flow: it tells of an agent and
// not of what the agent works on.
func aboutAgentAlone(ev *events.Event) bool {
	if ev.CorrelationID != "" {
		return false
	}
	switch ev.Kind {
	case events.AgentStatus, events.NoteAdded, events.RescueRequest, events.ReviewResult, events.VerdictAck:
		return true
	}
	return false
}

func (r *replay) flow(key string) *tally {
	t := r.flows[key]
	if t == nil {
		t = &tally{}
		r.flows[string([]byte(key))] = t // key may alias what is read
	}
	return t
}

func (r *replay) count(v *events.Verdict) {
	key := ruleAction{v.RuleID, actionCell(v).Text}
	c := r.rules[key]
	if c == nil {
		c = &ruleCount{flows: map[string]struct{}{}, agents: map[string]struct{}{}}
		r.rules[key] = c
	}
	c.verdicts++
	if v.CorrelationID != "" {
		c.flows[v.CorrelationID] = struct{}{}
	} else {
		c.agents[subjectOf(v)] = struct{}{}
	}
}

// replaySummary is what a replay found in all.
type replaySummary struct {
	Events          int64         `json:"events"`
	Duplicates      int64         `json:"duplicates,omitempty"`
	BadRecords      int64         `json:"bad_records"`
	Flows           int           `json:"flows"`
	FlowsWarned     int           `json:"flows_warned"` // stopped ones included
	FlowsStopped    int           `json:"flows_stopped"`
	Calls           int64         `json:"calls"`             // of agents and tools
	CallsSaved      int64         `json:"calls_saved"`       // after the first stop of their flow
	MedianWorkSaved float64       `json:"median_work_saved"` // share of its calls, over the flows stopped
	Agents          int           `json:"agents,omitempty"`  // and projects, about which something was said over all flows
	Verdicts        []ruleSummary `json:"verdicts"`
	Profile         string        `json:"profile"`
	ConfigVersion   string        `json:"config_version"`
	Seconds         float64       `json:"seconds"`
	EventsPerSecond int64         `json:"events_per_second"`

	Coverage coverage.Coverage `json:"coverage"`
	Blind    []coverage.Blind  `json:"blind,omitempty"`
	Files    []*fileCoverage   `json:"files,omitempty"`
	Silent   map[string]int64  `json:"spans_without_event,omitempty"` // by why
}

// fileCoverage is what one file tells.
type fileCoverage struct {
	File     string            `json:"file"`
	Format   string            `json:"format"`
	Coverage coverage.Coverage `json:"coverage"`
	Blind    []coverage.Blind  `json:"blind,omitempty"`
}

type ruleSummary struct {
	Rule     string `json:"rule"`
	Action   string `json:"action"`
	Verdicts int64  `json:"verdicts"`
	Flows    int    `json:"flows"`
	Agents   int    `json:"agents,omitempty"`
}

func (r *replay) summary(elapsed time.Duration) *replaySummary {
	s := &replaySummary{Events: r.counts.Events.Load(), Duplicates: r.counts.Duplicates.Load(), BadRecords: r.bad.n, Flows: len(r.flows),
		Agents: len(r.agents), Profile: r.limits.Profile, ConfigVersion: r.limits.Version, Seconds: round(elapsed.Seconds(), 1000), Verdicts: []ruleSummary{}}
	s.Coverage, s.Blind, s.Files = r.told, r.told.Blind(&r.limits), r.files
	for why, n := range r.silent {
		if n > 0 {
			if s.Silent == nil {
				s.Silent = map[string]int64{}
			}
			s.Silent[adapter.Silence(why).String()] = n
		}
	}
	for _, f := range s.Files {
		f.Blind = f.Coverage.Blind(&r.limits)
	}
	if elapsed > 0 {
		s.EventsPerSecond = int64(float64(s.Events) / elapsed.Seconds())
	}
	var saved []float64
	for _, t := range r.flows {
		s.Calls += t.calls
		s.FlowsWarned += one(t.warned)
		s.FlowsStopped += one(t.stopped)
		if t.stopped {
			s.CallsSaved += t.calls - t.stoppedAt
			saved = append(saved, t.saved())
		}
	}
	s.MedianWorkSaved = round(median(saved), 1000)
	for key, c := range r.rules {
		s.Verdicts = append(s.Verdicts, ruleSummary{key.rule, key.action, c.verdicts, len(c.flows), len(c.agents)})
	}
	slices.SortFunc(s.Verdicts, func(a, b ruleSummary) int {
		return cmp.Or(cmp.Compare(b.Verdicts, a.Verdicts), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Action, b.Action))
	})
	return s
}

// print prints the summary as the last thing; apart says that something stands above.
func (s *replaySummary) print(env *cli.Env, apart bool) error {
	return env.Last(apart, struct {
		Summary *replaySummary `json:"summary"`
	}{s}, func() error {
		rate := ""
		if s.Seconds >= 0.1 {
			rate = fmt.Sprintf(" in %.1f s (%s a second)", s.Seconds, cli.Grouped(s.EventsPerSecond))
		}
		_, err := fmt.Fprintf(env.Out, "%s of %s%s, judged by the profile %s\n", cli.Count(s.Events, "event"), cli.Count(int64(s.Flows), "flow"), rate, s.Profile)
		if err != nil {
			return err
		}
		switch {
		case s.FlowsWarned == 0:
			_, err = fmt.Fprintln(env.Out, "no rule fired")
		case s.FlowsStopped == 0:
			_, err = fmt.Fprintf(env.Out, "%s warned, none stopped\n", cli.Count(int64(s.FlowsWarned), "flow"))
		default:
			_, err = fmt.Fprintf(env.Out, "%s warned, %d of them stopped; %s of %s calls came after a stop (of a stopped flow %.0f %%, median)\n",
				cli.Count(int64(s.FlowsWarned), "flow"), s.FlowsStopped, cli.Grouped(s.CallsSaved), cli.Grouped(s.Calls), 100*s.MedianWorkSaved)
		}
		if err == nil {
			err = s.printBlind(env)
		}
		if s.Agents > 0 && err == nil {
			_, err = fmt.Fprintf(env.Out, "over all flows there is something to say about %s\n", cli.Count(int64(s.Agents), "agent"))
		}
		if err != nil || len(s.Verdicts) == 0 {
			return err
		}
		_, _ = fmt.Fprintln(env.Out)
		columns := []string{"RULE", "ACTION", "VERDICTS", "FLOWS"}
		if s.Agents > 0 {
			columns = append(columns, "AGENTS")
		}
		t := env.Table(columns...)
		for _, v := range s.Verdicts {
			n := func(n int64) cli.Cell { return cli.Cell{Text: cli.Grouped(n), Right: true} }
			row := []cli.Cell{{Text: v.Rule}, {Text: v.Action}, n(v.Verdicts), n(int64(v.Flows)), n(int64(v.Agents))}
			if err := t.Row(row[:len(columns)]...); err != nil {
				return err
			}
		}
		return t.Flush()
	})
}

// printBlind says what cannot be judged, and how the log would tell it.
func (s *replaySummary) printBlind(env *cli.Env) error {
	line := coverage.Line(s.Blind)
	if line == "" && s.Events > 0 {
		return nil
	}
	if line != "" {
		line += s.remedy() + "\n"
	}
	_, err := io.WriteString(env.Out, line+s.unheard())
	return err
}

// unheard says how many spans gave no event, and why; "" when all did.
func (s *replaySummary) unheard() string {
	words := [...]string{"%d tell of no agent, tool or model", "%d only tie others together", "%d tell what others tell", "%d are requests to models without tokens"}
	var parts []string
	var all int64
	for why, format := range words {
		if n := s.Silent[adapter.Silence(why).String()]; n > 0 {
			all += n
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%s gave no event: %s\n", cli.Count(all, "span"), strings.Join(parts, ", "))
}

// remedy says what to set, so that a log tells what its format has room for; "" where nothing
// is known to help.
func (s *replaySummary) remedy() string {
	content := func(b coverage.Blind) bool { return b.What == "arguments" || b.What == "results" }
	tools := func(b coverage.Blind) bool { return b.What == "tools" }
	hasTools := !slices.ContainsFunc(s.Blind, tools)
	if len(s.Files) == 0 || hasTools && !slices.ContainsFunc(s.Blind, content) {
		return ""
	}
	format := s.Files[0].Format
	for _, f := range s.Files {
		if f.Format != format {
			return ""
		}
	}
	if format == "otlp" && !hasTools {
		return "; no tool spans came: see whether the instrumentation makes any"
	}
	if !hasTools {
		return ""
	}
	if format == "otlp" {
		return "; set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true where the spans are made to see them"
	}
	return "; weir events describe " + format + " says what to set to see them"
}

func printScores(env *cli.Env, labels []*labelFile, flows map[string]*tally) error {
	if len(labels) == 0 {
		return nil
	}
	if env.Format == cli.TableFormat {
		_, _ = fmt.Fprintln(env.Out)
	}
	lines := cli.NewLines(env, func(s *labelScore) []cli.Cell {
		n := func(n, of int) cli.Cell {
			if of == 0 {
				return cli.Cell{Text: "-", Right: true}
			}
			return cli.Cell{Text: fmt.Sprintf("%d of %d (%.0f %%)", n, of, 100*float64(n)/float64(of)), Right: true}
		}
		return []cli.Cell{{Text: s.Labels}, {Text: fmt.Sprint(s.Traces), Right: true}, n(s.Warned, s.ShouldBeCaught), n(s.Stopped, s.ShouldBeCaught),
			n(s.WronglyWarned, s.ShouldBeLeft), n(s.WronglyStopped, s.ShouldBeLeft), {Text: fmt.Sprintf("%.0f %%", 100*s.MedianWorkSaved), Right: true}}
	}, "LABELS", "TRACES", "WARNED", "STOPPED", "WRONGLY WARNED", "WRONGLY STOPPED", "WORK SAVED")
	lines.Apart()
	// Files that match nothing are named; it is an error when all of them are like that.
	var nothing error
	matched := false
	for _, l := range labels {
		s := l.score(flows)
		if err := l.matched(&s, flows); err != nil {
			if nothing == nil {
				nothing = err
			} else {
				env.Notice("%v", err)
			}
			continue
		}
		matched = true
		if s.WithoutEvents > 0 {
			env.Notice("%s: %d of %d traces are not in the files replayed", s.Labels, s.WithoutEvents, s.Traces)
		}
		if err := lines.Print(&s); err != nil {
			return err
		}
	}
	if matched && nothing != nil {
		env.Notice("%v", nothing)
		nothing = nil
	}
	return errors.Join(lines.Flush(), nothing)
}
