// Package opencode reads sessions of OpenCode, exported or streamed.
//
// It reads the messages of the user, the uses of tools and their results, tasks given to other agents,
// the tokens of the model's answers and the ends of turns. One flow is one message of the user. The lines
// of a run do not name it: there a flow is the session. The work of an agent that was given a task is in
// a session of its own, which names the session that gave it.
package opencode

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

// program is the source of the events, and the name of an agent that has none of its own.
const program = "opencode"

// Format returns the format of sessions.
//
// Apart, because a session names the one that opened it: no other file is needed to read it.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "opencode",
		Title:   "OpenCode sessions, as exported, and runs, JSON lines",
		Framing: adapter.Lines,
		Score:   score,
		Apart:   true,
		New:     func(o adapter.Options) adapter.Adapter { return newReader(o) },
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Always, Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always},
	}
}

// score knows an exported session by four names of its info, a line of a run by three members
// and the form of its id.
func score(head *adapter.Head) adapter.Match {
	if !head.Any(func(top adapter.Top) bool { return top.Has("info") || top.Has("sessionID") }) {
		return adapter.NoMatch
	}
	for c := range adapter.Heads(head.Bytes) {
		// run counts the members that a line of a run has: the session, a part and a time.
		run, session := 0, false
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "info":
				// The names are counted, since members come in any order.
				named := 0
				for c.MaybeObject(); c.Member(); c.Skip() {
					switch string(c.Key()) {
					case "id", "slug", "projectID", "directory":
						named++
					}
				}
				// Each of the four is a common name; all together are OpenCode's.
				session = named == 4
			case "sessionID":
				if strings.HasPrefix(string(c.Text()), "ses_") {
					run++
				}
			case "part", "timestamp":
				run++
				c.Skip()
			}
		}
		if session || run == 3 {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// reader holds what lasts from line to line. log knows what was emitted; nothing here is held
// back.
type reader struct {
	log *transcript.Log
	// last waits for the end of a step, which does not say what was said.
	last *adapter.Recent[last] // in a run, by message
}

// last is what a message of a run said last, and when it was done with it: lines are printed
// later than that, and not in order.
type last struct {
	// text is what the model said last; it becomes the answer if the step ends the turn.
	text []byte
	at   events.Stamp
}

// newReader returns a reader that leaves out the descriptions of commands. The model describes
// each command anew, so the description does not distinguish calls of bash.
func newReader(o adapter.Options) *reader {
	return &reader{log: transcript.New(transcript.Ignoring(o, "bash", "description"), program), last: adapter.NewRecent[last](o.HeldOr(256))}
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// Decode reads one session, or one line of a run.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// What a record is shows only when all its members were seen: they come in any order.
	var session info
	// The parts alias the record, which is read while it is there.
	var messages, part, failure []byte
	var kind string
	var at events.Stamp
	// whole distinguishes a session, which has an info, from a line of a run.
	whole := false
	room := jsonwalk.Borrow()
	defer room.Return()
	c := room.New(record)
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "info":
			session.read(c)
			whole = true
		case "messages":
			messages = c.Raw()
		case "type":
			kind = string(c.Text())
		case "timestamp":
			at, _ = c.Stamp()
		case "sessionID":
			session.id = adapter.ID(c.Text())
		case "part":
			part = c.Raw()
		case "error":
			failure = c.Raw()
		}
	}
	c.End()
	switch {
	case c.Err() != nil:
		return c.Err()
	case session.id == "":
		return adapter.Missing("sessionID", "want sessionID on every line of a run, or info.id in a session")
	case whole:
		return r.session(&session, messages, room, emit)
	case at == 0:
		return adapter.Missing("timestamp", "want timestamp on every line of a run")
	}
	return r.line(kind, at, session.id, part, failure, emit)
}

// line reads what a run prints: a part of a message each time.
// A run reports a use of a tool when it is over, call and result in one line.
func (r *reader) line(kind string, at events.Stamp, session string, raw, failure []byte, emit func(*events.Event)) error {
	turn := transcript.Turn{Session: session, By: events.Party{Session: session, Agent: program}}
	// An error has no message of its own: the time distinguishes two of them.
	if kind == "error" {
		var m info
		m.readError(jsonwalk.New(failure))
		r.log.Answer(&turn, session+"/"+strconv.FormatInt(int64(at), 10), at, m.status(), nil, emit)
		return nil
	}
	// A line has one part of the message that it names.
	var p part
	c := jsonwalk.New(raw)
	p.read(c)
	if c.Err() != nil {
		return c.Err()
	}
	// Parts of one message may be printed between those of another.
	before, _ := r.last.Get(p.message)
	switch p.kind {
	// A text is the answer only when a step ends with it.
	case "text":
		// Cloned, because the record is gone when the answer is emitted.
		r.last.Put(p.message, last{bytes.Clone(p.text), cmp.Or(p.ended, at)})
	// The end of the use is when the model went on, which is later than the text before it.
	case "tool":
		if u := p.use(session); u.At != 0 {
			r.log.Use(&turn, u, emit)
			r.last.Put(p.message, last{before.text, max(before.at, u.Ended)})
		}
	case "step-finish":
		// Lines are printed late; the model was done when the last part of its message was.
		at = cmp.Or(before.at, at)
		r.log.Inference(&turn, p.message, at, "", "", p.used, emit)
		// Another reason is that the model asked for tools.
		if p.reason == "stop" {
			r.log.Answer(&turn, p.message, at, events.StatusOK, before.text, emit)
		}
	}
	return nil
}

// session reads a whole session.
//
// A fault of the JSON itself ends it; events that were emitted until then remain.
func (r *reader) session(s *info, list []byte, room *jsonwalk.Room, emit func(*events.Event)) error {
	// Faults of single messages are gathered, so that one bad message does not cost the
	// session.
	left := &adapter.PartError{What: "messages"}
	asked := s.parent != "" // by another agent, which no event reported yet
	messages := room.New(list)
	for messages.MaybeArray(); messages.Element(); {
		// Of counts what is there, so that a person sees what share was left out.
		left.Of++
		var m info
		var parts []byte
		for messages.MaybeObject(); messages.Member(); {
			switch string(messages.Key()) {
			case "info":
				m.read(messages)
			case "parts":
				parts = messages.Raw()
			}
		}
		switch {
		case messages.Err() != nil:
		case m.id == "" || m.created == 0:
			if left.LeftOut++; left.First == nil {
				left.First = adapter.Missing("id", "want id and time.created of every message")
			}
		default:
			asked = r.message(s, &m, room.New(parts), asked, emit)
			room.Clear() // events were made of all its texts
		}
	}
	if messages.Err() != nil {
		return messages.Err()
	}
	if left.First != nil {
		return left
	}
	return nil
}

// message reads one message and its parts. It reports whether the session still waits for what
// it was made for.
func (r *reader) message(s, m *info, parts *jsonwalk.Cursor, asked bool, emit func(*events.Event)) bool {
	// An answer names by parentID the message of the user that it belongs to; that is the
	// flow.
	turn := transcript.Turn{Session: s.id, Prompt: m.parent, By: events.Party{Session: s.id, Agent: program}}
	switch s.parent {
	case "":
		// A session that no other one opened is the root of a tree: what its children spend counts
		// against it.
		turn.Root = s.id
	case s.id: // both were blotted out
	default:
		turn.Parent = s.parent
	}
	// An agent that another one opened is identified by its kind.
	if s.parent != "" {
		turn.By.Agent = cmp.Or(m.agent, program)
	}
	text, synthetic, uses := readParts(s, parts)
	switch m.role {
	// A user's message begins the flow, and names it.
	case "user":
		turn.Prompt = m.id
		switch {
		case asked:
			from := events.Party{Session: s.parent, Agent: program}
			if s.parent == s.id { // both were blotted out before the log was given away
				from.Session = ""
			}
			r.log.Asked(&turn, from, m.created, text, emit)
			return false
		// A message without a text of the user's own, such as a file, is no prompt.
		case len(text) > 0:
			r.log.Prompt(&turn, m.id, m.created, text, emit)
		case synthetic:
			r.log.Continues(&turn)
		}
	// The uses of an answer lie side by side in it; Uses puts them in order of time.
	case "assistant":
		r.log.Uses(&turn, uses, emit)
		// An answer that was broken off has no end.
		// Its tokens were used all the same.
		end := cmp.Or(m.completed, m.created)
		r.log.Inference(&turn, m.id, end, m.model, m.provider, m.used, emit)
		switch {
		// An error ends the turn, whatever was said before it.
		case m.failure != "":
			r.log.Answer(&turn, m.id, end, m.status(), nil, emit)
		case m.finish == "stop":
			r.log.Answer(&turn, m.id, end, events.StatusOK, text, emit)
		}
	}
	return asked
}

// readParts returns what the parts of a message say, whether some of it is synthetic, and the uses of tools in it.
func readParts(s *info, parts *jsonwalk.Cursor) (text []byte, synthetic bool, uses []transcript.Use) {
	for parts.MaybeArray(); parts.Element(); {
		var p part
		p.read(parts)
		switch p.kind {
		case "text":
			// Synthetic text is what the program puts beside what the user wrote.
			if !p.synthetic && len(p.text) > 0 {
				text = append(append(text, p.text...), '\n')
			}
			synthetic = synthetic || p.synthetic
		case "tool":
			if u := p.use(s.id); u.At != 0 {
				uses = append(uses, *u)
			}
		}
	}
	// Texts are joined by line breaks, of which the last is none of the user's.
	return bytes.TrimSpace(text), synthetic, uses
}
