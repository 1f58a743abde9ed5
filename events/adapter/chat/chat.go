// Package chat reads chat transcripts; a dialect is a description of its fields.
//
// There is one reader. A dialect is a description: what its members are called, and a few flags.
// One flow is one prompt of the user, or the conversation where the log has no prompt.
//
// Records without times keep their order and are put adapter.Pace apart. Where only some records
// have times, the others take the time of the record before them.
package chat

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/transcript"
)

// dialect describes one kind of transcript.
type dialect struct {
	name, title, program string
	framing              adapter.Framing
	score                func(*adapter.Head) adapter.Match
	tokens, time         adapter.Level
	record               *level // the outermost object
	// line reads a record that is one line of a conversation; nil where message does.
	line func(*reader, *node, func(*events.Event)) bool
	// isDocument reports whether a record is a whole conversation and not one message.
	isDocument func(*node) bool
	held       bool // records of other formats hold such messages
	nested     bool // a document has conversations, which have messages
	inner      bool // a document has an id beside that of its session, and may hold documents of subagents
	unique     bool // ids of calls are unique across conversations
	closes     bool // a record of its own ends the turn, so a text alone does not
	onePrompt  bool // only the first message of the user is from the user
	// unfold makes parts of the text of a message; nil where parts are objects.
	unfold func(*node)
	// inText finds a call in the text of an answer; nil where calls are parts.
	inText func(text []byte) (tool string, args []byte)
	holds  bool // records are held until the first that has a time
}

// Formats returns a format for each dialect.
func Formats() (out []adapter.Format) {
	for _, d := range dialects {
		out = append(out, adapter.Format{Name: d.name, Title: d.title, Framing: d.framing, Score: d.score, Apart: true, Held: d.held,
			New: func(o adapter.Options) adapter.Adapter { return newReader(d, o) },
			Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
				Tokens: d.tokens, Time: d.time, Starts: adapter.Always, Work: adapter.Always}})
	}
	return out
}

// reader reads one input.
type reader struct {
	*dialect
	log    *transcript.Log
	talks  *adapter.Recent[*talk]
	tasks  *adapter.Recent[events.Party] // agents that were given a task, by call
	counts *adapter.Recent[counted]      // tokens that were counted, by answer
	open   *adapter.Recent[*streamed]    // calls whose arguments come in pieces
	clock  clock
	now    *talk // the conversation that lines without a session are of
	first  uint64
	held   [][]byte
	bytes  int // of held
}

// talk is one conversation.
type talk struct {
	turn    transcript.Turn
	n       int // messages so far
	pending transcript.Use
	asked   bool                // the user said something
	inner   bool                // a subagent's; its messages of the role user are another agent's
	open    map[string][]string // by tool: calls that have no id and no result
}

func newReader(d *dialect, o adapter.Options) *reader {
	const most = 4096
	return &reader{dialect: d, log: transcript.New(o, d.program), talks: adapter.NewRecent[*talk](o.HeldOr(most)), tasks: adapter.NewRecent[events.Party](o.HeldOr(most)),
		counts: adapter.NewRecent[counted](o.HeldOr(most)), open: adapter.NewRecent[*streamed](o.HeldOr(most))}
}

// What is held until the first time is known.
const (
	maxHeld      = 16
	maxHeldBytes = 16 << 10
)

// Decode reads one record. Without a time it may be held until the first record that has one.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	n := &node{}
	w := &walker{c: jsonwalk.New(record)}
	if w.c.Object(); w.c.Err() == nil {
		w = &walker{c: jsonwalk.New(record)}
		w.object(r.record, n)
		w.c.End()
	}
	if err := w.c.Err(); err != nil {
		return err
	}
	if r.holds && r.clock.last == 0 {
		if n.at == 0 && len(r.held) < maxHeld && r.bytes+len(record) <= maxHeldBytes {
			r.held, r.bytes = append(r.held, append([]byte{}, record...)), r.bytes+len(record)
			return nil
		}
		// What was held happened no later than this record.
		r.clock.begin(n.at)
		if err := r.release(emit); err != nil {
			return err
		}
	}
	return r.tell(n, emit)
}

// release emits the records that were held.
func (r *reader) release(emit func(*events.Event)) error {
	held := r.held
	r.held, r.bytes = nil, 0
	for _, record := range held {
		n := &node{}
		(&walker{c: jsonwalk.New(record)}).object(r.record, n)
		if err := r.tell(n, emit); err != nil {
			return err
		}
	}
	return nil
}

// Flush emits the records that were held for a time that did not come, and a call that the log ends with, of
// which a further record could have brought a piece.
func (r *reader) Flush(emit func(*events.Event)) error {
	err := r.release(emit)
	if r.now != nil {
		r.streamed(r.now.pending.ID, emit)
	}
	return err
}

// It emits one record: a conversation, or a line of one.
func (r *reader) tell(n *node, emit func(*events.Event)) error {
	switch {
	case r.isDocument != nil && r.isDocument(n):
		r.documents(n, emit)
	case r.line != nil && r.line(r, n, emit):
	case n.role == "" && n.kind == "":
		return adapter.Missing("role", "want the role or the type of a message, or a list of messages")
	default:
		r.message(r.talk(n), n, emit)
	}
	return nil
}

// documents emits a document that holds one conversation or, nested, several.
func (r *reader) documents(n *node, emit func(*events.Event)) {
	if r.inner {
		r.family(n, strings.Trim(n.session+"/"+n.id, "/"), nil, emit)
		return
	}
	if !r.nested {
		r.document(n, n.session, emit)
		return
	}
	if len(n.nodes) > 0 && n.nodes[0].role != "" {
		r.document(n, n.session+"/"+n.id, emit)
		return
	}
	for i := range n.nodes {
		m := &n.nodes[i]
		m.model = n.model
		r.document(m, strings.Trim(n.session+"/"+m.session+"/"+m.id, "/"), emit)
	}
}

// family emits a conversation, and then those of its subagents.
func (r *reader) family(n *node, session string, above *talk, emit func(*events.Event)) {
	var inner []node
	n.nodes = slices.DeleteFunc(n.nodes, func(m node) bool {
		if m.role == "" && m.nodes != nil {
			inner = append(inner, m)
		}
		return m.role == ""
	})
	v := r.conversation(n, session, above)
	r.messages(v, n, emit)
	for i := range inner {
		m := &inner[i]
		r.family(m, v.turn.Session+"/"+cmp.Or(m.id, m.session, strconv.Itoa(i)), v, emit)
	}
}

// document emits one conversation. It is rewritten with each message, so most of it was emitted before.
func (r *reader) document(n *node, session string, emit func(*events.Event)) {
	r.messages(r.conversation(n, session, nil), n, emit)
}

// conversation begins the conversation of a document. One of a subagent belongs to the session of the one above.
func (r *reader) conversation(n *node, session string, above *talk) *talk {
	r.clock = clock{}
	for i := range n.nodes {
		if n.nodes[i].at != 0 {
			r.clock.begin(n.nodes[i].at)
			break
		}
	}
	if session == "" && len(n.nodes) > 0 {
		session = n.nodes[0].session
	}
	if session == "" {
		session = opening(n.nodes)
	}
	v := r.begin(session, n.agent)
	switch {
	case above != nil:
		v.inner, v.turn.Root = true, above.turn.Root
	case r.inner && n.session != "":
		v.turn.Root = n.session
	}
	return v
}

// messages emits those of a document.
func (r *reader) messages(v *talk, n *node, emit func(*events.Event)) {
	for i := range n.nodes {
		m := &n.nodes[i]
		if m.model == "" {
			m.model = n.model
		}
		r.message(v, m, emit)
	}
}

// opening names a conversation that has no id by its messages up to the first of the user, which
// stay the same while it grows.
func opening(messages []node) string {
	d := xxhash.New()
	for i := range messages {
		messages[i].key(d)
		if messages[i].role != "system" && messages[i].role != "developer" {
			break
		}
	}
	return name(d.Sum64())
}

func name(sum uint64) string { return "chat-" + strconv.FormatUint(sum, 16) }

// begin begins a conversation.
func (r *reader) begin(session, agent string) *talk {
	if agent == "" {
		agent = r.program
	}
	v := &talk{turn: transcript.Turn{Session: session, By: events.Party{Session: session, Agent: agent}, Root: session}, open: map[string][]string{}}
	r.talks.Put(session, v)
	r.now = v
	return v
}

// talk returns the conversation of a line. Lines that name none are of the last one; a line that
// is the same as the first begins it again.
func (r *reader) talk(n *node) *talk {
	if n.session != "" {
		if v, ok := r.talks.Get(n.session); ok {
			r.now = v
			return v
		}
		return r.begin(n.session, n.agent)
	}
	if r.now == nil || r.first != 0 {
		d := xxhash.New()
		n.key(d)
		if sum := d.Sum64(); r.now == nil || sum == r.first {
			r.first, r.clock = sum, clock{}
			return r.begin(name(sum), n.agent)
		}
	}
	return r.now
}

// clock puts records without times in order.
type clock struct {
	last, shift events.Stamp
	timed       bool // some record had a time
}

// begin sets the time before the first record.
func (k *clock) begin(at events.Stamp) { k.last, k.timed = at, at != 0 }

// at returns the time of a record. Times never go back, and made-up times never come after one
// that was read: where times begin late, only their distances count.
func (k *clock) at(read events.Stamp) events.Stamp {
	switch {
	case read != 0:
		if !k.timed && k.last != 0 {
			k.shift = k.last.Add(adapter.Pace) - read
		}
		k.timed, k.last = true, max(k.last, read+k.shift)
	case k.last == 0:
		k.last = adapter.Epoch
	case !k.timed:
		k.last = k.last.Add(adapter.Pace)
	}
	return k.last
}
