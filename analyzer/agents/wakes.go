package agents

import (
	"slices"
	"strings"
	"time"

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

// ofFlows reports whether the state is of the flows that began with an agent.
func (a *subject) ofFlows() bool {
	if !a.isWake() {
		return false
	}
	_, _, ok := activity.OfFlows(a.name())
	return ok
}

// byOpener reports whether the flows are those that one flow opened.
func (a *subject) byOpener() bool {
	if !a.isWake() {
		return false
	}
	_, agent, _ := activity.OfFlows(a.name())
	_, ok := activity.OfOpener(agent)
	return ok
}

// flowsOf is the agent that the counted flows began with.
func (a *Agent) flowsOf() string {
	_, agent, _ := activity.OfFlows(a.name())
	if a.byOpener() {
		agent = a.margin
	}
	return strings.Clone(agent)
}

// flowsText is what a verdict about such flows says.
const flowsText = "{head}the same message to one agent came to the same in {n} flows in a row within {window} s {bound}"

// machinePace is the least time between flows that a program opens at a pace that a person
// may have set: a check each minute that finds nothing new is none of a loop.
const machinePace = 45 * time.Second

// unhurried is how long an opener waits at least that does not push on at once.
const unhurried = 10 * time.Second

// atOnce is the most time from the end of a flow to the next one that the first has set off itself.
const atOnce = 5 * time.Second

// begun notes a flow that began with the agent, or that the flow opened. What is kept is as for a
// conversation: the flows are authors of notes, with their briefs as summaries, and the last brief with
// its outcome is the health. The end of the last flow is the time of the last report.
func (e *orderWriter) begun(a *Agent, m *moment, fx *activity.Effects) {
	if len(a.notes) == maxNotes {
		a.notes = a.notes[:copy(a.notes, a.notes[1:])]
	}
	a.status = m.ev.AgentState.Margin
	brief := m.ev.Content.String()
	a.notes = append(a.notes, Note{Time: m.when, Author: m.ev.CorrelationID, Summary: brief})
	if a.margin = m.ev.To.Agent; a.margin == "" {
		a.margin = m.ev.To.Session
	}
	if had, _, ok := strings.Cut(a.health, " "); ok && had == brief {
		e.defied(a, m, fx)
	}
}

// came counts a flow that came to the same as the one before, after the same brief. Any other
// outcome begins anew, and so does the pace of a timer.
func (e *orderWriter) came(a *Agent, m *moment, fx *activity.Effects) {
	i := slices.IndexFunc(a.notes, func(n Note) bool { return n.Author == m.ev.CorrelationID && n.Summary != "" })
	if i < 0 {
		return // its beginning is forgotten, or it answered before
	}
	said := a.notes[i].Summary + " " + m.ev.Content.String()
	a.notes[i].Summary = ""
	again := said == a.health
	waited := a.notes[i].Time.Sub(a.reported)
	switch {
	case a.byOpener():
		// Those opened side by side are one attempt, and an opener that waits may look how far something is.
		again = again && waited >= 0 && waited < unhurried
	case i > 0 && a.status != events.OriginAgent.String() && a.notes[i].Time.Sub(a.notes[i-1].Time) >= machinePace:
		again = false
	}
	if !again {
		notes := slices.Clone(a.notes)
		e.moved(a, m, fx)
		a.notes = append(a.notes[:0], notes...)
	}
	if again && !a.proves(waited) {
		a.figures |= provesLittle
	}
	if a.reported, a.health = m.when, said; again {
		e.count(a, m, fx)
	}
}

// provesLittle is set where flows may come in a row because a person, or a timer, has them come.
const provesLittle figureSet = 1 << 7

// proves reports whether a flow is proof of a loop that no person meant: one that its opener sent
// out again, or that followed upon the end of the one before. A timer's is at the pace of a person.
func (a *Agent) proves(waited time.Duration) bool {
	switch {
	case a.byOpener():
		return true
	case a.status == events.OriginSystem.String(), a.status == events.OriginApplet.String():
		return waited >= 0 && waited <= atOnce
	}
	return false
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
	if !a.ofFlows() {
		a.margin = "" // guards find an order by its scope, which has to stay the same
	}
	a.notes, a.status, a.health, a.figures = a.notes[:0], "", "", a.figures&^provesLittle
}

// callers are the agents that called last.
func (a *Agent) callers() (names []string) {
	for i := range a.notes {
		if name := a.notes[i].Summary; name != "" && !slices.Contains(names, name) {
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
