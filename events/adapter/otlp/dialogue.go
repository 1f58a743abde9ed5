package otlp

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/fingerprint"
)

// Where only the client of a model is instrumented, there are spans of requests and none of
// tools. But a request holds the conversation. It contains the calls that the model asked for and,
// one request later, their results. So the requests of a program without spans of tools give its
// calls, each with its result. Two requests are one flow if nothing else connects them, but one
// brings the result of a call that the other one asked for.

// dialogue is what the messages of a request say of calls of tools.
// Of texts only hashes are kept.
type dialogue struct {
	// Ids of calls are counted from 0 by some servers, so an id alone may be of any
	// conversation.
	opening events.Hash // what the user asked first; it distinguishes conversations with equal ids
	asked   []asked     // by the answer of the model
	brought []brought   // since its last answer
}

// asked is a call that a model asks for.
type asked struct {
	id, name string
	args     events.Hash
	size     int64
	call     deed.Call
}

// brought is the result of a call, with the call as the same request reports it.
//
// asked is empty except for the id where the history in the request does not hold the call.
type brought struct {
	asked
	result events.Hash
	near   events.Fingerprint
	deed   deed.Result
	failed string // what kind of error it is, "" for none
}

// maxCalls bounds the calls of one request of which more is kept than that it was made.
// Calls beyond it are neither emitted nor waited for.
const maxCalls = 64

// read reads the messages of a request and of its answer, in the forms of the GenAI
// conventions, of chat completions, of responses and of Anthropic's messages.
func (d *dialogue) read(input, output []byte, ignore adapter.IgnoreArgs) {
	// The answer has a dialogue of its own, so that what the model says is not taken for an
	// opening.
	in, out := reading{dialogue: d, ignore: ignore}, reading{dialogue: &dialogue{}, ignore: ignore}
	// Only the last answer counts: earlier requests reported all before it.
	in.look(input)
	out.look(output)
	d.brought, d.asked = in.paired(), out.calls
}

// reading goes through messages.
//
// There is one for the input of a request and one for its output.
type reading struct {
	dialogue *dialogue
	ignore   adapter.IgnoreArgs
	calls    []asked   // of the last answer
	results  []brought // behind it
}

// paired are the results with the calls that they are of.
// A result without its call in the same request has an id and no name.
func (r *reading) paired() []brought {
	for i := range r.results {
		for _, made := range r.calls {
			if made.id == r.results[i].id {
				r.results[i].asked = made
			}
		}
	}
	return r.results
}

// look reads whatever JSON it is given; what is no JSON holds no calls.
func (r *reading) look(p []byte) {
	c := jsonwalk.New(bytes.TrimSpace(p))
	switch c.Peek() {
	case '[':
		for c.Array(); c.Element(); {
			if c.Peek() == '{' {
				r.item(c)
			}
		}
	case '{':
		r.item(c)
	}
}

// item reads a message, a part of one, or what messages are wrapped into. Only when all of
// it was seen it is known which of them it is.
func (r *reading) item(c *jsonwalk.Cursor) { r.itemOf(nil, c) }

func (r *reading) itemOf(role []byte, c *jsonwalk.Cursor) {
	x := item{role: role}
	// Members come in any order, so they are read before it is known what the item is.
	x.read(c)
	// LangChain writes a message as the class and what its constructor was given.
	if role, known := roles[x.class]; known && len(x.built) > 0 {
		if inner := jsonwalk.New(x.built); inner.Peek() == '{' {
			r.itemOf([]byte(role), inner)
		}
		return
	}
	switch string(x.kind) {
	// AutoGen's messages, whose parts have no type of their own.
	case "ToolCallRequestEvent", "ToolCallExecutionEvent":
		c := jsonwalk.New(x.result)
		for c.MaybeArray(); c.Element(); {
			r.useOf(string(x.kind) == "ToolCallRequestEvent", c)
		}
		return
	case "tool_call", "function_call", "tool_use", "tool-call":
		// A call or a result holds no messages, so nothing within it is looked at.
		r.call(x.id, x.name, x.args)
		return
	case "tool_call_response", "function_call_output", "tool_result", "tool-result":
		r.result(x.id, x.result)
		return
	}
	switch cmp.Or(string(x.role), string(x.kind)) {
	// Chat completions mark a result by its role and the id of its call.
	case "tool":
		if len(x.id) > 0 {
			r.result(x.id, x.result)
			return
		}
	case "assistant", "model", "ai":
		// A new answer: what was asked and brought before is settled.
		r.calls, r.results = nil, nil
	case "user", "human":
		r.user(x.within...)
	}
	// A wrapper, or a message whose parts are items themselves.
	for _, p := range x.within {
		r.look(p)
	}
}

// item is a message, a part of one, or a wrapper, as its members were read.
type item struct {
	kind, role, id, name, args, result, built []byte
	class                                     string // of what its constructor was given, as LangChain writes messages down
	within                                    [][]byte
}

// read reads the members. Those that may hold messages are kept in within.
func (x *item) read(c *jsonwalk.Cursor) {
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "type":
			x.kind = scalar(c)
		case "role":
			x.role = scalar(c)
		case "call_id", "tool_call_id", "tool_use_id", "toolCallId":
			x.id = scalar(c)
		case "id":
			// The id of a LangChain object is the path of its class, whose last part says what
			// it is.
			if c.Peek() == '[' {
				for c.Array(); c.Element(); {
					x.class = string(scalar(c))
				}
			} else if v := scalar(c); len(x.id) == 0 {
				x.id = v
			}
		case "name", "toolName":
			x.name = scalar(c)
		case "arguments", "args":
			x.args = c.Raw()
		// Which of both it is is known when the type is: a call has arguments, all else may
		// hold messages.
		case "input": // of a tool, or messages
			x.args = c.Raw()
			x.within = append(x.within, x.args)
		case "function":
			if c.Peek() != '{' {
				c.Skip()
				continue
			}
			for c.Object(); c.Member(); {
				switch string(c.Key()) {
				case "name":
					x.name = scalar(c)
				case "arguments":
					x.args = c.Raw()
				}
			}
			// Chat completions write the type only in some versions.
			x.kind = []byte("function_call")
		case "content", "response", "result", "output":
			x.result = c.Raw()
			x.within = append(x.within, x.result)
		// update is of LangGraph's commands, which hold the messages that a tool wrote.
		case "parts", "tool_calls", "messages", "choices", "message", "update":
			x.within = append(x.within, c.Raw())
		case "kwargs":
			x.built = c.Raw()
		}
	}
}

// useOf reads one tool use of a message of AutoGen: the call that was asked for, or what it brought.
func (r *reading) useOf(isCall bool, c *jsonwalk.Cursor) {
	var id, name, args, result []byte
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "id", "call_id":
			id = scalar(c)
		case "name":
			name = scalar(c)
		case "arguments":
			args = c.Raw()
		case "content":
			result = c.Raw()
		default:
			c.Skip()
		}
	}
	if isCall {
		r.call(id, name, args)
	} else {
		r.result(id, result)
	}
}

// roles are those of LangChain's messages, by their class.
var roles = map[string]string{"HumanMessage": "human", "AIMessage": "ai", "AIMessageChunk": "ai", "ToolMessage": "tool"}

// call notes a call that the model asks for. Calls without an id cannot be paired with
// results, and are left out.
//
// The first maxCalls of an answer are kept.
func (r *reading) call(id, name, args []byte) {
	if len(id) == 0 || len(name) == 0 || len(r.calls) >= maxCalls {
		return
	}
	args = unquoted(args)
	a := asked{id: adapter.ID(id), name: adapter.Word(name, events.MaxID), size: int64(len(args))}
	// What the program adds to the arguments is no argument, see withoutNotes.
	args, leftOut := withoutNotes(args, r.ignore.Of(a.name))
	a.args = fingerprint.Args(args, leftOut)
	a.call = deed.CallOf(a.name, args, a.args)
	r.calls = append(r.calls, a)
}

// user takes what a user says for the opening, where nothing was said before.
// Only its hash is kept.
//
// An opening that comes after results is the beginning of no conversation.
func (r *reading) user(content ...[]byte) {
	if r.dialogue.opening.IsZero() && len(r.results) == 0 {
		r.dialogue.opening = fingerprint.Content(bytes.Join(content, nil))
	}
}

// result notes the result of a call. Without an id its call is unknown.
func (r *reading) result(id, text []byte) {
	if len(id) == 0 || len(r.results) >= maxCalls {
		return
	}
	text = unquoted(text)
	b := brought{asked: asked{id: adapter.ID(id)}}
	b.result, b.near = fingerprint.Result(text)
	b.deed = deed.ResultOf(text)
	// A result has no status of its own in a conversation; only its text may say that it
	// failed.
	if markedAsError(text) {
		b.failed = fingerprint.Error(text)
	}
	r.results = append(r.results, b)
}

// scalar reads a string, and takes anything else for none.
//
// Ids and names are strings in all forms; a number or an object is something else.
func scalar(c *jsonwalk.Cursor) []byte {
	if c.Peek() == '"' {
		return c.Text()
	}
	c.Skip()
	return nil
}

// unquoted is what a JSON string says, or the JSON itself.
//
// Arguments are a string of JSON in most protocols, and an object in some.
func unquoted(p []byte) []byte {
	if c := jsonwalk.New(p); c.Peek() == '"' {
		return c.Text()
	}
	return p
}

// line is an attribute that is a part of a message: instrumentations write lists of
// messages as one attribute for each member ("llm.input_messages.1.message.role").
type line struct {
	// It distinguishes the answer's calls from those of the history.
	answer bool   // it is of what the model said
	name   string // what stands behind the name of the list
	value  []byte
}

// maxLines bounds the parts of messages of one span.
// It is as many as there are attributes in a large batch.
const maxLines = 1 << 16

// flattened reports whether an attribute is a part of a message.
//
// Its name is cut after the list, so that the number of the message is in front.
func flattened(key []byte) (l line, ok bool) {
	for _, list := range [...]struct {
		prefix string
		answer bool
	}{{"llm.input_messages.", false}, {"llm.output_messages.", true}, {"gen_ai.prompt.", false}, {"gen_ai.completion.", true}} {
		if rest, found := bytes.CutPrefix(key, []byte(list.prefix)); found {
			return line{answer: list.answer, name: string(rest)}, true
		}
	}
	return line{}, false
}

// readLines reads messages that are attributes, one for each member.
// It adds to what read found, since instrumentations may write both.
func (d *dialogue) readLines(lines []line, ignore adapter.IgnoreArgs) {
	in, out := reading{dialogue: d, ignore: ignore}, reading{dialogue: &dialogue{}, ignore: ignore}
	in.lines(lines, false)
	out.lines(lines, true)
	d.brought, d.asked = append(d.brought, in.paired()...), append(d.asked, out.calls...)
}

// flat is a message that was put together from attributes.
//
// The attributes of one may be anywhere in the list of the span's.
type flat struct {
	role, id, content []byte
	calls             []flatCall
}

type flatCall struct{ id, name, args []byte }

// lines reads the messages of one side. It reads them by their numbers and not in the order in
// which they come.
func (r *reading) lines(lines []line, answer bool) {
	var messages []flat
	for _, l := range lines {
		number, rest, _ := strings.Cut(l.name, ".")
		// The number of a message cannot exceed the number of lines: a larger one would need memory
		// for messages that were not sent.
		n, err := strconv.Atoi(number)
		if l.answer != answer || err != nil || n < 0 || n >= len(lines) {
			continue
		}
		messages = append(messages, make([]flat, max(0, n+1-len(messages)))...)
		messages[n].take(strings.TrimPrefix(rest, "message."), l.value)
	}
	// Messages that are gaps have no role, and are passed over.
	for _, m := range messages {
		switch string(m.role) {
		case "tool":
			r.result(m.id, m.content)
		case "user":
			r.user(m.content)
		case "assistant":
			r.calls, r.results = nil, nil
			for _, c := range m.calls {
				r.call(c.id, c.name, c.args)
			}
		}
	}
}

// take notes one member of a message, such as role, content or tool_calls.0.function.name.
func (m *flat) take(member string, value []byte) {
	switch member {
	case "role":
		m.role = value
	case "tool_call_id":
		m.id = value
	case "content":
		m.content = value
	}
	list, found := strings.CutPrefix(member, "tool_calls.")
	number, rest, _ := strings.Cut(list, ".")
	n, err := strconv.Atoi(number)
	// The same for the calls of one message.
	if !found || err != nil || n < 0 || n >= maxCalls {
		return
	}
	m.calls = append(m.calls, make([]flatCall, max(0, n+1-len(m.calls)))...)
	switch c := &m.calls[n]; strings.TrimPrefix(strings.TrimPrefix(rest, "tool_call."), "function.") {
	case "id":
		c.id = value
	case "name":
		c.name = value
	case "arguments":
		c.args = value
	}
}

// turn is a request that asked for a call, until the call was brought.
// It is remembered until its result has come and after that, so that a second try of a request
// finds it.
type turn struct {
	asked
	flow string // the trace that the conversation began with
	// The reader begins at it after a restart, since the content of the call is only there.
	place   int64 // of the first record of that, see adapter.Keeper; math.MaxInt64 when it is not needed
	at      int64 // how much time had passed, in ms
	emitted bool  // the call was emitted

	brought *brought // by a later request, nil before
}

// maxTurns bounds the calls whose results are waited for.
//
// A new call replaces the oldest. The result of a forgotten call is emitted with the fields that
// the later request has of the call.
const maxTurns = 16384

// turns are those of a log, by the calls that they asked for.
//
// They outlive traces, since the request that brings a result is often a trace of its own.
type turns struct {
	open   *adapter.Recent[*turn]
	tooled *adapter.Recent[struct{}] // programs that have spans of tools
	passed int64                     // how much time has passed, in ms, see adapter.Elapsed
}

func newTurns() turns {
	return turns{open: adapter.NewRecent[*turn](maxTurns), tooled: adapter.NewRecent[struct{}](maxParties)}
}

// key names a call in a conversation of a program. A request that continues a state of the model's
// service has no opening.
// Without an opening a second key is used, which has the zero hash.
// Servers that count ids from 0 repeat them in each conversation, hence the opening. The source
// distinguishes two programs.
func (s *span) key(id string, opening events.Hash) string {
	return s.source + "\x00" + id + "\x00" + opening.String()
}

// follow finds out what a request goes on with, and remembers what it asked for.
//
// It is called when the span comes, not when it is emitted: the flow of a trace has to be known
// before anything of it is emitted.
func (k *turns) follow(s *span, t *trace) {
	d := s.dialogue
	// A program with spans of tools is taken by these, see decision 78.
	if s.kind == toolUse && !s.retrieves {
		k.tooled.Put(s.source, struct{}{})
		// The span of a tool goes on with the request that asked for its call.
		k.goOn(s, t, s.tool.CallID, events.Hash{})
	}
	if d == nil {
		return
	}
	for i := range d.brought {
		b := &d.brought[i]
		k.goOn(s, t, b.id, d.opening)
		// The first result stays: later requests repeat the history.
		if made, ok := k.open.Get(s.key(b.id, d.opening)); ok && made.brought == nil {
			made.brought = b
		}
	}
	for _, a := range d.asked {
		made := &turn{asked: a, flow: cmp.Or(t.goesOn, t.id), place: t.place, at: k.passed}
		k.open.Put(s.key(a.id, d.opening), made)
		// Under both keys, for those who know only the id.
		k.open.Put(s.key(a.id, events.Hash{}), made)
	}
}

// goOn makes a trace whose root nothing else ties to another one go on with that of the
// request which asked for a call.
//
// It follows one step: the flow of the request is that of its own root already.
func (k *turns) goOn(s *span, t *trace, id string, opening events.Hash) {
	// Only a root that has emitted nothing may still change its flow.
	if s.parent != 0 || s.link != 0 || t.begun || t.goesOn != "" || id == "" {
		return
	}
	if made, ok := k.open.Get(s.key(id, opening)); ok && made.flow != t.id {
		// The place goes back with the flow, so that a restart reads what began it.
		t.goesOn, t.place = made.flow, min(t.place, made.place)
	}
}

// fill adds fields to a call that its own span does not have, as far as the requests around it
// have them. These are the arguments, which the model asked for, and the result.
//
// Frameworks differ in what they record on the span of a tool, and models' clients write all
// of it.
func (t *emitter) fill(s *span) {
	// Nothing is missing, or nothing ties it to a request.
	if s.tool.CallID == "" || !s.tool.ArgsHash.IsZero() && !s.answer.IsZero() {
		return
	}
	made, known := t.turns.open.Get(s.key(s.tool.CallID, events.Hash{}))
	// The same id in another flow is another call.
	if !known || made.flow != cmp.Or(t.goesOn, t.id) && !slices.Contains(t.joined, made.flow) {
		return
	}
	if s.tool.ArgsHash.IsZero() {
		s.tool.ArgsHash, s.tool.ArgsSize = made.args, made.size
	}
	if made.brought != nil && s.answer.IsZero() {
		s.answer, s.near = made.brought.result, made.brought.near
	}
}

// forget drops calls whose results have not come.
//
// before is in ms of the time that has passed, see adapter.Elapsed.
func (k *turns) forget(before int64) {
	// In the order of use: the first that is young enough ends the search.
	for key, made := range k.open.All() {
		if made.at >= before {
			return
		}
		k.open.Delete(key)
	}
}

// release drops the input in which calls were asked for: after a silence no content is kept for a
// result that may never come. A later result still finds its call, unless the reader was begun
// anew.
//
// MaxInt64 means no place, which Oldest skips.
func (k *turns) release() {
	for _, made := range k.open.All() {
		made.place = math.MaxInt64
	}
}

// isTooled reports whether a program has spans of tools, so that its requests need not report
// them.
func (k *turns) isTooled(program string) bool {
	_, tooled := k.tooled.Get(program)
	return tooled
}

// bring emits the calls whose results a request brings.
//
// Results in one request have its start as their time, for the time of each is unknown.
func (t *emitter) bring(s *span) {
	agent := t.actor(s)
	var calls []brought
	for _, b := range s.dialogue.brought {
		key := s.key(b.id, s.dialogue.opening)
		made, known := t.turns.open.Get(key)
		switch {
		// A call is emitted once, by the first request that brings its result.
		case known && made.emitted:
			continue // an earlier try of the same request brought it
		case known:
			made.emitted = true
			// What the request itself says of the call gives way to what the model asked for.
			b.asked = made.asked
		// The call is known by the history alone: its asking was not in the log.
		case b.name != "":
			t.turns.open.Put(key, &turn{asked: b.asked, flow: cmp.Or(t.goesOn, t.id), place: t.place, at: t.turns.passed, emitted: true})
		}
		// A call that runs an agent is reported by that agent's spans.
		if b.name != "" && !t.isAgent(b.name) {
			calls = append(calls, b)
		}
	}
	// An id of the call makes the ids of both events differ from others of the same span.
	begin := func(kind events.Kind, b *brought, phase string) *events.Event {
		e := t.begin(s, kind, adapter.Word([]byte(b.id), events.MaxID/2)+phase, s.start)
		e.From, e.Tool = events.Party{Agent: agent}, events.Tool{Name: b.name, CallID: b.id, ArgsHash: b.args, ArgsSize: b.size}
		return e
	}
	// All calls before all results, as the model asked for them side by side.
	for i := range calls {
		t.worked.Note(agent, events.Yes)
		e := begin(events.ToolCall, &calls[i], "/start")
		calls[i].call.Begin(t.looks, e, t.looker(agent), calls[i].id)
		t.emit(e)
	}
	for i := range calls {
		b := &calls[i]
		e := begin(events.ToolResult, b, "/end")
		e.Content, e.Sim, e.Status = b.result, b.near, events.StatusOK
		if b.failed != "" {
			e.Status, e.ErrorType = events.StatusError, b.failed
		}
		b.call.End(t.looks, e, t.looker(agent), b.id, &b.deed)
		t.emit(e)
	}
}

// isAgent reports whether a call of that name hands over to an agent or runs one. The spans of
// the agent then report it.
func (t *emitter) isAgent(tool string) bool {
	// Only names matter for it, so a span with nothing but a name is enough.
	s := span{tool: events.Tool{Name: tool}}
	if s.handoffByName(); s.handoff != "" || s.asks != "" {
		return true
	}
	for _, other := range t.spans {
		if other.kind == visit && alike(other.agent, tool) {
			return true
		}
	}
	return false
}
