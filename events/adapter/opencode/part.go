package opencode

import (
	"cmp"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
	"weir/events/adapter/usage"
)

// info is what a session or a message says of itself.
// The two share a reader, since their members have the same names; each uses its own half.
type info struct {
	// parent is the session that opened this one, or the message that is answered.
	id, parent, role, agent string
	model, provider         string
	// finish is why the model stopped; failure is the name of an error.
	finish, failure    string
	created, completed events.Stamp
	// used is of a message: what all of its requests took.
	used events.Usage
}

// read reads a session's info or a message's.
func (m *info) read(c *jsonwalk.Cursor) {
	// A name is cut where it is too long for an event.
	word := func() string { return adapter.Word(c.Text(), events.MaxID) }
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "id":
			m.id = adapter.ID(c.Text())
		case "parentID":
			m.parent = adapter.ID(c.Text())
		case "role":
			m.role = string(c.Text())
		case "agent":
			m.agent = word()
		case "modelID":
			m.model = word()
		case "providerID":
			m.provider = word()
		case "finish":
			m.finish = string(c.Text())
		case "error":
			m.readError(c)
		case "time":
			m.created, m.completed = span(c, "created", "completed")
		case "tokens":
			// Into leaves a cost that stood in front as it is.
			counts.Into(c, &m.used)
		case "cost":
			readCost(c, &m.used)
		}
	}
}

// readError takes the name of an error, which is the same for each of its kind.
func (m *info) readError(c *jsonwalk.Cursor) { m.failure = cmp.Or(string(c.TextOf("name")), "error") }

// status is how a message ended that has an error.
//
// The user breaks a turn off by an error of its own name.
func (m *info) status() events.Status {
	if m.failure == "MessageAbortedError" {
		return events.StatusCancelled
	}
	return events.StatusError
}

// span reads two times.
//
// Their names differ between messages and parts.
func span(c *jsonwalk.Cursor, first, second string) (from, to events.Stamp) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case first:
			from, _ = c.Stamp()
		case second:
			to, _ = c.Stamp()
		}
	}
	return from, to
}

// counts are the names of tokens, those of the cache in an object within.
var counts = usage.Names{
	"input":     usage.Input,
	"output":    usage.Output,
	"reasoning": usage.Reasoning,
	"read":      usage.CacheRead,
	"write":     usage.CacheCreation,
	"cache":     usage.Details,
}

// readCost reads money, and passes over what is no number.
func readCost(c *jsonwalk.Cursor, u *events.Usage) {
	// A text would be read as the number that it holds.
	if b := c.Peek(); b != '-' && b-'0' > 9 {
		c.Skip()
		return
	}
	if micro, ok := usage.Dollars(c.Scalar()); ok {
		u.CostMicroUSD, u.Known = micro, true
	}
}

// part is a part of a message.
// Of its members only those are set that its kind has.
type part struct {
	kind, message, reason string
	text                  []byte
	synthetic             bool
	// used is of a step-finish, as that of a message is of its info.
	used events.Usage

	// What follows is of a tool: its state is read in readState.
	call, tool, status string
	input, out, failed []byte
	// child is set when the task has begun; until then the call takes its place.
	child        string // session of the agent that was given a task
	exit         int64
	began, ended events.Stamp
}

// read reads a part of any kind.
//
// Byte slices alias the record.
func (p *part) read(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			p.kind = string(c.Text())
		case "messageID":
			p.message = adapter.ID(c.Text())
		// Of a step-finish: why the model stopped.
		case "reason":
			p.reason = string(c.Text())
		case "text":
			p.text = c.Text()
		case "synthetic":
			p.synthetic = c.Bool()
		case "tokens":
			counts.Into(c, &p.used)
		case "cost":
			readCost(c, &p.used)
		case "callID":
			p.call = adapter.ID(c.Text())
		case "tool":
			p.tool = adapter.Word(c.Text(), events.MaxID)
		case "state":
			// state has times of its own, which are those of the use.
			p.readState(c)
		case "time": // of a text
			p.began, p.ended = span(c, "start", "end")
		}
	}
}

// readState reads the state of a use: its progress, its arguments, and its result.
func (p *part) readState(c *jsonwalk.Cursor) {
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		// pending, running, completed or error.
		case "status":
			p.status = string(c.Text())
		case "input":
			p.input = c.Raw()
		case "output":
			p.out = said(c)
		case "error":
			p.failed = said(c)
		case "time":
			p.began, p.ended = span(c, "start", "end")
		case "metadata":
			for c.MaybeObject(); c.Member(); {
				switch string(c.Key()) {
				// The exit code of a command; other tools have none.
				case "exit":
					p.exit, _ = c.Int()
				case "sessionId":
					p.child = adapter.ID(c.Text())
				}
			}
		}
	}
}

// said reads a text, and what is none as it is.
//
// A result that is an object counts as it is written.
func said(c *jsonwalk.Cursor) []byte {
	if c.Peek() == '"' {
		return c.Text()
	}
	return c.Raw()
}

// use is the use of a tool that a part reports.
// A use without id or tool is the zero Use, which callers recognize by its At.
func (p *part) use(session string) *transcript.Use {
	u := &transcript.Use{ID: p.call, Tool: p.tool, Args: p.input, At: p.began, Said: p.out}
	if p.call == "" || p.tool == "" {
		return &transcript.Use{}
	}
	// A use that still runs has another status and no end.
	switch p.status {
	case "completed":
		// A command that failed is completed, too: its exit code shows the failure.
		if u.Ended = cmp.Or(p.ended, p.began); p.exit != 0 {
			u.Status = events.StatusError
		}
	case "error":
		// A tool that threw.
		u.Ended, u.Status, u.Said = cmp.Or(p.ended, p.began), events.StatusError, p.failed
	}
	// A task has a session of its own, if it ran.
	if p.tool != "task" {
		return u
	}
	// What the agent is asked, and of what kind it is, stands in the arguments.
	kind := ""
	c := jsonwalk.New(p.input)
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "prompt":
			u.Asked = c.Text()
		case "subagent_type":
			kind = adapter.Word(c.Text(), events.MaxID)
		}
	}
	// A child without a session of its own gets one made of the call, so that two tasks are
	// two parties.
	if len(u.Asked) > 0 {
		child := p.child
		if child == "" || child == session {
			child = adapter.Word([]byte(session+"/"+p.call), events.MaxID/2)
		}
		u.To, u.Elsewhere = events.Party{Session: child, Agent: cmp.Or(kind, "task")}, true
	}
	return u
}
