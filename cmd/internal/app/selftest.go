package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

// selfTest makes a loop in a flow of weir's own, again and again, and looks whether it
// is stopped: the events go into the log as those of producers do, are folded with all
// others, and the verdict is read from where dispatchers' streams read it. A guard that
// is dead is told from one that is quiet by that.
//
// The flow is judged by limits of its own, so that it does not matter what limits are in
// force, and it is left out of all that users see: counters, lists, streams, outlets, log.
type selfTest struct {
	app *App

	mu     sync.Mutex
	round  int
	idle   bool      // nothing is folded here
	passed time.Time // when a loop was last stopped as expected
	took   time.Duration
	runs   [2]int64 // at 1 those that were not stopped
	fault  error    // of the last run
}

// How long a self-test waits for its verdict, and how old the last success may be
// before /readyz says that something is wrong.
const (
	selfTestPatience = 5 * time.Second
	selfTestStale    = 3 // times the interval
)

// The least time between two loops: the one before has to be forgotten by then.
const leastSelfTest = selftest.Forgets + time.Second

// run makes a loop now and then one after each interval.
func (s *selfTest) run(ctx context.Context) error {
	for {
		if s.behind() { // which /readyz tells
			if err := s.app.pause(ctx, behindWait); err != nil {
				return err
			}
			continue
		}
		err := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, state.ErrClosed), errors.Is(err, state.ErrFailed):
			return err
		case err != nil:
			s.app.logger.Error("weir's own loop was not stopped: what agents do may not be stopped either", "error", err)
		}
		if err := s.app.pause(ctx, s.app.o.SelfTest); err != nil {
			return err
		}
	}
}

// behindWait is how long a fold that is behind is left alone.
const behindWait = 100 * time.Millisecond

// behind reports whether the fold has to catch up first.
func (s *selfTest) behind() bool {
	why, _ := s.app.form.Ready()
	return len(why) > 0
}

// once makes one loop and notes how it went.
func (s *selfTest) once(ctx context.Context) error {
	flow := s.flow()
	if flow == "" {
		return nil
	}
	begun := s.app.clock.Now()
	err := s.loop(ctx, flow)
	if ctx.Err() != nil {
		return err
	}
	now := s.app.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault = err; err != nil {
		s.runs[1]++
		return err
	}
	s.runs[0]++
	s.passed, s.took = now, now.Sub(begun)
	return nil
}

// mostFlows is how many ids are tried to find one of a partition that is folded here.
const mostFlows = 10_000

// flow chooses an id that a pump of this process folds, another pump in each round; ""
// when there is none, by which nothing is wrong.
func (s *selfTest) flow() string {
	pumps := s.app.form.Pumps()
	s.mu.Lock()
	s.idle = len(pumps) == 0
	s.round++
	round := s.round
	s.mu.Unlock()
	if len(pumps) == 0 {
		return ""
	}
	want := pumps[round%len(pumps)]
	for i := range mostFlows {
		id := fmt.Sprintf("%s%d", events.SelfTestFlows, i)
		if p, err := s.app.form.PumpOf(id); err == nil && p == want {
			return id
		}
	}
	return "" // it has just gone
}

// selfTestCalls is how many calls the loop has: the last is the one that is over the limit.
const selfTestCalls = 6

// loop lets two agents call each other with the same words until an order stands
// against them, and waits for the order.
func (s *selfTest) loop(ctx context.Context, flow string) error {
	a := s.app
	from := a.verdicts.End()
	now := events.StampOf(a.clock.Now())
	run := fmt.Sprintf("selftest:%d:", now)
	entries := make([]state.Entry, 0, selfTestCalls+1)
	add := func(ev events.Event) {
		ev.ID, ev.Time, ev.Source, ev.CorrelationID = fmt.Sprint(run, len(entries)), now, selftest.Source, flow
		entries = append(entries, state.Entry{Value: ev.AppendJSON(nil)})
	}
	// What an earlier process has left is cleared first.
	add(events.Event{Kind: events.OperatorRelease, Operator: &events.Operator{By: "weir", Reason: "self-test"}})
	parties := [2]events.Party{{Session: "selftest-a"}, {Session: "selftest-b"}}
	for i := range selfTestCalls {
		add(events.Event{Kind: events.AgentCall, From: parties[i%2], To: parties[1-i%2], HadWork: events.No,
			Content: events.Hash{Algorithm: events.XXH64, Value: 1}})
	}
	timeout := a.clock.After(selfTestPatience)
	if err := a.form.Append(ctx, entries); err != nil {
		return fmt.Errorf("append a loop: %w", err)
	}
	for {
		batch, err := a.verdicts.Read(from, streamBatch, nil)
		if gap, ok := errors.AsType[*state.GapError](err); ok {
			from = gap.To
			continue
		}
		if err != nil {
			return fmt.Errorf("read the verdict of a loop: %w", err)
		}
		for i := range batch {
			if expected(batch[i].Value, run) {
				return nil
			}
		}
		if from += int64(len(batch)); len(batch) > 0 {
			continue
		}
		select {
		case <-a.verdicts.Ready(from):
		case <-timeout:
			return fmt.Errorf("no order was given within %v", selfTestPatience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// expected reports whether a verdict is the order that the run brings about.
func expected(line []byte, run string) bool {
	var v events.Verdict
	return selftest.OwnVerdict(line) && events.DecodeVerdict(line, &v) == nil && v.Mode == "enforce" && v.Action == events.Deny.String() &&
		v.Reason == events.PingPong && v.Trigger != nil && strings.HasPrefix(v.Trigger.EventID, run)
}

// SelfTestStatus is how weir's own loops go.
type SelfTestStatus struct {
	OK     bool           `json:"ok"`
	Passed events.RFC3339 `json:"last_stopped,omitzero"`
	TookMS int64          `json:"took_ms,omitempty"`
	Error  string         `json:"error,omitempty"` // of the last run
}

// state returns how it goes; nil when weir does not test itself.
func (s *selfTest) state() *SelfTestStatus {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &SelfTestStatus{OK: s.idle, TookMS: s.took.Milliseconds()}
	if !s.passed.IsZero() {
		out.Passed = events.RFC3339(events.StampOf(s.passed))
		out.OK = out.OK || s.app.clock.Now().Sub(s.passed) < selfTestStale*s.app.o.SelfTest
	}
	if s.fault != nil {
		out.Error = s.fault.Error()
	}
	return out
}

// read fills in how it goes.
func (s *selfTest) read(r *prom.Reading) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.SelfTest = prom.SelfTest{On: true, Passed: s.passed, Runs: s.runs, Took: s.took}
}
