package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

// team makes a log in which flows loop, agents are flooded with calls that escaped their
// flows, and agents that report fall silent at work; with ticks, garbage and repeats.
func team(seed uint64, n int) []pump.Record {
	r, trees := rand.New(rand.NewPCG(seed, 17)), rand.New(rand.NewPCG(seed, 29))
	at := pumptest.Start
	var out []pump.Record
	add := func(value []byte) {
		out = append(out, pump.Record{Offset: int64(len(out)), Appended: at, Value: value})
	}
	agent := func() events.Party { return events.Party{Agent: fmt.Sprint("worker-", r.IntN(9))} }
	for i := range n {
		at = at.Add(time.Duration(r.IntN(2500)) * time.Millisecond)
		ev := events.Event{ID: fmt.Sprint("t", i), Source: "team", Time: at, From: agent()}
		switch x := r.IntN(100); {
		case x < 3:
			at = at.Add(time.Duration(r.IntN(900)) * time.Second)
			add(pumptest.Tick(at))
			continue
		case x < 4:
			add([]byte("nonsense"))
			continue
		case x < 7 && len(out) > 0:
			add(out[max(0, len(out)-1-r.IntN(20))].Value)
			continue
		case x < 30: // only some report, and then they are silent for a while
			ev.From.Agent = fmt.Sprint("worker-", (i/150+r.IntN(3))%9)
			ev.Kind, ev.AgentState = events.AgentStatus, &events.AgentState{Status: []string{"active", "active", "waiting_user", "completed"}[r.IntN(4)]}
			if r.IntN(2) == 0 {
				ev.AgentState.Margin = []string{"comfortable", "tight", "critical"}[r.IntN(3)]
			}
		case x < 34:
			ev.Kind, ev.To, ev.Rescue = events.RescueRequest, agent(), &events.Rescue{}
		case x < 38:
			ev.Kind, ev.To, ev.Note = events.NoteAdded, agent(), &events.Note{Tags: []string{"stuck", "help"}, Summary: "does not answer"}
		case x < 50: // floods come in bursts
			ev.Kind, ev.To = events.AgentCall, events.Party{Agent: fmt.Sprint("worker-", i/40%9)}
			at = at.Add(-time.Duration(r.IntN(800)) * time.Millisecond)
		default:
			work := pumptest.RandomEvent(r, at, i)
			work.From, work.CorrelationID = agent(), fmt.Sprint("flow-", r.IntN(12)+i/400)
			if work.Kind == events.AgentCall {
				work.To = agent()
			}
			tree(trees, work)
			ev = *work
		}
		add(ev.AppendJSON(nil))
	}
	at = at.Add(time.Hour)
	add(pumptest.Tick(at))
	return append(out, pump.Record{Offset: int64(len(out)), Appended: at.Add(2 * time.Hour), Value: pumptest.Tick(at.Add(2 * time.Hour))})
}

// tree puts some flows into trees: roots that name themselves, children and their children. Some of
// them report it late, and some end.
func tree(r *rand.Rand, ev *events.Event) {
	n := int(ev.CorrelationID[len(ev.CorrelationID)-1] - '0')
	root := "root-" + ev.CorrelationID[len("flow-"):len(ev.CorrelationID)-1]
	switch {
	case n > 6 || r.IntN(4) == 0:
		return
	case n == 0:
		ev.CorrelationID, ev.RootCorrelationID = root, root
	case n < 4:
		ev.ParentCorrelationID = root
	default:
		ev.RootCorrelationID, ev.ParentCorrelationID = root, fmt.Sprint("flow-", n-3)
	}
	switch r.IntN(12) {
	case 0:
		ev.Kind, ev.Ask = events.FlowEnd, false
	case 1, 2:
		ev.Kind, ev.Ask, ev.Usage = events.LLMCall, false, events.Usage{Known: true, Input: int64(r.IntN(400)), CostMicroUSD: int64(r.IntN(90_000))}
	}
}

func teamLimits() analyzer.Limits {
	l := pumptest.Limits()
	l.Agents.Recover = true
	for _, s := range []struct {
		rule                agents.RuleID
		warn, stop, reserve int64
	}{
		{agents.RuleTreeCalls, 12, 17, 3}, {agents.RuleTreeTokens, 1000, 2000, 300}, {agents.RuleTreeCost, rules.Off, 200_000, 0},
		{agents.RuleTreeDuration, 120, 900, 0}, {agents.RuleTreeDepth, rules.Off, 2, 0}, {agents.RuleTreeChildren, 3, 5, 0},
	} {
		set := &l.Agents.Rules[s.rule]
		set.Warn, set.Stop, set.Reserve = s.warn, s.stop, s.reserve
	}
	return l
}

// stages are both pumps over one store, as the embedded form has them.
type stages struct {
	t             *testing.T
	store         *state.Store
	flows, agents *pump.Pump
	log           *state.Log // of activity
}

// commitStore is a store whose checkpoints are written by a function.
type commitStore struct {
	*state.Store
	commit func(*state.Checkpoint) error
}

func (c commitStore) Commit(x *state.Checkpoint) error { return c.commit(x) }

// flaky is a log that fails now and then, after it has taken some of what it was given.
type flaky struct {
	pump.Sink
	pump.Activity
	fail func() bool
	cut  func(n int) int
}

func (f *flaky) Emit(ctx context.Context, verdicts []pump.Emitted) (int64, error) {
	if !f.fail() {
		return f.Sink.Emit(ctx, verdicts)
	}
	_, err := f.Sink.Emit(ctx, verdicts[:f.cut(len(verdicts))])
	return 0, errors.Join(pumptest.ErrSink, err)
}

func (f *flaky) Send(ctx context.Context, activity []pump.Repartitioned) error {
	if !f.fail() {
		return f.Activity.Send(ctx, activity)
	}
	return errors.Join(pumptest.ErrSink, f.Activity.Send(ctx, activity[:f.cut(len(activity))]))
}

func openStages(t *testing.T, store *state.Store, clock clock.Clock, r *rand.Rand, commit func(*state.Checkpoint) error) *stages {
	t.Helper()
	s := &stages{t: t, store: store, log: store.Journal(agentPartition)}
	wrap := func(f flaky) *flaky {
		f.fail, f.cut = func() bool { return r != nil && r.IntN(15) == 0 }, func(n int) int { return r.IntN(n + 1) }
		return &f
	}
	verdicts := func(agents bool) pump.Sink {
		return wrap(flaky{Sink: &verdictLog{log: store.Verdicts(partition), clock: clock, agents: agents}})
	}
	kept := commitStore{store, store.Commit}
	if commit != nil {
		kept.commit = commit
	}
	o := pump.Options{Limits: teamLimits(), Store: kept, Sink: verdicts(false), Clock: clock, Memory: 6000,
		Activity: wrap(flaky{Activity: &activityLog{log: s.log, clock: clock}})}
	var err error
	if s.flows, err = pump.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Partition, o.Stage, o.Source, o.Sink, o.Activity = agentPartition, pump.AgentStage, activitySource, verdicts(true), nil
	o.Answer = func(int64, []byte, *events.Event, *events.Verdict) {} // asks wait for what trees say, as in a replay
	if s.agents, err = pump.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return s
}

// fold folds records, and of the activity at most the given number of records.
func (s *stages) fold(records []pump.Record, most int) error {
	if err := s.flows.Batch(s.t.Context(), records); err != nil {
		return err
	}
	entries, err := s.log.Read(s.agents.Next(), most, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	activity := make([]pump.Record, len(entries))
	for i := range entries {
		if activity[i], err = activityRecord(&entries[i]); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.agents.Batch(s.t.Context(), activity)
}

func (s *stages) behind() bool { return s.agents.Next() < s.log.End() }

func (s *stages) abandon() {
	s.flows.CloseWithoutCheckpoint()
	s.agents.CloseWithoutCheckpoint()
}

func (s *stages) lines() (out []string) {
	s.t.Helper()
	entries, err := s.store.Verdicts(partition).Read(0, 1<<20, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	seen := make(map[string]bool)
	for i := range entries {
		var v events.Verdict
		if err := events.DecodeVerdict(entries[i].Value, &v); err != nil {
			s.t.Fatal(err)
		}
		if (v.CorrelationID == "" || v.RootCorrelationID != "") != (entries[i].Trigger < 0) {
			s.t.Fatalf("trigger %d of %s", entries[i].Trigger, entries[i].Value)
		}
		if id := v.CorrelationID + "|" + v.Scope.ID + "|" + v.ID; seen[id] {
			s.t.Fatalf("verdict %s is there twice", id)
		} else {
			seen[id] = true
		}
		out = append(out, string(entries[i].Value))
	}
	return out
}

// replayed is what a replay says to the log.
func replayed(t *testing.T, records []pump.Record) (out []string) {
	t.Helper()
	p, err := pump.NewReplay(t.Context(), pump.Options{Limits: teamLimits()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		var ev events.Event
		if events.Decode(records[i].Value, &ev) != nil {
			continue
		}
		ev.Appended = records[i].Appended
		for _, v := range p.Fold(&ev, records[i].Offset) {
			out = append(out, string(v.AppendJSON(nil)))
		}
	}
	_, agents := p.Pumps()
	if agents.Counts().Sum().Activity[1] != 0 {
		t.Error("a replay repeats itself")
	}
	return out
}

// reasons counts verdicts by their reason.
func reasons(t *testing.T, lines []string) map[events.Reason]int {
	t.Helper()
	out := make(map[events.Reason]int)
	for _, line := range lines {
		var v events.Verdict
		if err := events.DecodeVerdict([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		out[v.Reason]++
	}
	return out
}

func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Errorf("%d verdicts, want %d; from %d on\n%s\nwant\n%s", len(got), len(want), at, got[at:min(at+1, len(got))], want[at:min(at+1, len(want))])
}

// TestStages folds a log by the stages of the embedded form and by a replay: they say the
// same, and record by record in the same order.
func TestStages(t *testing.T) {
	f := func(seed uint64, batch int) {
		t.Helper()
		records := team(seed, 1500)
		want := replayed(t, records)
		said := reasons(t, want)
		for _, reason := range []events.Reason{events.AgentMessageRate, events.ActivityTimeout, events.CriticalMarginTimeout,
			"max_tree_calls_exceeded", "max_tree_tokens_exceeded", "max_tree_cost_exceeded", "max_tree_duration_exceeded", "max_tree_depth_exceeded", "max_tree_children_exceeded"} {
			if said[reason] == 0 {
				t.Errorf("the log is too tame: nothing says %s", reason)
			}
		}
		clock := clock.NewFake()
		s := openStages(t, pumptest.OpenState(t), clock, nil, nil)
		for from := 0; from < len(records) || s.behind(); from = min(from+batch, len(records)) {
			clock.Advance(100 * time.Millisecond)
			if err := s.fold(records[from:min(from+batch, len(records))], 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		got := s.lines()
		if batch > 1 {
			got, want = pumptest.ByStage(got), pumptest.ByStage(want)
		}
		sameLines(t, got, want)
		for _, p := range []*pump.Pump{s.flows, s.agents} {
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.agents.Standing().Flows.Load(); n == 0 || s.agents.Counts().Sum().Activity[0] != s.log.End()-told(t, s.log) || s.agents.Counts().Sum().Fold.Events != 0 {
			t.Errorf("%d agents, %d of %d records folded, %d taken for events", n, s.agents.Counts().Sum().Activity[0], s.log.End(), s.agents.Counts().Sum().Fold.Events)
		}
	}
	f(1, 1)
	f(2, 7)
	f(3, 1000)
}

// told counts the ticks of a log of activity.
func told(t *testing.T, log *state.Log) (n int64) {
	t.Helper()
	entries, err := log.Read(0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if r, err := activityRecord(&entries[i]); err != nil || r.Key == "" {
			n++
		}
	}
	return n
}

// TestStagesCrash lets the logs and the commits of checkpoints fail at random, and loses
// the state of one stage or of both now and then. What is in the verdict log afterwards is
// what a replay says.
func TestStagesCrash(t *testing.T) {
	lost, repeated := 0, int64(0)
	for seed := range uint64(pumptest.Seeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			records := team(seed, 1200)
			want := replayed(t, records)
			r := rand.New(rand.NewPCG(seed, 19))
			commits := rand.New(rand.NewPCG(seed, 23))
			store, clock := pumptest.OpenState(t), clock.NewFake()
			failing := make(chan int, 1) // guards commits, for each pump writes in a goroutine of its own
			failing <- 0
			commit := func(c *state.Checkpoint) error {
				n := <-failing
				x := commits.IntN(15)
				failing <- n + 1
				switch x {
				case 0:
					return pumptest.ErrSink
				case 1:
					return errors.Join(store.Commit(c), pumptest.ErrSink)
				}
				return store.Commit(c)
			}
			s, crashes := openStages(t, store, clock, r, commit), 0
			for ended := false; !ended; {
				from := s.flows.Next()
				ended = from == int64(len(records)) && !s.behind()
				if from > 0 && r.IntN(4) == 0 {
					from -= min(from, 5)
				}
				clock.Advance(time.Duration(r.IntN(1500)) * time.Millisecond)
				err := s.fold(records[from:min(len(records), int(from)+1+r.IntN(60))], 1+r.IntN(80))
				if err == nil && !ended && r.IntN(20) == 0 {
					err = pumptest.ErrSink
				}
				if err == nil {
					continue
				}
				if !errors.Is(err, pumptest.ErrSink) {
					t.Fatal(err)
				}
				s.abandon()
				repeated += s.agents.Counts().Sum().Activity[1]
				for partition := range uint16(2) {
					if r.IntN(5) == 0 {
						if err := store.Forget(partition); err != nil {
							t.Fatal(err)
						}
						lost++
					}
				}
				s = openStages(t, store, clock, r, commit)
				crashes++
				ended = false
			}
			s.abandon()
			repeated += s.agents.Counts().Sum().Activity[1]
			if crashes < 3 {
				t.Fatalf("only %d crashes", crashes)
			}
			sameLines(t, pumptest.ByStage(s.lines()), pumptest.ByStage(want))
		})
	}
	if lost == 0 || repeated == 0 {
		t.Errorf("a state was lost %d times, %d records of activity were repeated", lost, repeated)
	}
}
