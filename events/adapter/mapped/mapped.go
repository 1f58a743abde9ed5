// Package mapped reads any JSON by a mapping from the user: for each field of an event, a path in the record.
//
//	map:correlation_id=.flow,time=.ts,kind=.type,kind.tool_start=tool.call,
//	    kind.tool_end=tool.result,from=.sender.id,tool=.tool.name,args=.tool.args
//
// A value is a path (.a.b[0]."c d"), a text in double quotes, or any jq expression, of which the
// first result counts. Of several paths with // between them the first existing one counts.
// FIELD.TEXT=VALUE sets the value to write where TEXT is found. Records of kinds that weir does
// not know are counted and skipped.
//
// each=.steps reads the elements of a list instead of the record, each=.runs[].steps those of a
// list in a list. Paths are then of the element; ^.id is of the record around it, ^^.id of the
// one around that. A record without the list is read as it is, without the records around it.
//
// The log contains only the fields of the mapping. Whether hops came without work is
// known when uses of tools are mapped.
package mapped

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/pairing"
	"weir/events/adapter/tag"
	"weir/events/adapter/usage"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// Prefix begins the names of formats that are mappings.
const Prefix = "map:"

// Format returns the format that a mapping describes, which is named after it. It never
// fits an input by itself. The error says which part of the mapping is wrong.
// Each adapter of the format shares the mapping, which is only read.
func Format(mapping string) (adapter.Format, error) {
	m, err := parse(mapping)
	if err != nil {
		return adapter.Format{}, err
	}
	return adapter.Format{
		Name:    Prefix + mapping,
		Title:   "JSON objects, read by a mapping",
		Framing: adapter.Lines,
		// Any JSON would fit.
		Score: func(*adapter.Head) adapter.Match { return adapter.NoMatch },
		New:   func(o adapter.Options) adapter.Adapter { return newReader(m, o) },
		Gives: m.gives(),
	}, nil
}

// gives returns what a log can contain that is read by the mapping.
// A mapped field has the level Sometimes at best: no mapping says that each record has it.
func (m *mapping) gives() adapter.Gives {
	// One of the fields is enough.
	level := func(fields ...field) adapter.Level {
		if slices.ContainsFunc(fields, m.has) {
			return adapter.Sometimes
		}
		return adapter.Never
	}
	return adapter.Gives{Tools: level(tool), Tasks: level(taskID), Args: level(args, argsHash), Results: level(content), Caller: level(from, fromSession), Turn: level(turnID),
		Tokens: level(inputTokens, outputTokens, totalTokens), Time: level(at), Starts: adapter.Sometimes, Work: level(hadWork, tool)}
}

// reader is an adapter for one goroutine: values is used again for each record, and aliases
// it.
// m is shared with other adapters of the mapping, and only read.
type reader struct {
	m     *mapping
	pair  *pairing.Pairer
	clock adapter.Clock
	// values alias the record, or what the mapping has as fixed texts.
	values [fields][]byte

	silent func(adapter.Silence)
	unread func(adapter.Unread)
	count  adapter.Unread
	found  [fields]bool // in any record
	last   lastCall
	// follows says that what is read is not the first element of its record.
	follows bool
}

// newReader calls flows by the first name that is mapped, in the pairing's order.
func newReader(m *mapping, o adapter.Options) adapter.Adapter {
	r := &reader{m: m, pair: pairing.New(o, "map"), silent: o.Silent, unread: o.Unread}
	// A log without uses of tools would make every hop look like one without work, which stops
	// flows (see decision 4).
	r.pair.Work = m.has(tool)
	return r
}

// Decode reads one record.
// An error leaves the reader as it was, but for the clock.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	if len(r.m.each) > 0 {
		return r.elements(record, emit)
	}
	clear(r.values[:])
	if err := r.m.read(record, &r.values); err != nil {
		return err
	}
	return r.one(record, emit)
}

// one makes the events of what was read, of which raw is the text.
func (r *reader) one(raw []byte, emit func(*events.Event)) error {
	for f := range r.values {
		r.found[f] = r.found[f] || len(r.values[f]) > 0
	}
	r.count.Records++
	// A kind that is not known is no error: logs hold other lines.
	kind, ok := r.kind()
	if !ok {
		r.pass()
		return nil
	}
	// A time that cannot be read is an error and no missing time: the order of the log would
	// hang on a guess.
	stamp, timed := jsonwalk.Stamp(r.values[at])
	if !timed && len(r.values[at]) > 0 {
		return r.wrong(at, "want an RFC 3339 time, or a number of seconds, ms, µs or ns since 1970")
	}
	if r.follows && r.m.outer[at] {
		stamp, timed = 0, false // the record's time is that of its first element
	}
	when := r.clock.At(stamp)
	key := r.pair.Key
	id := r.id(id)
	if id == "" {
		// Without an id the line is its own name; see pairing.Pairer.Key for lines without
		// times.
		id = key(raw, timed)
	}
	if kind == events.ToolCall && r.m.whole() && r.answered() {
		return r.both(id, when, emit)
	}
	return r.tell(id, kind, when, emit)
}

// It makes the event of a record.
func (r *reader) tell(id string, kind events.Kind, when events.Stamp, emit func(*events.Event)) error {
	e := r.begin(id, kind, when)
	if err := r.fill(e); err != nil {
		return err
	}
	r.join(e)
	// A mapping may leave out what the kind needs, which shows here and not when it is parsed.
	if err := e.Validate(); err != nil {
		return err
	}
	r.pair.Pair(e, emit)
	return nil
}

// lastCall is the last use of a tool.
type lastCall struct{ flow, tool string }

// join gives a result that names neither its call nor a tool to the last call of its flow.
func (r *reader) join(e *events.Event) {
	switch {
	case e.Kind == events.ToolCall:
		r.last = lastCall{e.CorrelationID, e.Tool.Name}
	case e.Kind == events.ToolResult && e.Tool.CallID == "" && len(r.values[tool]) == 0 && r.last.flow == e.CorrelationID:
		e.Tool.Name = r.last.tool
	}
}

// result are the fields of the outcome of a call.
var result = [...]field{content, status, failure, duration}

// answered reports whether a record contains the outcome of its call.
func (r *reader) answered() bool {
	return slices.ContainsFunc(result[:], func(f field) bool { return len(r.values[f]) > 0 })
}

// both makes the call and the result of a record that has both, as logs have them that write a
// line when a call is over: as one event the result would not be seen. Its time is that of the
// call unless the record says how long it took.
func (r *reader) both(id string, when events.Stamp, emit func(*events.Event)) error {
	said := r.values
	end := when + events.Stamp(min(r.float(duration), events.MaxNumber/2))
	for _, f := range result {
		r.values[f] = nil
	}
	if len(r.values[callID]) == 0 { // that the two belong together
		r.values[callID] = []byte(id)
	}
	call := r.values[callID]
	if err := r.tell(id, events.ToolCall, when, emit); err != nil {
		return err
	}
	// The cost of a call is emitted once.
	r.values = said
	r.values[callID] = call
	for f := inputTokens; f <= costUSD; f++ {
		r.values[f] = nil
	}
	return r.tell(id+"/result", events.ToolResult, end, emit)
}

// maxKinds bounds the words for a kind that are counted separately. A path that does not lead to a
// kind finds another word on each line.
const maxKinds = 64

// pass counts a record that is no event.
func (r *reader) pass() {
	if r.unread == nil {
		if r.silent != nil {
			r.silent(adapter.SilentUnknown)
		}
		return
	}
	if r.count.Kinds == nil {
		r.count.Kinds = map[string]int64{}
	}
	word := adapter.Word(r.values[kind], 60)
	if _, known := r.count.Kinds[word]; !known && len(r.count.Kinds) >= maxKinds {
		word = "others"
	}
	r.count.Kinds[word]++
}

// Flush reports the records that the mapping could not read. Nothing is held back.
func (r *reader) Flush(func(*events.Event)) error {
	if r.unread == nil || r.count.Records == 0 {
		return nil
	}
	for f, found := range r.found {
		if !found && r.m.has(field(f)) {
			r.count.Never = append(r.count.Never, names[f])
		}
	}
	r.unread(r.count)
	r.count, r.found = adapter.Unread{}, [fields]bool{}
	return nil
}

// wrong is the error of a value that cannot be read. Offset -1 says that the place in the
// record is not known: a value may come from an expression.
func (r *reader) wrong(f field, reason string) error {
	return &events.DecodeError{Code: events.CodeInvalidValue, Field: names[f], Offset: -1,
		Reason: fmt.Sprintf("%s, found %q", reason, adapter.Word(r.values[f], 60))}
}

// word and id cut what is too long; an id leaves room for what is put around it.
//
// Both are "" where nothing is mapped.
func (r *reader) word(f field) string { return adapter.Word(r.values[f], events.MaxID) }
func (r *reader) id(f field) string   { return adapter.Word(r.values[f], events.MaxID/2) }

// kind is what happened: what the mapping says, else a tool call where there is a tool,
// else a call of an agent.
func (r *reader) kind() (events.Kind, bool) {
	if !r.m.has(kind) {
		if len(r.values[tool]) > 0 {
			return events.ToolCall, true
		}
		// No agent is called. That is neither an event nor an error, since logs hold other lines,
		// too.
		return events.AgentCall, len(r.values[to]) > 0 || len(r.values[toSession]) > 0
	}
	// The mapping may have translated the log's own word for it.
	for _, k := range events.Kinds() {
		if k.String() == string(r.values[kind]) {
			return k, expressible(k)
		}
	}
	return 0, false
}

// expressible reports whether a mapping can say all that an event of the kind needs.
//
// The others need what no field of a mapping fills.
func expressible(k events.Kind) bool {
	switch k {
	case events.AgentCall, events.AgentReturn, events.ToolCall, events.ToolResult, events.LLMCall, events.TurnStart,
		events.TaskLoop, events.TaskReflect, events.FlowStart, events.FlowEnd:
		return true
	}
	return false
}

// begin gives an event all of its names. That the flow is called by the first of them that is
// there is up to the order of the pairing.
func (r *reader) begin(id string, kind events.Kind, when events.Stamp) *events.Event {
	// A header of baggage names the flow, its parent and its root at once.
	said := wire.Baggage(r.values[baggage])
	flow := adapter.Names{
		events.CorrelationExplicit: r.word(correlationID), events.CorrelationBaggage: said.ID,
		events.CorrelationPrompt: r.word(promptID), events.CorrelationTrace: r.word(traceID), events.CorrelationConversation: r.word(conversationID),
		events.CorrelationSession: r.word(sessionID), events.CorrelationTask: r.word(taskID),
	}
	e := r.pair.Begin(id, kind, when, &flow)
	e.ParentCorrelationID, e.RootCorrelationID = cmp.Or(r.word(parentID), said.Parent), cmp.Or(r.word(rootID), said.Root)
	// A source in the record goes before that of the options.
	if s := r.word(source); s != "" {
		e.Source = s
	}
	e.ConversationID = cmp.Or(r.word(conversationID), r.word(sessionID))
	e.TaskID, e.TurnID, e.MessageID = r.word(taskID), r.word(turnID), r.word(messageID)
	e.ProjectID, e.TeamID, e.TenantID = r.word(projectID), r.word(teamID), r.word(tenantID)
	e.Tags = tag.Read(r.values[tags])
	// Ids in other forms still name the flow, but are no ids of W3C traces, which is what
	// TraceID and SpanID promise.
	if trace := strings.ToLower(r.word(traceID)); isHex(trace, 32) {
		e.TraceID = trace
	}
	if span := strings.ToLower(r.word(spanID)); isHex(span, 16) {
		e.SpanID = span
	}
	e.From = events.Party{Session: r.word(fromSession), Agent: r.word(from)}
	e.To = events.Party{Session: r.word(toSession), Agent: r.word(to)}
	return e
}

// isHex is true for n hex digits that are not all 0.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}

// people are the names under which logs speak of the user.
// A party of such a name would be an agent that is called in circles, while a user's message
// begins anew (see decision 59).
var people = []string{"user", "human", "customer"}

// fill gives an event what is not a name.
func (r *reader) fill(e *events.Event) error {
	if e.From.Session == "" && slices.Contains(people, strings.ToLower(e.From.Agent)) {
		e.From = events.Party{}
	}
	// Only an answer to the user may have no receiver; a call without one would be no call.
	if e.To.Session == "" && slices.Contains(people, strings.ToLower(e.To.Agent)) && e.Kind == events.AgentReturn {
		e.To = events.Party{}
	}
	// Who does not say where a call comes from is an agent when it has a name.
	if e.Kind == events.AgentCall && len(r.values[origin]) == 0 {
		if e.Origin = events.OriginAgent; e.From.IsZero() {
			e.Origin = events.OriginUser
		}
	}
	if p := r.values[origin]; len(p) > 0 {
		o, ok := lookup(string(p), events.OriginUser, events.OriginSystem)
		if !ok {
			return r.wrong(origin, "want user, agent, scheduler, applet or system")
		}
		e.Origin = o
	}
	if p := r.values[status]; len(p) > 0 {
		s, ok := lookup(string(p), events.StatusOK, events.StatusInputRequired)
		if !ok {
			return r.wrong(status, "want ok, error, denied, cancelled, timeout or input_required; say what other values mean as status.VALUE=error")
		}
		e.Status = s
	}
	// Some logs write error: false on each line.
	if p := r.values[failure]; len(p) > 0 && string(p) != "false" {
		e.ErrorType = cmp.Or(fingerprint.Error(p), "error")
		if e.Status == events.StatusUnset {
			// A status that was mapped goes before what the error implies.
			e.Status = events.StatusError
		}
	}
	switch string(r.values[hadWork]) {
	case "true":
		e.HadWork = events.Yes
	case "false":
		e.HadWork = events.No
	}
	// Tools before numbers and texts, in no order that matters.
	r.fillTool(e)
	e.DurationMS = r.float(duration)
	e.LoopCount, e.DelegationDepth = r.number(loopCount), r.number(delegationDepth)
	e.Sequence = r.number(sequence)
	if p := r.values[content]; e.Kind != events.ToolResult {
		pairing.Said(e, p)
	} else if pairing.Returned(e, p); p != nil {
		e.Tool.ResultSize = int64(max(1, len(p))) // an empty result is a known one
	}
	e.Model, e.Provider = r.word(model), adapter.Word(r.values[provider], events.MaxProvider)
	r.fillUsage(e)
	return nil
}

// fillTool is for events about tools; elsewhere a mapped tool is a name of something else.
func (r *reader) fillTool(e *events.Event) {
	if e.Kind != events.ToolCall && e.Kind != events.ToolResult {
		return
	}
	e.Tool = events.Tool{Name: r.word(tool), CallID: r.id(callID), Server: r.word(server), RetryOf: r.id(retryOf)}
	if e.Kind == events.ToolResult && e.Tool.Name == "" {
		e.Tool.Name = "tool" // its call has the name
	}
	if p := r.values[args]; len(p) > 0 {
		r.pair.Args(e, p)
		e.Tool.ArgsSim = fingerprint.ArgsText(p)
	}
	// A hash that the log has goes before that of the arguments: who hashed them may have seen
	// more.
	if h, err := events.ParseHash(string(r.values[argsHash])); err == nil && len(r.values[argsHash]) > 0 {
		e.Tool.ArgsHash = h
	}
}

// fillUsage reads tokens and money, on whatever kind of event the mapping finds them.
func (r *reader) fillUsage(e *events.Event) {
	// Spares most logs the parsing of empty numbers.
	if !r.m.counts {
		return
	}
	u := &e.Usage
	// The order of a map is random, and does no harm here: each field has a place of its own.
	for f, to := range map[field]*int64{inputTokens: &u.Input, outputTokens: &u.Output, cacheRead: &u.CacheRead, cacheCreation: &u.CacheCreation,
		reasoning: &u.Reasoning, totalTokens: &u.Total} {
		if *to = r.number(f); len(r.values[f]) > 0 {
			u.Known = true
		}
	}
	if micro, ok := usage.Dollars(r.values[costUSD]); ok {
		u.Known, u.CostMicroUSD = true, micro
	}
	// Without a scope the counts are of this one event.
	switch string(r.values[scope]) {
	case "cumulative":
		u.Scope = events.UsageCumulative
	case "aggregate":
		u.Scope = events.UsageAggregate
	}
	// A scope without a count says nothing.
	if !u.Known {
		*u = events.Usage{}
	}
}

// lookup finds the value of an enumeration that is spelt so.
func lookup[E interface {
	~uint8
	String() string
}](text string, first, last E) (E, bool) {
	for v := first; v <= last; v++ {
		if v.String() == text {
			return v, true
		}
	}
	return 0, false
}

// number and float read 0 from a value that is no number, negative or out of bounds: 0 means
// that the value is missing.
func (r *reader) number(f field) int64 {
	v, err := strconv.ParseInt(string(r.values[f]), 10, 64)
	if err != nil || v < 0 || v > events.MaxNumber {
		return 0
	}
	return v
}

func (r *reader) float(f field) float64 {
	v, err := strconv.ParseFloat(string(r.values[f]), 64)
	if err != nil || v < 0 || v > events.MaxNumber || math.IsNaN(v) {
		return 0
	}
	return v
}
