package app

import "weir/events"

// rekey takes down what the rules about agents need of an event, which is little: calls
// between agents that escaped correlation, so that no flow counts them, and what an
// agent says of itself or others say of it.
func (p *Pump) rekey(ev *events.Event, offset int64) {
	if offset < p.refold.upTo { // went out before the verdicts that were found
		return
	}
	var agent events.Party
	switch ev.Kind {
	case events.AgentCall:
		if ev.Ask || ev.By() == events.OriginUser || ev.CorrelationID != "" && ev.CorrelationSource != events.CorrelationDerived {
			return
		}
		agent = ev.To
	case events.AgentStatus, events.NoteAdded, events.RescueRequest, events.ReviewResult:
		if agent = ev.To; agent.IsZero() {
			agent = ev.From
		}
	default:
		return
	}
	key := agent.Agent
	if key == "" {
		key = agent.ID()
	}
	if key == "" {
		return
	}
	one := events.Event{ID: ev.ID, Source: ev.Source, Time: ev.Time, Kind: ev.Kind, CorrelationID: ev.CorrelationID, CorrelationSource: ev.CorrelationSource,
		From: ev.From, To: ev.To, AgentState: ev.AgentState, Note: ev.Note, Rescue: ev.Rescue, Review: ev.Review}
	p.rekeyed = append(p.rekeyed, Rekeyed{Agent: key, Offset: offset, Value: one.AppendJSON(nil)})
}
