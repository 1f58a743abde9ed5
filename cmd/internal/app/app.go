package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/sink/jsonl"
	"weir/sink/webhook"
	"weir/state"
)

// App is the embedded form of weir. Make it with New, then Start, then Stop; when
// Done is closed in between, something failed that cannot be gone on from, and Err
// says what.
type App struct {
	o      Options
	clock  Clock
	logger *slog.Logger
	tokens tokens
	limits *limitsSource
	hook   *webhook.Hook

	store    *state.Store
	journal  *state.Log
	verdicts *state.Log
	counts   Counts
	pump     *Pump
	answers  *answers
	file     *jsonl.File
	follows  []*follower

	listener net.Listener
	server   *http.Server
	turned   atomic.Int64 // when the pump loop last turned, Unix milliseconds
	caughtUp atomic.Bool  // the pump has been at the end of the journal

	// What is ended in turn by Stop.
	intake, pumping, leaving *stage
	closed                   sync.Once

	done   chan struct{}
	failed sync.Once
	err    error
}

// stage is a group of goroutines that end together.
type stage struct {
	ctx    context.Context // when it is done they finish what they have begun
	cancel context.CancelFunc
	hard   context.Context // when it is done they leave it
	abort  context.CancelFunc
	group  sync.WaitGroup
}

func newStage() *stage {
	s := new(stage)
	s.hard, s.abort = context.WithCancel(context.Background())
	s.ctx, s.cancel = context.WithCancel(s.hard)
	return s
}

// end cancels the stage and waits for it, or for the end of ctx.
func (s *stage) end(ctx context.Context) error {
	s.cancel()
	defer s.abort()
	ended := make(chan struct{})
	go func() {
		s.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// New checks the options and reads the files that they name. It has no effects.
func New(o Options) (*App, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &App{o: o, clock: o.Clock, logger: o.Logger, done: make(chan struct{})}
	if a.tokens, err = readTokens(o); err != nil {
		return nil, err
	}
	if a.limits, err = newLimitsSource(a); err != nil {
		return nil, err
	}
	if o.WebhookURL != "" {
		secret, err := readSecret(o.WebhookSecretFile)
		if err != nil {
			return nil, fmt.Errorf("secret of the webhook: %w", err)
		}
		a.hook, err = webhook.New(webhook.Options{URL: o.WebhookURL, Secret: secret, After: a.clock.After, Now: a.clock.Now, Logger: o.Logger})
		if err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Start opens the state, listens, and returns when requests are served. The context
// is for the start alone.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, a.closeAll())
		}
	}()
	if a.store, err = state.Open(a.o.StateDir, a.o.State); err != nil {
		return err
	}
	a.journal, a.verdicts = a.store.Journal(partition), a.store.Verdicts(partition)
	a.answers = newAnswers()
	a.pump, err = NewPump(ctx, PumpOptions{
		Partition: partition, Source: "journal", Limits: a.limits.wanted, Parse: parseLimits,
		Store: a.store, Sink: &verdictLog{log: a.verdicts, clock: a.clock}, Answer: a.answers.deliver,
		Memory: a.o.Memory, CheckpointEvery: a.o.CheckpointEvery, Counts: &a.counts, Clock: a.clock, Logger: a.logger,
	})
	if err != nil {
		return err
	}
	if err := a.limits.begin(); err != nil {
		return err
	}
	if a.o.VerdictFile != "" {
		if a.file, err = jsonl.Open(a.o.VerdictFile); err != nil {
			return err
		}
	}
	for _, f := range a.o.Follow {
		follower, err := newFollower(a, f)
		if err != nil {
			return err
		}
		a.follows = append(a.follows, follower)
	}
	if a.listener, err = net.Listen("tcp", a.o.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address", a.o.Listen, err)
	}
	a.intake, a.pumping, a.leaving = newStage(), newStage(), newStage()
	a.server = a.newServer()
	a.turned.Store(a.clock.Now().UnixMilli())

	a.run(a.pumping, "pump", a.runPump)
	a.run(a.intake, "ticks", a.runTicks)
	a.run(a.intake, "limits", a.limits.watch)
	for _, f := range a.follows {
		a.run(a.intake, "follow "+f.path, f.run)
	}
	if a.file != nil {
		a.run(a.leaving, "verdict file", a.runVerdictFile)
	}
	if a.hook != nil {
		a.run(a.leaving, "webhook", a.runWebhook)
	}
	limited := newLimitListener(a.listener, a.o.Connections)
	go func() {
		if err := a.server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
			a.fail(fmt.Errorf("serve http: %w", err))
		}
	}()
	a.logger.Info("weir is running", "address", a.Addr(), "state", a.o.StateDir, "next", a.pump.Next(), "journal_end", a.journal.End())
	return nil
}

// partition is the only one that the embedded form has.
const partition = 0

func parseLimits(document []byte) (analyzer.Limits, error) {
	return limitfile.ParseJSON("limits.set", document)
}

// run starts a goroutine of a stage. An error of it other than the end of its stage is
// one that weir cannot go on from.
func (a *App) run(s *stage, what string, fn func(context.Context) error) {
	s.group.Go(func() {
		if err := fn(s.ctx); err != nil && s.ctx.Err() == nil {
			a.fail(fmt.Errorf("%s: %w", what, err))
		}
	})
}

func (a *App) fail(err error) {
	a.failed.Do(func() {
		a.err = err
		a.logger.Error("weir cannot go on", "error", err)
		close(a.done)
	})
}

// Done is closed when something failed that weir cannot go on from. The owner calls
// Stop, then Err, and ends the process.
func (a *App) Done() <-chan struct{} { return a.done }

// Err says what closed Done; nil while it is open.
func (a *App) Err() error {
	select {
	case <-a.done:
		return a.err
	default:
		return nil
	}
}

// Addr is the address that is listened on, with the port that was chosen.
func (a *App) Addr() string { return a.listener.Addr().String() }

// Counts returns the counters of the pump.
func (a *App) Counts() *Counts { return &a.counts }

// Pump returns the pump, for questions about flows.
func (a *App) Pump() *Pump { return a.pump }

// Reload reads the limits file again and opens the verdict file anew, as SIGHUP asks
// for. Limits that are refused stay as they were, and the error says why.
func (a *App) Reload() error {
	err := a.limits.reload()
	if a.file != nil {
		err = errors.Join(err, a.file.Reopen())
	}
	return err
}

// Stop ends the app in order: no more intake, the last batch folded and published, a
// checkpoint, then everything closed. When ctx ends before, it stops where it is:
// nothing that was acknowledged is lost by that, the next start only has more to do.
func (a *App) Stop(ctx context.Context) error {
	if a.server == nil {
		return nil
	}
	// Streams and followers first, or Shutdown would wait for them.
	err := a.intake.end(ctx)
	err = errors.Join(err, a.server.Shutdown(ctx))
	a.pump.Hurry()
	switch perr := a.pumping.end(ctx); {
	case perr != nil:
		err = errors.Join(err, perr)
	case a.Err() != nil:
		a.pump.Abandon()
	default:
		if perr := a.pump.Close(ctx); errors.Is(perr, state.ErrDiskLow) {
			a.logger.Warn("stopped without a last checkpoint; the next start folds a little more again", "error", perr)
		} else if perr != nil {
			err = errors.Join(err, fmt.Errorf("last checkpoint: %w", perr))
		}
	}
	err = errors.Join(err, a.leaving.end(ctx))
	return errors.Join(err, a.closeAll())
}

// closeAll closes what Start has opened.
func (a *App) closeAll() (err error) {
	a.closed.Do(func() {
		if a.server != nil {
			err = errors.Join(err, a.server.Close())
		} else if a.listener != nil {
			err = errors.Join(err, a.listener.Close())
		}
		for _, f := range a.follows {
			err = errors.Join(err, f.tail.Close())
		}
		if a.file != nil {
			err = errors.Join(err, a.file.Close())
		}
		if a.store != nil {
			err = errors.Join(err, a.store.Close())
		}
	})
	return err
}

// pause waits, and returns the error of ctx when that ends first.
func (a *App) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-a.clock.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
