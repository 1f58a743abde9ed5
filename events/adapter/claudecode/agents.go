package claudecode

import (
	"weir/events"
	"weir/events/adapter"
)

// agent is one running agent: a session, or a child of one.
//
// There is one for each session and child, as long as they are among the last maxRemembered
// that were heard of. A child that is forgotten begins anew when it is heard of again.
type agent struct {
	party   events.Party
	session string
	prompt  string // promptId
	// parent is the zero party for the main agent, which is called by the user.
	parent events.Party // who called it last
	// unplaced is set while a child waits for the tool use that called it: files of a session may
	// come in any order.
	unplaced events.Hash // the prompt, while its parent was not seen
	asked    string      // promptId of the last message of the user
	first    string      // uuid of the first message with it
	called   bool
	worked   bool // used a tool, or received an answer that took work, since its last call in either direction
}

// looker is who looks at things: an agent of a session.
func (a *agent) looker() string { return a.session + "\x00" + a.party.ID() }

// agent finds out whose line it is.
//
// It makes one for a key that it does not know, so that no line is lost because its beginning
// was not seen.
func (r *reader) agent(l *line) *agent {
	key := l.session
	switch {
	case l.agent != "":
		key += "/" + l.agent
	case l.sidechain:
		// Old versions wrote child agents into the file of the session, each as a
		// chain of lines that begins without a parent.
		// A chain that begins is named by its first line, and each further line is found by
		// the one before it.
		if parent, ok := r.lines.Get(l.parent); ok {
			key = parent
		} else {
			key += "/" + l.uuid
		}
	}
	if l.sidechain && l.agent == "" && l.uuid != "" {
		r.lines.Put(l.uuid, key)
	}
	a, ok := r.agents.Get(key)
	if !ok {
		a = &agent{session: l.session, party: events.Party{Session: adapter.Word([]byte(key), events.MaxID)}}
		// Only the main agent has a name of its own; a child's is the kind that its tool use
		// names, see adopt.
		if key == l.session {
			a.party.Agent = "claude-code"
		}
		r.agents.Put(key, a)
	}
	// A child stays in the prompt in which it was called, also when a later prompt of the user
	// comes while it runs.
	if l.machine && l.prompt != "" && a.prompt != "" {
		r.machine.Put(l.prompt, struct{}{})
	}
	// What a program asks for in the place of the user belongs to what the user asked for.
	_, machine := r.machine.Get(l.prompt)
	if l.prompt != "" && !machine && (!a.called || key == l.session) {
		a.prompt = l.prompt
	}
	return a
}

// childPrompt handles the prompt of a child agent.
//
// The child's own transcript begins with it. The call itself is emitted where its tool use is
// known, so that there is one call and not two.
func (r *reader) childPrompt(l *line, by *agent, emit func(*events.Event)) {
	if !by.called {
		// The parent was read before: its tool use is the call.
		if u := r.waiting(by.session, l.said); u != nil {
			r.adopt(u, by)
			r.start(u, by, u.at, emit)
			return
		}
		// Its parent was not seen. All children are called by an agent of the session.
		by.parent, by.unplaced = events.Party{Session: by.session, Agent: "claude-code"}, l.said
	}
	e := r.begin(by.party.Session+"/prompt", events.AgentCall, l.at, by)
	if by.called {
		// A child that is called again gets a prompt for each time.
		e.ID = adapter.Word([]byte(l.uuid+"/prompt"), events.MaxID)
	}
	e.From, e.To, e.Content, e.Sim = by.parent, by.party, l.said, l.sim
	by.called, by.worked = true, false
	emit(e)
}

// waiting finds the tool use that calls an agent with this prompt and has no child
// yet: the first one, for equal calls are made in order.
//
// It looks at all uses that are remembered, but only once for each child. An empty prompt links
// nothing.
func (r *reader) waiting(session string, prompt events.Hash) *use {
	for _, u := range r.uses.All() {
		if u.delegates && u.child == nil && u.by.session == session && u.prompt == prompt && !prompt.IsZero() {
			return u
		}
	}
	return nil
}

// adopt makes a the child of a tool use. It belongs to the flow of its parent.
//
// The kind of the agent is known from the tool use alone, and a name that a child has is kept.
func (r *reader) adopt(u *use, a *agent) {
	u.child = a
	a.parent, a.prompt = u.by.party, u.by.prompt
	if a.party.Agent == "" {
		a.party.Agent = u.kind
	}
}

// child makes up the agent of a tool use whose transcript was not seen.
//
// id is the agentId in the result where there is one, so that a transcript that comes later is
// the same party; else that of the tool use.
func (r *reader) child(u *use, id string) *agent {
	key := u.by.session + "/" + id
	a, ok := r.agents.Get(key)
	if !ok {
		a = &agent{session: u.by.session, party: events.Party{Session: adapter.Word([]byte(key), events.MaxID)}}
		r.agents.Put(key, a)
	}
	r.adopt(u, a)
	return a
}

// start emits the call of a child.
//
// It is emitted once, whichever of the two files is read first.
func (r *reader) start(u *use, a *agent, at events.Stamp, emit func(*events.Event)) {
	if a.called {
		return
	}
	a.called, a.worked = true, false
	e := r.begin(u.id+"/call", events.AgentCall, at, u.by)
	e.From, e.To, e.Content, e.Sim = u.by.party, a.party, u.prompt, u.sim
	// HadWork is of the caller when it made the call, not when the child was found.
	e.HadWork, e.TransferMode, e.Background = u.hadWork, events.ReturnToCaller, u.behind
	emit(e)
}

// meet links a tool use with a child whose transcript was read before.
//
// Its call was emitted when the child was found without a parent (childPrompt), so only later
// events are linked.
func (r *reader) meet(u *use) {
	for _, a := range r.agents.All() {
		// The first that waits, for the same reason as in waiting.
		if a.session == u.by.session && a.unplaced == u.prompt && !a.unplaced.IsZero() {
			a.unplaced = events.Hash{}
			r.adopt(u, a)
			return
		}
	}
}

// delegates reports whether a tool runs an agent.
//
// Task is the name that older versions gave to the tool. Without a prompt there is no agent to
// call.
func delegates(b *block) bool {
	return (b.name == "Agent" || b.name == "Task") && !b.said.IsZero()
}
