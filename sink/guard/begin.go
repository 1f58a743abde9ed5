package guard

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/events"
)

// Begun is a call that was checked. Decision says whether it may be made, and Finish reports what
// came of it.
type Begun struct {
	Call     Call
	Decision Decision

	guard *Guard
	since time.Time
	ended atomic.Bool

	ctx context.Context // of Begin; see Context
	off calling
}

// Outcome is the result of a call. Weir compares Content and Sim and never sees the text: HASHES.md
// has the recipe, and package guarded makes them.
type Outcome struct {
	Content string // algorithm:hex, of the result or the answer, or of the error
	Sim     string // simhash64:hex of the same text
	Size    int64  // bytes of a tool's result
	Err     error  // sets Status and ErrorType where they are not given

	Status    events.Status
	ErrorType string
	// Usage is what the call has used. Of an agent's call it may stand in the reports of its
	// requests to models as well, and counts once.
	Usage   events.Usage
	HadWork events.Tri // of an agent's call: did the callee use tools or make something
}

// Begin checks a call by Ask, so that weir counts it in the same step. Finish reports the outcome
// in the background. Together they let weir find loops without any telemetry. Begin waits for reports
// about the same flow that are under way, a third of AskTimeout at most. A check before them would be
// judged without the result of the last call. A call that weir did not answer is reported when weir
// is back.
func (g *Guard) Begin(ctx context.Context, c Call) (b *Begun) {
	defer func() {
		if p := recover(); p != nil {
			b = &Begun{Call: c, Decision: g.failOpen(p), guard: g, since: time.Now()}
		}
	}()
	c.take(ctx)
	if c.Tool != "" && c.CallID == "" {
		c.CallID = strconv.FormatInt(g.serial.Add(1), 36) + "-" + g.word
	}
	c.clip()
	ev := c.event(c.kind())
	g.stampEvent(&ev, g.stamp())
	flow := c.flowKey()
	g.pending.settle(ctx, flow, g.o.AskTimeout/3)
	d := g.askAs(ctx, &c, ev)
	if !d.Stopped() && d.Source != FromWeir {
		// It has the id of the check, so it counts once if weir has taken that after all.
		g.reportEvent(flow, &ev)
	}
	if c.Flow == "" {
		c.Flow = d.Flow
	}
	b = &Begun{Call: c, Decision: d, guard: g, since: time.Now(), ctx: ctx}
	if !d.Stopped() {
		g.flights.begin(b)
		g.lookAgain(b)
	}
	return b
}

// lookAgain refuses a call that an order by hand binds which came while the call was checked. The call
// is not made yet, and an order that comes from now on finds it in flight.
func (g *Guard) lookAgain(b *Begun) {
	if !g.table.AnyByHand() {
		return
	}
	c, now := b.Call, moment{guard: g}
	g.introduce(&c)
	if v := g.table.hand.refusing(&c, &now); v != nil {
		g.flights.end(b)
		b.Decision = refused(v, c.Flow, FromTable, now.stamp())
	}
}

// Finish reports the outcome of the call, once: later calls do nothing. Finish of a refused call
// does nothing either.
func (b *Begun) Finish(o Outcome) {
	if b.Decision.Stopped() || b.ended.Swap(true) {
		return
	}
	if cancel := b.guard.flights.end(b); cancel != nil {
		defer cancel(nil)
	}
	var fault error
	defer b.guard.recovered("finish", &fault) // as of an Outcome.Err whose Error panics
	c, g := b.Call, b.guard
	c.ArgsHash, c.ArgsSim, c.ContentHash, c.HadWork = "", "", "", events.Unknown
	kind := events.ToolResult
	if c.Tool == "" {
		kind, c.Origin, c.HadWork = events.AgentReturn, events.OriginUnset, o.HadWork
		c.From, c.FromAgent, c.To, c.ToAgent = c.To, c.ToAgent, c.From, c.FromAgent
		o.Usage.Scope = events.UsageAggregate
	}
	ev := c.event(kind)
	g.stampEvent(&ev, g.stamp())
	ev.Status, ev.ErrorType = o.Status, clip(o.ErrorType)
	if ev.Status == events.StatusUnset {
		ev.Status = events.StatusOK
		if o.Err != nil {
			ev.Status = events.StatusError
		}
	}
	if o.Err != nil && ev.ErrorType == "" {
		ev.ErrorType = clip(o.Err.Error())
	}
	ev.DurationMS = float64(time.Since(b.since).Microseconds()) / 1000
	ev.Content, _ = events.ParseHash(o.Content)
	ev.Sim, _ = events.ParseFingerprint(o.Sim)
	ev.Usage = o.Usage
	if c.Tool != "" {
		ev.Tool.ResultSize = o.Size
	}
	g.reportEvent(b.Call.flowKey(), &ev)
}

// Spent reports what one request to a model has used, for budgets of tokens and money. Of the call
// the flow and the caller count.
func (g *Guard) Spent(ctx context.Context, c Call, model string, used events.Usage) {
	var fault error
	defer g.recovered("spent", &fault)
	c.take(ctx)
	c.clip()
	c.Tool, c.To, c.ToAgent = "", "", ""
	ev := c.event(events.LLMCall)
	g.stampEvent(&ev, g.stamp())
	ev.Model, ev.Usage = clip(model), used
	ev.Usage.Known = true
	g.reportEvent(c.flowKey(), &ev)
}

// reportEvent queues an event about a flow; when there is no room it is dropped and counted.
func (g *reporter) reportEvent(flow string, ev *events.Event) {
	g.pending.add(flow)
	select {
	case g.acks <- ack{ev: ev, flow: flow}:
	default:
		g.counts.ReportsDropped.Add(1)
		g.pending.done(flow)
	}
}

// pending counts the reports that are under way, by flow. Any goroutine may use it.
type pending struct {
	mu      sync.Mutex
	flows   map[string]int
	changed chan struct{} // closed when one has arrived, or weir was not reached; nil while no call waits
	unsent  bool          // the last batch did not reach weir, so no call waits for the next
}

func (p *pending) add(flow string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flows == nil {
		p.flows = make(map[string]int)
	}
	p.flows[flow]++
}

func (p *pending) done(flow string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flows[flow]--; p.flows[flow] <= 0 {
		delete(p.flows, flow)
	}
	p.wake()
}

// reached notes whether weir took the last batch.
func (p *pending) reached(ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsent = !ok
	p.wake()
}

// wake lets those look again who wait. The caller holds the lock.
func (p *pending) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// settle waits until nothing about the flow is under way.
func (p *pending) settle(ctx context.Context, flow string, most time.Duration) {
	var late <-chan time.Time
	for {
		p.mu.Lock()
		if p.flows[flow] == 0 || p.unsent {
			p.mu.Unlock()
			return
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		if late == nil {
			late = time.After(most)
		}
		select {
		case <-changed:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}
