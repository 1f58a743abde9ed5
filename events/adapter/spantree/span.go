// Package spantree turns nested spans of agents, tools and models into events. Adapters of such formats share it:
// it holds spans back, finds the caller of each agent, and orders events.
//
// A record of a span comes once, when the span has ended, or twice, when it begins and when it
// ends. Where records come only at the end, children come before their parents. A trace is then
// held back until its root has come or until Options.Hold of event time has passed. Where records
// come at the beginning, too, events are emitted at once.
package spantree

import (
	"cmp"

	"weir/events"
	"weir/events/adapter/deed"
)

// Kind is what a span is.
//
// Adapters set it by what a record says; what several spans say together changes it here.
type Kind uint8

// The kinds. A Node becomes an Agent when a model is asked below it.
const (
	Step      Kind = iota // of no interest itself, but between child and parent
	Node                  // a node of a graph
	Agent                 // one span of one agent
	Tool                  // one execution of a tool
	Handoff               // what passes control to another agent
	Inference             // one request to a model
)

// Span is one span with the fields of a record. A field that the record does not have is
// zero.
type Span struct {
	// The id makes the ids of events, so it has to be the same however often the span is read.
	ID, Parent string // unique in the source; Parent is empty for a root
	Kind       Kind
	// A span with an End and no Start begins at its end.
	Start, End int64 // µs since 1970; End is 0 while it runs
	// Agent may be empty: then it is found by what lies above.
	Agent string // name of the agent; of other spans the agent that they belong to
	To    string // the agent to which a Handoff passes control
	// Tags are those of the span alone. An Agent's are emitted with its call, a Tool's with its use.
	Tags []string

	Tool    events.Tool
	Call    deed.Call   // what the tool set out to do
	Result  deed.Result // and what it achieved
	Known   bool        // the tool is known to run no agent: its call may be emitted before its end
	Refused bool        // the tool did not run at all, which is no work

	Content  events.Hash // the message to an agent
	Sim      events.Fingerprint
	Answer   events.Hash // its answer or result
	Near     events.Fingerprint
	Status   events.Status
	Failure  string
	Usage    events.Usage // of a Step: a sum, which counts when no span below reports requests
	Model    string
	Provider string
}

// learn adds the fields of another record of the same span.
// The first record has priority for places and times; the later record has it for other fields.
func (r *Span) learn(b *Span) {
	r.Parent = cmp.Or(r.Parent, b.Parent)
	r.Start, r.End = cmp.Or(r.Start, b.Start), cmp.Or(r.End, b.End)
	// A node that was found to be an agent stays one, and nothing becomes a step again.
	if b.Kind != Step && r.Kind != Agent {
		r.Kind = b.Kind
	}
	r.Agent, r.To = cmp.Or(b.Agent, r.Agent), cmp.Or(b.To, r.To)
	if len(b.Tags) > 0 {
		r.Tags = b.Tags
	}
	tool := b.Tool
	tool.Name = cmp.Or(tool.Name, r.Tool.Name)
	tool.CallID, tool.Server = cmp.Or(tool.CallID, r.Tool.CallID), cmp.Or(tool.Server, r.Tool.Server)
	if tool.ArgsHash.IsZero() {
		tool.ArgsHash, tool.ArgsSize = r.Tool.ArgsHash, r.Tool.ArgsSize
	}
	r.Tool = tool
	if !b.Content.IsZero() {
		r.Content, r.Sim = b.Content, b.Sim
	}
	if b.Call.Known() {
		r.Call = b.Call
	}
	if b.Result.Known() {
		r.Result = b.Result
	}
	if !b.Answer.IsZero() {
		r.Answer, r.Near = b.Answer, b.Near
	}
	r.Status, r.Failure = cmp.Or(b.Status, r.Status), cmp.Or(b.Failure, r.Failure)
	if b.Usage.Known {
		r.Usage = b.Usage
	}
	r.Model, r.Provider = cmp.Or(b.Model, r.Model), cmp.Or(b.Provider, r.Provider)
}

// mark is a kind of span that lies below a span.
// Marks go up from span to span, see trace.spread. They decide the kind of a span without a look
// below it.
type mark uint8

const (
	asks    mark = 1 << iota // a request to a model, with no tool between
	hosts                    // a span of an agent, with no agent between
	counted                  // nothing, but its own tokens were emitted: those below are in them
)

// node is a span in its trace.
type node struct {
	Span
	// marks only grow: a span that came below does not go away.
	marks mark
	begun bool // its beginning was emitted
	ended bool // its end was emitted or is pending
	// call is nil until the agent's beginning was emitted.
	call *call
	last *node // the last agent that ran below a tool
}

// take notes what lies below and returns what of it the span above needs to know.
// It ends at what is marked already, so that each mark goes each way once.
func (n *node) take(m mark) mark {
	if n.marks&m == m {
		return 0
	}
	n.marks |= m
	switch n.Kind {
	case Agent:
		// What lies below an agent is its own business, and the span above learns of the agent
		// apart.
		return 0
	case Node:
		if m&asks != 0 {
			n.Kind = Agent
			return hosts
		}
	case Tool:
		// A request below a tool is not one of the node around the tool.
		return m &^ asks
	}
	return m
}

// undecided reports whether the kind of the span is still unknown.
// A tool that may run an agent, and a node that may be one, wait until they end or it shows.
//
// Settle stops waiting after some time and emits the span by its apparent kind.
func (n *node) undecided() bool {
	switch {
	case n.End != 0:
		return false
	case n.Kind == Tool:
		return !n.Known && n.marks&hosts == 0
	}
	return n.Kind == Node
}
