// Package codex reads rollouts of Codex, one file per session.
//
// It reads the messages of the user, the uses of tools and their results, tasks given to other agents,
// the tokens of the model's answers and the ends of turns. One flow is one turn: one prompt of the user,
// or the turn in which an agent was made. It is the session if a version does not number its turns.
//
// The history that a compacted session continues with is not read again.
// The history of a session that was forked is not emitted twice.
package codex

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

const program = "codex"

// Format returns the format of rollouts.
//
// Each file is a log of its own: it names the session's origin.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "codex",
		Title:   "Codex rollouts (sessions), JSON lines",
		Framing: adapter.Lines,
		Score:   score,
		Apart:   true,
		New:     func(o adapter.Options) adapter.Adapter { return newReader(o) },
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// score asks for time and payload beside the type, whose words other logs have as well.
func score(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		if !top.Has("timestamp", "type") || top["type"] != "session_meta" && top["payload"] != "{" {
			continue
		}
		switch top["type"] {
		case "session_meta", "response_item", "event_msg", "turn_context", "compacted":
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// reader reads one file: the first line says what session it is.
type reader struct {
	options adapter.Options
	log     *transcript.Log
	turn    transcript.Turn
	// The history of forked is repeated at the beginning of this file, and skipped.
	forked string // session whose history comes first
	// history is set while it is repeated; the repeated lines have the current time.
	history bool
	parent  string // session of the agent that made this one
	// An agent's first message is what it was made for, and no user's.
	asked bool // its task was emitted
	// The model is named with each turn, and applies to the answers in it.
	model string
	// used.Total is what the sums are known by.
	used  events.Usage           // since the session began
	tasks *adapter.Recent[*task] // given to other agents, by call
}

// task is what was given to another agent.
//
// It is kept until its result says what agent it became.
type task struct {
	asked []byte
	kind  string
	at    events.Stamp
}

// newReader leaves the justification of a command out of its hash.
func newReader(o adapter.Options) *reader {
	// The reason for a call is the model's word on it, which changes while the call does not.
	return &reader{options: o, log: transcript.New(transcript.Ignoring(o, "exec_command", "justification"), program),
		// The bound is of tasks that were given and never answered.
		tasks: adapter.NewRecent[*task](o.HeldOr(1024))}
}

// Branch returns an adapter for one more file: the first line of each says what session it is.
//
// See adapter.Branching.
func (r *reader) Branch() adapter.Adapter { return newReader(r.options) }

// Decode reads one line. It skips lines that do not concern agents and tools.
//
// A file that begins without its session_meta cannot be read, because its session is unknown.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	if l.kind != "session_meta" && r.turn.Session == "" {
		return adapter.Missing("session_meta", "want the line that says what session this is before all others")
	}
	switch l.kind {
	case "session_meta":
		r.session(l)
	case "compacted":
		r.log.Forget(&r.turn)
	case "turn_context":
		r.begin(l)
		r.model = cmp.Or(l.model, r.model)
	case "event_msg":
		if l.event == "task_started" {
			r.begin(l)
		}
		if r.history {
			r.used.Total = max(r.used.Total, l.total)
			return nil
		}
		r.happened(l, emit)
	case "response_item":
		if !r.history {
			r.item(l, emit)
		}
	}
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// session begins a session, or goes on with one.
//
// A file may have several such lines: the one of the session that was forked, and of this one
// again.
func (r *reader) session(l *line) {
	// The forked session is read from its own file.
	if r.forked != "" && l.id == r.forked {
		r.history = newer(r.turn.Session, r.forked)
		return
	}
	if l.id == "" || l.id == r.turn.Session {
		return
	}
	r.forked, r.parent, r.asked, r.history, r.used = l.forked, l.parent, false, false, events.Usage{}
	// The role says what kind of agent another one made; a session of the user's is Codex
	// itself.
	r.turn = transcript.Turn{Session: l.id, By: events.Party{Session: l.id, Agent: cmp.Or(l.role, program)}, Parent: l.parent}
	// A session that no other one opened is the root of its tree.
	if l.parent == "" {
		r.turn.Root = l.id
	}
}

// begin begins a turn.
//
// The turn in which an agent was made is the flow of what the agent does.
func (r *reader) begin(l *line) {
	if turn := cmp.Or(l.rootTurn, l.turn); turn != "" {
		r.turn.Prompt = turn
	}
	// The turns of the session that was forked are older than this one.
	if l.turn != "" && !newer(r.turn.Session, l.turn) {
		r.history = false
	}
}

// newer reports whether an id was assigned later than another. Newer versions assign UUIDs that
// begin with the time (version 7); for others the order is unknown.
func newer(a, b string) bool {
	const length, version = 36, 14
	return len(a) == length && len(b) == length && a[version] == '7' && b[version] == '7' && a > b
}

// happened reads what Codex reports about itself, beside the messages.
func (r *reader) happened(l *line, emit func(*events.Event)) {
	switch l.event {
	case "user_message":
		r.prompt(l, emit)
	case "item_completed":
		if l.itemKind == "UserMessage" {
			r.prompt(l, emit)
		}
	case "token_count":
		r.tokens(l, emit)
	// The turn has an id in newer versions; in older ones the time identifies its end.
	case "task_complete":
		r.log.Answer(&r.turn, cmp.Or(l.turn, r.turn.Session+"/"+strconv.FormatInt(int64(l.at), 10)), l.at, events.StatusOK, l.text, emit)
	case "turn_aborted":
		r.log.Answer(&r.turn, cmp.Or(l.turn, r.turn.Session+"/"+strconv.FormatInt(int64(l.at), 10)), l.at, events.StatusCancelled, nil, emit)
	}
}

// prompt emits the user's message, which some versions write in two ways.
func (r *reader) prompt(l *line, emit func(*events.Event)) {
	// The same text in the same turn is the same prompt.
	id := cmp.Or(r.turn.Prompt, r.turn.Session+"/"+strconv.FormatInt(int64(l.at), 10)) + "/" + strconv.FormatUint(xxhash.Sum64(l.text), 16)
	if r.log.Again(id) {
		return
	}
	// The first message of an agent comes from who made it.
	if r.parent != "" && !r.asked {
		r.asked = true
		r.log.Asked(&r.turn, events.Party{Session: r.parent, Agent: program}, l.at, l.text, emit)
		return
	}
	r.log.Prompt(&r.turn, id, l.at, l.text, emit)
}

// tokens emits the usage since the last report. Codex repeats the figures if nothing was used.
// Each report has the sum since the session began, which identifies repeats.
func (r *reader) tokens(l *line, emit func(*events.Event)) {
	if l.total <= r.used.Total {
		return
	}
	r.used.Total = l.total
	r.log.Inference(&r.turn, r.turn.Session+"/"+strconv.FormatInt(l.total, 10), l.at, r.model, "openai", l.last, emit)
}

// item reads the messages to the model and from it.
//
// Texts are read where they appear as events; here are the tools.
func (r *reader) item(l *line, emit func(*events.Event)) {
	switch l.event {
	case "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call":
		r.call(l, emit)
	case "function_call_output", "custom_tool_call_output", "tool_search_output":
		r.result(l, emit)
	}
}

// call emits the use of a tool, or keeps a task.
func (r *reader) call(l *line, emit func(*events.Event)) {
	// Calls that have no name are of a kind of their own.
	if l.tool == "" {
		l.tool = strings.TrimSuffix(l.event, "_call")
	}
	// Tools of MCP servers come with the server beside the name in some versions.
	if l.namespace != "" && !strings.HasPrefix(l.tool, l.namespace) {
		l.tool = l.namespace + "__" + strings.TrimLeft(l.tool, "_")
	}
	id := cmp.Or(l.call, l.item)
	if id == "" { // of a search that the model's service makes itself
		id = r.turn.Session + "/" + strconv.FormatInt(int64(l.at), 10) + "/" + strconv.FormatUint(xxhash.Sum64(l.args), 16)
	}
	if l.tool == "spawn_agent" {
		// Its id comes with the result.
		t := &task{at: l.at}
		t.read(l.args)
		r.tasks.Put(id, t)
		return
	}
	r.log.Call(&r.turn, &transcript.Use{ID: id, Tool: l.tool, Server: transcript.Server(l.tool), Args: l.args, At: l.at}, emit)
}

// read reads what an agent is asked and what kind it is. The text is copied, as it outlives
// the record.
func (t *task) read(args []byte) {
	c := jsonwalk.New(args)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "message":
			t.asked = bytes.Clone(c.Text())
		case "agent_type":
			t.kind = adapter.Word(c.Text(), events.MaxID)
		}
	}
}

// result emits the result of a tool, or the call of an agent that was made.
func (r *reader) result(l *line, emit func(*events.Event)) {
	t, ok := r.tasks.Get(l.call)
	if !ok {
		r.log.Result(&r.turn, &transcript.Use{ID: l.call, Ended: l.at, Status: l.status, Said: l.text, Runs: l.runs}, emit)
		return
	}
	r.tasks.Delete(l.call)
	c := jsonwalk.New(l.text)
	child := adapter.ID(c.TextOf("agent_id"))
	if child == "" {
		return // it was not made
	}
	// What it answers comes with a later tool, wait_agent, or as a message.
	r.log.Call(&r.turn, &transcript.Use{ID: l.call, To: events.Party{Session: child, Agent: cmp.Or(t.kind, program)},
		Asked: t.asked, Elsewhere: true, At: t.at}, emit)
}
