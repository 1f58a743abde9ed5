// The zero Work is none. Root is empty for a flow that belongs to no tree.
package guard

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"weir/events"
)

// Work is what a dispatcher knows of what it has handed to an agent: in which flow the agent
// works and who it is. It travels in the context of the dispatcher and in the headers of its
// requests. The agent does not see it, and so can neither lose it nor make it up.
type Work struct {
	Flow  string // correlation id
	Party string // who works, by session or by agent
	Agent string // the agent beside the session
	Root  string // first flow of the tree that the flow belongs to
}

// workKey is the key of the work in a context. A type of its own, so that no other package has
// the same key.
type workKey struct{}

// WithWork returns a context for what is done in the work.
func WithWork(ctx context.Context, w Work) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

// WorkOf returns the work that a context is for; false when it is for none.
func WorkOf(ctx context.Context) (w Work, ok bool) {
	w, ok = ctx.Value(workKey{}).(Work)
	return w, ok
}

// The headers in which work goes from one process to another. The first two are those by
// which gateways know the flow and the caller.
const (
	flowHeader  = "X-Correlation-Id"
	partyHeader = "X-Agent-Id"
	agentHeader = "X-Agent-Name"
	rootHeader  = "X-Root-Correlation-Id"
)

// SetHeader puts the work into the headers of a request to another dispatcher, in the place of
// what they have of it.
func (w Work) SetHeader(h http.Header) {
	// What is empty is deleted: a header of the caller's own caller must not stay.
	for name, value := range map[string]string{flowHeader: w.Flow, partyHeader: w.Party, agentHeader: w.Agent, rootHeader: w.Root} {
		h.Del(name)
		if value != "" {
			h.Set(name, value)
		}
	}
}

// WorkFrom returns the work that the headers of a request name; false when they name no flow.
// Any sender of a request can write them: accept them from dispatchers alone.
func WorkFrom(h http.Header) (w Work, ok bool) {
	w = Work{h.Get(flowHeader), h.Get(partyHeader), h.Get(agentHeader), h.Get(rootHeader)}
	return w, w.Flow != ""
}

// NewFlow returns a unique correlation id.
func NewFlow() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // a UUID of version 4
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Dispatch asks weir about a call and returns the context of the work that it begins: what is
// done with it is done in the flow of the call, by its callee. Of an agent's call the flow and
// the caller are those of ctx where the call does not say; a call of anybody else that names no
// flow begins a new one. When the call may not be made, ctx itself is returned.
// The callee is the party of the new work, so that its own calls name it as their caller.
func (g *Guard) Dispatch(ctx context.Context, c Call) (context.Context, Decision) {
	c.take(ctx)
	c.clip()
	if c.Flow == "" && !c.byAgent() {
		// A new flow gets its id here and not from weir, so that the context has it also when
		// weir is away.
		c.Flow = NewFlow()
	}
	d := g.Ask(ctx, c)
	if d.Stopped() {
		return ctx, d
	}
	return WithWork(ctx, Work{c.Flow, c.To, c.ToAgent, c.Root}), d
}

// take fills in what an agent's call does not say with the work of the context. What people,
// schedulers and applets send belongs to no work.
func (c *Call) take(ctx context.Context) {
	// A call that says both needs nothing of the context.
	if c.Flow != "" && (c.From != "" || c.FromAgent != "") || c.Origin != events.OriginUnset && c.Origin != events.OriginAgent {
		return
	}
	w, ok := WorkOf(ctx)
	if !ok {
		return
	}
	if c.Flow == "" {
		c.Flow = w.Flow
		// The root belongs to the flow: one is not taken without the other.
		if c.Root == "" {
			c.Root = w.Root
		}
	}
	if c.From == "" && c.FromAgent == "" {
		c.From, c.FromAgent = w.Party, w.Agent
	}
}

// byAgent reports whether an agent makes the call.
func (c *Call) byAgent() bool {
	return c.Origin == events.OriginAgent || c.Origin == events.OriginUnset && !c.byPerson()
}
