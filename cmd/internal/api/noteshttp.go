package api

import (
	"net/http"
	"slices"
	"strings"

	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
)

// The tags that together make a note ask for help.
const (
	// The agent stage looks for the same two words.
	tagStuck = "stuck"
	tagHelp  = "help"
)

// NoteOrder is a note to add. Agent is the subject of the note; by default this is its
// author.
// A note is an event (NoteAdded): it stays in the log, and the last few with the agent.
type NoteOrder struct {
	Agent   string   `json:"agent,omitempty"`
	Author  string   `json:"author,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Summary string   `json:"summary"`
}

// serveNotes is GET /v1/notes: what is kept of notes about the agents that this process
// folds, or about one of them. A tag may be given many times; all are wanted then.
// An empty tag is as good as none, since forms send one for a field that was left empty.
func (a *agentPages) serveNotes(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParameter(r, "limit", defaultAgents, maxAgents)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	q := pump.NoteQuery{Agent: query.Get("agent"), Tags: slices.DeleteFunc(query["tag"], func(s string) bool { return s == "" }), Limit: int(limit)}
	var list pump.NoteList
	if q.Agent == "" {
		list, err = pump.NotesOf(a.log.Pumps(pump.AgentStage), q)
	} else {
		list, err = a.notesAbout(q)
	}
	if err != nil {
		return err
	}
	return answer(w, list)
}

// notesAbout looks at one agent alone.
// Without it a list would read the states of all agents.
func (a *agentPages) notesAbout(q pump.NoteQuery) (pump.NoteList, error) {
	p, key, err := a.agentPump(events.ScopeAgent, q.Agent)
	if err != nil {
		return pump.NoteList{}, err
	}
	return p.NotesAbout(key, q)
}

// serveNote is POST /v1/notes.
// Every sender of events may add a note, because it could send the event as well. A note is
// no order, so no name of the access file is put before that of its author. The response
// waits for a verdict only when the tags request help.
func (a *agentPages) serveNote(w http.ResponseWriter, r *http.Request) error {
	var asked NoteOrder
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	author := asked.Author
	if who := r.Header.Get(whoHeader); who != "" {
		author = who
	}
	missing := func(field, detail string) error {
		return &problem.Error{Status: http.StatusBadRequest, Code: string(events.CodeMissingField), Field: field, Detail: detail}
	}
	switch {
	case strings.TrimSpace(author) == "":
		return missing("author", "say who: author in the body, or a proxy in the header "+whoHeader)
	case strings.TrimSpace(asked.Summary) == "":
		return missing("summary", "say something: a note has a summary")
	}
	ev := events.Event{Kind: events.NoteAdded, From: events.Party{Agent: author}, To: events.Party{Agent: asked.Agent},
		Note: &events.Note{Summary: asked.Summary, Tags: asked.Tags}}
	return a.appendAbout(w, r, &ev, slices.Contains(asked.Tags, tagStuck) && slices.Contains(asked.Tags, tagHelp))
}
