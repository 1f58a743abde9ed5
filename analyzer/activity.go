package analyzer

import (
	"github.com/cespare/xxhash/v2"

	"weir/analyzer/activity"
	"weir/analyzer/budgets"
	"weir/events"
)

// LowWatermark returns up to when the agent stage has everything: whatever the flows of a log did
// up to that time was handed over when the watermark of the log reached at. It is zero
// before anything was.
// It is what the promise to the agent stage rests on: silence is judged up to the least of
// what all source partitions say (decision 38).
func (e *settings) LowWatermark(at events.Stamp) events.Stamp {
	return max(0, at.Add(-activity.Grace-e.limits.Agents.Report))
}

// Relay passes an event without a correlation id on to the agent stage: what an agent reports
// of itself, or others report of it. It returns false, and does nothing, for an event that a
// flow has to fold.
// Such an event has no flow whose state could keep it, so nothing is kept here. The agent
// stage detects repeats.
func (e *relay) Relay(p *Partition, ev *events.Event, fx *Effects) bool {
	if ev.CorrelationID != "" {
		return false
	}
	switch ev.Kind {
	case events.AgentStatus, events.NoteAdded, events.RescueRequest, events.ReviewResult, events.VerdictAck:
	case events.OverrideSet:
		if ev.Override == nil || ev.Override.Scope != events.ScopeBudget {
			return false
		}
	default:
		return false
	}
	fx.Answer = nil
	// The partition has seen its time, also if it means nothing to anybody.
	when := p.take(ev, fx)
	fx.Counts.Events++
	switch ev.Kind {
	case events.VerdictAck:
		e.passAck(ev, when, fx)
	case events.OverrideSet:
		fx.SayTo(budgets.Prefix, ev.Override.ScopeID, ev, when).Override = ev.Override
	default:
		e.passWord(ev, when, fx)
	}
	return true
}

// repartition passes on what the agent stage needs of an event that the flow has counted.
// A refused check request is passed on by noteTry and not here: it was no call.
func (e *relay) repartition(f *Flow, m *moment, fx *Effects) {
	if e.agents.Trees {
		e.passSpent(f, m, fx)
	}
	if len(e.limits.Budgets) > 0 {
		e.charge(f, m, fx)
	}
	switch m.ev.Kind {
	case events.AgentStatus, events.NoteAdded, events.RescueRequest, events.ReviewResult:
		e.passWord(m.ev, m.when, fx)
	case events.ToolCall:
		if e.agents.Wakes {
			f.passWake(m, fx)
		}
	case events.ToolResult:
		if f.flags&flagBegun != 0 && e.agents.Wakes && m.ev.ParentCorrelationID != "" && waitsFor(f, m) {
			notifyOpener(m, waits(m.ev), activity.WorkCame, fx)
		}
	case events.AgentReturn:
		if e.agents.Wakes {
			passOutcome(f, m, fx)
		}
	case events.AgentCall:
		if e.agents.Wakes {
			f.passWake(m, fx)
			passOutcome(f, m, fx)
		}
		if m.hop {
			e.passCall(f, m, fx)
		}
	}
}

// passWord passes on what an agent says of itself, or others of it.
func (e *relay) passWord(ev *events.Event, when events.Stamp, fx *Effects) {
	// A status is about its sender. A note, a request or a review is about the party that it
	// names, else about its author.
	about := ev.To
	if ev.Kind == events.AgentStatus || about.IsZero() {
		about = ev.From
	}
	if a := fx.Say(about, ev, when); a != nil {
		a.AgentState, a.Note, a.Rescue, a.Review = ev.AgentState, ev.Note, ev.Rescue, ev.Review
		a.Tags = ev.Tags
	}
	// As long as a successor reports, the agent that it took over from is not silent.
	if ev.Kind == events.AgentStatus && activity.AgentKey(ev.To) != activity.AgentKey(ev.From) {
		if a := fx.Say(ev.To, ev, when); a != nil {
			a.Kind, a.AgentState = events.AgentActivity, fx.State(activity.WorkSpoken)
		}
	}
}

// passCall passes on a call between agents, if some row counts it.
// It may pass on a call three times: to the agent, to its project and as the opening of a flow.
// Each goes to another key or as another kind, because each is counted by itself.
func (e *relay) passCall(f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	if ev.CorrelationSource == events.CorrelationPrincipal {
		return // it is counted in the flow that its caller names
	}
	escaped := ev.CorrelationID == "" || ev.CorrelationSource == events.CorrelationDerived
	if e.agents.Calls || e.agents.Escaped && escaped {
		if a := fx.Say(ev.To, ev, m.when); a != nil {
			// A sample is counted up where it is counted.
			a.SampledRate = sampleOf(ev)
		}
	}
	if e.agents.Projects && ev.ProjectID != "" {
		fx.SayTo(activity.ProjectPrefix, ev.ProjectID, ev, m.when).SampledRate = sampleOf(ev)
	}
	// The first event of a flow is a call between agents: an agent made up its id.
	if e.agents.Opened && f.events == 1 {
		if a := fx.Say(ev.To, ev, m.when); a != nil {
			a.Kind, a.AgentState = events.AgentActivity, fx.State(activity.WorkOpened)
		}
	}
}

// passWake notifies the conversation that an agent opened this flow in it, or that the
// conversation moved on: a flow that an agent opened has used a tool, or a person wrote. A
// conversation that is the flow itself has rules of its own.
func (f *counts) passWake(m *moment, fx *Effects) {
	ev := m.ev
	if ev.ConversationID == "" || ev.ConversationID == ev.CorrelationID || ev.CorrelationSource == events.CorrelationPrincipal {
		return
	}
	status := activity.WorkMoved
	switch {
	case ev.Kind == events.AgentCall && m.word:
	case ev.Kind == events.AgentCall && m.hop && f.events == 1:
		if ev.HadWork != events.Yes {
			status = activity.WorkWoken
		}
	case ev.Kind == events.ToolCall && f.toolCalls == 1 && f.hops > 0:
	default:
		return
	}
	a := fx.SayTo(activity.WakePrefix, activity.WakeID(ev.TenantID, ev.ConversationID), ev, m.when)
	a.Kind, a.AgentState, a.Content = events.AgentActivity, fx.State(status), ev.Content
}

// passOutcome notifies the agent that the flow began with, and the flow that opened it, unless a person did, of
// the brief, and at the end of what the flow came to. An outcome is passed on only if the brief was.
func passOutcome(f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	if ev.CorrelationID == "" || ev.CorrelationSource == events.CorrelationDerived || ev.CorrelationSource == events.CorrelationPrincipal {
		return // what is made up anew for each call opens no flow
	}
	var about *events.Party
	content, status := ev.Content, activity.WorkBegun
	switch {
	case ev.Kind == events.AgentCall && f.events == 1 && ev.By() != events.OriginUser:
		about = &ev.To
	case ev.Kind == events.AgentReturn && f.flags&flagBegun != 0 && m.from != none && answersOpener(f, m):
		about, content, status = &ev.From, cameTo(&f.cast, ev), activity.WorkCame
	default:
		return
	}
	id := agentOf(about)
	if id == "" || content.IsZero() {
		return
	}
	if status == activity.WorkBegun {
		f.flags |= flagBegun
	}
	notifyOf(activity.FlowsID(ev.TenantID, id), m, content, status, fx)
	// Flows that one agent opens are no proof by themselves: each may do what another person has asked for.
	if ev.ParentCorrelationID == "" {
		return
	}
	if status == activity.WorkCame && looksOn(f) {
		content = waits(ev)
	}
	notifyOpener(m, content, status, fx)
}

// notifyOpener notifies the flow that opened that of the event.
func notifyOpener(m *moment, content events.Hash, status string, fx *Effects) {
	notifyOf(activity.OpenedID(m.ev.TenantID, m.ev.ParentCorrelationID), m, content, status, fx)
}

// notifyOf reports to a count of flows that one began, or what it came to.
func notifyOf(id string, m *moment, content events.Hash, status string, fx *Effects) {
	a := fx.SayTo(activity.WakePrefix, id, m.ev, m.when)
	a.Kind, a.AgentState, a.Content = events.AgentActivity, fx.State(status), content
	if status == activity.WorkBegun {
		a.AgentState.Margin = m.ev.By().String()
	}
}

// waits is what a flow comes to that waits for something: it is like no other, for the next look may bring another
// result. The opener of such flows has others look how far something is.
func waits(ev *events.Event) events.Hash {
	return events.Hash{Algorithm: events.XXH64, Value: xxhash.Sum64String("waits\x00"+ev.CorrelationID) | 1}
}

// waitsFor reports whether the result at hand is of a call that waited: it took long and is no error.
func waitsFor(f *Flow, m *moment) bool {
	if m.from == none || m.callAt < 0 || m.callAt >= len(f.parties[m.from].calls) {
		return false
	}
	c := &f.parties[m.from].calls[m.callAt]
	return c.flags&(callError|callTests) == 0 && f.slow(m, c)
}

// looksOn reports whether a call of the flow rightly repeats another one, as looks at work that goes on do, and brought
// something. Calls to a provider that is busy bring an error.
func looksOn(f *Flow) bool {
	for i := range f.parties {
		for j := range f.parties[i].calls {
			if c := &f.parties[i].calls[j]; c.flags&(callRetry|callError) == callRetry && c.known() {
				return true
			}
		}
	}
	return false
}

// agentOf is what flows of a party are counted by: the agent, else the session.
func agentOf(p *events.Party) string {
	if p.Agent != "" {
		return p.Agent
	}
	return p.Session
}

// answersOpener reports whether a return goes to the opener of the flow, as far as the log shows: to
// no agent, or to one that only made calls in this flow.
func answersOpener(f *Flow, m *moment) bool {
	return m.to == none || f.hops <= uint32(maxFlowHops) && f.depth() <= 1 && len(f.parties[m.to].calls) == 0
}

// maxFlowHops bounds the calls between agents of a flow whose outcome is compared with those of others.
const maxFlowHops = 8

// cameTo returns a hash of what the flow came to: of the calls of tools with their results, else of
// the answer or its error. It is the zero hash where nothing is known. Answers in new words hide no
// loop that way.
func cameTo(f *cast, ev *events.Event) events.Hash {
	sum, n := uint64(0), 0
	for i := range f.parties {
		for j := range f.parties[i].calls {
			if c := &f.parties[i].calls[j]; c.known() && c.flags&callArgs != 0 {
				v := (c.args*0x9e3779b97f4a7c15 ^ c.result) * 0xff51afd7ed558ccd
				sum += v ^ v>>33 // in any order, since calls side by side have none
				n++
			}
		}
	}
	switch {
	case n > 0:
		return events.Hash{Algorithm: events.XXH64, Value: sum | 1}
	case ev.Content.IsZero() && ev.ErrorType != "":
		return events.Hash{Algorithm: events.XXH64, Value: xxhash.Sum64String(ev.ErrorType) | 1}
	}
	return ev.Content
}

// passAck passes on an acknowledgement of an order that is not the flow's own. It may be
// about the callee, the caller or the project: each knows its own orders.
func (e *relay) passAck(ev *events.Event, when events.Stamp, fx *Effects) {
	fx.Counts.Acked(events.ReasonCount, ev.Ack)
	if a := fx.Say(ev.To, ev, when); a != nil {
		a.Ack = ev.Ack
	}
	// It goes to one agent only once, or its attempt would count twice.
	if activity.AgentKey(ev.From) != activity.AgentKey(ev.To) {
		if a := fx.Say(ev.From, ev, when); a != nil {
			a.Ack = ev.Ack
		}
	}
	if e.agents.Projects && ev.ProjectID != "" {
		fx.SayTo(activity.ProjectPrefix, ev.ProjectID, ev, when).Ack = ev.Ack
	}
}

// leaveNote has the agent stage keep a note with the agent that the event is of.
func (e *relay) leaveNote(m *moment, summary string, tags []string, fx *Effects) {
	if a := fx.Say(m.ev.From, m.ev, m.when); a != nil {
		// It is weir's own note, about the agent that sent the event.
		a.Kind, a.To, a.From = events.NoteAdded, m.ev.From, events.Party{Agent: activity.NoteAuthor}
		a.Note = &events.Note{Summary: summary, Tags: tags}
	}
}
