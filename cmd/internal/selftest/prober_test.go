package selftest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/state"
)

// member is the log of a member whose only partition comes and goes.
type member struct {
	folded   bool
	leaves   bool // the partition goes to another member when a loop begins
	appended chan bool
}

func (m *member) Append(context.Context, []state.Entry) error {
	m.folded = m.folded && !m.leaves
	m.appended <- true
	return errors.New("the log is closed")
}

func (m *member) Ready() ([]string, int64) { return nil, 0 }

func (m *member) Folded() []int {
	if m.folded {
		return []int{0}
	}
	return nil
}

func (m *member) Follow(string, bool) (func(context.Context) bool, func()) {
	return func(context.Context) bool { return true }, func() {}
}

func (m *member) PartitionOf(string) (int, bool) { return 0, m.folded }

// none is a log of verdicts in which there is nothing.
type none struct{}

func (none) Read(int64, int, []state.Entry) ([]state.Entry, error) { return nil, nil }
func (none) End() int64                                            { return 0 }
func (none) Ready(int64) <-chan struct{}                           { return nil }

// TestTestsSoonAfterAPartitionComes holds that a member without partitions looks for one again in a moment, not
// after a whole interval.
func TestTestsSoonAfterAPartitionComes(t *testing.T) {
	fake := clock.NewFake()
	m := &member{appended: make(chan bool, 1)}
	s := &Prober{Every: time.Minute, Log: m, Verdicts: none{}, Clock: fake, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-fake.Asked()
	m.folded = true // before the advance, which the prober waits for
	fake.Advance(behindWait)
	<-m.appended
	cancel()
	<-ended
}

// TestPartitionLeavesDuringATest holds that a loop whose partition has gone to another member is no failure.
func TestPartitionLeavesDuringATest(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		fake := clock.NewFake()
		m := &member{folded: true, leaves: leaves, appended: make(chan bool, 1)}
		s := &Prober{Every: time.Minute, Log: m, Verdicts: none{}, Clock: fake}
		err := s.Once(t.Context())
		if got := errors.Is(err, errNothing); got != leaves {
			t.Errorf("leaves %v: got %v", leaves, err)
		}
		if got := strings.Contains(s.State().Error, "the log is closed"); got == leaves {
			t.Errorf("leaves %v: the state says %q", leaves, s.State().Error)
		}
	}
}
