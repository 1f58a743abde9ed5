package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/cmd/internal/selftest"
	"weir/state"
)

// outlet follows the verdict log from a cursor of its own and passes the verdicts on.
// What it does never holds the pump up.
type outlet struct {
	app    *App
	name   string
	cursor string
	// deliver passes verdicts on and returns how many of them are safe there.
	deliver func(ctx context.Context, entries []state.Entry) (int, error)
	// drain makes it pass on what is in the log when it is told to end.
	drain bool
}

// The waits of an outlet that cannot deliver.
const (
	outletWait    = time.Second
	outletMaxWait = time.Minute
)

func (a *App) runVerdictFile(ctx context.Context) error {
	o := outlet{app: a, name: "verdict file", cursor: "file:" + a.o.VerdictFile, drain: true}
	o.deliver = func(_ context.Context, entries []state.Entry) (int, error) {
		lines := make([][]byte, 0, len(entries))
		for i := range entries {
			if !selftest.OwnVerdict(entries[i].Value) {
				lines = append(lines, entries[i].Value)
			}
		}
		if err := a.file.Append(lines); err != nil {
			return 0, err
		}
		return len(entries), nil
	}
	return o.run(ctx)
}

func (a *App) runWebhook(ctx context.Context) error {
	o := outlet{app: a, name: "webhook", cursor: fmt.Sprintf("webhook:%016x", xxhash.Sum64String(a.o.WebhookURL))}
	o.deliver = func(ctx context.Context, entries []state.Entry) (int, error) {
		if selftest.OwnVerdict(entries[0].Value) {
			return 1, nil
		}
		if err := a.hook.Send(ctx, entries[0].Offset, entries[0].Value); err != nil {
			return 0, err
		}
		return 1, nil
	}
	return o.run(ctx)
}

func (o *outlet) run(ctx context.Context) error {
	a := o.app
	next, err := o.load()
	if err != nil {
		return err
	}
	wait := outletWait
	for ctx.Err() == nil || o.drain && next < a.verdicts.End() {
		entries, err := a.verdicts.Read(next, streamBatch, nil)
		if gap, ok := errors.AsType[*state.GapError](err); ok {
			a.logger.Error("verdicts have expired before they were passed on", "to", o.name, "from", gap.From, "count", gap.To-gap.From)
			next = gap.To
			continue
		}
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			select {
			case <-a.verdicts.Ready(next):
			case <-ctx.Done():
			}
			continue
		}
		n, err := o.deliver(ctx, entries)
		if n > 0 {
			next += int64(n)
			wait = outletWait
			if err := o.save(ctx, next); err != nil {
				return err
			}
		}
		if err != nil && ctx.Err() == nil {
			a.logger.Error("verdicts could not be passed on; they are tried again", "to", o.name, "error", err)
			if err := a.pause(ctx, wait); err != nil {
				return err
			}
			wait = min(2*wait, outletMaxWait)
		} else if err != nil {
			break
		}
	}
	return context.Cause(ctx)
}

// load returns the position to go on at. An outlet that is new begins with the first
// verdict that is kept.
func (o *outlet) load() (int64, error) {
	b, ok, err := o.app.store.Cursor(o.cursor)
	if err != nil || !ok {
		return 0, err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cursor %q: %w", o.cursor, err)
	}
	return min(n, o.app.verdicts.End()), nil
}

// save keeps the position. While the disk is low it is only remembered: a process
// that is killed then passes some verdicts on again, which have the same ids.
func (o *outlet) save(ctx context.Context, next int64) error {
	err := o.app.store.SetCursor(o.cursor, strconv.AppendInt(nil, next, 10))
	if errors.Is(err, state.ErrDiskLow) || ctx.Err() != nil {
		return nil
	}
	return err
}
