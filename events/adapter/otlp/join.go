package otlp

import (
	"cmp"

	"weir/events"
	"weir/events/adapter/tag"
)

// join makes a trace part of the one that its root is linked to. A runtime that passes messages
// between agents starts a trace for each message. It links the trace to the span that sent the
// message (Semantic Kernel, AutoGen).
//
// join does so where one library wrote both ends: a batch that is linked to many messages continues
// none of them. Where another library wrote it, the trace is a flow of its own that descends from
// the other. See decision 57.
//
// It is called for each trace of which spans came with the batch, before anything of it is
// emitted.
func (r *reader) join(t *trace) {
	// A trace of which something was emitted has a flow that cannot be changed any more.
	if t.begun || t.cause == nil {
		return
	}
	// Nothing is joined as long as the other trace has not come.
	to, ok := r.trace(t.cause.linked)
	if !ok || to == t {
		return
	}
	switch from := to.spans[t.cause.link]; {
	case from == nil:
		return
	case from.scope != t.cause.scope:
		// A flow that is called alike by both is one in any case.
		parent, _ := to.flowOf(from, r.correlation)
		if own, _ := t.flowOf(t.cause, r.correlation); own != parent {
			t.parent, to.opens = parent, true
			// A restart has to read both, because each depends on the other.
			t.reach, to.reach = min(t.reach, to.place), min(to.reach, t.place)
		}
		return
	}
	// What one waits for may be in the other.
	// From here on all spans are of one trace, whose id is that of the flow.
	for id, s := range t.spans {
		to.spans[id] = s
		delete(to.awaited, id)
	}
	for id := range t.awaited {
		if _, here := to.spans[id]; !here {
			to.awaited[id] = struct{}{}
		}
	}
	to.pending = append(to.pending, t.pending...)
	if to.oldest == 0 || t.oldest != 0 && t.oldest < to.oldest {
		to.oldest = t.oldest
	}
	to.place, to.reach = min(to.place, t.place), min(to.reach, t.reach)
	to.newest, to.seen = max(to.newest, t.newest), max(to.seen, t.seen)
	to.touched, to.joined = true, append(append(to.joined, t.id), t.joined...)
	to.baggage, to.session = cmp.Or(to.baggage, t.baggage), cmp.Or(to.session, t.session)
	to.tags = tag.Join(to.tags, t.tags)
	to.talk, to.turn = cmp.Or(to.talk, t.talk), cmp.Or(to.turn, t.turn)
	// Ids that were joined before go on with the same trace.
	for _, id := range to.joined {
		r.partOf[id] = to.id
	}
	// Its spans live on in the other trace.
	r.traces.Delete(t.id)
}

// trace returns the trace of an id, or the one that it is part of.
func (r *reader) trace(id string) (*trace, bool) {
	if whole, joined := r.partOf[id]; joined {
		id = whole
	}
	return r.traces.Get(id)
}

// relayed returns the agent that sent the input of a run that no span above called. That agent
// handed over to the run, or its answer, the last one before the run, equals the input.
//
// It is for runtimes in which a message is an event between agents and no call.
func (t *trace) relayed(s *span) (from string, ok bool) {
	var sent *span
	// Of several handoffs the latest counts; maps have no order, so they are compared by time.
	follows := func(agent string, h *span) {
		if h.end > s.start || agent == agentOf(s) || !alike(agentOf(s), h.handoff) {
			return
		}
		if sent == nil || byStart(sent, h) < 0 {
			sent, from = h, agent
		}
	}
	for agent, h := range t.said {
		follows(agent, h)
	}
	for agent, made := range t.passed {
		for _, h := range made {
			follows(agent, h)
		}
	}
	if sent != nil {
		return from, true
	}
	// Equal hashes: the message is what the other one answered, word for word.
	if p := t.last(s); p != nil && agentOf(p) != agentOf(s) && !s.content.IsZero() && s.content == p.answer {
		return agentOf(p), true
	}
	return "", false
}

// last is the run that ended last before s began, wherever it is.
//
// Unlike before it looks into all containers.
func (t *trace) last(s *span) (last *span) {
	for _, p := range t.runs {
		if p != s && p.end <= s.start && (last == nil || p.end >= last.end) {
			last = p
		}
	}
	return last
}

// isSent reports whether a message caused a run: a span above it has a link.
//
// A run within another run was called by that one.
func (t *trace) isSent(s *span) bool {
	for range maxUp {
		if s = t.spans[s.parent]; s == nil || s.kind == visit {
			return false
		}
		if s.link != 0 {
			return true
		}
	}
	return false
}

// workflowOf is the workflow that a run is a step of, at whatever depth; nil outside of any.
func (t *trace) workflowOf(s *span) *span {
	for range maxUp {
		if s = t.spans[s.parent]; s == nil || s.kind == workflow {
			return s
		}
	}
	return nil
}

// asked returns the call of a run that no run above it and no run before it in its place called.
// A second such call is from the program, since a user asks once.
//
// The origin of the second is the system, so that it does not lift orders as a user's message would.
func (t *trace) asked(s *span) *call {
	from, relayed := t.relayed(s)
	before := t.last(s)
	switch {
	// What a person says is said by no agent, and a team that asks a person has answered.
	case s.person:
		return &call{silent: true}
	case before != nil && before.person:
		return &call{origin: events.OriginUser}
	case relayed:
		return passed(from)
	case t.isOvertaken(s):
		return &call{origin: events.OriginSystem}
	// In a team a message goes to all, and its manager says whose turn it is: who speaks next
	// goes on with what was said last.
	// So does who comes next in a workflow, of which the user asked the first.
	case before != nil && (t.isSent(s) || t.workflowOf(s) != nil && t.workflowOf(s) == t.workflowOf(before)):
		if agentOf(before) != agentOf(s) {
			return passed(agentOf(before))
		}
		return &call{origin: events.OriginSystem}
	}
	return &call{origin: events.OriginUser}
}
