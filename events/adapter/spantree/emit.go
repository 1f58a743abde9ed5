package spantree

import (
	"cmp"
	"maps"
	"slices"

	"weir/events"
	"weir/events/adapter/tag"
)

// call is how an agent came to run.
// It is found out once, when the agent begins, and kept for its end.
type call struct {
	from    string // empty for no agent
	origin  events.Origin
	mode    events.TransferMode
	carrier *node // the tool that ran it
	silent  bool  // it is the span above or before, continued or tried again
}

// emitter turns the spans of one trace into events.
// Each round of emitting makes a new one; lasting state is in the trace.
type emitter struct {
	*trace
	tree *Tree
	emit func(*events.Event)
}

// emitUntil emits the events up to until, in the order of time. Unless force is set, it stops at a
// span with an undecided kind.
// The order does not depend on how records were cut into batches, as long as nothing was forced.
//
// until is in µs, like all times here.
func (t *emitter) emitUntil(until int64, force bool) {
	t.sort()
	t.blocked = 0
	// n counts the moments that were emitted.
	n := 0
	for ; n < len(t.pending); n++ {
		m := t.pending[n]
		if m.at > until {
			break
		}
		// Later moments wait, too: events of one trace are emitted in order.
		if !force && m.begin && m.node.undecided() {
			// See Settle, which gives up waiting after the hold and half of it.
			t.blocked = m.at
			break
		}
		t.moment(m)
	}
	// Emitted moments are cleared, so that forgotten spans can be freed.
	rest := copy(t.pending, t.pending[n:])
	clear(t.pending[rest:])
	if t.pending = t.pending[:rest]; rest > 0 {
		t.oldest = t.pending[0].at
	}
}

// moment emits the event of a beginning or an end, by the kind of the span.
func (t *emitter) moment(m moment) {
	n := m.node
	if m.begin {
		n.begun = true
	}
	switch {
	case n.Kind == Agent && m.begin:
		t.enter(n)
	case n.Kind == Agent:
		t.leave(n)
	case n.Kind == Tool && m.begin:
		t.use(n)
	case n.Kind == Tool:
		t.result(n)
	// The end of a handoff gives no event: the call that follows includes it.
	case n.Kind == Handoff && m.begin:
		t.handOff(n)
	// A request is emitted when it is over, since its tokens come with its end.
	case n.Kind == Inference && !m.begin:
		t.inference(n)
	case (n.Kind == Step || n.Kind == Node) && !m.begin:
		t.end(n)
	}
}

// begin fills what all events of a span share.
func (t *emitter) begin(n *node, kind events.Kind, phase string, at int64) *events.Event {
	t.tree.event = events.Event{
		// The id is made of the span's, so that a span that is read twice gives the same
		// event.
		ID: n.ID + "/" + phase, Source: t.tree.source, Kind: kind, Origin: events.OriginAgent,
		// The microseconds that a Stamp cuts off put events of one millisecond into order.
		Time: events.Stamp(at / 1000), Sequence: at % 1000, ConversationID: t.names.Conversation,
		ParentCorrelationID: t.names.Parent, RootCorrelationID: t.names.Root, Tags: t.names.Tags,
	}
	e := &t.tree.event
	e.CorrelationID, e.CorrelationSource = t.tree.flow(t.trace)
	// The flow is a root as soon as another trace descends from it (see decision 68).
	if t.opens && e.Root() == "" {
		e.RootCorrelationID = e.CorrelationID // what it spends itself counts, too
	}
	return e
}

// party is an agent; spans know no sessions.
func party(agent string) events.Party { return events.Party{Agent: agent} }

// milliseconds is how long a span took.
func milliseconds(n *node) float64 { return float64(max(0, n.End-n.Start)) / 1000 }

// agentOf is the name of an agent's span.
//
// An agent without a name is the program.
func (t *emitter) agentOf(n *node) string { return cmp.Or(n.Agent, t.tree.source) }

// actor is the agent that a tool or an inference belongs to: its own, the one above
// it, the last that was called; where nothing is known of agents, the program.
func (t *emitter) actor(n *node) string {
	if n.Agent != "" {
		return n.Agent
	}
	up := t.above(n)
	switch {
	case up.agent != nil:
		return t.agentOf(up.agent)
	// A tool without a place in a tree belongs to the agent that was called last.
	case t.current != nil:
		return t.agentOf(t.current)
	}
	return t.agentOf(up.top)
}

// hop sets whether an agent worked, and resets its work.
func (t *emitter) hop(e *events.Event, agent string) {
	t.worked.Set(e, agent)
	t.worked.Spend(agent)
}

// remember puts n into one of the maps by group.
func remember(m map[string]*node, group string, n *node) {
	if len(m) >= maxParties {
		clear(m)
	}
	m[group] = n
}

// enter emits the call of an agent.
// It updates the maps also for a silent call, because later runs look there.
func (t *emitter) enter(n *node) {
	// before and said are taken before the maps change: they are what led to this call.
	group, agent := t.group(n), t.agentOf(n)
	c := t.callOf(n, group)
	n.call = c
	before, said := t.last[group], t.said[group]
	remember(t.last, group, n)
	t.current = n
	if c.carrier != nil {
		c.carrier.last = n
	}
	// The span around it or before it already gave all events.
	if c.silent {
		return
	}
	delete(t.said, group)
	t.begun = true
	e := t.begin(n, events.AgentCall, "start", n.Start)
	e.From, e.To, e.Origin, e.TransferMode = party(c.from), party(agent), c.origin, c.mode
	e.To.Tags = tag.Without(n.Tags, t.names.Tags)
	e.Content, e.Sim = n.Content, n.Sim
	// In handoffs the message is what the handoff said, or the last answer; a task that runs
	// an agent is what the tool was given.
	switch {
	case c.mode == events.PassControl && said != nil && !said.Content.IsZero():
		e.Content, e.Sim = said.Content, said.Sim
	case c.mode == events.PassControl && before != nil && !before.Answer.IsZero():
		e.Content, e.Sim = before.Answer, before.Near
	case c.carrier != nil && e.Content.IsZero():
		e.Content, e.Sim = c.carrier.Content, c.carrier.Sim
		if e.Content.IsZero() {
			e.Content = c.carrier.Tool.ArgsHash
		}
	}
	if c.origin == events.OriginAgent {
		t.hop(e, c.from)
	}
	t.worked.Spend(agent)
	t.emit(e)
}

// callOf finds out who called an agent: the one that handed over to it, the one that
// ran before it in the same group, the one above it; else the user, once, and then
// the program.
func (t *emitter) callOf(n *node, group string) *call {
	up := t.above(n)
	agent := t.agentOf(n)
	if up.agent != nil && up.carrier == nil && t.agentOf(up.agent) == agent {
		return &call{silent: true} // one span that is reported twice
	}
	// A handoff goes before the order of time: it names who passed control.
	if said := t.said[group]; said != nil {
		return &call{from: t.actor(said), origin: events.OriginAgent, mode: events.PassControl, carrier: up.carrier}
	}
	before := t.last[group]
	switch ended := before != nil && before.End != 0 && before.End <= n.Start; {
	// Agents that follow each other in one group pass control on.
	case ended && t.agentOf(before) != agent:
		return &call{from: t.agentOf(before), origin: events.OriginAgent, mode: events.PassControl, carrier: up.carrier}
	// The same agent again is the same turn going on, not a call of itself.
	case (ended || before != nil && up.carrier != nil) && t.agentOf(before) == agent:
		return &call{silent: true, carrier: up.carrier}
	case up.agent != nil:
		return &call{from: t.agentOf(up.agent), origin: events.OriginAgent, mode: events.ReturnToCaller, carrier: up.carrier}
	// Only the first call of a trace is a user's, and none in a trace that another one opened.
	case t.begun, t.names.Parent != "":
		return &call{origin: events.OriginSystem}
	}
	return &call{origin: events.OriginUser}
}

// leave emits the answer of an agent that no other span emits. The agent above called this agent
// without a tool, or no agent is above it.
//
// Any other answer is emitted by end, by result, or by close.
func (t *emitter) leave(n *node) {
	switch c := n.call; {
	// The tool that ran the other agents emits their answers, or the agent that follows does.
	case c == nil || c.carrier != nil || c.silent && n.Parent != "":
	case c.mode == events.ReturnToCaller:
		t.answer(n, c.from, n)
	// The root agent answers the user, unless it handed over.
	case n.Parent == "" && t.said[""] == nil:
		delete(t.last, "")
		t.answer(n, "", n)
	}
}

// end closes a group. A handoff that no agent followed still counts as made, and
// the last message of the last agent is the answer.
func (t *emitter) end(n *node) {
	// A step with tokens of its own and no request below it stands for the requests that are
	// missing.
	// Counted is set so that a request that comes late is not added to the sum.
	if n.Kind == Step && n.marks == 0 && n.Usage.Known {
		n.marks |= counted
		t.inference(n)
	}
	up := t.above(n)
	t.finish(n.ID, n, up.agent == nil && up.carrier == nil)
}

// finish ends a group. group is the id of the span below which agents followed each other.
func (t *emitter) finish(group string, n *node, isAnswer bool) {
	last, said := t.last[group], t.said[group]
	delete(t.last, group)
	delete(t.said, group)
	switch {
	case said != nil:
		t.unanswered(said)
	case last != nil && isAnswer:
		t.answer(last, "", n)
	}
}

// close ends all groups, for nothing more will come.
func (t *emitter) close() {
	// In the order of names, because a map has none and the events have to be the same each
	// time.
	for _, group := range slices.Sorted(maps.Keys(t.said)) {
		t.unanswered(t.said[group])
		delete(t.last, group)
	}
	for _, group := range slices.Sorted(maps.Keys(t.last)) {
		// An agent that still runs has not answered. The answers of the others are emitted
		// elsewhere.
		if n := t.last[group]; n.End != 0 && n.call != nil && n.call.carrier == nil && n.call.mode != events.ReturnToCaller {
			t.answer(n, "", n)
		}
	}
}

// unanswered emits a handoff of which the run has not come.
func (t *emitter) unanswered(n *node) {
	// A handoff without a target, or a failed one, led nowhere.
	if n.To == "" || n.Status == events.StatusError {
		return
	}
	from := t.actor(n)
	e := t.begin(n, events.AgentCall, "start", n.Start)
	e.From, e.To, e.TransferMode = party(from), party(n.To), events.PassControl
	e.Content, e.Sim = n.Content, n.Sim
	t.hop(e, from)
	t.emit(e)
}

// answer emits the answer of an agent when by ended. by is its own span, or the tool or the group
// that it ran in.
// The end of by is the time of the answer; to is "" for the user.
func (t *emitter) answer(n *node, to string, by *node) {
	agent := t.agentOf(n)
	e := t.begin(n, events.AgentReturn, "end", by.End)
	e.From, e.To, e.DurationMS = party(agent), party(to), milliseconds(by)
	e.Content, e.Sim = n.Answer, n.Near
	if !by.Answer.IsZero() {
		e.Content, e.Sim = by.Answer, by.Near
	}
	e.Status = events.StatusOK
	for _, r := range [...]*node{n, by} {
		if r.Status == events.StatusError {
			e.Status, e.ErrorType = r.Status, cmp.Or(r.Failure, "error")
		}
	}
	// An answer that took work, or may have, is also work of the agent that receives it.
	if t.worked.Set(e, agent); e.HadWork != events.No && to != "" {
		t.worked.Note(to, e.HadWork)
	}
	t.emit(e)
}

// handOff notes a handoff. The event is emitted with the call of the agent that follows it, or
// when its group ends.
func (t *emitter) handOff(n *node) { remember(t.said, t.groupOfActor(n), n) }

// groupOfActor is the group of the agent that a handoff belongs to.
func (t *emitter) groupOfActor(n *node) string {
	for range maxUp {
		up := t.above(n)
		if up.agent == nil {
			return t.group(n)
		}
		// Of a span that is reported twice the outer one has followers.
		if n = up.agent; n.call == nil || !n.call.silent {
			break
		}
	}
	return t.group(n)
}

// use emits the call of a tool, unless an agent runs below it.
//
// By then it is known whether one does, see undecided.
func (t *emitter) use(n *node) {
	if n.marks&hosts != 0 {
		return // the call of the agent covers it
	}
	agent := t.actor(n)
	// A refused use is emitted as a call, since it was tried, but it is no work.
	if !n.Refused {
		t.worked.Note(agent, events.Yes)
	}
	e := t.begin(n, events.ToolCall, "start", n.Start)
	e.From, e.Tool = party(agent), n.Tool
	e.Tool.Tags = tag.Without(n.Tags, t.names.Tags)
	n.Call.Begin(t.tree.looks, e, t.looker(agent), n.ID)
	t.emit(e)
}

// result emits the end of a tool, which is the answer of the agent if one ran below it.
func (t *emitter) result(n *node) {
	if n.marks&hosts != 0 {
		if c := n.last; c != nil {
			up := t.above(n)
			// The run is over, so no agent can follow it any more.
			delete(t.last, n.ID)
			t.answer(c, t.actorAbove(n, up), n)
		}
		return
	}
	e := t.begin(n, events.ToolResult, "end", n.End)
	e.From, e.Tool = party(t.actor(n)), n.Tool
	e.Content, e.Sim, e.Status, e.ErrorType, e.DurationMS = n.Answer, n.Near, cmp.Or(n.Status, events.StatusOK), n.Failure, milliseconds(n)
	if e.Status != events.StatusOK && e.Content == events.EmptyContent {
		e.Content = events.Hash{} // an error without text is judged by its type
	}
	n.Call.End(t.tree.looks, e, t.looker(e.From.Agent), n.ID, &n.Result)
	t.emit(e)
}

// looker is the agent as polling knows it: in another trace it looks at other things.
func (t *emitter) looker(agent string) string { return t.id + "\x00" + agent }

// actorAbove is the agent to which the answer of a tool goes that ran another one.
func (t *emitter) actorAbove(n *node, up above) string {
	if up.agent != nil {
		return t.agentOf(up.agent)
	}
	return n.Agent
}

// isCounted reports whether the emitted sum of a step above a late request already includes its
// tokens.
func (t *emitter) isCounted(n *node) bool {
	for range maxUp {
		if n = t.spans[n.Parent]; n == nil || n.Kind == Agent || n.Kind == Tool {
			return false
		}
		if n.marks&counted != 0 {
			return true
		}
	}
	return false
}

// inference emits the usage of a request, or of a step in its place.
func (t *emitter) inference(n *node) {
	switch {
	case !n.Usage.Known && (n.Kind == Step || n.Status != events.StatusError):
		return // nothing that a rule could use
	case n.Kind == Inference && t.isCounted(n):
		// The sum of the step was emitted already; only the failure is new.
		n.Usage = events.Usage{}
		if n.Status != events.StatusError {
			return
		}
	}
	e := t.begin(n, events.LLMCall, "end", n.End)
	e.From = party(t.actor(n))
	e.Usage, e.Model, e.Provider = n.Usage, n.Model, n.Provider
	e.Status, e.ErrorType, e.DurationMS = cmp.Or(n.Status, events.StatusOK), n.Failure, milliseconds(n)
	t.emit(e)
}
