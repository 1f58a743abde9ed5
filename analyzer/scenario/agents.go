package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/events"
)

// ofAgents reports whether the event is about an agent and not about a flow. Such events take
// the agent stage by way of Engine.Relay, unless their brackets name a flow.
func (a *action) ofAgents() bool {
	return a.verb == verbStatus || a.verb == verbNote || a.verb == verbWord && (a.word == "rescue" || a.word == "review" || a.word == "ack")
}

// ofAgent makes an event about an agent. It belongs to no flow, unless its own brackets
// say so. argument is what stands after the colon, with its counters filled in: the text of a
// note, or the agent that a word is about.
func (x *expansion) ofAgent(it *item, from, to events.Party, argument string) (err error) {
	flow := ""
	if it.given("flow") != nil {
		flow = x.value(it, "flow")
	}
	a, ev := &it.act, x.base(it, flow)
	if a.verb == verbWord {
		// A word names its agent after the colon, so what the scanner read as parties is
		// empty.
		to = partyOf(argument)
		from = partyOf(x.value(it, "by"))
	}
	// The subject and the sender, as producers send them.
	ev.From, ev.To = from, to
	switch {
	case a.verb == verbStatus:
		ev.Kind = events.AgentStatus
		if ev.AgentState, err = x.state(it); err != nil {
			return err
		}
	case a.verb == verbNote:
		ev.Kind, ev.Note = events.NoteAdded, &events.Note{Summary: argument}
		for _, tag := range a.tags {
			if tag, err = x.count(tag); err != nil {
				return err
			}
			ev.Note.Tags = append(ev.Note.Tags, tag)
		}
	case a.word == "rescue":
		_, admin := x.field(it, "admin")
		ev.Kind, ev.Rescue = events.RescueRequest, &events.Rescue{Admin: admin}
	case a.word == "review":
		ev.Kind, ev.Review = events.ReviewResult, &events.Review{Decision: x.value(it, "decision")}
		if ev.Review.Decision == "" {
			return fmt.Errorf("review:%s: say what was decided: [decision=resume], keep or archive", argument)
		}
	case a.word == "ack":
		ev.Kind, ev.Ack = events.VerdictAck, &events.Ack{Applied: true}
	}
	_, err = x.deliver(it, ev)
	return err
}

// state is what an agent reports of itself. A figure that is not in brackets was not reported,
// which is not the same as 0 (see agents.Agent).
func (x *expansion) state(it *item) (*events.AgentState, error) {
	status, err := x.count(it.act.word)
	if err != nil {
		return nil, err
	}
	s := &events.AgentState{Status: status, Margin: x.value(it, "margin"), Health: x.value(it, "health")}
	_, s.VoidActive = x.field(it, "void")
	for _, f := range [...]struct {
		key string
		v   *float64
		has *bool
	}{{"coherence", &s.Coherence, &s.HasCoherence}, {"risk", &s.Risk, &s.HasRisk}} {
		if *f.v, err = strconv.ParseFloat(x.value(it, f.key), 64); err == nil {
			*f.has = true // an absent figure was not reported; a present one was checked when it was read
		}
	}
	return s, nil
}

// partyOf reads a party as events name it: a session, and perhaps its agent. It does no more
// checking: the name was in a text, in which anything may stand.
func partyOf(s string) events.Party {
	session, agent, _ := strings.Cut(s, "@")
	return events.Party{Session: session, Agent: agent}
}

// concerns reports whether the verdict is an order about an agent or a project of the event: one
// that refuses calls, or a step of the ladder for a stuck agent. "ack" and "refused" use it to
// find the order that they are about among those of all flows.
func concerns(v *events.Verdict, ev *events.Event) bool {
	switch v.Action {
	case events.Resume, events.ReviewAgent, events.Archive:
	default:
		if v.Effective == "" {
			return false
		}
	}
	return v.CorrelationID == "" && (v.Scope.Kind == events.ScopeTree && v.Scope.ID == ev.Root() || v.Scope.Kind == events.ScopeProject && v.Scope.ID == ev.ProjectID ||
		v.Scope.Kind == events.ScopeAgent && slices.Contains([]string{ev.To.Agent, ev.To.Session, ev.From.Agent, ev.From.Session}, v.Scope.ID))
}
