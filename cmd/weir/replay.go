package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/standing"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/operate"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/mapped"
)

// replayCommand is weir replay: what would have been said of a log, verdict by verdict. It
// folds by the same Step as a running weir (see decision 1), in memory, and leaves nothing
// behind.
func replayCommand() cli.Command {
	return cli.Command{
		Name: "replay", Args: "[FILE...|-]", Short: "judge existing logs and print the verdicts",
		Long: `Reads agent logs, plain or compressed (gzip, zstd), and folds them with the code that
judges live traffic. The format is detected from the beginning of each file and printed
on standard error; --format selects it otherwise. A log collector may have wrapped the
records. weir reads them behind text on their lines (Kubernetes, journald, docker
compose), in a member (Docker, Elasticsearch, Loki, CloudWatch, Splunk), and in a table
(CSV). weir's own events are judged in file order, all others in order of time.

SEEN/LIMIT is the observed value against the limit. EVENT is the number of the event in
its flow. "arm" is an order that takes effect with the next call.

With --labels the result is compared with known labels of the traces. A label file has
lines such as {"trace_id":"FLOW","labels":{"looping":true}}, with a "dataset" where
flows are called DATASET/TRACE. Label files may be among the arguments. --caught and
--honest name the labels of runaway and honest traces. By default the usual words are
known: loop, looping, step_repetition, ran_to_cap, exit, success, correct, ...

With --brokers and no FILE, the topic of events is read, partition by partition, each in
log order. Rules about agents are judged by the topic of activity, which is read
afterwards. Limits in the log (limits.set) apply from their record on. --limits,
--profile and --set replace them for the whole replay. Flows that began before --from
are judged by the part that is read.`,
		Examples: []string{
			"weir replay session.jsonl",
			"weir replay --profile delegation -o json *.jsonl.gz",
			"kcat -C -b localhost -t agent-events -e | weir replay -",
			"weir replay --brokers kafka-1:9092 --from -1h -o json",
			"weir replay --brokers kafka-1:9092 --from @2026-11-20T14:00:00Z --until @2026-11-20T15:00:00Z --profile team",
			"weir replay --caught looping --honest success --labels traces/*.labels.jsonl.gz -o json traces/*.events.jsonl.gz",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			o := &replayFlags{LimitFlags: operate.NewLimitFlags(fs), reading: newReading(fs), brokers: operate.NewBrokerFlags(fs), stretch: newOffsetRange(fs)}
			fs.BoolVar(&o.summary, "summary", false, "print the summary only, not the verdicts")
			// Label files may be among the arguments, too: they are recognized by their content.
			o.labels = cli.NewList(fs, "labels", "compare with the labels in `FILE`; more may follow among the arguments")
			o.caught = cli.NewList(fs, "caught", "with --labels: `FIELD[=VALUE]` marks a trace to catch")
			o.honest = cli.NewList(fs, "honest", "with --labels: `FIELD[=VALUE]` marks an honest trace")
			return func(ctx context.Context, env *cli.Env, args []string) error { return o.run(ctx, env, args) }
		},
	}
}

// replayFlags are the flags of weir replay, see replayCommand.
type replayFlags struct {
	*operate.LimitFlags
	*reading
	brokers                *operate.BrokerFlags
	stretch                *offsetRange
	summary                bool
	labels, caught, honest *cli.List
}

// run folds files or a topic and prints verdicts as they are given, then the summary, then
// what labels say of them. In JSON each of these is a line, and that of the summary has it as
// its one member.
func (o *replayFlags) run(ctx context.Context, env *cli.Env, args []string) error {
	// What is wrong with flags, labels and limits is found before anything is folded.
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
	// Verdicts go out as they are given, so a long log shows something while it is read.
	lines := newVerdictLines(env)
	r, err := newReplay(ctx, limits, func(v *events.Verdict) error {
		// Verdicts are still counted.
		if o.summary {
			return nil
		}
		return lines.Print(v)
	})
	if err != nil {
		return err
	}
	// Either folds into the same replay, and says how long it took.
	read := o.readFiles
	if topic {
		read = o.readTopic
	}
	elapsed, err := read(ctx, env, r, files)
	if err != nil {
		return err
	}
	// Rows may still wait for the widths of their columns.
	if err := lines.Flush(); err != nil {
		return err
	}
	// After the verdicts and before the summary, so that both stand where the eye looks last.
	r.bad.notice(env)
	s := r.summary(elapsed)
	if err := s.print(env, lines.Any()); err != nil {
		return err
	}
	if err := printScores(env, labels, r.flows); err != nil {
		return err
	}
	if err := r.bad.most(s.Events + s.Duplicates); err != nil {
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
	// Files are what was named, so brokers of the environment say nothing here.
	case len(args) > 0:
		return false, nil
	}
	// Limits of the configuration file are those of the weir that runs. In a replay only the
	// command line may replace those of the log.
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

// readFiles folds files and returns how long it took. A log without any event is an error that
// says why, as far as the adapters know: a replay of it would find nothing, which looks like a
// clean log.
func (o *replayFlags) readFiles(_ context.Context, env *cli.Env, r *replay, files []string) (time.Duration, error) {
	inputs, err := o.reading.open(env, files)
	if err != nil {
		return 0, err
	}
	// Those that were not reached, too.
	defer closeAll(inputs)
	elapsed, err := r.read(env, inputs, o.reading)
	if err == nil && r.counted().Events == 0 {
		r.bad.notice(env)
		o.reading.noticeUnread(env)
		what := ""
		if unheard := strings.TrimSpace(r.summary(elapsed).unheard()); unheard != "" {
			what = ": " + unheard
		}
		what += r.bad.instead()
		format, advice := inputs[0].Format.Name, "is it %s? weir events describe says what each format is; --map auto proposes a mapping"
		if strings.HasPrefix(format, mapped.Prefix) {
			advice = "by the mapping no line tells of a call; weir events describe '%s' says what it reads"
		}
		err = cli.Failure("there is no event in %s%s", inputs[0].Name, what).Advise(advice, format)
	}
	return elapsed, err
}

// readTopic folds the topics of events and activity. Without limits on the command line those
// are in force that the log itself says (see decision 30).
func (o *replayFlags) readTopic(ctx context.Context, env *cli.Env, r *replay, _ []string) (time.Duration, error) {
	c, err := o.brokers.Reach(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	// Nothing on the command line says otherwise, so the log's own limits judge.
	recorded := !o.LimitFlags.Chosen()
	return r.readTopics(ctx, env, c, o.brokers.Topics, o.stretch, recorded)
}

// replay folds events as the running program does, in memory and without ticks:
// the time is that of the events.
//
// It is for one goroutine. Files go through a pump.Replay, which passes the reports of flows on
// to the agent stage. For topics each partition gets a pump of its own; the reports of flows
// are in the topic of activity. Commands with --log look up flows and agents in a replay,
// too.
type replay struct {
	pump      *pump.Pump // of flows
	agentPump *pump.Pump // of agents
	// judge folds one event by whatever pump is in its turn. The verdicts are good until the
	// next call.
	judge func(ev *events.Event, offset int64) []events.Verdict
	// A pump counts for itself, and one is thrown away with each partition that was read.
	past    pump.Counted // by pumps of partitions that were read
	offset  int64
	last    events.Stamp    // latest time
	answer  *events.Verdict // to the last ask
	limits  analyzer.Limits
	verdict func(*events.Verdict) error

	progress *cli.Progress // of topics
	done     int64         // records
	all      int64

	// By their ids. All flows stay in memory, with how often they called and what was said
	// first.
	flows  map[string]*backtest.Flow
	agents map[string]struct{} // and projects, about which something was said
	rules  map[ruleAction]*ruleCount
	bad    refusals
	// What the log reports of all that rules need, over all files; files has it for each.
	coverage coverage.Coverage
	silent   adapter.Silences
	files    []*fileCoverage
}

// ruleAction is a line of the summary: what one rule did, in the word that is printed for it,
// so warnings and stops of a rule are two lines.
type ruleAction struct {
	rule   string
	reason events.Reason
	action string
}

// ruleCount counts verdicts, and the flows and agents that they are about: one flow may have many.
type ruleCount struct {
	verdicts                 int64
	flows, agents, incidents map[string]struct{}
}

// newReplay returns a replay that has folded nothing. verdict is called for each verdict in
// the order in which they are given; its argument is good until it returns, and its error ends
// the replay.
func newReplay(ctx context.Context, limits analyzer.Limits, verdict func(*events.Verdict) error) (*replay, error) {
	r := &replay{limits: limits, verdict: verdict, flows: map[string]*backtest.Flow{}, agents: map[string]struct{}{}, rules: map[ruleAction]*ruleCount{}}
	both, err := pump.NewReplay(ctx, pump.Options{Limits: limits, Answer: r.answered})
	if err != nil {
		return nil, err
	}
	// Kept for later questions about flows and agents.
	r.pump, r.agentPump = both.Pumps()
	r.judge = both.Fold
	return r, nil
}

// counted is what was folded, dropped and refused.
func (r *replay) counted() pump.Counted {
	n := r.past
	n.Add(r.pump.Counted())
	n.Add(r.agentPump.Counted())
	return n
}

// answered keeps what the fold said to an ask.
func (r *replay) answered(_ int64, _ []byte, _ *events.Event, v *events.Verdict) { r.answer = v }

// read folds all events of the inputs.
//
// by is notified of inputs that cannot be read to their end. The goroutines that read ahead
// call Seen, which is why each input has a coverage of its own.
func (r *replay) read(env *cli.Env, inputs []*logs.Input, by *reading) (time.Duration, error) {
	progress := env.Progress("events")
	of := map[*logs.Input]*fileCoverage{}
	for _, in := range inputs {
		of[in] = &fileCoverage{File: in.Name, Format: in.Says(), name: in.Format.Name}
		r.files = append(r.files, of[in])
	}
	near := newMisspelled(env, false)
	clock := logs.NewClock(r.fold)
	rd := &logs.Reader{Inputs: inputs, Event: clock.Take, Seen: func(in *logs.Input, ev *events.Event) { of[in].Coverage.Add(ev, r.limits.Prices) },
		IgnoreArgs: r.limits.IgnoredArgs, Whole: near.at, Own: near.Look, Silent: func(why adapter.Silence) { r.silent[why]++ }, Unread: by.notUnderstood,
		Bad: r.bad.add, Broken: func(err error) { by.leave(env, err) }, Tick: progress.At}
	err := rd.Read()
	if err == nil {
		err = by.timed(env, clock)
	}
	by.ordered(env, rd)
	progress.Done()
	near.rest()
	return progress.Elapsed(), err
}

// fold folds one event and takes its verdicts.
//
// An event of no flow is folded like all others and counts for a Flow that is thrown away.
// The offset is the position in the log that is folded, so it grows with each event, repeats
// included.
func (r *replay) fold(ev *events.Event) error {
	r.coverage.Add(ev, r.limits.Prices)
	f := &backtest.Flow{}
	if !aboutAgentAlone(ev) {
		f = r.flow(ev.FlowKey())
	}
	f.Told.Add(ev)
	// Only the counts of the fold show the result for the event: nothing else knows whether it was a
	// call that counted.
	counted := r.counted()
	given := r.judge(ev, r.offset)
	r.offset++
	when, _ := analyzer.TimeOf(ev)
	r.last = max(r.last, when)
	now := r.counted()
	r.coverage.Stray(now.Strays - counted.Strays)
	if counted.Called(ev, now) {
		f.Calls++
	}
	return r.heard(given)
}

// heard counts and prints verdicts.
//
// Verdicts are about the flow that they name, which need not be that of the event: orders
// about a tree go to each of its flows.
func (r *replay) heard(given []events.Verdict) error {
	for i := range given {
		v := &given[i]
		if v.CorrelationID != "" { // or it is about an agent or a project, and binds all flows
			r.flow(v.CorrelationID).Hear(v)
		} else {
			r.agents[subjectOf(v)] = struct{}{}
		}
		// Before it is printed, so that the summary has it even if printing ends the replay.
		r.count(v)
		if err := r.verdict(v); err != nil {
			return err
		}
	}
	return nil
}

// ask folds an event that asks and returns the answer.
//
// A user's event is never refused and gets no answer from the fold, so it is allowed here.
// No answer to another one means that an event with its id was folded before.
func (r *replay) ask(ev *events.Event) (*events.Verdict, error) {
	// Of an earlier ask it would be taken for the answer to this one.
	r.answer = nil
	if err := r.fold(ev); err != nil {
		return nil, err
	}
	switch {
	case r.answer != nil:
		return r.answer, nil
	case ev.By() == events.OriginUser:
		return &events.Verdict{Mode: events.ModeEnforce, Action: events.Allow, Reason: standing.Allowed, CorrelationID: ev.FlowKey()}, nil
	}
	return nil, cli.Failure("this event was folded before").Advise("ask with an id of its own, or without one")
}

// aboutAgentAlone reports whether an event belongs to no flow: it is about an agent and
// not about what the agent works on.
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

// flow returns what is kept of a flow, and begins with it at its first event.
func (r *replay) flow(key string) *backtest.Flow {
	f := r.flows[key]
	if f == nil {
		f = &backtest.Flow{ID: string([]byte(key))} // key may alias what is read
		r.flows[f.ID] = f
	}
	return f
}

// count enters a verdict into the table of rules that the summary has.
func (r *replay) count(v *events.Verdict) {
	key := ruleAction{v.RuleID, v.Reason, actionCell(v).Text}
	c := r.rules[key]
	if c == nil {
		c = &ruleCount{flows: map[string]struct{}{}, agents: map[string]struct{}{}, incidents: map[string]struct{}{}}
		r.rules[key] = c
	}
	c.verdicts++
	c.incidents[v.IncidentID] = struct{}{}
	if v.CorrelationID != "" {
		c.flows[v.CorrelationID] = struct{}{}
	} else {
		c.agents[subjectOf(v)] = struct{}{}
	}
}

// replaySummary is what a replay found in all.
//
// It is what a replay prints last. Members with omitempty are left out where they would say
// that there was nothing of the kind.
type replaySummary struct {
	Events          int64         `json:"events"`
	Duplicates      int64         `json:"duplicates,omitempty"`
	BadRecords      int64         `json:"bad_records"`
	Flows           int           `json:"flows"`
	FlowsWarned     int           `json:"flows_warned"` // stopped ones included
	FlowsStopped    int           `json:"flows_stopped"`
	Incidents       int           `json:"incidents"`         // within flows
	Stops           int           `json:"stops"`             // incidents in which a call was refused
	Calls           int64         `json:"calls"`             // of agents and tools
	CallsSaved      int64         `json:"calls_saved"`       // after the first stop of their flow
	MedianWorkSaved float64       `json:"median_work_saved"` // share of its calls, over the flows stopped
	Agents          int           `json:"agents,omitempty"`  // and projects, about which something was said over all flows
	StoppedWho      []stoppedWho  `json:"stopped_who,omitempty"`
	Verdicts        []ruleSummary `json:"verdicts"`
	Profile         string        `json:"profile"`
	ConfigVersion   string        `json:"config_version"`
	Seconds         float64       `json:"seconds"`
	EventsPerSecond int64         `json:"events_per_second"`

	Coverage coverage.Coverage `json:"coverage"`
	Blind    []coverage.Blind  `json:"blind,omitempty"`
	// BlindFlows is what some of the flows never report, though others do.
	BlindFlows []coverage.Part `json:"blind_flows,omitempty"`
	// WarnsOnly says why flows are warned and not stopped.
	WarnsOnly string           `json:"warns_only,omitempty"`
	Files     []*fileCoverage  `json:"files,omitempty"`
	Silent    map[string]int64 `json:"spans_without_event,omitempty"` // by why
}

// fileCoverage is what one file reports.
//
// It is filled by one goroutine at a time, and read when all is folded.
type fileCoverage struct {
	File     string            `json:"file"`
	Format   string            `json:"format"`
	Coverage coverage.Coverage `json:"coverage"`
	Blind    []coverage.Blind  `json:"blind,omitempty"`

	name string // of the format, without what it is carried in
}

// ruleSummary is a line of the table of rules: flows and agents are each counted once.
type ruleSummary struct {
	Rule      string        `json:"rule"`
	Reason    events.Reason `json:"reason_code"`
	Action    string        `json:"action"`
	Incidents int           `json:"incidents"`
	Verdicts  int64         `json:"verdicts"`
	Flows     int           `json:"flows"`
	Agents    int           `json:"agents,omitempty"`
}

// summary sums up what was folded in so long. The lines of rules are in an order that depends
// on the figures and names alone, since maps have none.
func (r *replay) summary(elapsed time.Duration) *replaySummary {
	counted := r.counted()
	s := &replaySummary{Events: counted.Events, Duplicates: counted.Duplicates, BadRecords: r.bad.n, Flows: len(r.flows),
		Agents: len(r.agents), Profile: r.limits.Profile, ConfigVersion: r.limits.Version, Seconds: round(elapsed.Seconds(), 1000), Verdicts: []ruleSummary{}}
	// What rules lack depends on the limits that judged: a rule that is off lacks nothing.
	s.Coverage, s.Blind, s.Files = r.coverage, r.coverage.Blind(&r.limits), r.files
	s.WarnsOnly = r.coverage.WarnsOnly(&r.limits)
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
	var stopped []*backtest.Flow
	var told coverage.Flows
	// In the order of their names, of which the first may be an example.
	for _, id := range slices.Sorted(maps.Keys(r.flows)) {
		f := r.flows[id]
		told.Add(id, &f.Told)
		s.Calls += f.Calls
		s.FlowsWarned += one(f.Warned != nil)
		incidents, stops := f.Incidents()
		s.Incidents, s.Stops = s.Incidents+incidents, s.Stops+stops
		if f.Stopped != nil {
			s.FlowsStopped++
			// The log went on after the stop: what came then is what a dispatcher would not
			// have sent.
			s.CallsSaved += f.Calls - f.Stopped.Call
			stopped = append(stopped, f)
			saved = append(saved, f.Saved())
		}
	}
	s.BlindFlows = told.Blind(&r.limits, s.Blind)
	s.Blind = coverage.Unjudged(s.Blind, func(rule string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(r.rules)), func(k ruleAction) bool { return k.rule == rule })
	})
	s.MedianWorkSaved, s.StoppedWho = round(median(saved), 1000), whoStopped(stopped)
	for key, c := range r.rules {
		s.Verdicts = append(s.Verdicts, ruleSummary{key.rule, key.reason, key.action, len(c.incidents), c.verdicts, len(c.flows), len(c.agents)})
	}
	// Those that spoke most first.
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
		// Below that the rate would measure the start of the process and not the fold.
		if s.Seconds >= 0.1 {
			rate = fmt.Sprintf(" in %.1f s (%s a second)", s.Seconds, cli.Grouped(s.EventsPerSecond))
		}
		_, err := cli.Fprintf(env.Out, "%s of %s%s, judged by the profile %s\n", cli.Count(s.Events, "event"), cli.Count(int64(s.Flows), "flow"), rate, s.Profile)
		if err != nil {
			return err
		}
		switch {
		// Something was said, only not of a flow.
		case s.FlowsWarned == 0 && s.Agents > 0:
			_, err = fmt.Fprintln(env.Out, "no rule fired within a flow")
		case s.FlowsWarned == 0:
			_, err = fmt.Fprintln(env.Out, "no rule fired")
		case s.FlowsStopped == 0:
			_, err = cli.Fprintf(env.Out, "%s warned, none stopped\n", cli.Count(int64(s.FlowsWarned), "flow"))
		default:
			_, err = cli.Fprintf(env.Out, "%s warned, %d of them stopped; %s, %d of them with a stop\n%s of %s calls came after a stop (of a stopped flow %.0f %%, median)\n",
				cli.Count(int64(s.FlowsWarned), "flow"), s.FlowsStopped, cli.Count(int64(s.Incidents), "incident"), s.Stops, cli.Grouped(s.CallsSaved), cli.Grouped(s.Calls), 100*s.MedianWorkSaved)
		}
		if err == nil {
			err = printStopped(env, s.StoppedWho)
		}
		if err == nil {
			err = s.printBlind(env)
		}
		if s.Agents > 0 && err == nil {
			_, err = cli.Fprintf(env.Out, "over all flows (of agents, projects, trees) rules fired for %d\n", s.Agents)
		}
		if err != nil || len(s.Verdicts) == 0 {
			return err
		}
		_, _ = fmt.Fprintln(env.Out)
		columns := []string{"RULE", "REASON", "ACTION", "INCIDENTS", "VERDICTS", "FLOWS"}
		// A column that is empty in nearly all logs is not shown.
		if s.Agents > 0 {
			columns = append(columns, "AGENTS")
		}
		t := env.Table(columns...).Secondary("VERDICTS", "REASON")
		for _, v := range s.Verdicts {
			n := func(n int64) cli.Cell { return cli.Cell{Text: cli.Grouped(n), Right: true} }
			row := []cli.Cell{{Text: v.Rule}, {Text: string(v.Reason)}, {Text: v.Action}, n(int64(v.Incidents)), n(v.Verdicts), n(int64(v.Flows)), n(int64(v.Agents))}
			if err := t.Row(row[:len(columns)]...); err != nil {
				return err
			}
		}
		return t.Flush()
	})
}

// printBlind prints what cannot be judged, and what the log would need for it.
func (s *replaySummary) printBlind(env *cli.Env) error {
	line := coverage.Line(s.Blind)
	if line == "" && len(s.BlindFlows) == 0 && s.WarnsOnly == "" && s.Coverage.Strays == 0 && s.Events > 0 {
		return nil
	}
	if line != "" {
		line += s.remedy() + "\n"
	}
	for i := range s.BlindFlows {
		line += cli.Sprintf("%s\n", s.BlindFlows[i].String())
	}
	if s.WarnsOnly != "" {
		line += s.WarnsOnly + "\n"
	}
	if stray := s.Coverage.StrayLine(); stray != "" {
		line += stray + "\n"
	}
	_, err := io.WriteString(env.Out, line+s.unheard())
	return err
}

// unheard says how many spans gave no event, and why; "" when all did.
func (s *replaySummary) unheard() string {
	// In the order of the constants of adapter.Silence.
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

// remedy says what to set, so that a log reports all that its format has room for; "" if
// nothing is known to help.
//
// It is "" unless all files have one format, since what to set differs from format to
// format. Flows that seem to belong together go first: with them apart, most rules see too
// little, whatever else is reported.
func (s *replaySummary) remedy() string {
	if slices.ContainsFunc(s.Blind, func(b coverage.Blind) bool { return b.What == coverage.Together }) {
		return "; if they belong together, let them share a trace (a span around the run) or a correlation id"
	}
	content := func(b coverage.Blind) bool { return b.What == "arguments" || b.What == "results" }
	tools := func(b coverage.Blind) bool { return b.What == "tools" }
	hasTools := !slices.ContainsFunc(s.Blind, tools)
	if len(s.Files) == 0 || hasTools && !slices.ContainsFunc(s.Blind, content) {
		return ""
	}
	format := s.Files[0].name
	for _, f := range s.Files {
		if f.name != format {
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
		return "; set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true where the spans are made to see them, or what weir events describe NAME says of the framework"
	}
	if strings.HasPrefix(format, mapped.Prefix) {
		return "; where the log has them, map args=PATH and result=PATH"
	}
	return "; weir events describe " + format + " says what to set to see them"
}
