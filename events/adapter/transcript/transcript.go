// Package transcript is shared by the logs of coding agents: prompts, tool calls, results, subagents, answers.
// The adapters of these logs parse the lines; the events made from them are the same.
//
// One flow is one prompt of the user, or the session if a log does not distinguish prompts.
package transcript

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/outcome"
	"weir/events/adapter/pairing"
	"weir/events/adapter/polling"
	"weir/events/adapter/printed"
	"weir/events/fingerprint"
)

// maxRemembered bounds the uses of tools that are known again.
const maxRemembered = 16384

// Log emits the events of the transcripts of one program. It is for one goroutine.
//
// It remembers what was emitted, so that a file that is read again from its beginning gives no
// event twice.
type Log struct {
	// pair joins calls with their results and counts work in between.
	pair *pairing.Pairer
	// Logs that are rewritten, or read from their beginning, repeat each use.
	uses *adapter.Recent[progress] // by id
	once *adapter.Recent[struct{}] // ids of what was emitted and may come again
	// looks distinguishes callers that look again at work in progress from callers that repeat themselves.
	looks *polling.Looks
	// asked is the prompt of a person that a prompt of a program goes on with, by session and
	// prompt; latest is the last prompt of a person, by session.
	asked, latest *adapter.Recent[string]
	echoes        *adapter.Echoes
}

// progress records how much of a tool use was emitted.
type progress struct {
	called, ended bool
	intent        outcome.Intent
}

// New returns a log of a program of which all work is seen.
func New(o adapter.Options, program string) *Log {
	// The prompt goes before the session: a session holds many prompts.
	l := &Log{pair: pairing.New(o, program, events.CorrelationPrompt, events.CorrelationSession),
		uses: adapter.NewRecent[progress](o.HeldOr(maxRemembered)), once: adapter.NewRecent[struct{}](o.HeldOr(maxRemembered)),
		looks: polling.New(o.HeldOr(maxRemembered)),
		asked: adapter.NewRecent[string](o.HeldOr(maxRemembered)), latest: adapter.NewRecent[string](o.HeldOr(maxRemembered)),
		echoes: adapter.NewEchoes(o.HeldOr(maxRemembered))}
	// Coding agents log all they do, so a hop without work is known to be one (see decision
	// 4).
	l.pair.Work = true
	return l
}

// Ignoring adds arguments that are left out of the hashes of a tool's calls: what a program
// has its model say about each call, which changes while the call does not.
func Ignoring(o adapter.Options, tool string, args ...string) adapter.Options {
	asked := o.IgnoreArgs
	o.IgnoreArgs = func(name string) []string {
		more := asked.Of(name)
		if name == tool {
			more = slices.Concat(args, more)
		}
		return more
	}
	return o
}

// Turn is where in a transcript something stands.
// The zero Prompt makes the session the flow.
//
// Its By is the agent whose line it is: the session's own, or one of its children.
type Turn struct {
	Session string       // that the transcript is of
	Prompt  string       // id of what the user said; "" when that is not known
	By      events.Party // who acts

	// Parent is the session that opened this one. Root is this session's own id if no session opened
	// it and the program says so; see events.Event.Root.
	Parent, Root string
}

// looker is the agent that looks at things. Agents that have sessions of their own look for the session that opened
// those: what one of them has seen to go on, the next one rightly looks at again.
func (t *Turn) looker() string { return cmp.Or(t.Parent, t.Session) + "\x00" + t.By.ID() }

// Use is a use of a tool, or a task that an agent hands to another one.
// Use is either of the two, by whether To is set.
type Use struct {
	ID     string
	Tool   string
	Server string // of MCP
	Args   []byte // JSON

	To    events.Party // who is given a task; zero for a tool
	Asked []byte       // what it is asked to do
	// Elsewhere is for agents whose own transcripts report their work.
	Elsewhere bool // what it does stands in another log

	// At is 0 where only the result was seen.
	At     events.Stamp  // when it was made
	Ended  events.Stamp  // when its result came; 0 while there is none
	Status events.Status // of the result; zero means ok
	Said   []byte        // the result
	Runs   bool          // what was called runs on, as the program says beside the result
	Beside bool          // one message made it with the use before it
}

// begin fills what all events of a turn share. The conversation is the session in any case,
// also where the prompt is the flow.
func (l *Log) begin(t *Turn, id string, kind events.Kind, at events.Stamp) *events.Event {
	var names adapter.Names
	names[events.CorrelationPrompt] = t.Prompt
	if person, ok := l.asked.Get(t.Session + "\x00" + t.Prompt); ok {
		names[events.CorrelationPrompt] = person
	}
	l.echoes.Passed(t.Session, at)
	names[events.CorrelationSession] = t.Session
	names[events.CorrelationConversation] = t.Session
	e := l.pair.Begin(id, kind, at, &names)
	e.Origin = events.OriginAgent
	e.ParentCorrelationID, e.RootCorrelationID = t.Parent, t.Root
	return e
}

// Again reports whether this id came before, for logs that write things twice.
//
// It remembers up to maxRemembered ids. Anything older is emitted again, and dropped by
// its id in the fold.
func (l *Log) Again(id string) bool {
	_, again := l.once.Get(id)
	l.once.Put(id, struct{}{})
	return again
}

// Forget takes that the agent of a turn goes on with a summary of what was before.
func (l *Log) Forget(t *Turn) { l.looks.Forget(t.looker()) }

// Prompt emits the user's message to the agent, once.
//
// A user's message clears patterns and their orders (decision 5), so what a program says in
// the user's name must not come here.
func (l *Log) Prompt(t *Turn, id string, at events.Stamp, text []byte, emit func(*events.Event)) {
	if l.Again(id + "/prompt") {
		return // what was done since then is not forgotten
	}
	if l.echoes.Prompt(t.Session, adapter.EchoOf(text), at) || adapter.MachinePrompt(text) {
		if _, known := l.latest.Get(t.Session); known {
			l.Continues(t)
			return
		}
		// The flow begins with it: no person opened the session.
	}
	l.latest.Put(t.Session, t.Prompt)
	e := l.begin(t, id+"/prompt", events.AgentCall, at)
	e.Origin, e.To = adapter.OriginOf(text), t.By
	pairing.Said(e, text)
	l.pair.Pair(e, emit)
}

// Continues takes that the prompt of a turn was written by a program, such as a nudge, a timer or
// a reminder: its work belongs to what a person asked for last.
func (l *Log) Continues(t *Turn) {
	if person, ok := l.latest.Get(t.Session); ok && person != t.Prompt {
		l.asked.Put(t.Session+"\x00"+t.Prompt, person)
	}
}

// Asked emits the request of another agent to an agent with a transcript of its own. Its id is
// that of the agent's session, so both transcripts give the same call.
func (l *Log) Asked(t *Turn, from events.Party, at events.Stamp, text []byte, emit func(*events.Event)) {
	e := l.begin(t, t.By.Session+"/call", events.AgentCall, at)
	e.From, e.To, e.TransferMode = from, t.By, events.ReturnToCaller
	pairing.Said(e, text)
	// So it is not given to the pairing, which would say that there was no work.
	emit(e) // what the other one did before stands in another log
}

// Use emits the use of a tool and its result, each once.
func (l *Log) Use(t *Turn, u *Use, emit func(*events.Event)) {
	l.Call(t, u, emit)
	if u.Ended != 0 {
		l.Result(t, u, emit)
	}
}

// Uses emits uses that were made concurrently, calls and results in the order of their times.
//
// Programs write them with the answer of the model, when all have ended, so their order in the
// file says nothing.
func (l *Log) Uses(t *Turn, uses []Use, emit func(*events.Event)) {
	type moment struct {
		at  events.Stamp
		use *Use
		end bool
	}
	var all []moment
	for i := range uses {
		u := &uses[i]
		u.Beside = u.Beside || i > 0
		all = append(all, moment{u.At, u, false})
		if u.Ended != 0 {
			all = append(all, moment{max(u.Ended, u.At), u, true})
		}
	}
	// Stable, so that at one time a call stays before its result.
	slices.SortStableFunc(all, func(a, b moment) int { return int(a.at - b.at) })
	for _, m := range all {
		if m.end {
			l.Result(t, m.use, emit)
		} else {
			l.Call(t, m.use, emit)
		}
	}
}

// Call emits that a tool is used, or a task given.
//
// It is emitted once, even if it comes again with other arguments: programs write a
// use when it begins and again when it is done.
func (l *Log) Call(t *Turn, u *Use, emit func(*events.Event)) {
	// Both ends are remembered by the id alone, since results name no more.
	p, _ := l.uses.Get(u.ID)
	if p.called {
		return
	}
	p.called = true
	l.uses.Put(u.ID, p)
	if !u.To.IsZero() {
		id := u.ID
		if u.Elsewhere && u.To.Session != "" {
			id = u.To.Session // the id that Asked gives it
		}
		e := l.begin(t, id+"/call", events.AgentCall, u.At)
		e.From, e.To, e.TransferMode = t.By, u.To, events.ReturnToCaller
		pairing.Said(e, u.Asked)
		l.pair.Pair(e, emit)
		return
	}
	e := l.begin(t, u.ID+"/call", events.ToolCall, u.At)
	e.From = t.By
	e.Tool = events.Tool{Name: u.Tool, CallID: u.ID, Type: "function"}
	if u.Server != "" {
		e.Tool.Server, e.Tool.Type = u.Server, "mcp"
	}
	e.Tool.Beside = u.Beside
	p.intent = outcome.Of(u.Tool, u.Args)
	l.uses.Put(u.ID, p)
	l.pair.Args(e, u.Args)
	e.Tool.RetryOf = l.looks.Call(t.looker(), u.ID, u.At, polling.Of(u.Tool, u.Args, e.Tool.ArgsHash))
	// Arguments that are nearly the same show a loop that changes a little each time.
	e.Tool.ArgsSim = fingerprint.ArgsText(u.Args)
	l.pair.Pair(e, emit)
}

// Result emits the result of a call that was emitted.
func (l *Log) Result(t *Turn, u *Use, emit func(*events.Event)) {
	p, known := l.uses.Get(u.ID)
	if !known || p.ended {
		// A result without an emitted call is of a use that began before the log.
		return
	}
	p.ended = true
	l.uses.Put(u.ID, p)
	e := l.begin(t, u.ID+"/result", events.ToolResult, u.Ended)
	// Numbers that count on with each result, and notices to the model, would make equal results differ.
	said := adapter.WithoutSerials(adapter.WithoutReminders(u.Said))
	if o := printed.Of(said); o.Framed && u.Status <= events.StatusError {
		// The frame has the command, by which equal outputs differ.
		if said = o.Text; o.Exit.Value != 0 {
			said = fmt.Appendf(nil, "Exit code %d\n%s", o.Exit.Value, o.Text)
		}
	}
	// An absent status is ok, which is the common case in transcripts.
	if e.Status = max(u.Status, events.StatusOK); e.Status == events.StatusError {
		e.ErrorType = cmp.Or(fingerprint.Error(said), "error")
	}
	if u.To.IsZero() {
		pairing.Returned(e, append([]byte{}, said...))
		// At least 1, so that an empty result is not taken for an unknown one.
		e.From, e.Tool = t.By, events.Tool{Name: u.Tool, CallID: u.ID, ResultSize: int64(max(1, len(said)))}
		looked := polling.Read(said)
		if u.Runs {
			looked.State = polling.GoesOn
		}
		l.looks.Result(t.looker(), u.ID, looked, e.Status == events.StatusError, e.Content)
		l.pair.Pair(e, func(e *events.Event) {
			// What tools only acknowledge by is taken out, see adapter.Acknowledge.
			came := outcome.Read(said)
			adapter.Acknowledge(e, adapter.Rejects(said) || came.Refuses())
			outcome.Set(e, p.intent, came)
			emit(e)
		})
		return
	}
	pairing.Said(e, said)
	// The result of a task is the return of the agent that had it.
	e.Kind, e.From, e.To = events.AgentReturn, u.To, t.By
	if u.At != 0 {
		e.Time = max(e.Time, u.At)
		e.DurationMS = float64(e.Time - u.At)
	}
	// The other transcript reports its work, so none is assumed here.
	if u.Elsewhere {
		emit(e)
		return
	}
	l.pair.Pair(e, emit)
}

// Inference emits the usage of one answer of the model.
//
// The id is that of the answer, which some programs write several times.
func (l *Log) Inference(t *Turn, id string, at events.Stamp, model, provider string, used events.Usage, emit func(*events.Event)) {
	if !used.Known || l.Again(id+"/llm") {
		return
	}
	e := l.begin(t, id+"/llm", events.LLMCall, at)
	e.From, e.Model, e.Provider, e.Usage = t.By, model, provider, used
	l.pair.Pair(e, emit)
}

// Answer emits that the agent has nothing more to do for the user.
//
// It is for the main agent: the answers of others are results of tasks.
func (l *Log) Answer(t *Turn, id string, at events.Stamp, status events.Status, text []byte, emit func(*events.Event)) {
	if l.Again(id + "/return") {
		return
	}
	e := l.begin(t, id+"/return", events.AgentReturn, at)
	e.From, e.Status = t.By, status
	pairing.Said(e, text)
	l.pair.Pair(e, emit)
}

// Server returns the server of a tool that is named mcp__SERVER__TOOL; "" for others.
//
// Models call the tools of MCP servers by such names.
func Server(tool string) string {
	rest, isMCP := strings.CutPrefix(tool, "mcp__")
	server, _, named := strings.Cut(rest, "__")
	if !isMCP || !named {
		return ""
	}
	return server
}
