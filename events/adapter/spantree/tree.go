package spantree

import (
	"cmp"
	"math"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/polling"
	"weir/events/adapter/tag"
)

const (
	// Tracers send batches every few seconds, so parents come within this.
	defaultHold = 30 * time.Second
	defaultHeld = 65536
	// ofOneTrace is the share of all spans that one trace may hold.
	// One trace that never ends must not push all others out.
	ofOneTrace = 4
	// patience is a multiple of the hold. The clocks of two machines may differ by that much, or a
	// trace may be silent for that long, without any doubt.
	patience = 10
)

// Tree holds the spans of all traces that are open. It is for one goroutine.
type Tree struct {
	source      string
	correlation []events.CorrelationSource
	hold        int64 // µs
	// See adapter.Options.MaxHeld.
	most int

	traces *adapter.Recent[*trace]
	// For the joining of traces, see find: entries go with their spans.
	where map[string]place // by id of a span
	held  int              // traces, and spans of all of them
	// How much time passes is measured by what spans say, most of which have to be right.
	elapsed *adapter.Elapsed
	place   int64 // of the record that is read, see adapter.Keeper
	// What the records since the last Settle were about.
	touched []*trace
	looks   *polling.Looks // at what goes on
	// The one event that is used for all.
	event events.Event
}

// place is the trace in which a span is, or is awaited.
// known is false for a parent that has not come.
type place struct {
	trace *trace
	known bool
}

// Names is what the flow of a trace may be called, beside the id of the trace, and the flows
// that it descends from where the program says so.
type Names struct {
	Explicit     string // a correlation id that the program gave
	Conversation string // thread, group or conversation
	Parent, Root string // see events.Event.Root
	Tags         []string
}

// New returns an empty tree. Without Options.Correlation a flow is called by an
// explicit id, else by its trace.
func New(o adapter.Options, source string) *Tree {
	t := &Tree{
		source:      cmp.Or(o.Source, source),
		correlation: o.CorrelationOr(events.CorrelationExplicit, events.CorrelationTrace),
		hold:        int64(cmp.Or(o.Hold, defaultHold) / time.Microsecond), most: o.HeldOr(defaultHeld),
		where:  make(map[string]place),
		traces: adapter.NewRecent[*trace](math.MaxInt), // bounded by their spans, see bound
		looks:  deed.New(o.HeldOr(defaultHeld)),
	}
	// A negative hold means no limit; the quarter leaves room for the sums with half of it.
	if t.hold < 0 {
		t.hold = math.MaxInt64 / 4
	}
	t.elapsed = adapter.NewElapsed(patience * millis(t.hold))
	return t
}

// Name adds names for the flow of a trace. The first name of a kind stays; tags add up.
func (t *Tree) Name(id string, n Names) {
	// A name may come before any span of its trace.
	tr := t.trace(id)
	tr.names.Explicit = cmp.Or(tr.names.Explicit, n.Explicit)
	tr.names.Conversation = cmp.Or(tr.names.Conversation, n.Conversation)
	tr.names.Parent, tr.names.Root = cmp.Or(tr.names.Parent, n.Parent), cmp.Or(tr.names.Root, n.Root)
	tr.names.Tags = tag.Join(tr.names.Tags, n.Tags)
}

// Add adds one record of a span. Its id must not be empty, and Start or
// End must be known.
func (t *Tree) Add(id string, r Span) {
	tr := t.trace(id)
	// A record about a span that is known changes no count.
	grew := len(tr.spans)
	tr.add(r)
	if len(tr.spans) > grew {
		t.held++
		t.find(tr, &r)
	}
	// A time that nothing bears out does not hurry the rest of the trace.
	at := max(r.Start, r.End)
	if t.elapsed.Tell(events.Stamp(millis(at))) {
		tr.newest = max(tr.newest, at)
	}
	tr.seen = t.elapsed.Passed()
	t.touch(tr)
}

// touch has Settle look at a trace.
func (t *Tree) touch(tr *trace) {
	if !tr.touched {
		tr.touched = true
		t.touched = append(t.touched, tr)
	}
}

// find notes where a new span is, and whether it or its parent joins its trace to another one:
// a program that begins a trace while a span of another one is open names that as the parent.
func (t *Tree) find(tr *trace, r *Span) {
	// A span that was awaited by one trace has come in another.
	if at, ok := t.where[r.ID]; ok && !at.known && at.trace != tr {
		t.opens(tr, at.trace, r.ID)
	}
	t.where[r.ID] = place{tr, true}
	if _, awaits := tr.awaited[r.Parent]; !awaits {
		return
	}
	switch at, ok := t.where[r.Parent]; {
	case !ok:
		t.where[r.Parent] = place{tr, false}
	case at.known && at.trace != tr:
		t.opens(at.trace, tr, r.Parent)
	}
}

// opens notes that a span of one trace is the parent of one in another, which is a flow of
// its own and descends from that of the first.
func (t *Tree) opens(from, tr *trace, span string) {
	// The parent is in another trace, so this one does not wait for it.
	delete(tr.awaited, span)
	t.touch(tr)
	parent, _ := t.flow(from)
	// A flow is not its own parent: both traces may be called by one conversation.
	if own, _ := t.flow(tr); tr.names.Parent == "" && parent != own {
		tr.names.Parent, tr.names.Root = parent, cmp.Or(tr.names.Root, from.names.Root, from.names.Parent)
		from.opens = true
		// A restart has to read both, because each depends on the other.
		tr.reach, from.reach = min(tr.reach, from.reach), min(from.reach, tr.place)
	}
}

// flow is what the flow of a trace is called, and by what.
func (t *Tree) flow(tr *trace) (string, events.CorrelationSource) {
	for _, source := range t.correlation {
		id := ""
		switch source {
		case events.CorrelationExplicit:
			id = tr.names.Explicit
		case events.CorrelationConversation, events.CorrelationSession:
			id = tr.names.Conversation
		case events.CorrelationTrace:
			id = tr.id
		}
		if id != "" {
			return id, source
		}
	}
	// A trace always has an id, so each event has a flow.
	return tr.id, events.CorrelationTrace
}

// Settle emits the events that have become ready. The caller calls it after it added the spans of
// a record.
func (t *Tree) Settle(emit func(*events.Event)) {
	// Traces without a span in the record have nothing new to emit.
	for _, tr := range t.touched {
		tr.touched = false
		w := t.emitter(tr, emit)
		switch {
		// Every parent has come: nothing later can lie above what is there.
		case len(tr.awaited) == 0:
			w.emitUntil(math.MaxInt64, false)
		// The wait is half the hold longer than the hold that remains afterwards. So not each record
		// of a long trace emits events.
		case len(tr.pending) > 0 && tr.newest-tr.oldest > t.hold+t.hold/2:
			w.emitUntil(tr.newest-t.hold, true)
		}
		if tr.blocked != 0 && tr.newest-tr.blocked > t.hold+t.hold/2 {
			w.emitUntil(tr.newest-t.hold, true)
		}
		// All is emitted before anything is forgotten.
		if most := max(1, t.most/ofOneTrace); len(tr.spans) > most {
			w.emitUntil(math.MaxInt64, true)
			t.held -= t.shrink(tr, most/2)
		}
	}
	clear(t.touched)
	t.touched = t.touched[:0]
	// Silent traces are emitted here, in the order in which they fell silent.
	t.bound(emit)
	t.elapsed.Next()
}

// millis makes ms of µs.
func millis(micros int64) int64 { return micros / 1000 }

// Flush emits all held events.
//
// A later span of a trace begins the trace anew.
func (t *Tree) Flush(emit func(*events.Event)) {
	for {
		_, tr, ok := t.traces.PopOldest()
		if !ok {
			return
		}
		t.drop(tr, emit)
	}
}

// trace returns the trace of an id, and makes it at the first span or name.
func (t *Tree) trace(id string) *trace {
	tr, ok := t.traces.Get(id)
	if !ok {
		tr = &trace{id: id, place: t.place, reach: t.place, spans: map[string]*node{}, awaited: map[string]mark{}, worked: adapter.NewWork(maxParties),
			said: map[string]*node{}, last: map[string]*node{}}
		tr.seen = t.elapsed.Passed()
		t.traces.Put(id, tr)
		t.held++
	}
	return tr
}

// bound forgets traces that have been silent for the time of holding back, and the
// most silent ones when there are too many spans.
func (t *Tree) bound(emit func(*events.Event)) {
	// All gives the most silent first, so the first that may stay ends the search.
	for id, tr := range t.traces.All() {
		if t.held <= t.most && t.elapsed.Passed()-tr.seen <= millis(t.hold) {
			return
		}
		t.traces.Delete(id)
		t.drop(tr, emit)
	}
}

// drop emits the remaining events of a trace and forgets it.
func (t *Tree) drop(tr *trace, emit func(*events.Event)) {
	w := t.emitter(tr, emit)
	w.emitUntil(math.MaxInt64, true)
	w.close()
	// A trace counts as one, beside its spans.
	t.held -= len(tr.spans) + 1
	for id := range tr.spans {
		t.lose(tr, id)
	}
	for id := range tr.awaited {
		t.lose(tr, id)
	}
}

// lose forgets where a span of a trace is, or is awaited.
func (t *Tree) lose(tr *trace, id string) {
	// The place may be another trace's by then.
	if t.where[id].trace == tr {
		delete(t.where, id)
	}
}

// emitter is made anew for each turn; see its type.
func (t *Tree) emitter(tr *trace, emit func(*events.Event)) *emitter {
	return &emitter{trace: tr, tree: t, emit: emit}
}
