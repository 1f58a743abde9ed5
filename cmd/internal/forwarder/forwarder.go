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
type Log interface {
	Read(from int64, max int, dst []state.Entry) ([]state.Entry, error)
	End() int64
	Ready(next int64) <-chan struct{}
}

// Cursors is where a forwarder keeps how far it is.
type Cursors interface {
	Cursor(name string) ([]byte, bool, error)
	SetCursor(name string, value []byte) error
}

// Forwarder passes verdicts on to one receiver.
type Forwarder struct {
	Name   string // for people
	Cursor string // under which the position is kept

	// Deliver passes verdicts on, of which there is at least one, and returns how many of
	// them are safe there. What is not is given again.
	Deliver func(ctx context.Context, verdicts []state.Entry) (int, error)
	// Drain makes it pass on what is in the log when it is told to end.
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
	firstWait   = time.Second
	longestWait = time.Minute
)

// Run passes verdicts on until ctx ends. An error is one of the log or the cursor: what
// a receiver does not take is tried again.
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
		n, err := f.Deliver(ctx, entries)
		if n > 0 {
			next += int64(n)
			wait = firstWait
			if err := f.save(ctx, next); err != nil {
				return err
			}
		}
		if err != nil && ctx.Err() == nil {
			f.Logger.Error("verdicts could not be passed on; they are tried again", "to", f.Name, "error", err)
			if err := retry.Pause(ctx, f.Clock, wait); err != nil {
				return err
			}
			wait = min(2*wait, longestWait)
		} else if err != nil {
			break
		}
	}
	return context.Cause(ctx)
}

// load returns the position to go on at. A forwarder that is new begins with the first
// verdict that is kept.
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
func (f *Forwarder) save(ctx context.Context, next int64) error {
	err := f.Cursors.SetCursor(f.Cursor, strconv.AppendInt(nil, next, 10))
	if errors.Is(err, state.ErrDiskLow) || ctx.Err() != nil {
		return nil
	}
	return err
}
