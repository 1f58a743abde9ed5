// Package phase stops a group of goroutines together: first politely, then by a deadline.
package phase

import (
	"context"
	"fmt"
	"sync"
)

// Phase is a group of goroutines that end together. Make it with New.
type Phase struct {
	ctx    context.Context
	cancel context.CancelFunc
	hard   context.Context
	abort  context.CancelFunc
	group  sync.WaitGroup
	fail   func(error)
}

// New returns a phase without goroutines. fail is called with an error that one of them returned
// before the phase was ended.
func New(fail func(error)) *Phase {
	p := &Phase{fail: fail}
	p.hard, p.abort = context.WithCancel(context.Background())
	p.ctx, p.cancel = context.WithCancel(p.hard)
	return p
}

// Ending is done when the goroutines have to finish what they have begun.
func (p *Phase) Ending() context.Context { return p.ctx }

// Over is done when they have to leave what they have begun.
func (p *Phase) Over() context.Context { return p.hard }

// Run starts a goroutine, which what names. An error of it other than the end of the
// phase is one that the program cannot go on from.
func (p *Phase) Run(what string, fn func(context.Context) error) {
	p.group.Go(func() {
		if err := fn(p.ctx); err != nil && p.ctx.Err() == nil {
			p.fail(fmt.Errorf("%s: %w", what, err))
		}
	})
}

// End ends the phase and waits for its goroutines, or for the end of ctx.
func (p *Phase) End(ctx context.Context) error {
	p.cancel()
	defer p.abort()
	ended := make(chan struct{})
	go func() {
		p.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
