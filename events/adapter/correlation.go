package adapter

import "weir/events"

// Names are what the flow of an event may be called, each in the place of how it was
// found; a place that is empty was not found.
type Names [events.CorrelationDerived + 1]string

// Order is the order in which names are looked at where a format has none of its own:
// from the most to the least trusted.
func Order() []events.CorrelationSource {
	return []events.CorrelationSource{events.CorrelationExplicit, events.CorrelationBaggage, events.CorrelationPrompt, events.CorrelationTrace,
		events.CorrelationConversation, events.CorrelationSession, events.CorrelationTask, events.CorrelationDerived}
}

// Name gives e the first name in the order, and says how it was found.
func (n *Names) Name(e *events.Event, order []events.CorrelationSource) {
	for _, source := range order {
		if int(source) < len(n) && n[source] != "" {
			e.CorrelationID, e.CorrelationSource = n[source], source
			return
		}
	}
}
