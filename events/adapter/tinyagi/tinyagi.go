// Package tinyagi reads the messages table of TinyAGI.
//
// A row is a message to an agent, from an agent (from_agent) or from a user. Rows know
// no flows. One flow is what follows from the last message of the same sender on the
// same channel; a post to a chat room belongs to the flow in which its author was last
// called. It is marked as derived.
//
// Tools, answers, tokens and work are not in the table. Rows that were dealt with are
// deleted after a day, and a row may be read in each of its states: it counts once.
// The database itself is not read.
package tinyagi

import (
	"cmp"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/pairing"
)

// Format returns the format of TinyAGI's rows.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "tinyagi",
		Title:   "TinyAGI: rows of its table messages as JSON",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		Gives: adapter.Gives{Tools: adapter.Never, Args: adapter.Never, Results: adapter.Never, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Never, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Never},
	}
}

// score asks for five columns of the table, in whatever a row is wrapped.
func score(head *adapter.Head) adapter.Match {
	if !head.Any(func(top adapter.Top) bool { return top.Has("message_id") || top.Has("row") }) {
		return adapter.NoMatch
	}
	for c := range adapter.Heads(head.Bytes) {
		seen := map[string]bool{}
		columns(c, func(name string) { seen[name] = true })
		if seen["message_id"] && seen["sender_id"] && seen["from_agent"] && seen["agent"] && seen["created_at"] {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// columns hands over the names of a row's columns, also of one within row.
func columns(c *jsonwalk.Cursor, take func(name string)) {
	for c.MaybeObject(); c.Member(); {
		name := string(c.Key())
		take(name)
		if name == "row" {
			columns(c, take)
		}
	}
}

// reader is an adapter for one goroutine. Nothing is held back; both memories forget what was
// used least recently.
type reader struct {
	pair    *pairing.Pairer
	senders *adapter.Recent[string] // by channel and sender: the id of their last message
	called  *adapter.Recent[string] // by sender and agent: the flow in which it was last called
}

// newReader trusts what a row names before what it derives.
func newReader(o adapter.Options) adapter.Adapter {
	const most = 4096
	return &reader{pairing.New(o, "tinyagi", events.CorrelationExplicit, events.CorrelationConversation, events.CorrelationDerived),
		adapter.NewRecent[string](o.HeldOr(most)), adapter.NewRecent[string](o.HeldOr(most))}
}

// row is one row of the table.
//
// It may stand by itself or within a member row.
type row struct {
	id                           int64
	channel, sender, agent, from string
	message, conversation        string
	text                         []byte
	at                           events.Stamp
	isRow                        bool
}

// read reads a row. Its numbers may be texts.
func (m *row) read(c *jsonwalk.Cursor) {
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "row":
			if c.Peek() == '{' {
				m.read(c)
			} else {
				c.Skip()
			}
		case "id":
			// A row without a number in id is no row, see Decode.
			m.id, m.isRow = c.Int()
		case "message_id":
			m.message = adapter.Word(c.Text(), events.MaxID)
		case "channel":
			// Channel and sender make the name of a flow, so each has a quarter of an id's
			// room.
			m.channel = adapter.Word(c.Text(), events.MaxID/4)
		case "sender":
			// sender is a name, sender_id an id: the id goes first, whichever comes first.
			m.sender = cmp.Or(m.sender, adapter.Word(c.Text(), events.MaxID/4))
		case "sender_id":
			m.sender = cmp.Or(adapter.Word(c.Scalar(), events.MaxID/4), m.sender)
		case "message":
			m.text = c.Text()
		case "agent":
			m.agent = adapter.Word(c.Text(), events.MaxID)
		case "from_agent":
			m.from = adapter.Word(c.Text(), events.MaxID)
		case "conversation_id": // it was there before
			m.conversation = adapter.Word(c.Scalar(), events.MaxID)
		case "created_at":
			m.at, _ = c.Stamp()
		}
	}
}

// Decode reads one row.
//
// A database in the place of rows is reported as such, see adapter.CheckText.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	if err := adapter.CheckText(record); err != nil {
		return err
	}
	var m row
	c := jsonwalk.New(record)
	m.read(c)
	c.End()
	switch {
	case c.Err() != nil:
		return c.Err()
	case !m.isRow:
		return adapter.Missing("id", "want the number of the row in id")
	case m.at == 0:
		return adapter.Missing("created_at", "want a time in created_at")
	}
	r.row(&m, emit)
	return nil
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// standard stands for the agent that gets what names none.
const standard = "default"

// row emits a message to an agent.
func (r *reader) row(m *row, emit func(*events.Event)) {
	m.agent = cmp.Or(m.agent, standard)
	talk, number := m.channel+":"+m.sender, strconv.FormatInt(m.id, 10)
	// A message of a user begins a flow for all that its sender's agents do on the channel.
	if m.from == "" {
		r.senders.Put(talk, number)
	}
	first, _ := r.senders.Get(talk)
	flow := "tinyagi:" + talk + ":" + cmp.Or(first, "0")
	// The author of a post to a chat room, or of a message whose beginning is not in the file,
	// goes on in the flow in which it was called.
	if m.from != "" && first == "" || strings.HasPrefix(m.message, "chat_") || m.channel == "chatroom" {
		if last, ok := r.called.Get(m.sender + "\x00" + m.from); ok {
			flow = last
		}
	}
	r.called.Put(m.sender+"\x00"+m.agent, flow)

	names := adapter.Names{events.CorrelationConversation: m.conversation, events.CorrelationDerived: flow}
	// The number of the row is its id, so that a row that is read in several states counts
	// once.
	e := r.pair.Begin("tinyagi/"+number, events.AgentCall, m.at, &names)
	e.MessageID, e.Sequence, e.To = m.message, max(0, m.id), events.Party{Agent: m.agent}
	// Without an agent as its author a message is a user's.
	if e.Origin = events.OriginUser; m.from != "" {
		e.Origin, e.From = events.OriginAgent, events.Party{Agent: m.from}
	}
	pairing.Said(e, m.text)
	r.pair.Pair(e, emit)
}
