package guard

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// What a guard reports of a call that an order by hand binds and that has not ended.
const (
	cancelNone      = ""          // the program gave no way to cancel it
	cancelRequested = "requested" // and the call still runs
	cancelFailed    = "failed"
)

// The bounds of calling calls off.
const (
	mostOpen    = 20              // calls that a heartbeat names
	mostCancels = 32              // functions of OnStop at one time
	cancelTime  = 5 * time.Second // that each of them may take
)

// openCall names a call that has not ended.
type openCall struct {
	Flow   string `json:"flow,omitempty"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Cancel string `json:"cancel,omitempty"`
	Why    string `json:"why,omitempty"` // of cancelFailed
}

// calling is how a call in flight is called off. It is under the lock of the guard's flights.
type calling struct {
	cancel    context.CancelCauseFunc // of Context; nil before it
	cancelled bool                    // an order by hand has called the call off
	stop      error                   // the order; nil before it
	onStop    []func(context.Context) error
	state     string // what became of it
	why       string
}

// Context returns the context for the call: that of Begin, cancelled when an order by hand (weir stop)
// binds the call while it is in flight. context.Cause is a *Stop then. Finish ends it.
func (b *Begun) Context() context.Context {
	f := &b.guard.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.ctx == nil {
		b.ctx = context.Background()
	}
	if b.off.cancel == nil {
		b.ctx, b.off.cancel = context.WithCancelCause(b.ctx)
		b.runCallOff() // where the order came before
	}
	return b.ctx
}

// OnStop has fn called, in a goroutine of its own, when an order by hand (weir stop) binds the call
// while it is in flight, or at once if one does already. fn ends what the call has begun elsewhere: a
// task of another agent, see package cancel. Its error is named in the receipt of the order. Its
// context ends after 5 s.
func (b *Begun) OnStop(fn func(context.Context) error) {
	f := &b.guard.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	b.off.onStop = append(b.off.onStop, fn)
	b.runCallOff()
}

// callOff notes that an order binds the call. The caller holds the lock of flights.
func (b *Begun) callOff(stop error) {
	b.off.stop = stop
	b.runCallOff()
}

// runCallOff cancels the call in the ways that there are, each once. The caller holds the lock of
// flights.
func (b *Begun) runCallOff() {
	o := &b.off
	if o.stop == nil {
		return
	}
	if o.cancel != nil {
		o.cancelled, o.state = true, cmp.Or(o.state, cancelRequested)
		o.cancel(o.stop)
	}
	for _, fn := range o.onStop {
		o.cancelled, o.state = true, cmp.Or(o.state, cancelRequested)
		b.guard.start("cancel", func() { b.guard.flights.cancelBy(b, fn) })
	}
	o.onStop = nil
}

// cancelBy calls one function of OnStop and notes its error.
func (f *flights) cancelBy(b *Begun, fn func(context.Context) error) {
	f.cancels <- struct{}{}
	defer func() { <-f.cancels }()
	ctx, end := context.WithTimeout(context.Background(), cancelTime)
	defer end()
	err := b.guard.caught("cancel", func() error { return fn(ctx) })
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b.off.state, b.off.why = cancelFailed, clip(err.Error())
	f.kickBeat()
}

// openCalls names at most so many calls, in the order in which they began.
func openCalls(open map[*Begun]struct{}, most int) (out []openCall) {
	calls := make([]*Begun, 0, len(open))
	for b := range open {
		calls = append(calls, b)
	}
	slices.SortFunc(calls, func(a, b *Begun) int { return a.since.Compare(b.since) })
	for _, b := range calls[:min(len(calls), most)] {
		c := &b.Call
		out = append(out, openCall{Flow: c.Flow, From: cmp.Or(c.From, c.FromAgent), To: cmp.Or(c.To, c.ToAgent), Tool: c.Tool, Cancel: b.off.state, Why: b.off.why})
	}
	return out
}
