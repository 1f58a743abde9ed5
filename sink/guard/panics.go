package guard

import (
	"fmt"
	"runtime/debug"
)

// start runs fn in a goroutine of the guard, which Close waits for. A panic of it ends that goroutine
// and never the program that is guarded.
func (g *base) start(what string, fn func()) {
	g.working.Go(func() {
		_ = g.caught(what, func() error { fn(); return nil })
	})
}

// caught calls fn and returns its error, or its panic as one: the guard then goes on as if weir
// were unreachable.
func (g *base) caught(what string, fn func() error) (err error) {
	defer g.recovered(what, &err)
	return fn()
}

// recovered turns a panic into an error, counts it, and logs the first with its stack. It has to be
// deferred itself, because recover works nowhere else.
func (g *base) recovered(what string, err *error) {
	p := recover()
	if p == nil {
		return
	}
	*err = fmt.Errorf("the guard panicked in %s: %v", what, p)
	if g.counts.Panics.Add(1) == 1 {
		g.logFault("the guard panicked and goes on as if weir were unreachable: please report this; more panics are only counted", what, p)
	}
}

// logFault logs a panic with its stack. The handler of the logger is the caller's and may be what
// panicked.
func (g *base) logFault(message, what string, p any) {
	defer func() { _ = recover() }()
	g.logger.Error(message, "in", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}
