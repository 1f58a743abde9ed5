package ask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/check"
	"weir/state"
)

// stalled is a fold that comes as far as the test sets.
type stalled struct {
	mu        sync.Mutex
	next, end int64
	gone      bool
	flow      *analyzer.Flow // as it was folded last
	log       []string
	full      error
}

func (s *stalled) Progress() []Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil
	}
	return []Progress{{Partition: 3, Next: s.next, End: s.end}}
}

func (s *stalled) PartitionOf(string) (int, bool) { return 3, !s.gone }

func (s *stalled) Known(key string) (*analyzer.Flow, analyzer.Partition, error) {
	if s.flow != nil && key == "known" {
		return s.flow.Clone(), analyzer.Partition{}, nil
	}
	return new(analyzer.Flow), analyzer.Partition{}, nil
}

func (s *stalled) append(_ context.Context, entries []state.Entry) error {
	for i := range entries {
		s.log = append(s.log, string(entries[i].Value))
	}
	return s.full
}

const degradedLimits = `profile: none
warn_only: []
rules:
  max_total_calls: {max: 6}
  call_rate_per_flow: {max: 8, window: 60s}
degraded: {after: 1s, until: 10s, percent: 50, scale: [call_rate_per_flow]}
`

func newDegraded(t *testing.T, text string) (*Degraded, *stalled, *clock.Fake) {
	t.Helper()
	limits, err := limitfile.Parse("limits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	fold, fake := &stalled{}, clock.NewFake()
	return &Degraded{Fold: fold, Limits: func() *analyzer.Limits { return &limits }, Append: fold.append, Now: func() events.Stamp { return events.StampOf(fake.Now()) }, Answers: NewAnswers(fake, time.Second),
		Clock: fake, Logger: slog.New(slog.DiscardHandler)}, fold, fake
}

// after looks so often, as Run does.
func (d *Degraded) after(fake *clock.Fake, looks int) {
	for range looks {
		fake.Advance(lookEvery)
		d.look()
	}
}

func (d *Degraded) want(t *testing.T, on bool) {
	t.Helper()
	if got := d.Status() != nil; got != on {
		t.Fatalf("the mode is on: %t, want %t", got, on)
	}
}

// TestDegradedBeginsAndEnds has a fold fall behind and catch up.
func TestDegradedBeginsAndEnds(t *testing.T) {
	d, fold, fake := newDegraded(t, degradedLimits)
	d.look()
	// As long as it comes to where the log ended at the look before, however much comes in.
	for range 40 {
		fold.end += 1000
		d.after(fake, 1)
		fold.next = fold.end - 10
		d.want(t, false)
	}
	fold.next = fold.end
	d.after(fake, 1)
	// One look after a night's sleep of the machine says nothing.
	fold.end++
	d.after(fake, 1)
	fake.Advance(8 * time.Hour)
	d.look()
	d.want(t, false)
	fold.next = fold.end
	d.after(fake, 1)
	// A second without coming there.
	fold.end++
	d.after(fake, 4) // at the first of which the log is seen to have grown
	d.want(t, false)
	d.after(fake, 1)
	d.want(t, true)
	if s := d.Status(); s.Reason != "behind" || len(s.Partitions) != 1 || s.Partitions[0] != 3 {
		t.Errorf("status %+v", s)
	}
	// It comes closer, but not up to it.
	fold.end += 5
	fold.next++
	d.after(fake, 400)
	d.want(t, true)
	// It is there, and falls back before it has kept up for ten seconds.
	fold.next = fold.end
	d.after(fake, 30)
	d.want(t, true)
	fold.end++
	d.after(fake, 5)
	fold.next = fold.end
	d.after(fake, 30)
	d.want(t, true)
	d.after(fake, 15)
	d.want(t, false)
	if begun, _, _, _ := d.Counted(); begun != 1 {
		t.Errorf("begun %d times, want once", begun)
	}
}

// TestDegradedOff has the mode turned off by the limits, before and while it is on.
func TestDegradedOff(t *testing.T) {
	d, fold, fake := newDegraded(t, degradedLimits)
	off, err := limitfile.Parse("limits.yaml", []byte(strings.Replace(degradedLimits, "after: 1s", "after: 0s", 1)))
	if err != nil {
		t.Fatal(err)
	}
	on := d.Limits
	d.Limits = func() *analyzer.Limits { return &off }
	fold.end = 5
	d.after(fake, 100)
	d.want(t, false)
	d.Limits = on
	d.after(fake, 1)
	d.want(t, true)
	d.Limits = func() *analyzer.Limits { return &off }
	d.after(fake, 1)
	d.want(t, false)
}

func asking(flow string, n int, from, to string) *events.Event {
	return &events.Event{ID: fmt.Sprint("c", n), Source: "s", Time: events.StampOf(clock.NewFake().Now()) + events.Stamp(n*100), Kind: events.AgentCall, Ask: true,
		CorrelationID: flow, From: events.Party{Agent: from}, To: events.Party{Agent: to}}
}

var errWaited = errors.New("it waited for the fold")

func waits(context.Context) error { return errWaited }

// toLog is a log of check requests.
type toLog func(ctx context.Context, batch []*check.Request) error

func (l toLog) AppendChecks(ctx context.Context, batch []*check.Request) error { return l(ctx, batch) }
func (toLog) Append(context.Context, []state.Entry) error                      { panic("not used") }
func (toLog) Now() events.Stamp                                                { panic("not used") }

// service answers by the mode, and else by an append that fails or waits.
func (d *Degraded) service(append func(ctx context.Context) error) *Service {
	return d.serviceOf(func(ctx context.Context, _ []*check.Request) error { return append(ctx) })
}

func (d *Degraded) serviceOf(log toLog) *Service {
	return &Service{Orders: &GlobalOrders{Verdicts: noVerdicts{}}, Degraded: d, Answers: d.Answers, Log: log, Members: alone{}, Timeout: time.Hour}
}

// alone is a member that folds all flows, so that an append may wait.
type alone struct{}

func (alone) Forward(context.Context, string, []byte) (*events.Verdict, bool, error) {
	return nil, true, nil
}

// noVerdicts is an empty log of verdicts.
type noVerdicts struct{}

func (noVerdicts) Read(int64, int, []state.Entry) ([]state.Entry, error) { return nil, nil }
func (noVerdicts) End() int64                                            { return 0 }
func (noVerdicts) Ready(int64) <-chan struct{}                           { return nil }

// ask checks one call, and waits for the answer.
func (s *Service) ask(t *testing.T, ev *events.Event) (*events.Verdict, error) {
	q := check.Request{Context: t.Context(), Event: ev, Raw: ev.AppendJSON(nil)}
	s.Check([]*check.Request{&q})
	return q.Answer()
}

// TestDegradedAnswers has calls judged by what was folded last and what was answered since,
// by the limits of the mode.
func TestDegradedAnswers(t *testing.T) {
	d, fold, fake := newDegraded(t, degradedLimits)
	// Four calls of the flow were folded.
	quiet := *d.Limits()
	engine, over, fx := analyzer.New(quiet), analyzer.Partition{}, analyzer.Effects{}
	fold.flow = new(analyzer.Flow)
	for n := range 4 {
		ev := asking("known", n, "a", fmt.Sprint("b", n))
		engine.Step(&over, fold.flow, ev, &fx)
	}
	d.look()
	fold.end = 1
	d.after(fake, 1)
	s := d.service(waits)
	if _, err := s.ask(t, asking("known", 9, "a", "b")); err != errWaited {
		t.Fatalf("before the mode is on: %v", err)
	}
	d.after(fake, 5)
	d.want(t, true)

	f := func(flow string, n int, action events.Action, reason events.Reason) {
		t.Helper()
		v, err := s.ask(t, asking(flow, n, "a", fmt.Sprint("b", n)))
		if err != nil {
			t.Fatal(err)
		}
		if v.Action != action || v.Degraded != "behind" || reason != "" && v.Reason != reason {
			t.Errorf("%s %d: %s %s, degraded %q; want %s %s", flow, n, v.Action, v.Reason, v.Degraded, action, reason)
		}
	}
	// A rate of 8 is one of 4 now: the four that were folded count.
	f("known", 10, "throttle", "call_rate_exceeded")
	// Of an unknown flow, four pass within a minute and six in all.
	for n := range 4 {
		f("new", n, "allow", "")
	}
	f("new", 4, "throttle", "call_rate_exceeded")
	fake.Advance(70 * time.Second)
	for n := 700; n < 702; n++ {
		f("new", n, "allow", "")
	}
	f("new", 702, "deny", "max_total_calls_exceeded")
	// The same ask again is no second call.
	f("other", 1, "allow", "")
	f("other", 1, "allow", "")
	f("other", 2, "allow", "")

	// The log has the calls that were made, and the tries.
	calls, tries := 0, 0
	for _, line := range fold.log {
		switch {
		case strings.Contains(line, `"ask":true`):
			t.Errorf("an ask that was answered is asked again: %s", line)
		case strings.Contains(line, `"kind":"verdict.ack"`):
			tries++
		default:
			calls++
		}
	}
	if calls != 4+2+3 || tries != 3 {
		t.Errorf("the log has %d calls and %d tries, want 9 and 3", calls, tries)
	}
	if _, allowed, refused, unlogged := d.Counted(); allowed != 9 || refused != 3 || unlogged != 0 {
		t.Errorf("counted %d, %d, %d", allowed, refused, unlogged)
	}

	// An id that is used for other calls is refused, as ever.
	other := asking("other", 1, "x", "y")
	if _, err := s.ask(t, other); err == nil || !strings.Contains(err.Error(), "used in this flow for another call") {
		t.Errorf("an id used twice: %v", err)
	}
	// A log that takes nothing is logged, and blocks no caller.
	fold.full = state.ErrDiskLow
	f("full", 1, "allow", "")
	if _, _, _, unlogged := d.Counted(); unlogged != 1 {
		t.Errorf("%d calls are said to be missing in the log, want 1", unlogged)
	}
	// In quiet times again, the fold answers.
	fold.next = fold.end
	d.after(fake, 50)
	d.want(t, false)
	if _, err := s.ask(t, asking("new", 900, "a", "b")); err != errWaited {
		t.Errorf("after the mode has ended: %v", err)
	}
}

// TestDegradedReleasesWhoWaits has an ask wait when the mode begins, and one when the
// partition goes elsewhere.
func TestDegradedReleasesWhoWaits(t *testing.T) {
	d, fold, fake := newDegraded(t, degradedLimits)
	d.look()
	fold.end = 1
	d.after(fake, 1)
	type answer struct {
		v   *events.Verdict
		err error
	}
	ask := func(n int) (waiting chan struct{}, got chan answer) {
		waiting, got = make(chan struct{}), make(chan answer, 1)
		go func() {
			v, err := d.service(func(ctx context.Context) error {
				close(waiting)
				<-ctx.Done()
				return context.Cause(ctx)
			}).ask(t, asking("f", n, "a", "b"))
			got <- answer{v, err}
		}()
		<-waiting
		return waiting, got
	}
	_, got := ask(1)
	d.after(fake, 4)
	if a := <-got; a.err != nil || a.v.Degraded != "behind" || a.v.Action != "allow" {
		t.Errorf("who waited got %+v", a)
	}
	if len(fold.log) != 0 {
		t.Errorf("what was asked for stands in the log already, and again: %v", fold.log)
	}
	fold.next = fold.end
	d.after(fake, 50)
	d.want(t, false)
	_, got = ask(2)
	fold.mu.Lock()
	fold.gone = true
	fold.mu.Unlock()
	d.after(fake, 1)
	if a := <-got; a.err != check.ErrTimeout {
		t.Errorf("of a partition that is gone: %+v", a)
	}
}

// TestDegradedLeavesTreesTheLastWord asks for calls in a flow of a tree: what the flow itself
// allows waits for the tree, whether it came before the mode or in it.
func TestDegradedLeavesTreesTheLastWord(t *testing.T) {
	d, fold, fake := newDegraded(t, strings.Replace(degradedLimits, "rules:", "rules:\n  max_tree_calls: {max: 100}", 1))
	d.look()
	fold.end = 1
	d.after(fake, 1)
	inTree := func(n int) *events.Event {
		ev := asking("f", n, "a", "b")
		ev.ParentCorrelationID = "root"
		return ev
	}
	times := 0
	v, err := d.service(func(ctx context.Context) error {
		if times++; times == 2 {
			return errWaited
		}
		d.after(fake, 5) // the mode begins
		<-ctx.Done()
		return context.Cause(ctx)
	}).ask(t, inTree(0))
	if err != errWaited {
		t.Errorf("who waited gets %v, %v; the tree has the last word", v, err)
	}
	d.want(t, true)
	for n := 1; n < 8; n++ {
		if v, err := d.service(waits).ask(t, inTree(n)); err != errWaited {
			t.Errorf("in the mode: %v, %v; the tree has the last word", v, err)
		}
	}
	if len(fold.log) != 0 {
		t.Errorf("the log has what was not answered: %v", fold.log)
	}
}

// TestABatchLeavesTreesTheLastWord begins the mode while a request of a batch waits: it is appended
// again and waits with a place of its own, since it has given the first one up.
func TestABatchLeavesTreesTheLastWord(t *testing.T) {
	d, fold, fake := newDegraded(t, strings.Replace(degradedLimits, "rules:", "rules:\n  max_tree_calls: {max: 100}", 1))
	d.Answers = NewAnswers(fake, time.Minute)
	d.look()
	fold.end = 1
	d.after(fake, 1)
	ev := asking("f", 1, "a", "b")
	ev.ParentCorrelationID = "root"
	batch, writes := together(t, ev), 0
	d.batches(func(batch []*check.Request) error {
		if writes++; writes == 2 {
			d.Answers.Deliver(1, batch[0].Raw, batch[0].Event, &events.Verdict{ID: "word"})
		}
		return nil
	}).Check(batch)
	d.after(fake, 4)
	d.want(t, true)
	if v, err := batch[0].Answer(); err != nil || v.ID != "word" || writes != 2 || d.Answers.Waiting() != 0 {
		t.Errorf("answered by %+v (%v) after %d writes, %d wait", v, err, writes, d.Answers.Waiting())
	}
}
