package embedded

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/phase"
)

// folder folds both logs. The goroutine that folds holds turn. The pump loop takes it for a whole
// turn of both stages; a goroutine that appends takes it only when it is free, so none waits for the
// fold of another.
type folder struct {
	o       *Options
	clock   clock.Clock
	fail    func(error)   // ends the program, without a checkpoint
	folding *phase.Phase  // the pump loop
	more    chan struct{} // there is something for the pump loop

	caughtUp atomic.Bool  // the pumps have been at the end of their logs
	turned   atomic.Int64 // when the pump loop last turned, Unix milliseconds

	turn sync.Mutex // guards what follows; of the feeds all but their logs and their pumps
	// stays says that only the pump loop may fold: it has to publish, or has not begun, or has ended.
	stays    bool
	idle     bool  // the pump loop waits for more, and for no checkpoint
	broken   error // a fold panicked: nothing more is folded or published
	flows    feed
	activity feed
}

// runPumps reads the logs from the last checkpoints on. When ctx ends, it reads to the end of the
// logs, because no more records come then.
func (w *folder) runPumps(ctx context.Context) error {
	// ctx says that the end has come; hard, that there is no time left for what is still
	// there.
	hard := w.folding.Over()
	w.flows.next, w.activity.next = w.flows.pump.Next(), w.activity.pump.Next()
	for ctx.Err() == nil || w.flows.behind() > 0 && hard.Err() == nil {
		wait, err := w.foldAll(hard)
		switch {
		case err != nil:
			return err
		case w.flows.behind() > 0:
			continue
		case !w.caughtUp.Swap(true):
			w.o.CaughtUp()
		}
		select {
		case <-w.more:
		case <-w.clock.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

// foldAll folds the next records of the log of events, and all activity. It returns the time until the
// next turn if nothing comes. Events come first, because the agent stage folds their activity right
// after. It holds the turn, so no other goroutine folds ahead meanwhile.
func (w *folder) foldAll(ctx context.Context) (wait time.Duration, err error) {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.broken != nil {
		return 0, w.broken
	}
	if err := w.flows.pump.Batch(ctx, nil); err != nil { // what was folded ahead goes out first
		return 0, err
	}
	if _, err := w.flows.fold(ctx); err != nil {
		return 0, err
	}
	// Trees pass on to trees, so folding activity may bring more of it.
	for left := int64(1); left > 0 && ctx.Err() == nil; {
		if left, err = w.activity.fold(ctx); err != nil {
			return 0, err
		}
		w.turned.Store(w.clock.Now().UnixMilli())
	}
	w.stays = false
	// With a checkpoint to come the loop turns again soon.
	w.idle = !w.flows.pump.Pending() && !w.activity.pump.Pending()
	if w.idle {
		return turnEvery, nil
	}
	return min(turnEvery, w.o.Pump.CheckpointEvery), nil
}

// wake lets the pump loop turn. A loop that is already awake looks at all records, so a second call
// adds nothing.
func (w *folder) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// foldAhead folds what is in the logs, unless another goroutine is folding; that one looks again when
// it is done. So the answer to a check request waits for no other goroutine. Other work may have to
// wait for the disk, and is for the pump loop. Nothing more is folded before that work is done. own is
// what the caller has just appended; nil if that has to be read from the log.
func (w *folder) foldAhead(own *fresh) {
	for w.turn.TryLock() {
		if w.foldTurn(own) {
			w.wake()
			return
		}
		// Another goroutine may have appended while the lock was held, found it taken and returned.
		if w.flows.behind() == 0 {
			return
		}
	}
}

// errFoldPanicked ends the program where a panic in a fold may have left half a record in the state.
// The pumps catch panics of single records themselves.
var errFoldPanicked = errors.New("a fold panicked (the log has its stack); the next start folds again from the last checkpoint")

// foldTurn is one turn of foldAhead, which holds turn, and gives it back. It reports whether there is
// something for the pump loop.
func (w *folder) foldTurn(own *fresh) (wake bool) {
	defer w.turn.Unlock()
	whole := false
	defer func() {
		if !whole { // the panic goes on to the request
			w.stays, w.broken = true, errFoldPanicked
			w.fail(w.broken)
		}
	}()
	// Once there is something to publish, nothing is folded ahead of it: an answer must not be known
	// before the verdicts of earlier records are published.
	w.stays = w.stays || w.flows.foldAhead(own)
	// When a caller has its answer, the agent stage has folded everything before its request.
	for !w.stays && w.activity.behind() > 0 {
		w.stays = w.activity.foldAhead(nil)
	}
	whole = true
	// The loop sleeps for long when there was nothing to save; what was folded now
	// needs a checkpoint some day.
	return w.stays || w.idle && (w.flows.pump.Pending() || w.activity.pump.Pending())
}
