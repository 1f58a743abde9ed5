package agents

import (
	"slices"
	"strings"

	"weir/analyzer/activity"
	"weir/analyzer/record"
	"weir/events"
)

// noted keeps a note with the agent that it is about. A note with the tags stuck and help
// calls for help; any other by the agent itself shows that it lives.
func (e *recoverer) noted(p *Partition, a *Agent, m *moment, fx *activity.Effects) {
	n := m.ev.Note
	if n == nil {
		return
	}
	// Kept under the name of its author, whichever agent the note is about.
	a.keep(Note{Time: m.when, Author: m.ev.From.ID(), Tags: n.Tags, Summary: n.Summary})
	switch {
	case tagged(n.Tags, "stuck") && tagged(n.Tags, "help"):
		e.rescue(p, a, m, e.limits.BelieveNotes && activity.AgentKey(m.ev.From) == a.key, fx)
	case activity.AgentKey(m.ev.From) == a.key:
		e.heard(a, m, m.when, fx)
	}
}

// keep remembers the note as far as there is room, in the place of the oldest.
// Texts are cut, so that notes leave room for the rest of the record.
func (a *Agent) keep(n Note) {
	var tags []string
	if len(a.notes) == maxNotes {
		// The memory of the tags that go; the note that comes uses it.
		tags = a.notes[0].Tags[:0]
		copy(a.notes, a.notes[1:])
		a.notes = a.notes[:maxNotes-1]
	}
	for _, tag := range n.Tags[:min(len(n.Tags), maxNoteTags)] {
		tags = append(tags, record.Cut(tag, maxTagBytes))
	}
	n.Tags, n.Summary = tags, record.Cut(n.Summary, maxNoteBytes)
	a.notes = append(a.notes, n)
}

// tagged reports whether one of the tags is the word, in whatever case.
func tagged(tags []string, word string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return strings.EqualFold(tag, word) })
}

// Notes returns the notes about the agent that have the tag, the newest first; all of
// them when the tag is empty. Case makes no difference. Their strings are their own.
func (a *Agent) Notes(tag string) []NoteView {
	var out []NoteView
	for _, n := range slices.Backward(a.notes) {
		if tag != "" && !tagged(n.Tags, tag) {
			continue
		}
		v := NoteView{Agent: strings.Clone(a.name()), Author: strings.Clone(n.Author), Time: events.RFC3339(n.Time), Summary: strings.Clone(n.Summary)}
		for _, t := range n.Tags {
			v.Tags = append(v.Tags, strings.Clone(t))
		}
		out = append(out, v)
	}
	return out
}
