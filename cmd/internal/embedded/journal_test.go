package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/sink/check"
	"weir/state"
)

// asking is a journal, and what was answered to each ask, by its id.
type asking struct {
	*Journal
	answered sync.Map
	planted  string // the id of a check at whose answer a panic is planted
}

func openAsking(t *testing.T) *asking { return openAskingBy(t, pumptest.Limits(), clock.NewFake()) }

func openAskingBy(t *testing.T, limits analyzer.Limits, fake *clock.Fake) *asking {
	t.Helper()
	store, err := state.Open("", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, caughtUp := new(asking), make(chan struct{})
	fail := func(err error) { t.Error(err) }
	a.Journal = New(Options{
		Pump: pump.Options{Limits: limits, Clock: fake, CheckpointEvery: time.Hour, Counts: new(pump.Counts),
			Answer: func(_ int64, _ []byte, ev *events.Event, v *events.Verdict) {
				if ev.ID == a.planted {
					panic("planted")
				}
				a.answered.Store(strings.Clone(ev.ID), v) // the event is the caller's
			}},
		Store: store, Tick: 1e6 * time.Hour, CaughtUp: func() { close(caughtUp) }, Fail: fail,
		Settle: func(*events.Event, *events.Verdict) {},
	})
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	<-caughtUp
	return a
}

func (a *asking) ask(t *testing.T, ev *events.Event) {
	if err := a.AppendChecks(t.Context(), []*check.Request{request(ev)}); err != nil {
		t.Error(err)
	}
}

// request is a check request for the call of an event.
func request(ev *events.Event) *check.Request {
	ev.Ask = true
	return &check.Request{Event: ev, Raw: ev.AppendJSON(nil)}
}

func (a *asking) has(id string) bool {
	_, ok := a.answered.Load(id)
	return ok
}

func callOf(flow string, n int) *events.Event {
	return &events.Event{ID: fmt.Sprint(flow, "-", n), Source: "test", Time: pumptest.Start, Kind: events.AgentCall, CorrelationID: flow,
		From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}, HadWork: events.Yes}
}

// TestAskFoldsItself has its answer when its check request is in the log, although no other goroutine
// folds.
func TestAskFoldsItself(t *testing.T) {
	a := openAsking(t)
	ev := callOf("f", 1)
	a.ask(t, ev)
	if !a.has(ev.ID) {
		t.Fatal("the ask waits for somebody else")
	}
}

// TestAPanicOfAFoldEndsTheProgram plants a panic in a fold that a check request makes: nothing hangs,
// nothing more is folded, and no checkpoint holds the damaged state.
func TestAPanicOfAFoldEndsTheProgram(t *testing.T) {
	store, err := state.Open("", state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	failed, caughtUp := make(chan error, 2), make(chan struct{})
	j := New(Options{
		Pump: pump.Options{Limits: pumptest.Limits(), Clock: clock.NewFake(), CheckpointEvery: time.Hour, Counts: new(pump.Counts),
			Read: func(_ *pump.Record, ev *events.Event) {
				if ev.ID == "f-1" {
					panic("planted")
				}
			}},
		Store: store, Tick: time.Hour, CaughtUp: func() { close(caughtUp) }, Fail: func(err error) { failed <- err },
		Settle: func(*events.Event, *events.Verdict) {},
	})
	if err := j.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-caughtUp
	ask := func(n int) error {
		return check.Caught(func() error { return j.AppendChecks(t.Context(), []*check.Request{request(callOf("f", n))}) })
	}
	next := j.flows.pump.Next()
	if _, ok := errors.AsType[*check.Panic](ask(1)); !ok {
		t.Fatal("the check is not answered by the panic")
	}
	if err := <-failed; !errors.Is(err, errFoldPanicked) {
		t.Errorf("weir ends for %v", err)
	}
	if err := ask(2); err != nil { // it is in the log, and answered by its timeout
		t.Errorf("a check after the panic: %v", err)
	}
	if err := j.Stop(t.Context()); err != nil || j.flows.pump.Next() != next {
		t.Errorf("folded from %d to %d: %v", next, j.flows.pump.Next(), err)
	}
}

// TestAPanicOfAnAnswerCostsOneAnswer folds on where handing out an answer panics.
func TestAPanicOfAnAnswerCostsOneAnswer(t *testing.T) {
	a := openAsking(t)
	a.planted = "f-2"
	for n := range 4 {
		a.ask(t, callOf("f", n))
	}
	for n := 0; !a.has("f-3"); n++ { // if another goroutine folds meanwhile, its answers come later
		a.ask(t, callOf("g", n))
	}
	if !a.has("f-1") || a.has("f-2") {
		t.Error("the panic costs another answer, or none")
	}
}

// TestAskTellsAgents of a flow that begins with it: the agent stage knows the flow by the time of the
// answer, without a wake-up of the pump loop.
func TestAskTellsAgents(t *testing.T) {
	a := openAsking(t)
	end := a.activity.log.End()
	a.ask(t, callOf("f", 1))
	if told := a.activity.log.End() - end; told == 0 || a.activity.behind() > 0 {
		t.Fatalf("%d records were passed on, of which %d are not folded", told, a.activity.behind())
	}
}

// TestAskWaitsForNobodyWhoFolds leaves a check request to the goroutine that folds, or that looks at
// flows. The caller learns in time that its answer takes too long.
func TestAskWaitsForNobodyWhoFolds(t *testing.T) {
	a := openAsking(t)
	a.turn.Lock()
	first := callOf("f", 1)
	a.ask(t, first)
	if a.has(first.ID) {
		t.Error("two fold at a time")
	}
	a.turn.Unlock()
	release := a.flows.pump.Hold()
	second := callOf("f", 2)
	a.ask(t, second)
	release()
	for !a.has(first.ID) || !a.has(second.ID) {
		a.ask(t, callOf("g", 1)) // lets others run
	}
}

// TestAsksTogetherAreFoldedTogether by their caller: the answers are there when the requests are in
// the log.
func TestAsksTogetherAreFoldedTogether(t *testing.T) {
	a := openAsking(t)
	end := a.log.End()
	var asks []*check.Request
	for n := range 2 * few {
		asks = append(asks, request(callOf("f", n)))
	}
	if err := a.AppendChecks(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	if got := a.log.End() - end; got != 2*few {
		t.Errorf("the log has %d more", got)
	}
	for a.flows.behind() > 0 { // another goroutine may have been folding
		runtime.Gosched()
	}
	for _, q := range asks {
		if !a.has(q.Event.ID) {
			t.Errorf("%s has no answer", q.Event.ID)
		}
	}
}

// TestMoreThanOneFold appends as many checks and events at one time as one fold takes, one fewer, one
// more, and more than twice as many: each check has an answer, and its own, in the order of the log.
func TestMoreThanOneFold(t *testing.T) {
	t.Parallel()
	for _, size := range []int{batchRecords - 1, batchRecords, batchRecords + 1, 2*batchRecords + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			limits := pumptest.Limits()
			for i := range limits.Rules {
				limits.Rules[i].Mode = rules.ModeOff
			}
			limits.Rules[analyzer.RuleTotalCalls] = rules.Most(rules.Off, int64(size)/14)
			a := openAskingBy(t, limits, clock.NewFake())
			var checks []*check.Request
			var reports []state.Entry
			for n := range size {
				checks = append(checks, request(callOf(fmt.Sprint("f", n%7), n)))
				reports = append(reports, state.Entry{Value: callOf(fmt.Sprint("r", n%7), n).AppendJSON(nil)})
			}
			if err := a.Append(t.Context(), reports); err != nil {
				t.Fatal(err)
			}
			if err := a.AppendChecks(t.Context(), checks); err != nil {
				t.Fatal(err)
			}
			for a.flows.behind() > 0 {
				runtime.Gosched()
			}
			for n, q := range checks {
				v, ok := a.answered.Load(q.Event.ID)
				if !ok {
					t.Fatalf("check %d of %d has no answer", n, size)
				}
				if v := v.(*events.Verdict); v.CorrelationID != q.Event.CorrelationID || check.Refuses(v) != (n/7 >= size/14) {
					t.Fatalf("check %d of %d, of flow %s: %s", n, size, q.Event.CorrelationID, v.AppendJSON(nil))
				}
			}
		})
	}
}

// TestAsksAndEventsTogether answers each of many asks that come with events at one time.
func TestAsksAndEventsTogether(t *testing.T) {
	a := openAsking(t)
	const each = 200
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			flow := fmt.Sprint("f", worker)
			for n := range each {
				ev := callOf(flow, n)
				if worker%4 > 0 {
					a.ask(t, ev)
				} else if err := a.Append(t.Context(), []state.Entry{{Value: ev.AppendJSON(nil)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for a.flows.behind() > 0 {
		runtime.Gosched()
	}
	for worker := range 8 {
		for n := range each {
			if ev := callOf(fmt.Sprint("f", worker), n); worker%4 > 0 && !a.has(ev.ID) {
				t.Errorf("%s has no answer", ev.ID)
			}
		}
	}
}

// TestChecksAreFoldedAsTheLogHasThem folds the same log from events that the caller has decoded, and
// whose memory it uses again at once, and from what is read back: both say the same.
func TestChecksAreFoldedAsTheLogHasThem(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		records := team(seed, 3000)
		side := func(decoded bool) (a *asking, answers, verdicts []string) {
			fake := clock.NewFake()
			a = openAskingBy(t, teamLimits(), fake)
			var body []byte
			last := records[0].Appended
			for i := range records {
				r := &records[i]
				fake.Advance(max(0, r.Appended.Sub(last)))
				last = max(last, r.Appended)
				body = append(body[:0], r.Value...)
				var ev events.Event
				err := events.Decode(body, &ev)
				if err == nil && ev.Ask && decoded {
					q := &check.Request{Event: &ev, Raw: body, Decoded: true}
					if err := a.AppendChecks(t.Context(), []*check.Request{q}); err != nil {
						t.Fatal(err)
					}
					for i := range body {
						body[i] = 'x'
					}
				} else if err := a.Append(t.Context(), []state.Entry{{Value: body}}); err != nil {
					t.Fatal(err)
				}
			}
			pending := func() bool {
				a.turn.Lock()
				defer a.turn.Unlock()
				return a.flows.behind() > 0 || a.activity.behind() > 0 || a.flows.pump.Gathered()
			}
			for pending() {
				runtime.Gosched()
			}
			a.wake()
			for i := range records {
				var ev events.Event
				if events.Decode(records[i].Value, &ev) == nil && ev.Ask {
					if v, ok := a.answered.Load(ev.ID); ok {
						answers = append(answers, string(v.(*events.Verdict).AppendJSON(nil)))
					}
				}
			}
			if err := a.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			log := a.o.Store.Verdicts(partition)
			entries, err := log.Read(0, 1<<20, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range entries {
				verdicts = append(verdicts, string(entries[i].Value))
			}
			return a, answers, pumptest.ByStage(verdicts)
		}
		_, wantAnswers, want := side(false)
		_, gotAnswers, got := side(true)
		if len(want) < 20 || len(wantAnswers) < 100 {
			t.Fatalf("%d verdicts and %d answers", len(want), len(wantAnswers))
		}
		sameLines(t, gotAnswers, wantAnswers)
		sameLines(t, got, want)
	}
}
