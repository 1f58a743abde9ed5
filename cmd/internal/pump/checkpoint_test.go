package pump

import (
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
		if err := p.awaitCheckpoint(t.Context()); err != nil {
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
	other.mu.Lock()
	other.tally(mostUncheckpointed) // which another partition has folded
	other.mu.Unlock()
	step(DefaultCheckpointEvery/2, 20, 40) // but not sooner than may be
	step(DefaultCheckpointEvery/2, 20, 40, 60)
	other.CloseWithoutCheckpoint() // whoever takes the partition over folds that again
	step(DefaultCheckpointEvery, 20, 40, 60)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := counts.uncheckpointed.Load(); n != 0 || written[len(written)-1] != p.Next() {
		t.Errorf("%d records are left after the last checkpoint; checkpoints %d", n, written)
	}
}
