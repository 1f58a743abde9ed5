// Package pairing makes events of logs whose lines stand for themselves: it names the
// flow of each, pairs results with their calls, adds the calls that were logged at
// their end only, and remembers who did work.
//
// It is what adapters share that need not hold records back; see package spantree for
// those that do.
package pairing

import (
	"cmp"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"weir/events"
	"weir/events/adapter"
	"weir/events/fingerprint"
)

// maxRemembered bounds the calls without a result and the parties of which it is known
// whether they did work, each.
const maxRemembered = 16384

// Pairer hands over the events of one log. It is for one goroutine.
type Pairer struct {
	// Work is whether the log tells all work of its agents, so that a hop without work
	// can be seen. If not, whether a hop came without work is left open.
	Work bool

	source string
	order  []events.CorrelationSource
	ignore adapter.IgnoreArgs
	calls  *adapter.Recent[call]     // by id
	open   *adapter.Recent[[]string] // by flow, party and tool: calls that were logged without an id
	worked *adapter.Recent[bool]     // by flow and party
	lines  *adapter.Recent[int]      // by key: how often lines without times came
	event  events.Event
}

// call is what is remembered of a tool call.
type call struct {
	tool events.Tool
	from events.Party
	at   events.Stamp
}

// New returns a pairing. Source is that of events where Options.Source is not set, and
// order that of the names of flows where Options.Correlation is not; without it the
// order is adapter.Order.
func New(o adapter.Options, source string, order ...events.CorrelationSource) *Pairer {
	if len(order) == 0 {
		order = adapter.Order()
	}
	most := o.HeldOr(maxRemembered)
	return &Pairer{source: cmp.Or(o.Source, source), order: o.CorrelationOr(order...), ignore: o.IgnoreArgs,
		calls: adapter.NewRecent[call](most), open: adapter.NewRecent[[]string](most), worked: adapter.NewRecent[bool](most), lines: adapter.NewRecent[int](most)}
}

// Begin returns an event to be filled in and handed to Pair. It is the same one each
// time.
func (t *Pairer) Begin(id string, kind events.Kind, at events.Stamp, names *adapter.Names) *events.Event {
	t.event = events.Event{ID: adapter.Word([]byte(id), events.MaxID), Source: t.source, Kind: kind, Time: at}
	names.Name(&t.event, t.order)
	t.event.ConversationID = names[events.CorrelationConversation]
	return &t.event
}

// Said gives an event the fingerprints of a text.
func Said(e *events.Event, text []byte) {
	e.Content, e.Sim = fingerprint.Content(text), fingerprint.Text(text)
}

// Args gives the tool of an event the hash of its arguments, which are JSON.
func (t *Pairer) Args(e *events.Event, args []byte) {
	e.Tool.ArgsHash, e.Tool.ArgsSize = fingerprint.Args(args, t.ignore.Of(e.Tool.Name)), int64(len(args))
}

// Pair hands over an event after it was given what others before it say: who had
// worked, what the tool of a result was called and called with.
func (t *Pairer) Pair(e *events.Event, emit func(*events.Event)) {
	switch e.Kind {
	case events.AgentCall:
		if e.By() == events.OriginAgent && t.Work && e.HadWork == events.Unknown {
			e.HadWork = adapter.YesNo(t.hasWorked(e, e.From))
		}
		t.forget(e, e.From)
		t.forget(e, e.To)
	case events.AgentReturn:
		if t.Work && e.HadWork == events.Unknown {
			e.HadWork = adapter.YesNo(t.hasWorked(e, e.From))
		}
		if e.HadWork == events.Yes && !e.To.IsZero() {
			t.work(e, e.To) // an answer that took work
		}
		e.Status = max(e.Status, events.StatusOK)
	case events.ToolCall:
		if e.Tool.CallID == "" {
			e.Tool.CallID = e.ID
			t.leaveOpen(e)
		}
		t.calls.Put(e.Tool.CallID, call{e.Tool, e.From, e.Time})
		t.work(e, e.From)
	case events.ToolResult:
		if !t.result(e, emit) {
			return
		}
	case events.LLMCall:
		e.Status = max(e.Status, events.StatusOK)
	}
	emit(e)
}

// result is false for a result that nothing is known of.
func (t *Pairer) result(e *events.Event, emit func(*events.Event)) bool {
	e.Status = max(e.Status, events.StatusOK)
	if e.Tool.CallID == "" {
		e.Tool.CallID = cmp.Or(t.takeOpen(e), e.ID)
	}
	c, known := t.calls.Get(e.Tool.CallID)
	switch {
	case known:
		told := e.Tool
		e.Tool, e.Tool.ArgsSize, e.Tool.ArgsSim, e.Tool.ResultSize = c.tool, 0, events.Fingerprint{}, told.ResultSize
		if e.Tool.ArgsHash.IsZero() {
			e.Tool.ArgsHash = told.ArgsHash
		}
		if e.From.IsZero() || !c.from.IsZero() {
			e.From = c.from
		}
		e.Time = max(e.Time, c.at)
		if e.DurationMS == 0 {
			e.DurationMS = float64(e.Time - c.at)
		}
		return true
	case e.Tool.Name == "":
		return false
	}
	// The log has calls only when they are over.
	result := *e
	began := max(1, e.Time-events.Stamp(e.DurationMS))
	*e = events.Event{ID: adapter.Word([]byte(e.Tool.CallID+"/call"), events.MaxID), Source: e.Source, Kind: events.ToolCall, Time: began,
		Sequence: e.Sequence, CorrelationID: e.CorrelationID, CorrelationSource: e.CorrelationSource, ConversationID: e.ConversationID,
		TraceID: e.TraceID, SpanID: e.SpanID, TurnID: e.TurnID, TaskID: e.TaskID, Origin: e.Origin, From: e.From, Tool: e.Tool}
	t.work(e, e.From)
	t.calls.Put(e.Tool.CallID, call{e.Tool, e.From, began})
	emit(e)
	*e = result
	e.Tool.ArgsSize = 0
	return true
}

// maxOpen bounds the calls of one party to one tool that may wait for their results.
const maxOpen = 64

// leaveOpen remembers a call that was logged without an id, and takeOpen gives the first
// such call of the same party to the same tool.
func (t *Pairer) leaveOpen(e *events.Event) {
	key := who(e, e.From) + "\x00" + e.Tool.Name
	open, _ := t.open.Get(key)
	t.open.Put(key, append(open[max(0, len(open)+1-maxOpen):], e.Tool.CallID))
}

func (t *Pairer) takeOpen(e *events.Event) string {
	key := who(e, e.From) + "\x00" + e.Tool.Name
	open, _ := t.open.Get(key)
	if len(open) == 0 {
		return ""
	}
	t.open.Put(key, open[1:])
	return open[0]
}

// Key tells a line apart from all others where the log gives none an id. A line that
// tells when it was written is the same one when it comes again; of those that do not,
// each is a line of its own.
func (t *Pairer) Key(line []byte, timed bool) string {
	key := strconv.FormatUint(xxhash.Sum64(line), 16)
	if timed {
		return key
	}
	n, _ := t.lines.Get(key)
	t.lines.Put(key, n+1)
	return key + "/" + strconv.Itoa(n)
}

func who(e *events.Event, p events.Party) string { return e.FlowKey() + "\x00" + p.ID() }

func (t *Pairer) hasWorked(e *events.Event, p events.Party) bool {
	did, _ := t.worked.Get(who(e, p))
	return did
}

func (t *Pairer) work(e *events.Event, p events.Party) {
	if t.Work {
		t.worked.Put(who(e, p), true)
	}
}

func (t *Pairer) forget(e *events.Event, p events.Party) {
	if t.Work {
		t.worked.Delete(who(e, p))
	}
}
