package forwarder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/retry"
	"weir/state"
)

// Log is the log of verdicts.
// It is a state.Log; what has expired is skipped by reading with state.ReadOn.
type Log interface {
	Read(from int64, max int, dst []state.Entry) ([]state.Entry, error)
	End() int64
	Ready(next int64) <-chan struct{}
}

// Cursors is where a forwarder keeps how far it is.
// It is the store that also holds the log, so that both are lost or kept together.
type Cursors interface {
	Cursor(name string) ([]byte, bool, error)
	SetCursor(name string, value []byte) error
}

// Forwarder passes verdicts on to one receiver.
type Forwarder struct {
	// A receiver under another name or address has another cursor, and gets the log from the
	// beginning.
	Name   string // for people
	Cursor string // under which the position is kept

	// Deliver passes verdicts on, of which there is at least one, and returns how many of
	// them are safe there. What is not is given again.
	// Deliver may return both a number and an error. It is called by one goroutine; the
	// entries are good until it returns. An error means to try again, after a wait.
	Deliver func(ctx context.Context, verdicts []state.Entry) (int, error)
	// Drain makes it pass on the rest of the log when it ends. Without it, what a receiver has not
	// taken by then waits for the next start.
	Drain bool

	Log     Log
	Cursors Cursors
	Clock   clock.Clock
	Logger  *slog.Logger
}

// batch is how many verdicts are read at one time.
const batch = 256

// The waits of a forwarder that cannot deliver.
const (
	// The wait doubles with each failure in a row, and begins anew with a success.
	firstWait   = time.Second
	longestWait = time.Minute
)

// Run passes verdicts on until ctx ends. An error is one of the log or the cursor: what
// a receiver does not take is tried again.
//
// Verdicts that expired while a receiver was away are lost to it, which is logged.
func (f *Forwarder) Run(ctx context.Context) error {
	next, err := f.load()
	if err != nil {
		return err
	}
	wait := firstWait
	for ctx.Err() == nil || f.Drain && next < f.Log.End() {
		first, entries, err := state.ReadOn(f.Log.Read, next, batch, nil)
		if err != nil {
			return err
		}
		if first > next {
			f.Logger.Error("verdicts have expired before they were passed on", "to", f.Name, "from", next, "count", first-next)
			next = first
		}
		if len(entries) == 0 {
			select {
			case <-f.Log.Ready(next):
			case <-ctx.Done():
			}
			continue
		}
		// What was delivered counts even with an error: to give it again would double it
		// there.
		n, err := f.Deliver(ctx, entries)
		if n > 0 {
			next += int64(n)
			wait = firstWait
			if err := f.save(ctx, next); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx) // the next start passes on the rest
		case n == 0: // a receiver that took a part is slow and not away
			f.Logger.Error("verdicts could not be passed on; they are tried again", "to", f.Name, "error", err)
			if err := retry.Pause(ctx, f.Clock, wait); err != nil {
				return err
			}
			wait = min(2*wait, longestWait)
		}
	}
	return context.Cause(ctx)
}

// load returns the position to go on at. A forwarder that is new begins with the first
// verdict that is kept.
// A cursor beyond the end is that of a log that is another one; the forwarder begins at the
// end then.
func (f *Forwarder) load() (int64, error) {
	b, ok, err := f.Cursors.Cursor(f.Cursor)
	if err != nil || !ok {
		return 0, err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cursor %q: %w", f.Cursor, err)
	}
	return min(n, f.Log.End()), nil
}

// save keeps the position. While the disk is low it is only remembered: a process
// that is killed then passes some verdicts on again, which have the same ids.
// Nor is it an error that the end has come meanwhile.
func (f *Forwarder) save(ctx context.Context, next int64) error {
	err := f.Cursors.SetCursor(f.Cursor, strconv.AppendInt(nil, next, 10))
	if errors.Is(err, state.ErrDiskLow) || ctx.Err() != nil {
		return nil
	}
	return err
}
