package agents

import (
	"slices"
	"strings"

	"weir/analyzer/activity"
	"weir/analyzer/record"
	"weir/events"
)

// What is kept of a conversation in which agents wake each other: the times in messages, the last
// flows as authors of notes with the callers as summaries, who was woken last in status, who called
// first in margin, and the last message in health. A conversation has no other use for these.

// isWake reports by the key whether the state is of a conversation.
func (a *subject) isWake() bool { return strings.HasPrefix(a.key, activity.WakePrefix) }

// woken counts a flow that an agent opened in the conversation. It counts if the agent was the one
// that was woken last, or sent the same message as before. An agent that hands out one task after
// the other goes in no circle.
func (e *orderWriter) woken(a *Agent, m *moment, fx *activity.Effects) {
	said := m.ev.Content.String()
	again := a.status != "" && m.ev.From.ID() == a.status || said != "" && said == a.health
	if len(a.notes) == maxNotes {
		a.notes = a.notes[:copy(a.notes, a.notes[1:])]
	}
	a.notes = append(a.notes, Note{Time: m.when, Author: m.ev.CorrelationID, Summary: record.Cut(m.ev.From.ID(), maxNoteBytes)})
	a.status, a.health = m.ev.To.ID(), said
	if a.margin == "" {
		a.margin = m.ev.From.ID() // guards find an order by its scope, which has to stay the same
	}
	e.defied(a, m, fx)
	if again {
		e.count(a, m, fx)
	}
}

// moved begins anew: an agent worked, or a person spoke. An order that was given is lifted.
func (e *orderWriter) moved(a *Agent, m *moment, fx *activity.Effects) {
	a.messages = a.messages[:0]
	for i := len(a.orders) - 1; i >= 0; i-- {
		if o := &a.orders[i]; o.Phase > 0 && o.Expires > m.at {
			o.Action = events.Allow
			e.publish(a, m, o.finding(), fx)
		}
		a.dropOrder(&a.orders[i])
	}
	a.notes, a.status, a.margin, a.health = a.notes[:0], "", "", ""
}

// callers are the agents that called last.
func (a *Agent) callers() (names []string) {
	for i := range a.notes {
		if name := a.notes[i].Summary; !slices.Contains(names, name) {
			names = append(names, strings.Clone(name))
		}
	}
	return names
}

// wakes names the flows that were woken last.
func (a *Agent) wakes() string {
	var b strings.Builder
	for i := range a.notes {
		if i == 0 {
			b.WriteString("flows woken last: ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(a.notes[i].Author)
	}
	return b.String()
}
