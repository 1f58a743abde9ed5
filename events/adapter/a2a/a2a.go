// Package a2a reads A2A messages (JSON-RPC, versions 0.3 and 1.0) from the logs of HTTP proxies.
//
// It reads the messages that are sent to agents and their outcome: the answer, or the task with its states
// and its artifacts. A call is emitted when it is sent. Its answer is emitted when the task has ended or
// asks for input.
//
// The proxy names the agent that is called; nothing names the caller. A message in a known context comes
// from the party that opened the context. Otherwise the caller is an agent that has a call open itself,
// within the same flow. If there is only one beside the callee, it is that agent. If there are several, it
// is "a2a-client", because they cannot be distinguished. If none is open, the call comes from outside,
// which is treated as a user.
//
// One flow is the one that the request names in baggage or a trace context. Contexts belong to two agents
// each. Without anything better a call is of the flow of the calls that are open around it, which is
// marked as derived. A message that builds on a task of another flow (referenceTaskIds) opens a flow that
// descends from it, unless metadata or baggage name the flow.
//
// The wire shows neither tools nor tokens nor work: whether an agent did any is
// unknown.
package a2a

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/wire"
)

// Format returns the A2A wire format.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "a2a",
		Title:   "A2A as JSON-RPC, as logging proxies write it, one request or response per line",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		// Starts are reported because requests are logged when they are sent.
		Gives: adapter.Gives{Tools: adapter.Never, Args: adapter.Never, Results: adapter.Always, Caller: adapter.Sometimes, Turn: adapter.Never,
			Tokens: adapter.Never, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Never},
	}
}

// score knows the protocol by its header, by the card that each agent has, or by a method that
// sends.
func score(head *adapter.Head) adapter.Match {
	for r := range wire.Head(head) {
		if r.Header.A2A || strings.HasSuffix(r.Path, "/.well-known/agent-card.json") || strings.HasSuffix(r.Path, "/.well-known/agent.json") {
			return adapter.Certain
		}
		for m := range r.Messages() {
			if sends(m.Method) {
				return adapter.Certain
			}
		}
	}
	return adapter.NoMatch
}

// sends reports whether a method sends a message to an agent.
//
// Names are those of version 1.0, of 0.3 and of early 2025.
func sends(method string) bool {
	switch method {
	case "SendMessage", "SendStreamingMessage", "message/send", "message/stream", "tasks/send", "tasks/sendSubscribe":
		return true
	}
	return false
}

const (
	maxRemembered = 4096             // open calls, tasks, contexts and flows, each
	defaultHold   = 30 * time.Minute // for how long a call without an answer is taken for open
	unnamed       = "a2a-client"     // the caller where several are possible
)

// reader knows calls that are open and who opened contexts and tasks, for all flows of the
// log.
type reader struct {
	source      string
	correlation []events.CorrelationSource
	// hold is in event time; negative for no limit.
	hold     time.Duration
	repeats  *adapter.Repeats
	open     *adapter.Recent[*call]  // by exchange, and by task once that goes on without one
	contexts *adapter.Recent[thread] // by context id
	tasks    *adapter.Recent[thread] // by task id
	// first distinguishes the call of a user from later ones that come from outside.
	first *adapter.Recent[string] // call that a flow began with
	event events.Event
}

// call is a message to an agent that has no answer yet.
//
// It is remembered by the exchange, and by its task once the response has named one that goes
// on.
type call struct {
	id string
	// rpc is the id within JSON-RPC, by which the answer in a stream is found.
	rpc   string
	at    events.Stamp
	event events.Event // what call and return share
}

// thread is the party that opened a context or a task, and its flow.
//
// The opener is treated as the caller of each message that continues it.
type thread struct {
	from   events.Party
	flow   string
	source events.CorrelationSource
	root   string // of the tree that the flow belongs to, if reported
}

// thread is what is remembered of a call for those that go on with it.
func (c *call) thread() thread {
	return thread{c.event.From, c.event.CorrelationID, c.event.CorrelationSource, c.event.Root()}
}

// newReader prefers a flow that is reported to one that is derived.
func newReader(o adapter.Options) adapter.Adapter {
	most := o.HeldOr(maxRemembered)
	return &reader{
		source: cmp.Or(o.Source, "a2a"), hold: cmp.Or(o.Hold, defaultHold), repeats: adapter.NewRepeats(o),
		correlation: o.CorrelationOr(events.CorrelationExplicit, events.CorrelationBaggage, events.CorrelationTrace,
			events.CorrelationConversation, events.CorrelationDerived),
		open: adapter.NewRecent[*call](most), contexts: adapter.NewRecent[thread](most), tasks: adapter.NewRecent[thread](most), first: adapter.NewRecent[string](most),
	}
}

// Decode reads one request or response.
//
// A record that came before is passed over; one that cannot be read is not remembered.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	rec, err := wire.Read(record)
	if err != nil {
		return err
	}
	if r.repeats.Again(record) {
		return nil
	}
	if rec.Response {
		r.response(rec, emit)
		return nil
	}
	for m := range rec.Messages() {
		if sends(m.Method) {
			r.call(rec, m, emit)
			break // A2A has no batches
		}
	}
	return nil
}

// Flush has nothing to do: calls are emitted at once.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// call emits a message to an agent, and remembers it until its answer.
func (r *reader) call(rec *wire.Record, m *wire.Message, emit func(*events.Event)) {
	said := readParams(m.Params)
	// Proxies stand in front of one agent each, whose name is theirs.
	callee := events.Party{Agent: cmp.Or(rec.Proxy, "a2a-agent")}
	c := &call{id: rec.ID(), rpc: m.ID, at: rec.At}
	c.event = events.Event{Source: r.source, To: callee, MessageID: said.id, ConversationID: said.context}
	trace := cmp.Or(said.trace, rec.Header.Trace)
	c.event.TraceID, c.event.ParentSpanID = trace.ID, trace.Span
	// First what the request says, then what can be found out.
	r.takeFlow(c, rec, said, trace)
	r.place(c, said)
	r.descend(c, said)
	r.open.Put(rec.Key(), c)
	if said.context != "" {
		r.remember(said.context, c)
	}

	// The event that is kept holds what the return shares; the call's own fields are set on
	// the copy.
	r.event = c.event
	e := &r.event
	e.ID, e.Kind, e.Time, e.Content, e.Sim = c.id+"/call", events.AgentCall, c.at, said.said, said.sim
	e.DelegationDepth = said.hops
	if e.Origin = events.OriginUser; !e.From.IsZero() {
		e.Origin, e.TransferMode = events.OriginAgent, events.ReturnToCaller
	}
	emit(e)
}

// takeFlow takes the flow from what the request says about it.
func (r *reader) takeFlow(c *call, rec *wire.Record, said *message, trace wire.Trace) {
	// The metadata of the message goes before baggage, and the baggage of the message before
	// that of the request.
	flow := wire.Flow{Parent: said.parent, Root: said.root}.Or(said.hop).Or(said.baggage).Or(rec.Header.Baggage)
	c.event.ParentCorrelationID, c.event.RootCorrelationID = flow.Parent, flow.Root
	for _, source := range r.correlation {
		id := ""
		switch source {
		case events.CorrelationExplicit:
			id = cmp.Or(said.correlation, rec.Header.Correlation)
		case events.CorrelationBaggage:
			id = flow.ID
		case events.CorrelationTrace:
			id = trace.ID
		}
		if id != "" {
			c.event.CorrelationID, c.event.CorrelationSource = id, source
			return
		}
	}
}

// place finds out who called, and in what flow where the request does not say.
//
// A call that is open is that of an agent at work, so its callee may be the caller of this
// one.
func (r *reader) place(c *call, said *message) {
	e, context := &c.event, said.context
	named := e.CorrelationID != ""
	// A known context or task names its opener, whatever else is open.
	if t, ok := r.thread(said); ok {
		e.From = t.from
		if !named {
			r.flow(c, t.flow, t.source)
		}
		return
	}
	var callers, flows []string
	for key, o := range r.open.All() {
		switch {
		case r.hold > 0 && c.at.Sub(o.at) > r.hold:
			// Deleting what was yielded last is allowed, see adapter.Recent.All.
			r.open.Delete(key) // its answer was not seen, or never came
		// An agent does not call itself, and a call is not within itself.
		case o.event.To.Agent == e.To.Agent && o.event.To.Session == e.To.Session || o.id == c.id:
		// Only calls of the same flow count: the flow that both say, or none of both.
		case named != isOwn(&o.event), named && o.event.CorrelationID != e.CorrelationID:
		default:
			callers, flows = another(callers, o.event.To.Agent), another(flows, o.event.CorrelationID)
		}
	}
	switch len(callers) {
	case 0:
		r.root(c, context, named)
		return
	case 1:
		// The only one that can have called.
		e.From = events.Party{Agent: callers[0]}
	default:
		e.From = events.Party{Agent: unnamed}
	}
	switch {
	case named:
	case len(flows) == 1:
		// All that could have called are of one flow, so the flow is known also where the
		// caller is not.
		r.flow(c, flows[0], events.CorrelationDerived)
	default:
		// With several flows the right one is unknown, so the callee has one of its own.
		r.flow(c, "a2a:"+e.To.Agent, events.CorrelationDerived)
	}
}

// thread finds what a message goes on with: a context, or the task of one that it does not name.
func (r *reader) thread(said *message) (thread, bool) {
	if t, ok := r.contexts.Get(said.context); ok && said.context != "" {
		return t, true
	}
	t, ok := r.tasks.Get(said.task)
	return t, ok && said.task != ""
}

// descend names the flow that this one builds on: that of the first task which the message
// refers to and which is of another flow.
//
// What the request says itself goes first.
func (r *reader) descend(c *call, said *message) {
	e := &c.event
	if e.Root() != "" {
		return
	}
	for _, id := range said.refers {
		if t, ok := r.tasks.Get(id); ok && t.flow != "" && t.flow != e.CorrelationID {
			e.ParentCorrelationID, e.RootCorrelationID = t.flow, t.root
			return
		}
	}
}

// another adds a name to those that there are, of which more than two are of no use.
func another(names []string, name string) []string {
	if len(names) == 2 || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// isOwn reports whether a request itself named its flow.
//
// A flow that was derived from open calls, or is that of a context, does not count.
func isOwn(e *events.Event) bool {
	return e.CorrelationID != "" && e.CorrelationSource != events.CorrelationDerived && e.CorrelationSource != events.CorrelationConversation
}

// root places a call that comes from outside.
func (r *reader) root(c *call, context string, named bool) {
	switch {
	case named:
		// What a request says of its flow stands for one action of a user, so that any
		// further call from outside is made by an agent that is not in the log.
		first, ok := r.first.Get(c.event.CorrelationID)
		if ok && first != c.id {
			c.event.From = events.Party{Agent: unnamed}
			return
		}
		r.first.Put(c.event.CorrelationID, c.id)
	// A context is a conversation of the user's with that agent.
	case context != "" && slices.Contains(r.correlation, events.CorrelationConversation):
		r.flow(c, context, events.CorrelationConversation)
	default:
		// It is the beginning of a flow that nothing names.
		r.flow(c, "a2a:"+c.id, events.CorrelationDerived)
	}
}

// flow sets the flow, unless the options leave out what is derived.
func (r *reader) flow(c *call, id string, source events.CorrelationSource) {
	if source == events.CorrelationDerived && !slices.Contains(r.correlation, source) {
		return
	}
	c.event.CorrelationID, c.event.CorrelationSource = adapter.Word([]byte(id), events.MaxID), source
}

// remember keeps whose context it is.
//
// The first call of it counts: later ones go on with it.
func (r *reader) remember(context string, c *call) {
	if _, ok := r.contexts.Get(context); !ok {
		r.contexts.Put(context, c.thread())
	}
}

// response reads the outcome of a call: an answer, or a task that goes on.
func (r *reader) response(rec *wire.Record, emit func(*events.Event)) {
	key := rec.Key()
	c, ok := r.open.Get(key)
	got := &outcome{}
	for m := range rec.Messages() {
		// A stream has answers to one request; without its call all are read.
		if m.Answers() && (!ok || m.ID == c.rpc || m.ID == "") {
			got.read(m)
		}
	}
	if !ok && got.task != "" { // the task was asked for, or subscribed to
		key = taskKey(rec.Proxy, got.task)
		c, ok = r.open.Get(key)
	}
	if !ok {
		return // without its request nothing is known of it
	}
	// Contexts and tasks are named by the agent, so they are known from the first response on.
	if got.context != "" {
		r.remember(got.context, c)
	}
	if got.task != "" {
		r.tasks.Put(got.task, c.thread())
	}
	// A refusal by HTTP has no answer in it.
	if !got.done && rec.Refused() {
		got.done, got.status, got.failure = true, events.StatusError, "HTTP "+strconv.FormatInt(rec.Status, 10)
	}
	switch task := taskKey(rec.Proxy, got.task); {
	case got.done:
		r.open.Delete(key)
		r.answer(rec, c, got, emit)
	case got.task != "" && key != task: // the task goes on
		r.open.Delete(key)
		r.open.Put(task, c)
	// No task and no end: nothing more comes by this exchange.
	case got.task == "":
		r.open.Delete(key)
	}
}

// taskKey is the key of a call whose task goes on. It cannot be that of an exchange.
func taskKey(proxy, task string) string { return proxy + " task " + task }

// answer emits the return of a call; its flow is that of the call.
func (r *reader) answer(rec *wire.Record, c *call, got *outcome, emit func(*events.Event)) {
	r.event = c.event
	e := &r.event
	e.ID, e.Kind, e.Time, e.Origin = c.id+"/return", events.AgentReturn, max(rec.At, c.at), events.OriginAgent
	e.From, e.To = c.event.To, c.event.From
	e.MessageID, e.ConversationID = "", cmp.Or(got.context, c.event.ConversationID)
	e.DurationMS = float64(e.Time - c.at)
	e.Status, e.ErrorType = got.status, got.failure
	e.Content, e.Sim = got.said()
	emit(e)
}
