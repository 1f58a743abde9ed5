package ask_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/cmd/internal/ask"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/sink/check"
	"weir/sink/guard"
	"weir/state"
)

const (
	groveParts = 64 // partitions of events
	groveFlows = 1000
	groveLimit = 5000
	callers    = 16
)

// memlog is a log in memory that outlives the processes that read and write it.
type memlog struct {
	mu      sync.Mutex
	entries []state.Entry
	more    chan struct{} // closed when something was appended
}

func (l *memlog) append(entries ...state.Entry) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		e.Offset = int64(len(l.entries))
		l.entries = append(l.entries, e)
	}
	if l.more != nil && len(entries) > 0 {
		close(l.more)
		l.more = nil
	}
	return int64(len(l.entries))
}

func (l *memlog) Read(from int64, most int, dst []state.Entry) ([]state.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = min(from, int64(len(l.entries)))
	return append(dst, l.entries[from:min(len(l.entries), int(from)+most)]...), nil
}

func (l *memlog) End() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.entries))
}

func (l *memlog) Ready(next int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next < int64(len(l.entries)) {
		ready := make(chan struct{})
		close(ready)
		return ready
	}
	if l.more == nil {
		l.more = make(chan struct{})
	}
	return l.more
}

// verdicts is a log of verdicts as the sink of a pump.
type verdicts struct {
	*memlog
	came func()
}

func (l verdicts) Emit(_ context.Context, out []pump.Emitted) (int64, error) {
	entries := make([]state.Entry, len(out))
	for i := range out {
		entries[i] = state.Entry{Trigger: out[i].Offset, Value: out[i].Verdict.AppendJSON(nil)}
	}
	end := l.append(entries...)
	if l.came != nil {
		l.came()
	}
	return end, nil
}

func (l verdicts) Since(_ context.Context, from int64, fn func(string, int64)) (int64, error) {
	entries, _ := l.Read(from, 1<<30, nil)
	for i := range entries {
		var v events.Verdict
		if err := events.DecodeVerdict(entries[i].Value, &v); err != nil {
			return 0, err
		}
		fn(v.ID, entries[i].Trigger)
	}
	return from + int64(len(entries)), nil
}

// activityLog is the log between the stages; each record of it says which partition it is from.
type activityLog struct {
	*memlog
	mu      sync.Mutex
	records []pump.Record
}

type sender struct {
	*activityLog
	from int
}

func (s sender) Place(string) int { return 0 }

func (s sender) Send(_ context.Context, list []pump.Repartitioned) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		s.records = append(s.records, pump.Record{Offset: int64(len(s.records)), Key: r.Key, Value: slices.Clone(r.Value), From: pump.Position{Source: s.from, Offset: r.Offset, Part: r.Part}})
		s.append(state.Entry{})
	}
	return nil
}

func (a *activityLog) since(from int64) []pump.Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.records[from:])
}

// grove is a program with many partitions, which is killed and started again.
type grove struct {
	t        *testing.T
	limits   analyzer.Limits
	store    *state.Store
	log      [groveParts]memlog
	out      [groveParts + 1]memlog // verdicts, the last of them of the agents' stage
	activity activityLog
	folded   memlog      // an entry for each batch of any stage
	clock    *clock.Fake // of pumps, which take checkpoints by it
	made     atomic.Int64
	told     atomic.Int64 // made when the first verdict about a tree was published

	mu   sync.Mutex
	life *life
	born chan struct{} // closed when the next process is there
}

// life is one process of it.
type life struct {
	ctx     context.Context
	end     context.CancelCauseFunc
	work    sync.WaitGroup
	answers *ask.Answers
	checks  *ask.Service
	agents  *pump.Pump
	pumps   []*pump.Pump
}

var errKilled = errors.New("killed")

func newGrove(t *testing.T) *grove {
	g := &grove{t: t, limits: pumptest.Limits(), store: pumptest.OpenState(t), clock: clock.NewFake()}
	g.activity.memlog = new(memlog)
	for i := range g.limits.Rules {
		if !analyzer.Rules[i].Fixed {
			g.limits.Rules[i].Mode = rules.ModeOff
		}
	}
	set := &g.limits.Agents.Rules[agents.RuleTreeCalls]
	set.Stop = groveLimit + 1
	return g
}

func (g *grove) start() {
	x := &life{answers: ask.NewAnswers(clock.NewFake(), time.Minute)}
	x.ctx, x.end = context.WithCancelCause(g.t.Context())
	x.checks = &ask.Service{Answers: x.answers, Degraded: &ask.Degraded{Fold: noFold{}}, Log: g,
		Orders: &ask.GlobalOrders{Verdicts: &g.out[groveParts], Log: g, Clock: clock.NewFake(), Logger: slog.New(slog.DiscardHandler)}}
	x.checks.Orders.Waits = func(flow string) *events.Waiting {
		f, _, err := x.pumps[part(&events.Event{CorrelationID: flow})].Known(flow)
		if err != nil {
			g.t.Error(err)
			return nil
		}
		return f.Waits(g.Now())
	}
	for i := range groveParts + 1 {
		o := pump.Options{Partition: uint16(i), Limits: g.limits, Store: g.store, Sink: verdicts{memlog: &g.out[i]}, Clock: g.clock, Memory: 1 << 20}
		log := &g.log[0]
		if i < groveParts {
			log = &g.log[i]
			o.Activity, o.Answer = sender{&g.activity, i}, x.answers.Deliver
			o.Held = func(_ int64, ev *events.Event, _ string, v *events.Verdict) { x.answers.Hold(ev, v) }
		} else {
			log = g.activity.memlog
			o.Stage, o.Source, o.Sources = pump.AgentStage, "activity", groveParts
			o.Settled = func(_ pump.Position, ev *events.Event, v *events.Verdict) { x.answers.Settle(ev, v) }
			o.Sink = verdicts{&g.out[i], func() { g.told.CompareAndSwap(0, g.made.Load()) }}
		}
		p, err := pump.New(g.t.Context(), o)
		if err != nil {
			g.t.Fatal(err)
		}
		x.pumps, x.agents = append(x.pumps, p), p
		x.work.Go(func() { g.fold(x, i, log, p) })
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.life = x
	if g.born != nil {
		close(g.born)
	}
	g.born = make(chan struct{})
}

// fold folds what comes until the process ends.
func (g *grove) fold(x *life, i int, log *memlog, p *pump.Pump) {
	for x.ctx.Err() == nil {
		next, records := p.Next(), []pump.Record(nil)
		if i == groveParts {
			records = g.activity.since(next)
		} else {
			entries, _ := log.Read(next, 1000, nil)
			for _, e := range entries {
				records = append(records, pump.Record{Offset: e.Offset, Appended: e.Appended, Value: e.Value})
			}
		}
		if err := p.Batch(g.t.Context(), records); err != nil {
			g.t.Error(err)
			return
		}
		g.folded.append(state.Entry{})
		select {
		case <-log.Ready(p.Next()):
		case <-x.ctx.Done():
		}
	}
}

// kill ends the process as a crash does, and starts the next one; with lost the state of the
// trees is gone.
func (g *grove) kill(lost bool) {
	x := g.now()
	x.end(errKilled)
	x.work.Wait()
	for _, p := range x.pumps {
		p.CloseWithoutCheckpoint()
	}
	if lost {
		if err := g.store.Forget(groveParts); err != nil {
			g.t.Fatal(err)
		}
	}
	g.start()
}

func (g *grove) now() *life {
	x, _ := g.nowAndNext()
	return x
}

// nowAndNext returns the process, and what is closed when there is another one.
func (g *grove) nowAndNext() (*life, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.life, g.born
}

func (g *grove) Now() events.Stamp { return events.StampOf(g.clock.Now()) }

func (g *grove) Append(_ context.Context, entries []state.Entry) error {
	for _, e := range entries {
		var ev events.Event
		if err := events.Decode(e.Value, &ev); err != nil {
			return err
		}
		e.Appended, e.Value = ev.Time, slices.Clone(e.Value)
		g.log[part(&ev)].append(e)
	}
	return nil
}

// part is the partition of an event.
func part(ev *events.Event) int {
	h := fnv.New32()
	h.Write([]byte(ev.FlowKey()))
	return int(h.Sum32() % groveParts)
}

func (g *grove) AppendChecks(ctx context.Context, batch []*check.Request) error {
	for _, q := range batch {
		if err := g.Append(ctx, []state.Entry{{Value: q.Raw}}); err != nil {
			return err
		}
	}
	return nil
}

// noFold has no degraded mode.
type noFold struct{}

func (noFold) Progress() []ask.Progress       { return nil }
func (noFold) PartitionOf(string) (int, bool) { return 0, false }
func (noFold) Known(string) (*analyzer.Flow, analyzer.Partition, error) {
	return nil, analyzer.Partition{}, errors.New("not folded here")
}

// call is the n-th call: of one of a thousand flows, in three levels.
func call(n int) *events.Event {
	f := n % groveFlows
	ev := &events.Event{ID: fmt.Sprint("call-", n), Source: "grove", Kind: events.ToolCall, Time: events.StampOf(clock.NewFake().Now()) + events.Stamp(n),
		CorrelationID: fmt.Sprint("flow-", f), RootCorrelationID: "flow-0", From: events.Party{Session: "worker"}}
	if f > 0 {
		ev.ParentCorrelationID = fmt.Sprint("flow-", f/30)
	}
	ev.Tool.Name, ev.Tool.ArgsHash = "search", events.Hash{Algorithm: events.XXH64, Value: uint64(n) + 1}
	return ev
}

// sameAsReplay folds the activity once more from its beginning: it says the same, byte for byte.
func (g *grove) sameAsReplay() (repeated int64) {
	g.t.Helper()
	o := pump.Options{Limits: g.limits, Stage: pump.AgentStage, Sources: groveParts}
	p, err := pump.New(g.t.Context(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	var want []string
	for _, r := range g.activity.since(0) {
		var ev events.Event
		var given []events.Verdict
		if pump.IsReports(r.Value) {
			if given, err = p.FoldReports(&r); err != nil {
				g.t.Fatal(err)
			}
		} else {
			if err := events.Decode(r.Value, &ev); err != nil {
				g.t.Fatal(err)
			}
			given = p.FoldRecord(&ev, &r)
		}
		for _, v := range given {
			want = append(want, string(v.AppendJSON(nil)))
		}
	}
	var got []string
	entries, _ := g.out[groveParts].Read(0, 1<<30, nil)
	for i := range entries {
		got = append(got, string(entries[i].Value))
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		g.t.Errorf("said %d verdicts, a replay says %d:\n%q\n%q", len(got), len(want), got, want)
	}
	return p.Counts().Sum().Activity[1]
}

// counted is what the ledger of the tree says.
func (g *grove) counted() (n float64) {
	g.t.Helper()
	v, ok, err := g.now().agents.AgentView(activity.TreeKey("flow-0"))
	if err != nil || !ok {
		g.t.Fatal(ok, err)
	}
	for _, c := range v.Counters {
		if c.Rule == agents.Rules[agents.RuleTreeCalls].Name {
			n = c.Observed
		}
	}
	return n
}

// TestTreeOfAThousandFlows checks 8,000 calls in a tree of 1,000 flows over 64 partitions,
// 16 at once, whose root may make 5,000. Exactly 5,000 are counted and allowed, whether the program is
// killed meanwhile or not, and a replay says the same. Only a call whose answer a kill took may be
// counted and refused: it is asked again, and others may have filled the tree by then.
func TestTreeOfAThousandFlows(t *testing.T) {
	f := func(kills []int64, lost bool) {
		t.Helper()
		g := newGrove(t)
		g.start()
		var next, allowed, refused, again atomic.Int64
		var work sync.WaitGroup
		for range callers {
			work.Go(func() {
				for {
					n := next.Add(1)
					if n > 8000 {
						return
					}
					ev := call(int(n))
					ev.Ask = true
					for {
						x, born := g.nowAndNext()
						q := check.Request{Context: x.ctx, Event: ev, Raw: ev.AppendJSON(nil)}
						x.checks.Check([]*check.Request{&q})
						v, err := q.Answer()
						if errors.Is(err, errKilled) {
							again.Add(1)
							<-born
							continue
						}
						switch {
						case err != nil:
							t.Error(err)
						case check.Refuses(v):
							refused.Add(1)
						default:
							allowed.Add(1)
						}
						break
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { work.Wait(); close(done) }()
		for i, at := range kills {
			for allowed.Load() < at {
				select {
				case <-g.activity.Ready(g.activity.End()):
				case <-done:
					t.Fatalf("only %d calls are allowed", allowed.Load())
				}
			}
			g.clock.Advance(10 * time.Second) // so that the next batch takes a checkpoint
			g.kill(lost && i%2 == 1)
		}
		<-done
		if n := allowed.Load(); n > groveLimit || n < groveLimit-again.Load() || n+refused.Load() != 8000 || g.counted() != groveLimit {
			t.Errorf("%d calls are allowed, %d refused, %v counted; want %d", allowed.Load(), refused.Load(), g.counted(), groveLimit)
		}
		g.kill(false)
		repeated := g.sameAsReplay()
		t.Logf("%d kills: %d allowed, %d refused; %d asked again, %d records of activity repeated", len(kills), allowed.Load(), refused.Load(), again.Load(), repeated)
		g.now().end(nil)
		g.now().work.Wait()
	}
	f(nil, false)
	f([]int64{300, 1200, 1250, 3000, 4500}, true)
}

// TestStreamIntoATree has 16 callers that only look at the orders that were published. What
// leaks is no more than what was made when the order came, and one call for each caller:
// little where a call lasts until it was folded, much where callers are faster than the fold,
// which they are here up to three times the limit: a fold slowed by the race detector would
// never come after them.
func TestStreamIntoATree(t *testing.T) {
	streams(t, true)
	streams(t, false)
}

func streams(t *testing.T, wait bool) {
	t.Helper()
	g := newGrove(t)
	g.start()
	var next atomic.Int64
	var work sync.WaitGroup
	for range callers {
		work.Go(func() {
			var table guard.Table
			read := int64(0)
			for {
				entries, _ := g.out[groveParts].Read(read, 1000, nil)
				for i := range entries {
					v := new(events.Verdict)
					if err := events.DecodeVerdict(entries[i].Value, v); err != nil {
						t.Error(err)
					}
					table.Take(v)
				}
				read += int64(len(entries))
				ev := call(int(next.Add(1)))
				c, _ := guard.CallOf(ev)
				if table.Refusing(&c, ev.Time) != nil || g.made.Load() > 10*groveLimit { // which no order came for
					return
				}
				if err := g.Append(t.Context(), []state.Entry{{Value: ev.AppendJSON(nil)}}); err != nil {
					t.Error(err)
				}
				g.made.Add(1)
				for end, p := g.activity.End(), g.now().pumps[part(ev)]; (wait || g.made.Load() > 3*groveLimit) && p.Next() < g.log[part(ev)].End(); end = g.activity.End() {
					<-g.activity.Ready(end)
				}
			}
		})
	}
	work.Wait()
	made, bound := g.made.Load(), g.told.Load()+callers
	if made < groveLimit || made > bound {
		t.Errorf("%d calls were made; at most %d", made, bound)
	}
	t.Logf("%d calls were made, %d beyond the limit; the bound was %d", made, made-groveLimit, bound-groveLimit)
	for g.counted() < float64(made) {
		<-g.activity.Ready(g.activity.End() - 1)
	}
	g.kill(false)
	g.sameAsReplay()
	g.now().end(nil)
	g.now().work.Wait()
}
