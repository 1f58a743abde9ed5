// Package pairing turns single log lines into events: it names flows and pairs results with calls.
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
	// Work is true when the log contains all work of its agents, so that a hop without work is
	// visible. Otherwise it is unknown whether a hop came without work.
	Work bool

	// What Begin gives to each event, and what Args leaves out of hashes.
	source string
	order  []events.CorrelationSource
	ignore adapter.IgnoreArgs
	calls  *adapter.Recent[call]     // by id
	open   *adapter.Recent[[]string] // by flow, party and tool: calls that were logged without an id
	worked adapter.Work              // by flow and party
	lines  *adapter.Recent[int]      // by key: how often lines without times came
	// event is the one event of the pairing: Begin empties it and Pair hands it over, so that
	// a log of millions of lines asks for no memory per line.
	event events.Event
}

// call is what is remembered of a tool call.
// call is kept whole because results name their call by its id alone.
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
	// Each of the four memories forgets what was used least recently, so a log that leaves
	// calls open takes no more room than this.
	most := o.HeldOr(maxRemembered)
	return &Pairer{source: cmp.Or(o.Source, source), order: o.CorrelationOr(order...), ignore: o.IgnoreArgs,
		calls: adapter.NewRecent[call](most), open: adapter.NewRecent[[]string](most), worked: adapter.NewWork(most), lines: adapter.NewRecent[int](most)}
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

// Returned gives a tool result the fingerprints of what the tool returned; nil where the log does
// not report it.
func Returned(e *events.Event, text []byte) {
	if e.Content, e.Sim = fingerprint.Result(text); e.Content == events.EmptyContent && e.Status > events.StatusOK {
		e.Content = events.Hash{} // an error without text is judged by its type
	}
}

// Args gives the tool of an event the hash of its arguments, which are JSON.
func (t *Pairer) Args(e *events.Event, args []byte) {
	e.Tool.ArgsHash, e.Tool.ArgsSize = fingerprint.Args(args, t.ignore.Of(e.Tool.Name)), int64(len(args))
}

// Pair hands over an event after it was given what others before it say: who had
// worked, what the tool of a result was called and called with.
func (t *Pairer) Pair(e *events.Event, emit func(*events.Event)) {
	// What a line leaves out is filled in here and not in the adapters, so that all of them
	// mean the same by work and by the end of a call (see decision 4).
	switch e.Kind {
	case events.AgentCall:
		if e.By() == events.OriginAgent && t.Work && e.HadWork == events.Unknown {
			t.worked.Set(e, who(e, e.From))
		}
		// A hop uses up what both did before it: the next one counts as work only if a tool is
		// used after this one.
		t.forget(e, e.From)
		t.forget(e, e.To)
	case events.AgentReturn:
		if t.Work && e.HadWork == events.Unknown {
			t.worked.Set(e, who(e, e.From))
		}
		// An answer with work, or possibly with work where the log contains all work.
		if e.HadWork != events.No && !e.To.IsZero() {
			t.work(e, e.To, e.HadWork)
		}
		// A call without a reported end ended well: StatusUnset is the least value.
		e.Status = max(e.Status, events.StatusOK)
	case events.ToolCall:
		if e.Tool.CallID == "" {
			// The event's own id stands in for the one that is missing, and the result finds
			// it by party and tool instead.
			e.Tool.CallID = e.ID
			t.leaveOpen(e)
		}
		// An id that is used again takes the place of the call before it.
		t.calls.Put(e.Tool.CallID, call{e.Tool, e.From, e.Time})
		t.work(e, e.From, events.Yes)
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
		// A result that matches no call gets the id of its own event. The code below makes a call
		// for it.
		e.Tool.CallID = cmp.Or(t.takeOpen(e), e.ID)
	}
	c, known := t.calls.Get(e.Tool.CallID)
	switch {
	case known:
		// The call has the name and the arguments. Of the result only its own size is kept, and the
		// hash where the call had none. The size of the arguments is on the call only.
		result := e.Tool
		e.Tool, e.Tool.ArgsSize, e.Tool.ArgsSim, e.Tool.ResultSize, e.Tool.Outcome = c.tool, 0, events.Fingerprint{}, result.ResultSize, result.Outcome
		if e.Tool.ArgsHash.IsZero() {
			e.Tool.ArgsHash = result.ArgsHash
		}
		// A call without a party does not remove the party that its result names.
		if e.From.IsZero() || !c.from.IsZero() {
			e.From = c.from
		}
		// Clocks of two programs differ, and a result is never before its call.
		e.Time = max(e.Time, c.at)
		if e.DurationMS == 0 {
			e.DurationMS = float64(e.Time - c.at)
		}
		return true
	case e.Tool.Name == "":
		// Neither its call nor its name: nothing that a rule could count.
		return false
	}
	// The log has calls only when they are over.
	// The event is reused for the call, which is emitted first; its result is put back after
	// it. Stamps are milliseconds, and 0 would mean that there is no time.
	result := *e
	began := max(1, e.Time-events.Stamp(e.DurationMS))
	*e = events.Event{ID: adapter.Word([]byte(e.Tool.CallID+"/call"), events.MaxID), Source: e.Source, Kind: events.ToolCall, Time: began,
		Sequence: e.Sequence, CorrelationID: e.CorrelationID, CorrelationSource: e.CorrelationSource, ConversationID: e.ConversationID,
		ParentCorrelationID: e.ParentCorrelationID, RootCorrelationID: e.RootCorrelationID,
		TraceID: e.TraceID, SpanID: e.SpanID, TurnID: e.TurnID, TaskID: e.TaskID, Origin: e.Origin, From: e.From, Tool: e.Tool}
	e.Tool.ResultSize, e.Tool.Outcome = 0, nil
	t.work(e, e.From, events.Yes)
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
	// A party that leaves more calls open than maxOpen loses the oldest.
	open, _ := t.open.Get(key)
	t.open.Put(key, append(open[max(0, len(open)+1-maxOpen):], e.Tool.CallID))
}

// takeOpen takes the oldest call, since tools that log no ids log results in order.
func (t *Pairer) takeOpen(e *events.Event) string {
	key := who(e, e.From) + "\x00" + e.Tool.Name
	open, _ := t.open.Get(key)
	if len(open) == 0 {
		return ""
	}
	t.open.Put(key, open[1:])
	return open[0]
}

// Key returns a key that is unique to a line where the log gives lines no id. A line with a time
// has the same key when it comes again. A line without a time gets a new key each time.
func (t *Pairer) Key(line []byte, timed bool) string {
	key := strconv.FormatUint(xxhash.Sum64(line), 16)
	if timed {
		// The hash of a line with a time is enough: the same line in two files is one event,
		// and what is read twice counts once.
		return key
	}
	n, _ := t.lines.Get(key)
	t.lines.Put(key, n+1)
	return key + "/" + strconv.Itoa(n)
}

// who is a party within one flow: what it did in another flow is no work here.
func who(e *events.Event, p events.Party) string { return e.FlowKey() + "\x00" + p.ID() }

func (t *Pairer) work(e *events.Event, p events.Party, worked events.Tri) {
	if t.Work {
		t.worked.Note(who(e, p), worked)
	}
}

// forget does not ask for Work, which may be of one of two parties alone.
func (t *Pairer) forget(e *events.Event, p events.Party) { t.worked.Spend(who(e, p)) }
