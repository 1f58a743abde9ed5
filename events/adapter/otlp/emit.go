package otlp

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/polling"
	"weir/events/adapter/tag"
)

// moment is the beginning or the end of a span.
//
// at is in ns. depth orders moments of one time, see inTime.
type moment struct {
	at    int64
	begin bool
	depth int
	span  *span
}

// emitter turns the spans of one trace into events.
//
// Its methods are called in the order of time, and each leaves in the trace what the next ones
// need: who ran last, who worked, who handed over.
type emitter struct {
	*trace
	// It is made for each round of emitting; lasting state is in the trace.
	correlation []events.CorrelationSource
	silent      func(adapter.Silence)
	turns       *turns
	looks       *polling.Looks
	emit        func(*events.Event)
	// event is the reader's one event, which every begin fills anew.
	event *events.Event
}

// emitUntil emits the events of all spans that ended by until, in the order of time.
// When the trace is complete, so are the answers to its user.
// Spans that end later stay pending: their trace is not complete yet.
//
// until is in ns, and counts only when the trace is not complete.
func (t *emitter) emitUntil(until int64, complete bool) {
	// What spans are may have changed with those that came since the last turn.
	t.prepare()
	moments, roots, rest := t.ended(until, complete)
	// What was emitted is let go of: only spans keeps it, for those that come later.
	clear(t.pending[len(rest):])
	t.pending = rest
	slices.SortStableFunc(moments, inTime)
	// A trace of which something was emitted before its workflow came has begun already.
	late := t.begun
	t.begun = t.begun || len(moments) > 0
	for _, m := range moments {
		t.emitMoment(m, late)
	}
	if !complete {
		return
	}
	// A handoff that no agent followed is emitted before the answers.
	t.unanswered()
	for _, s := range t.answers {
		t.answer(s, events.Party{})
	}
	t.answers = nil
	for _, s := range roots {
		t.flow(s, events.FlowEnd, "end", s.end)
	}
}

// ended returns the moments of the spans that ended by until, the workflows among them that nothing is above, and the
// spans that stay pending.
func (t *emitter) ended(until int64, complete bool) (moments []moment, roots, rest []*span) {
	// The room of pending is used again for what stays.
	rest = t.pending[:0]
	t.oldest = 0
	// Workflows without anything above them are flows of their own.
	for _, s := range t.pending {
		if s.end > until && !complete {
			rest = append(rest, s)
			if t.oldest == 0 || s.end < t.oldest {
				t.oldest = s.end
			}
			continue
		}
		s.emitted = true
		depth := t.depth(s)
		switch s.kind {
		case workflow:
			// A remote parent is in another program, whose spans may never come.
			if s.parent == 0 || s.remote {
				roots = append(roots, s)
				moments = append(moments, moment{s.start, true, depth, s})
			} else {
				// A workflow within another flow only ties its agents together.
				t.silent(adapter.SilentStep)
			}
		case visit, toolUse:
			moments = append(moments, moment{s.start, true, depth, s}, moment{s.end, false, depth, s})
		case inference:
			// The results that a request brings are emitted when it begins: they were there
			// before.
			if s.dialogue != nil && len(s.dialogue.brought) > 0 && !t.turns.isTooled(s.source) {
				moments = append(moments, moment{s.start, true, depth, s})
			}
			moments = append(moments, moment{s.end, false, depth, s})
		case executor, node:
			t.silent(adapter.SilentStep)
		case plain:
			t.silent(s.why())
		}
	}
	return moments, roots, rest
}

// emitMoment emits what happened at the beginning or the end of a span. A late workflow has begun without its span.
func (t *emitter) emitMoment(m moment, late bool) {
	switch s := m.span; {
	case s.kind == workflow:
		if !late { // else the flow began without it
			t.flow(s, events.FlowStart, "start", s.start)
		}
	case s.kind == visit && m.begin:
		t.enter(s)
	case s.kind == visit:
		t.leave(s)
	case s.kind == inference && m.begin:
		t.bring(s)
	case s.kind == inference:
		t.inference(s)
	case m.begin:
		t.use(s)
	default:
		t.result(s)
	}
}

// unanswered emits the handoffs to agents that did not run afterwards: they were made all the
// same.
//
// A handoff to an agent that leaves no spans, such as a remote one, is emitted like that.
func (t *emitter) unanswered() {
	// In the order of time, since the map has none.
	left := slices.SortedFunc(maps.Values(t.said), byStart)
	for _, s := range left {
		from := t.actor(s)
		// A failed handoff was not made, and one without a target cannot be emitted.
		if s.handoff == whoever || s.status == events.StatusError {
			continue
		}
		// LangChain starts a trace of its own for a tool that gets the state. The trace of the agents
		// reports which one runs then.
		if s.command && len(t.runs) == 0 {
			t.silent(adapter.SilentTwice)
			continue
		}
		t.handOver(s, from)
	}
	clear(t.said)
}

// handOver emits a handoff whose target has no visible run.
func (t *emitter) handOver(s *span, from string) {
	e := t.begin(s, events.AgentCall, "start", s.start)
	e.From, e.To = events.Party{Agent: from}, events.Party{Agent: s.handoff}
	e.Origin, e.TransferMode, e.Content, e.Sim = events.OriginAgent, events.PassControl, s.content, s.sim
	t.worked.Set(e, from)
	// Who passed control does not answer the user.
	t.answers = slices.DeleteFunc(t.answers, func(a *span) bool { return agentOf(a) == from })
	t.emit(e)
	// It is remembered in case the run comes late, see isHandedOff.
	if t.passed == nil || len(t.passed) >= maxParties {
		t.passed = map[string][]*span{}
	}
	if made := t.passed[from]; len(made) >= maxRuns {
		t.passed[from] = made[1:]
	}
	t.passed[from] = append(t.passed[from], s)
}

// goOn emits the handoffs to agents whose runs have no spans of their own. A span of such an
// agent shows that it has control.
func (t *emitter) goOn(s *span, agent string) {
	// An agent that lies above says itself who works, so nothing has to be found out.
	if len(t.said) == 0 || t.above(s).visit != nil {
		return
	}
	// The agent is at work, so the handoff to it was followed.
	for _, h := range slices.SortedFunc(maps.Values(t.said), byStart) {
		from := t.actor(h)
		again := from == agent && h != s && s.passes // and no other agent had it in between
		// A handoff that ended after s began is not the one that s follows; nor is one to
		// another agent, or to itself.
		if h.handoff == whoever || h.status == events.StatusError || h.end > s.start || !again && (from == agent || !alike(agent, h.handoff)) {
			continue
		}
		t.handOver(h, from)
		// It stands under who made it as far as was known then: a span that came since may
		// say better.
		maps.DeleteFunc(t.said, func(_ string, made *span) bool { return made == h })
		// Who passes control begins anew, and so does who gets it.
		t.worked.Spend(from)
		t.worked.Spend(h.handoff)
	}
}

// isHandedOff reports whether a call is the one that a handoff was emitted as before the run of
// the agent came: the batch with it was overtaken by a later one.
//
// Emitted once before the run was seen, the call must not be emitted by the run again.
func (t *emitter) isHandedOff(s *span, c *call) bool {
	if c.mode != events.PassControl {
		return false
	}
	made := t.passed[c.agent]
	i := slices.IndexFunc(made, func(h *span) bool { return h.end <= s.start && alike(agentOf(s), h.handoff) })
	if i < 0 {
		return false
	}
	// One call for each handoff: the next run of the agent needs another.
	t.passed[c.agent] = slices.Delete(made, i, i+1)
	return true
}

// inTime orders moments. At one instant ends come before beginnings. An outer span begins before
// and ends after an inner one.
//
// Times of spans are often of milliseconds only, and often equal. The last resort is the id,
// so that the order does not depend on the order of batches.
func inTime(a, b moment) int {
	class := func(m moment) int {
		switch {
		case m.begin:
			return 1
		case m.span.start < m.at:
			return 0
		}
		return 2 // it began at this instant, too
	}
	by := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(class(a), class(b)))
	switch {
	case by != 0:
		return by
	case a.begin:
		by = cmp.Compare(a.depth, b.depth)
	default:
		by = cmp.Compare(b.depth, a.depth)
	}
	return cmp.Or(by, cmp.Compare(a.span.start, b.span.start), cmp.Compare(a.span.id, b.span.id))
}

// depth counts the spans above one, at most maxUp; a circle of parents ends there.
func (t *trace) depth(s *span) int {
	n := 0
	for ; n < maxUp; n++ {
		if s = t.spans[s.parent]; s == nil {
			break
		}
	}
	return n
}

// begin fills what all events of a span share.
//
// phase makes the events of one span differ by id; the same span in another batch has the same
// ids, and is emitted once.
func (t *emitter) begin(s *span, kind events.Kind, phase string, at int64) *events.Event {
	// All events share the memory of one: emit's callee may not keep it.
	*t.event = events.Event{
		ID: s.trace + "/" + hex16(s.id) + "/" + phase, Source: s.source, Kind: kind,
		// The nanoseconds that a Stamp cuts off put events of one millisecond into order.
		Time: events.Stamp(at / 1e6), Sequence: at % 1e6,
		TraceID: s.trace, SpanID: hex16(s.id), ConversationID: s.conversation, TurnID: t.turn, SampledRate: s.sampled, Tags: t.tags,
	}
	e := t.event
	if s.parent != 0 {
		e.ParentSpanID = hex16(s.parent)
	}
	// The names of the span go before those of the trace.
	e.CorrelationID, e.CorrelationSource = t.flowOf(s, t.correlation)
	e.ParentCorrelationID, e.RootCorrelationID = cmp.Or(s.parentFlow, t.parent), s.rootFlow
	// The root of a tree of flows is named by itself, so that its own calls count for the
	// tree.
	if t.opens && e.Root() == "" {
		e.RootCorrelationID = e.CorrelationID // what it spends itself counts, too
	}
	return e
}

// flowOf is what the flow of a span is called, and by what.
//
// by is the order that the user chose. The trace is the last resort, which every span has.
func (t *trace) flowOf(s *span, by []events.CorrelationSource) (string, events.CorrelationSource) {
	for _, source := range by {
		id := ""
		switch source {
		case events.CorrelationExplicit, events.CorrelationBaggage:
			id = cmp.Or(s.baggage, t.baggage)
		case events.CorrelationPrompt:
			id = cmp.Or(s.turn, t.turn)
		case events.CorrelationSession:
			id = cmp.Or(s.session, t.session)
		case events.CorrelationConversation:
			id = t.talk
		case events.CorrelationTrace:
			// See trace.alone.
			if id = cmp.Or(t.goesOn, t.id); t.alone != "" {
				id, source = t.alone, events.CorrelationConversation
			}
		}
		if id != "" {
			return id, source
		}
	}
	return t.id, events.CorrelationTrace
}

// hex16 writes the id of a span.
// Ids are kept as numbers inside, which costs less than texts.
func hex16(v uint64) string {
	var id [8]byte
	binary.BigEndian.PutUint64(id[:], v)
	return hex.EncodeToString(id[:])
}

// flow emits the beginning or the end of a flow, where a workflow reports it and the flow is just
// this trace.
func (t *emitter) flow(s *span, kind events.Kind, phase string, at int64) {
	e := t.begin(s, kind, phase, at)
	// Its beginning and end are not the flow's then.
	if e.CorrelationSource != events.CorrelationTrace {
		return // the flow is more than this trace
	}
	if kind == events.FlowEnd {
		e.Status, e.ErrorType, e.DurationMS = s.status, s.failure, milliseconds(s)
	}
	t.emit(e)
}

// milliseconds is how long a span took, to the microsecond.
func milliseconds(s *span) float64 { return max(0, float64((s.end-s.start)/1e3)/1e3) }

// agentOf is the name of a run's agent, or of the program when it has none.
//
// A name is needed, since rules compare parties; all nameless agents of one program are one.
func agentOf(s *span) string { return cmp.Or(s.agent, s.source) }

// hub stands for whatever runs the agents when nothing is known of it.
// Its type says that it is no agent.
func hub(s *span) events.Party {
	return events.Party{Agent: s.source, Type: events.PartyWorkflow}
}

// enter emits the call of an agent.
func (t *emitter) enter(s *span) {
	c := t.callOf(s)
	s.call = c
	agent := agentOf(s)
	// The run goes on with one that was emitted already.
	if c.silent || t.isHandedOff(s, c) {
		t.follow(s)
		return
	}
	e := t.begin(s, events.AgentCall, "start", s.start)
	e.From, e.To, e.Origin, e.TransferMode = c.from, events.Party{Agent: agent}, c.origin, c.mode
	e.To.Tags = tag.Without(s.tags, t.tags)
	// The message to a run comes from its caller, if the span itself does not have it.
	e.Content, e.Sim = t.message(s, c)
	if c.origin == events.OriginAgent {
		t.setWork(e, s, c.agent)
	}
	// Both begin without work after the hop.
	t.worked.Spend(c.agent)
	t.worked.Spend(agent)
	delete(t.said, c.agent)
	// Who is called as a function answers its caller; only the others may be followed.
	if !c.returns {
		t.follow(s)
	}
	t.emit(e)
}

// follow remembers a run that others may follow on. The answer of the agent that
// passed control is its message, not an answer to the user.
//
// An agent that passed control receives no answer.
func (t *emitter) follow(s *span) {
	// Its answer goes to the agent that follows, and not to the user.
	t.answers = slices.DeleteFunc(t.answers, func(a *span) bool {
		return s.call.silent && a.agent == s.agent || s.call.agent != "" && a.agent == s.call.agent
	})
	// The runs that are oldest are forgotten, so that a trace without end stays bounded.
	if len(t.runs) >= maxRuns {
		t.runs = append(t.runs[:0], t.runs[1:]...)
	}
	t.runs = append(t.runs, s)
}

// message is the message to the agent: that of the handoff to it, or the answer of the run before
// it. Otherwise it is the agent's own input, or the arguments of the tool that called it.
//
// A handoff often has no input of its own: the message is in the arguments of the tool.
func (t *emitter) message(s *span, c *call) (events.Hash, events.Fingerprint) {
	if c.mode == events.PassControl {
		if h := t.said[c.agent]; h != nil && !h.content.IsZero() {
			return h.content, h.sim
		}
		if p := t.before(s); p != nil && agentOf(p) == c.agent && !p.answer.IsZero() {
			return p.answer, p.near
		}
	} else if up := t.above(s); up.carrier != nil && s.content.IsZero() {
		return up.carrier.tool.ArgsHash, events.Fingerprint{}
	}
	return s.content, s.sim
}

// callOf finds out who called an agent: the one that the span names, the agent above
// it, the one whose span is linked, or the one that ran before it in the same
// workflow; else the user.
//
// It is asked once, when the run begins, and with what is known by then: a parent that comes
// later changes nothing of it.
func (t *emitter) callOf(s *span) *call {
	up := t.above(s)
	switch {
	// A name in the span goes first, unless the tree says the same.
	case s.calledBy != "" && (up.visit == nil || s.calledBy != agentOf(up.visit)):
		return passed(s.calledBy)
	case up.visit != nil:
		return delegated(agentOf(up.visit))
	case up.carrier != nil && up.carrier.agent != "":
		return delegated(up.carrier.agent)
	}
	// The last agent that ran beside a tool without an agent called it. An agent that is the node of
	// a graph ends before its tools begin.
	if up.carrier != nil {
		if p := t.before(up.carrier); p != nil {
			return delegated(agentOf(p))
		}
	}
	if c := t.linked(s); c != nil {
		// The tool that ran it knows its agent.
		return c
	}
	// The runs within one container follow each other, and the first was asked by the user.
	before := t.before(s)
	inWorkflow := !up.missing || up.workflow || s.flat
	switch {
	case before == nil && (inWorkflow || len(t.runs) == 0):
		return t.asked(s)
	case before != nil && (inWorkflow || t.passedOn(before, s)):
		if agentOf(before) != agentOf(s) {
			return passed(agentOf(before))
		}
		// A node that goes on after its own tools is the same run.
		if s.flat {
			return &call{silent: true}
		}
		return &call{origin: events.OriginSystem} // the program runs it once more
	}
	// What runs the agents has not ended yet. It may be an agent, so the ones that it
	// runs are not taken to call each other.
	return &call{from: hub(s), origin: events.OriginAgent, mode: events.ReturnToCaller, agent: s.source, returns: true}
}

// isOvertaken reports whether a later run was already emitted as called by the user, since
// the batch with this one came after it. The user asked once.
// The order of batches must not make the user ask twice.
func (t *trace) isOvertaken(s *span) bool {
	return slices.ContainsFunc(t.runs, func(p *span) bool {
		return p.start > s.start && p.call.origin == events.OriginUser && t.container(p) == t.container(s)
	})
}

// delegated is a call that returns, as that of a function.
func delegated(agent string) *call {
	return &call{from: events.Party{Agent: agent}, origin: events.OriginAgent, mode: events.ReturnToCaller, agent: agent, returns: true}
}

// passed is a call that does not.
func passed(agent string) *call {
	return &call{from: events.Party{Agent: agent}, origin: events.OriginAgent, mode: events.PassControl, agent: agent}
}

// linked follows the link that a run or its executor has to the span that caused
// it. Who wrote that span called: an agent, or what manages the agents.
// linked follows the link to its author. Executors on the way up may have it in the place of
// the run.
func (t *trace) linked(s *span) *call {
	for range maxUp {
		if s.link != 0 && t.spans[s.link] != nil {
			return t.author(t.spans[s.link])
		}
		if s = t.spans[s.parent]; s == nil || s.kind == visit {
			break
		}
	}
	return nil
}

// author is who wrote a span, as the caller of what it caused: the agent above it, or the
// workflow.
func (t *trace) author(s *span) *call {
	for n := 0; s != nil && n < maxUp; n++ {
		switch s.kind {
		case visit:
			return passed(agentOf(s))
		case executor:
			// The executor of an agent is that agent; any other one is a part of the workflow.
			if agent := t.executes(s.executor); agent != "" {
				return passed(agent)
			}
			// What is no agent still has a name of its own, so it is a party of the type
			// workflow.
			c := delegated(s.executor)
			c.from.Type = events.PartyWorkflow
			return c
		}
		s = t.spans[s.parent]
	}
	return nil
}

// executes is the agent that an executor runs, if it runs one.
//
// It is known only after a run of that agent was seen.
func (t *trace) executes(name string) string {
	for _, s := range t.runs {
		if p := t.spans[s.parent]; p != nil && p.executor == name {
			return agentOf(s)
		}
	}
	return ""
}

// before is the run that ended last before s began, in the same container.
//
// The later of two that ended at one time counts.
func (t *trace) before(s *span) (last *span) {
	for _, p := range t.runs {
		if p != s && p.end <= s.start && t.container(p) == t.container(s) && (last == nil || p.end >= last.end) {
			last = p
		}
	}
	return last
}

// passedOn reports whether the run before ended with a handoff to the agent of s.
// A handoff without a target may have been to any agent.
func (t *trace) passedOn(before, s *span) bool {
	h := t.said[agentOf(before)]
	return h != nil && (h.handoff == whoever || alike(agentOf(s), h.handoff))
}

// leave emits the answer of an agent.
//
// The answer of a call that returns is emitted at once. All others may yet be followed by another
// agent, and are emitted at the end of the trace as answers to the user.
func (t *emitter) leave(s *span) {
	c := s.call
	if c.returns {
		// The work that an answer took is work of the caller, too.
		if e := t.answer(s, c.from); e.HadWork == events.Yes {
			t.worked.Note(c.agent, events.Yes) // an answer that took work
		}
		return
	}
	// The oldest answer is emitted early rather than none being kept.
	if len(t.answers) >= maxRuns {
		t.answer(t.answers[0], events.Party{})
		t.answers = t.answers[1:]
	}
	t.answers = append(t.answers, s)
}

// answer emits the return of a run. If it has no content of its own, the result of the tool around
// it is the content.
func (t *emitter) answer(s *span, to events.Party) *events.Event {
	e := t.begin(s, events.AgentReturn, "end", s.end)
	e.From, e.To = events.Party{Agent: agentOf(s)}, to
	e.Content, e.Sim, e.Status, e.ErrorType, e.DurationMS = s.answer, s.near, s.status, s.failure, milliseconds(s)
	if e.Content.IsZero() {
		if up := t.above(s); up.carrier != nil {
			e.Content, e.Sim = up.carrier.answer, up.carrier.near
		}
	}
	t.setWork(e, s, e.From.Agent)
	// The sum of the run is emitted beside its requests, as an aggregate.
	if s.usage.Known {
		e.Usage = ownUsage(s)
	}
	t.emit(e)
	return e
}

// setWork sets whether an agent worked. That is unknown for a call or an answer that was only
// seen on the wire. Such calls have a source of their own. Otherwise the tools of others would
// count as all tools that there are.
func (t *emitter) setWork(e *events.Event, s *span, agent string) {
	if !s.wire || t.worked.Of(agent) != events.No {
		t.worked.Set(e, agent)
		return
	}
	e.Source = adapter.Word([]byte(e.Source+"/a2a"), events.MaxID)
}

// actor is the agent that a tool or an inference belongs to.
// The order is what the span says, what lies above it, who ran last, the program.
func (t *trace) actor(s *span) string {
	if s.agent != "" {
		return s.agent
	}
	if up := t.above(s); up.visit != nil {
		return agentOf(up.visit)
	}
	// Runs without an agent above them are known by time alone: the last that had begun.
	for i := len(t.runs) - 1; i >= 0; i-- {
		if r := t.runs[i]; r.start <= s.start {
			return agentOf(r)
		}
	}
	return s.source
}

// use emits a call of a tool, or notes what it is instead: a handoff, a call of an agent, or a
// second report of one.
func (t *emitter) use(s *span) {
	agent := t.actor(s)
	t.fill(s)
	t.goOn(s, agent)
	if s.passes {
		if len(t.said) >= maxParties {
			clear(t.said)
		}
		// Only the last handoff of an agent counts: an agent passes control once at a time.
		t.said[agent] = s
	}
	switch {
	case s.passes: // emitted when it is followed
	case s.carrier || s.isTurnEnd():
		t.silent(adapter.SilentTwice) // by the run of the agent
	case s.asks != "":
		t.ask(s, agent)
	default:
		t.worked.Note(agent, events.Yes)
		e := t.begin(s, events.ToolCall, "start", s.start)
		e.From, e.Tool = events.Party{Agent: agent}, s.tool
		e.Tool.Tags = tag.Without(s.tags, t.tags)
		s.tried.Begin(t.looks, e, t.looker(agent), strconv.FormatUint(s.id, 16))
		t.emit(e)
	}
}

// ask emits the call of an agent that is visible as a tool only.
//
// Its own spans are missing, so the tool's span counts as both call and answer.
func (t *emitter) ask(s *span, agent string) {
	e := t.begin(s, events.AgentCall, "start", s.start)
	e.From, e.To, e.Origin, e.TransferMode = events.Party{Agent: agent}, events.Party{Agent: s.asks}, events.OriginAgent, events.ReturnToCaller
	e.Content, e.Sim = s.content, s.sim
	t.worked.Set(e, agent)
	t.worked.Spend(agent)
	t.worked.Spend(s.asks)
	t.emit(e)
}

// result emits the end of the span that use emitted.
func (t *emitter) result(s *span) {
	if s.carrier || s.passes || s.isTurnEnd() {
		return
	}
	// What an agent answers that is seen as a tool goes back to its caller.
	kind, from, to := events.ToolResult, t.actor(s), ""
	if s.asks != "" {
		kind, from, to = events.AgentReturn, s.asks, from
		t.worked.Note(to, events.Unknown) // what the answer took is not seen
	}
	e := t.begin(s, kind, "end", s.end)
	e.From, e.To = events.Party{Agent: from}, events.Party{Agent: to}
	if s.asks == "" {
		e.Tool = s.tool
	}
	e.Content, e.Sim, e.Status, e.ErrorType, e.DurationMS = s.answer, s.near, s.status, s.failure, milliseconds(s)
	if s.asks == "" {
		s.tried.End(t.looks, e, t.looker(from), strconv.FormatUint(s.id, 16), &s.done)
	}
	t.emit(e)
}

// looker is the agent as polling knows it: in another trace it looks at other things.
func (t *emitter) looker(agent string) string { return t.id + "\x00" + agent }

// inference emits the usage of a request. A request without tokens is emitted only if it failed.
func (t *emitter) inference(s *span) {
	if !s.usage.Known && s.status != events.StatusError {
		t.silent(adapter.SilentNoTokens)
		return // a preparation, or nothing that a rule could use
	}
	agent := t.actor(s)
	t.goOn(s, agent)
	e := t.begin(s, events.LLMCall, "end", s.end)
	e.From = events.Party{Agent: agent}
	e.Usage, e.Model, e.Provider = s.usage, s.model, s.provider
	e.Status, e.ErrorType, e.DurationMS = s.status, s.failure, milliseconds(s)
	t.emit(e)
}
