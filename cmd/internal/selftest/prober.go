package selftest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/events/byhand"
	"weir/sink/prom"
	"weir/state"
)

// Log is what a prober needs of the log that is folded.
type Log interface {
	// Append puts events into the log.
	Append(ctx context.Context, entries []state.Entry) error
	// Ready says what is wrong with the fold.
	Ready() (why []string, lag int64)
	// Folded are the partitions that are folded here.
	Folded() []int
	// Follow has the verdicts of a flow from now on brought to where they are read, until
	// leave is called; reached waits for the first moment at which none is missing.
	Follow(flow string, fromNow bool) (reached func(ctx context.Context) bool, leave func())
	// PartitionOf returns the partition of a flow; false when it is not folded here.
	PartitionOf(flow string) (int, bool)
}

// Switch is the way of orders by hand at this process.
type Switch interface {
	// Throw puts an order in force, and returns the id of its verdict.
	Throw(ctx context.Context, o byhand.Order) (verdict string, err error)
	// Ask answers a check, as those of dispatchers are answered.
	Ask(ctx context.Context, ev *events.Event) (*events.Verdict, error)
}

// Verdicts is the log of verdicts.
// It is a state.Log, read with state.ReadOn.
type Verdicts interface {
	Read(from int64, max int, dst []state.Entry) ([]state.Entry, error)
	End() int64
	Ready(next int64) <-chan struct{}
}

// Prober makes a loop in a flow of weir's own, again and again, and checks that it is stopped. The
// events go into the log as those of producers do, and are folded with all others. The verdict is read
// from the log that the streams of dispatchers read. So a dead guard is distinguishable from a quiet
// one.
//
// The exported fields are set before Run. Any goroutine may query the state of a Prober.
type Prober struct {
	Every    time.Duration // at least Least
	Log      Log
	Verdicts Verdicts
	// Switch is tested after each loop; nil tests none.
	Switch Switch
	Clock  clock.Clock
	Logger *slog.Logger

	mu sync.Mutex
	// round counts loops, so that the partitions take turns.
	round  int
	asked  int       // checks of the switch
	idle   bool      // nothing is folded here
	passed time.Time // when a loop was last stopped as expected
	took   time.Duration
	runs   [2]int64  // at 1 those that were not stopped
	fault  error     // of the last run
	obeyed time.Time // when the switch was last obeyed
}

// Patience is how long a prober waits for its verdict; stale says how old the last success may be
// before /readyz says that something is wrong.
const (
	Patience = 5 * time.Second
	stale    = 3 // times the interval
)

// Least is the least time between two loops: the one before has to be forgotten by then.
const Least = Forgets + time.Second

// Run makes a loop now and then one after each interval. If a loop was not stopped, that is reported
// and is no error. An error means that the store cannot be used.
func (s *Prober) Run(ctx context.Context) error {
	for {
		if s.behind() { // which /readyz reports
			if err := retry.Pause(ctx, s.Clock, behindWait); err != nil {
				return err
			}
			continue
		}
		err := s.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errNothing): // a member that has just joined has its partitions in a moment
			if err := retry.Pause(ctx, s.Clock, behindWait); err != nil {
				return err
			}
			continue
		case errors.Is(err, state.ErrClosed), errors.Is(err, state.ErrFailed):
			return err
		case err != nil:
			s.Logger.Error("the self-test failed: what agents do may not be stopped either", "error", err)
		}
		if err := retry.Pause(ctx, s.Clock, s.Every); err != nil {
			return err
		}
	}
}

// batch is how many verdicts are read at one time.
const batch = 256

// behindWait is how long a fold that is behind is left alone.
const behindWait = 100 * time.Millisecond

// behind reports whether the fold has to catch up first.
func (s *Prober) behind() bool {
	why, _ := s.Log.Ready()
	return len(why) > 0
}

// errNothing means that nothing was tested, and that nothing is wrong: no partition is folded here, or the
// one that was tested has gone to another member.
var errNothing = errors.New("the partition of the self-test is not folded here")

// Once makes one loop and notes how it went.
func (s *Prober) Once(ctx context.Context) error {
	flow := s.flow()
	if flow == "" {
		return errNothing
	}
	begun := s.Clock.Now()
	err := s.loop(ctx, flow)
	now := s.Clock.Now()
	took := now.Sub(begun)
	if err == nil && s.Switch != nil {
		err = s.flip(ctx, flow)
	}
	if ctx.Err() != nil {
		return err
	}
	if _, here := s.Log.PartitionOf(flow); err != nil && !here {
		return errNothing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault = err; err != nil {
		s.runs[1]++
		return err
	}
	s.runs[0]++
	s.passed, s.took = now, took
	if s.Switch != nil {
		s.obeyed = now
	}
	return nil
}

// mostFlows is how many ids are tried to find one of a partition that is folded here.
const mostFlows = 10_000

// flow chooses an id of a partition that is folded here, another one in each round; "" when there is none.
func (s *Prober) flow() string {
	folded := s.Log.Folded()
	s.mu.Lock()
	s.idle = len(folded) == 0
	s.round++
	round := s.round
	s.mu.Unlock()
	if len(folded) == 0 {
		return ""
	}
	// In turn, so that each partition that is folded here is proved now and then.
	want := folded[round%len(folded)]
	for i := range mostFlows {
		id := fmt.Sprintf("%s%d", events.SelfTestFlows, i)
		if n, ok := s.Log.PartitionOf(id); ok && n == want {
			return id
		}
	}
	return "" // it has just gone
}

// proved is why the loop is stopped.
const proved = events.PingPong

// calls is how many calls the loop has: the last is the one that is over the limit.
const calls = 6

// loop lets two agents call each other with the same words until an order stands
// against them, and waits for the order.
func (s *Prober) loop(ctx context.Context, flow string) error {
	reached, leave := s.Log.Follow(flow, true)
	defer leave()
	waiting, over := context.WithTimeout(ctx, Patience)
	defer over()
	if !reached(waiting) && ctx.Err() == nil {
		return fmt.Errorf("the verdicts cannot be read up to the last within %v", Patience)
	}
	// Only verdicts that come after this are looked at, so an earlier loop proves nothing.
	from := s.Verdicts.End()
	now := events.StampOf(s.Clock.Now())
	run := fmt.Sprintf("selftest:%d:", now)
	entries := make([]state.Entry, 0, calls+1)
	add := func(ev events.Event) {
		ev.ID, ev.Time, ev.Source, ev.CorrelationID = fmt.Sprint(run, len(entries)), now, Source, flow
		entries = append(entries, state.Entry{Value: ev.AppendJSON(nil)})
	}
	// What an earlier process has left is cleared first.
	add(events.Event{Kind: events.OperatorRelease, Operator: &events.Operator{By: "weir", Reason: "self-test"}})
	parties := [2]events.Party{{Session: "selftest-a"}, {Session: "selftest-b"}}
	for i := range calls {
		add(events.Event{Kind: events.AgentCall, From: parties[i%2], To: parties[1-i%2], HadWork: events.No,
			Content: events.Hash{Algorithm: events.XXH64, Value: 1}})
	}
	timeout := s.Clock.After(Patience)
	if err := s.Log.Append(ctx, entries); err != nil {
		return fmt.Errorf("append a loop: %w", err)
	}
	for {
		first, batch, err := state.ReadOn(s.Verdicts.Read, from, batch, nil)
		if err != nil {
			return fmt.Errorf("read the verdict of a loop: %w", err)
		}
		for i := range batch {
			if expected(batch[i].Value, run) {
				return nil
			}
		}
		if from = first + int64(len(batch)); len(batch) > 0 {
			continue
		}
		select {
		case <-s.Verdicts.Ready(from):
		case <-timeout:
			return fmt.Errorf("no order was given within %v", Patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// expected reports whether a verdict is the order that the run brings about.
func expected(line []byte, run string) bool {
	var v events.Verdict
	return OwnVerdict(line) && events.DecodeVerdict(line, &v) == nil && v.Mode == events.ModeEnforce && v.Action == events.Deny &&
		v.Reason == proved && v.Trigger != nil && strings.HasPrefix(v.Trigger.EventID, run)
}

// Status is how weir's own loops go.
type Status struct {
	OK     bool           `json:"ok"`
	Passed events.RFC3339 `json:"last_stopped,omitzero"`
	TookMS int64          `json:"took_ms,omitempty"`
	// Obeyed is when the switch (weir stop) was last thrown by the self-test and obeyed by checks.
	Obeyed events.RFC3339 `json:"switch_obeyed,omitzero"`
	Error  string         `json:"error,omitempty"` // of the last run
}

// State returns how it goes; nil when weir does not test itself.
// Until the first loop has passed it is not OK, unless nothing is folded here.
func (s *Prober) State() *Status {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &Status{OK: s.idle, TookMS: s.took.Milliseconds()}
	if !s.passed.IsZero() {
		out.Passed = events.RFC3339(events.StampOf(s.passed))
		out.OK = out.OK || s.Clock.Now().Sub(s.passed) < stale*s.Every
	}
	if !s.obeyed.IsZero() {
		out.Obeyed = events.RFC3339(events.StampOf(s.obeyed))
	}
	if s.fault != nil {
		out.Error = s.fault.Error()
	}
	return out
}

// Measure fills in how it goes.
func (s *Prober) Measure(r *prom.Reading) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.SelfTest = prom.SelfTest{On: true, Passed: s.passed, Runs: s.runs, Took: s.took}
}
