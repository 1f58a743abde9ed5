package analyzer

import (
	"time"
	"unsafe"

	"weir/events"
)

// Activity is an event as the agent stage wants it, which cuts across flows: what an
// agent says of itself or others say of it, calls that rules about agents count, and
// what a flow tells of its parties. Its strings and pointers alias the event, the flow
// or the Effects that it stands in: it is good until the next Reset of the Effects, and
// as long as the bytes under event and flow stay what they are.
type Activity struct {
	Key   string // whom it concerns, see AgentKey, ProjectKey and TreeKey
	Event events.Event
}

// AgentKey is the key under which the state of an agent is kept: the stable id, else the
// session. It is empty for the zero Party, which nobody looks after.
func AgentKey(p events.Party) string {
	switch {
	case p.Agent != "":
		return "agent:" + p.Agent
	case p.Session != "":
		return "agent:" + p.Session
	}
	return ""
}

// ProjectKey is the key under which the caps of a project are kept; empty for none.
func ProjectKey(id string) string {
	if id == "" {
		return ""
	}
	return "project:" + id
}

// Grace is how far the watermark of a log has to be past a deadline for it to fire
// without an event of its flow: so late may an event come that should have been seen
// first. It is a constant because it decides verdicts.
const Grace = 5 * time.Second

// What a flow tells of a party: the status of an agent.activity event. The first five are
// the names of Work; logs of an older weir have them in such events.
const (
	WorkActive  = "active"
	WorkInTool  = "in_tool"
	WorkChild   = "waiting_child"
	WorkBackOff = "waiting_backoff"
	WorkDone    = "done"
	WorkRefused = "refused" // it tried calls that an order refused, as many as total_updates says
	WorkOpened  = "opened"  // it opened a flow by calling the agent of the key

	// Of a flow, to the tree that it belongs to: work and usage say what it spent since it told last.
	WorkSpent = "spent"
	WorkEnded = "ended" // and it is over
	// Of the flow of the key, to those that name it as their root: the tree that it belongs to.
	WorkBelongs = "belongs"
)

// LowWatermark returns up to when the agent stage has everything: whatever the flows of a log did
// up to that time was handed over when the watermark of the log reached at. It is zero
// before anything was.
func (e *Engine) LowWatermark(at events.Stamp) events.Stamp {
	return max(0, at.Add(-Grace-e.limits.Agents.Report))
}

// agentRows is which rows about agents want to be told of something.
type agentRows struct {
	escaped  bool // calls without a correlation id of their own
	calls    bool // all calls between agents
	opened   bool // calls that open a flow
	projects bool // calls in projects
	attempts bool // calls against orders
	silence  bool // what parties do
	trees    bool // what flows spend that name a parent or a root
	tells    bool // and some row tells who asks what is left

	counting []AgentRuleID // the rows that count events of agents and projects
}

func agentRowsOf(l *AgentLimits) (w agentRows) {
	for r := range AgentRuleCount {
		set := &l.Rules[r]
		if set.Mute() {
			continue
		}
		if c := AgentRules[r].Counts; c != CountedNothing && !c.OfTree() {
			w.counting = append(w.counting, r)
		}
		switch AgentRules[r].Counts {
		case CountedEscaped:
			w.escaped = true
			w.calls = w.calls || set.All
		case CountedMessages:
			w.calls = true
		case CountedProject:
			w.projects = true
		case CountedOpened:
			w.opened = true
		case CountedRefused:
			w.attempts = true
		}
		w.tells = w.tells || set.Tell != 0
		w.trees = w.trees || AgentRules[r].Counts.OfTree()
		w.silence = w.silence || AgentRules[r].Silence && l.Report > 0
	}
	return w
}

// Relay passes an event on to the agent stage that belongs to no flow: what an agent says
// of itself or others say of it, without a correlation id. It returns false for an event
// that a flow has to fold, and then does nothing.
func (e *Engine) Relay(p *Partition, ev *events.Event, fx *Effects) bool {
	if ev.CorrelationID != "" {
		return false
	}
	switch ev.Kind {
	case events.AgentStatus, events.NoteAdded, events.RescueRequest, events.ReviewResult, events.VerdictAck:
	default:
		return false
	}
	fx.Answer = nil
	when := p.take(ev, fx)
	fx.Counts.Events++
	if ev.Kind == events.VerdictAck {
		e.passAck(ev, when, fx)
	} else {
		e.passWord(ev, when, fx)
	}
	return true
}

// repartition tells the agent stage what it wants to know of an event that the flow has
// counted.
func (e *Engine) repartition(f *Flow, m *moment, fx *Effects) {
	if f.root != "" && e.agents.trees {
		e.passSpent(f, m, fx)
	}
	switch m.ev.Kind {
	case events.AgentStatus, events.NoteAdded, events.RescueRequest, events.ReviewResult:
		e.passWord(m.ev, m.when, fx)
	case events.AgentCall:
		if m.hop {
			e.passCall(f, m, fx)
		}
	}
}

// passWord passes on what an agent says of itself, or others of it.
func (e *Engine) passWord(ev *events.Event, when events.Stamp, fx *Effects) {
	about := ev.To
	if ev.Kind == events.AgentStatus || about.IsZero() {
		about = ev.From
	}
	if a := fx.say(about, ev, when); a != nil {
		a.AgentState, a.Note, a.Rescue, a.Review = ev.AgentState, ev.Note, ev.Rescue, ev.Review
	}
}

// passCall passes on a call between agents, if some row counts it.
func (e *Engine) passCall(f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	if ev.CorrelationSource == events.CorrelationPrincipal {
		return // it is counted in the flow that its caller names
	}
	escaped := ev.CorrelationID == "" || ev.CorrelationSource == events.CorrelationDerived
	if e.agents.calls || e.agents.escaped && escaped {
		if a := fx.say(ev.To, ev, m.when); a != nil {
			a.SampledRate = ev.SampledRate
		}
	}
	if e.agents.projects && ev.ProjectID != "" {
		fx.sayTo(projectPrefix, ev.ProjectID, ev, m.when).SampledRate = ev.SampledRate
	}
	if e.agents.opened && f.events == 1 {
		if a := fx.say(ev.To, ev, m.when); a != nil {
			a.Kind, a.AgentState = events.AgentActivity, fx.said.state(WorkOpened)
		}
	}
}

// passAck passes on an acknowledgement of an order that is not the flow's own. It may be
// about whom the call was to, who made it, or the project: each knows its own orders.
func (e *Engine) passAck(ev *events.Event, when events.Stamp, fx *Effects) {
	fx.Counts.acked(RuleCount, ev.Ack)
	if a := fx.say(ev.To, ev, when); a != nil {
		a.Ack = ev.Ack
	}
	if AgentKey(ev.From) != AgentKey(ev.To) {
		if a := fx.say(ev.From, ev, when); a != nil {
			a.Ack = ev.Ack
		}
	}
	if e.agents.projects && ev.ProjectID != "" {
		fx.sayTo(projectPrefix, ev.ProjectID, ev, when).Ack = ev.Ack
	}
}

// say adds an activity about the party, made of the event, and returns its event to be
// filled in; nil when the party is nobody.
func (fx *Effects) say(about events.Party, ev *events.Event, when events.Stamp) *events.Event {
	id := about.Agent
	if id == "" {
		id = about.Session
	}
	if id == "" {
		return nil
	}
	return fx.sayTo("agent:", id, ev, when)
}

func (fx *Effects) sayTo(kind, id string, ev *events.Event, when events.Stamp) *events.Event {
	fx.Activity = append(fx.Activity, Activity{Key: fx.said.text(kind, id), Event: events.Event{ID: ev.ID, Source: ev.Source, Time: when, Kind: ev.Kind,
		CorrelationID: ev.CorrelationID, CorrelationSource: ev.CorrelationSource, From: ev.From, To: ev.To, ProjectID: ev.ProjectID}})
	return &fx.Activity[len(fx.Activity)-1].Event
}

// saying is the memory of what activities need beside the event and the flow. What was
// handed out stays good while more is added, until reset.
type saying struct {
	bytes  []byte
	states []events.AgentState
}

func (s *saying) reset() { s.bytes, s.states = s.bytes[:0], s.states[:0] }

// text returns a and b joined.
func (s *saying) text(a, b string) string {
	n := len(s.bytes)
	s.bytes = append(append(s.bytes, a...), b...)
	return s.from(n)
}

// from returns what was written from n on.
func (s *saying) from(n int) string { return unsafe.String(&s.bytes[n], len(s.bytes)-n) }

// state returns the state of an agent of which nothing but the status is told.
func (s *saying) state(status string) *events.AgentState {
	s.states = append(s.states, events.AgentState{Status: status})
	return &s.states[len(s.states)-1]
}
