package pump

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump/pumptest"
	"weir/state"
)

// TestCheckpointsFollowTheRefold holds the distance of checkpoints to what would be folded
// again after a crash: by all pumps of the process, not by the time alone.
func TestCheckpointsFollowTheRefold(t *testing.T) {
	records := steady(20, 100, 0)
	fake, counts := clock.NewFake(), new(Counts)
	store := pumptest.OpenState(t)
	var written []int64
	p := newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Clock: fake, Counts: counts})
	p.o.Store = committing{store, func(c *state.Checkpoint) error {
		written = append(written, c.Next)
		return store.Commit(c)
	}}
	step := func(wait time.Duration, want ...int64) {
		t.Helper()
		fake.Advance(wait)
		next := p.Next()
		if err := p.Batch(t.Context(), records[next:next+10]); err != nil {
			t.Fatal(err)
		}
		if err := p.checkpoints.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(written) != len(want) || len(want) > 0 && written[len(want)-1] != want[len(want)-1] {
			t.Fatalf("at %d: checkpoints %d, want %d", p.Next(), written, want)
		}
	}
	step(DefaultCheckpointEvery / 2)
	step(DefaultCheckpointEvery/2, 20) // the first comes soon
	step(DefaultCheckpointEvery, 20)
	step((seldom-1)*DefaultCheckpointEvery, 20, 40) // little came: late
	other := newTestPump(t, Options{Partition: 1, Store: store, Sink: &memoryLog{}, Clock: fake, Counts: counts})
	other.fold.mu.Lock()
	other.feeder.tally(mostUncheckpointed) // which another partition has folded
	other.fold.mu.Unlock()
	step(DefaultCheckpointEvery/2, 20, 40) // but not sooner than may be
	step(DefaultCheckpointEvery/2, 20, 40, 60)
	other.CloseWithoutCheckpoint() // the next owner of the partition folds that again
	step(DefaultCheckpointEvery, 20, 40, 60)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := counts.uncheckpointed.Load(); n != 0 || written[len(written)-1] != p.Next() {
		t.Errorf("%d records are left after the last checkpoint; checkpoints %d", n, written)
	}
}

// TestOneCheckpointAtATime has another pump of the process write a checkpoint: one that is due
// waits for it and folds on, a last one waits as long as it may, and who hurries does not.
func TestOneCheckpointAtATime(t *testing.T) {
	records := steady(20, 100, 0)
	fake, store, other := clock.NewFake(), pumptest.OpenState(t), NewTurn()
	p := newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Clock: fake, Turn: other})
	written := func() int64 {
		t.Helper()
		meta, _, err := store.Meta(0)
		if err != nil {
			t.Fatal(err)
		}
		return meta.Next
	}
	fold := func(want int64) {
		t.Helper()
		fake.Advance(seldom * DefaultCheckpointEvery)
		next := p.Next()
		if err := p.Batch(t.Context(), records[next:next+10]); err != nil {
			t.Fatal(err)
		}
		if err := p.checkpoints.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := written(); got != want {
			t.Fatalf("at %d: the checkpoint is of %d, want %d", p.Next(), got, want)
		}
	}
	fold(10)
	other <- struct{}{}
	fold(10)
	<-other
	fold(30)
	fold(40)
	other <- struct{}{}
	fold(40)
	short, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := p.checkpoints.awaitTurn(short); !errors.Is(err, gone) {
		t.Errorf("who gives up waiting is told %v", err)
	}
	p.Hurry()
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := written(); got != 50 {
		t.Errorf("the last checkpoint is of %d", got)
	}
	<-other
	if len(other) != 0 {
		t.Error("a turn that was never taken was given back, or one was kept")
	}
}

// stateless is a stage whose own state cannot be encoded.
type stateless struct{ folding }

var errNoState = errors.New("no state")

func (stateless) appendState([]byte) ([]byte, error) { return nil, errNoState }

// TestCheckpointWithoutState shows that a stage whose state cannot be encoded ends the pump, and
// that the checkpoint before stands.
func TestCheckpointWithoutState(t *testing.T) {
	f := func(name string, end func(*Pump, *clock.Fake, []Record) error) {
		t.Run(name, func(t *testing.T) {
			store, fake, records := pumptest.OpenState(t), clock.NewFake(), steady(20, 100, 0)
			p := newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Clock: fake})
			if err := p.Batch(t.Context(), records[:50]); err != nil {
				t.Fatal(err)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			p = newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Clock: fake})
			p.fold.stage = stateless{p.fold.stage}
			for range 2 { // it stays so
				if err := end(p, fake, records[50:]); !errors.Is(err, errNoState) {
					t.Fatal(err)
				}
			}
			p.CloseWithoutCheckpoint()
			again := newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Clock: fake})
			if again.Next() != 50 {
				t.Errorf("the next pump goes on at %d", again.Next())
			}
			if err := again.Batch(t.Context(), records[50:]); err != nil {
				t.Fatal(err)
			}
			if err := again.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	f("due", func(p *Pump, fake *clock.Fake, records []Record) error {
		fake.Advance(seldom * DefaultCheckpointEvery)
		return p.Batch(t.Context(), records)
	})
	f("last", func(p *Pump, _ *clock.Fake, records []Record) error {
		if err := p.Batch(t.Context(), records); err != nil {
			return err
		}
		return p.Close(t.Context())
	})
}
