// Package otlp reads OpenTelemetry spans of agent programs in OTLP JSON.
//
// It reads the GenAI conventions, OpenInference, and the older names that are still in use. It also
// reads the spans of Microsoft's Agent Framework, of the Vercel AI SDK, of Haystack, of Genkit and
// of agentgateway. The table in attributes.go lists the meaning of each attribute.
//
// The GenAI conventions are those of open-telemetry/semantic-conventions-genai at 002c8a6ea1c8,
// which has no releases. The attributes for transfers and callers that are proposed there are
// included. Up to 1.36 messages were events of a span, see messages.go.
//
// Spans come when they end, children before their parents and often in an earlier batch. So the
// meaning of a span is known only later. Spans are held back until the root of their trace has
// come, or until Options.Hold of event time has passed. Then they are emitted in the order of
// time, a call at the start of its span, a result or an answer at its end. The caller of an agent
// is known from the spans above it, its own attributes, its link, or the run before it.
//
// One trace is one flow, unless a correlation id came along as baggage or an OpenInference session
// is named. A trace continues another one when its root is linked to a span of that trace, and of
// no third one, and one library wrote both.
//
// Spans contain only work that has ended, so a call is known only when it is over. Arguments,
// results and tokens are present only where the program is set to record them. Logs and metrics
// are rejected.
package otlp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/anyvalue"
	"weir/events/adapter/deed"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/polling"
	"weir/events/adapter/tag"
)

// Format returns the format of OTLP JSON spans.
//
// Starts are never reported, since a span is written when it ends; by Framing a batch may span
// many lines.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "otlp",
		Title:   "OpenTelemetry spans (OTLP JSON) with GenAI, OpenInference or Vercel AI SDK attributes",
		Framing: adapter.Documents,
		Score:   score,
		New:     newReader,
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Always, Turn: adapter.Sometimes,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always},
	}
}

// score knows it by its one outermost name.
func score(head *adapter.Head) adapter.Match {
	for top := range head.Tops() {
		// Grafana Tempo answers in batches.
		if top.Has("resourceSpans") || top["batches"] == "[" && bytes.Contains(head.Bytes, []byte(`"scopeSpans"`)) {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// Holding back costs memory and delay; too little of it loses the callers of agents.
const (
	defaultHold = 30 * time.Second
	defaultHeld = 65536
	// patience is how many times longer a trace is remembered that another may go on with:
	// a model may think for longer than spans are held back.
	patience = 10
	// ofOneTrace is the share of all spans that one trace may hold.
	// So that one trace without end does not push out all others.
	ofOneTrace = 4
)

// reader holds back the spans of one log, of however many programs.
type reader struct {
	source      string
	correlation []events.CorrelationSource
	ignore      adapter.IgnoreArgs
	silent      func(adapter.Silence)
	// It is in ns, and MaxInt64 for no limit.
	hold int64 // ns
	most int

	// The one that was silent the longest comes first, see bound.
	traces *adapter.Recent[*trace]
	// An id goes when the trace that it is part of is forgotten.
	partOf map[string]string // ids of traces that go on with another one, see join
	turns  turns
	looks  *polling.Looks // at what goes on
	held   int            // spans of all traces
	// How long something is held back is measured by what the ends of spans say, most of which
	// have to be right.
	elapsed *adapter.Elapsed
	place   int64 // of the record that is read, see adapter.Keeper
	event   events.Event
}

// newReader takes a negative Hold for no limit.
func newReader(o adapter.Options) adapter.Adapter {
	r := &reader{
		source: cmp.Or(o.Source, "otlp"), ignore: o.IgnoreArgs, silent: o.Silent,
		correlation: o.CorrelationOr(events.CorrelationBaggage, events.CorrelationSession, events.CorrelationTrace),
		hold:        int64(cmp.Or(o.Hold, defaultHold)), most: o.HeldOr(defaultHeld),
		traces: adapter.NewRecent[*trace](math.MaxInt), // bounded by their spans, see bound
		partOf: map[string]string{}, turns: newTurns(), looks: deed.New(o.HeldOr(defaultHeld)),
	}
	if r.silent == nil {
		r.silent = func(adapter.Silence) {}
	}
	if r.hold < 0 {
		r.hold = math.MaxInt64
	}
	r.elapsed = adapter.NewElapsed(patience * millis(r.hold))
	return r
}

// Decode reads one export batch. A batch that is not well-formed is refused as a
// whole. Spans without usable ids or times are left out and reported after the
// others were read.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	// Everything is read before anything is added, so a broken batch leaves no trace.
	b := batch{ignore: r.ignore, fallback: r.source}
	if err := b.read(record); err != nil {
		return err
	}
	r.elapsed.Next()
	for _, s := range b.spans {
		r.add(s.trace, s.span)
	}
	// All spans are read first, then traces are joined, then events are emitted: the order of
	// spans in a batch does not matter.
	for _, s := range b.spans {
		if t, ok := r.trace(s.trace); ok && t.touched {
			r.join(t)
		}
	}
	// A trace that was joined is found by its part, and settled once.
	for _, s := range b.spans {
		if t, ok := r.trace(s.trace); ok && t.touched {
			t.touched = false
			r.settle(t, emit)
		}
	}
	r.bound(emit)
	if b.refused > 0 {
		return &adapter.PartError{First: b.fault, LeftOut: b.refused, Of: b.refused + len(b.spans), What: "spans"}
	}
	return nil
}

// Flush emits all held events.
//
// A later span for a trace that was emitted begins that trace anew.
func (r *reader) Flush(emit func(*events.Event)) error {
	for {
		_, t, ok := r.traces.PopOldest()
		if !ok {
			r.turns.release()
			return nil
		}
		r.drop(t, emit)
	}
}

// add takes a span into its trace, and makes that if it is the first.
func (r *reader) add(id string, s *span) {
	t, ok := r.trace(id)
	if !ok {
		// The place is that of the batch that is read, from which a restart has to read again.
		t = &trace{id: id, place: r.place, reach: r.place, spans: map[uint64]*span{}, worked: adapter.NewWork(maxParties), said: map[string]*span{}, awaited: map[uint64]struct{}{}}
		r.traces.Put(id, t)
	}
	// A span that is sent again is the same one.
	if _, again := t.spans[s.id]; again {
		return
	}
	s.trace = id
	if id == t.id {
		s.trace = t.id // one text for all
	}
	// A root that is linked elsewhere may go on with that trace.
	if s.parent == 0 && s.link != 0 && s.linked != id {
		t.cause = s
	}
	known := r.elapsed.Tell(events.Stamp(millis(s.end)))
	r.turns.passed = r.elapsed.Passed()
	r.turns.follow(s, t)
	t.spans[s.id] = s
	t.pending = append(t.pending, s)
	r.held++
	if t.oldest == 0 || s.end < t.oldest {
		t.oldest = s.end
	}
	// A time that nothing bears out does not hurry the rest of the trace.
	if known {
		t.newest = max(t.newest, s.end)
	}
	t.touched, t.seen = true, r.elapsed.Passed()
	// The root is what has no parent; one in another process counts as having one.
	t.rooted = t.rooted || s.parent == 0
	if s.parent == 0 && s.link == 0 && (s.kind == toolUse || s.kind == inference) {
		// See trace.alone.
		t.alone = s.conversation
	}
	// A parent in another process is not waited for, as it may not be traced.
	if _, here := t.spans[s.parent]; !here && s.parent != 0 && !s.remote {
		t.awaited[s.parent] = struct{}{}
	}
	// The one that was waited for may have come.
	delete(t.awaited, s.id)
	t.baggage, t.talk, t.turn = cmp.Or(t.baggage, s.baggage), cmp.Or(t.talk, s.conversation), cmp.Or(t.turn, s.turn)
	t.session = cmp.Or(t.session, s.session)
	t.tags = tag.Join(t.tags, s.flowTags)
}

// settle emits the events that are ready: all when the root has come and no span between it and
// the others is missing. Otherwise it emits those that were held back long enough.
//
// It is called once for each trace and batch.
func (r *reader) settle(t *trace, emit func(*events.Event)) {
	// To look at a trace costs time in proportion to its spans, so what comes late
	// waits until it is worth a look.
	const worth = 16
	switch complete := t.rooted && len(t.awaited) == 0; {
	case complete && !t.emitted:
		t.emitted = true
		r.emitUntil(t, 0, true, emit)
	// until has no bound, so all that is pending is emitted; it is not complete, since answers to
	// the user were emitted before.
	case complete && len(t.pending)*worth >= len(t.spans):
		r.emitUntil(t, math.MaxInt64, false, emit)
	// Half of the time more, so that a trace without its root is not emitted anew with each
	// batch.
	case !complete && len(t.pending) > 0 && t.newest-t.oldest > r.hold+r.hold/2:
		r.emitUntil(t, t.newest-r.hold, false, emit)
	}
	// Beyond its share a trace is emitted as far as it came and half of it is forgotten.
	if most := max(1, r.most/ofOneTrace); len(t.spans) > most {
		r.emitUntil(t, math.MaxInt64, false, emit)
		r.held -= t.shrink(most / 2)
	}
}

// emitUntil makes an emitter for one turn.
func (r *reader) emitUntil(t *trace, until int64, complete bool, emit func(*events.Event)) {
	w := emitter{trace: t, correlation: r.correlation, silent: r.silent, turns: &r.turns, looks: r.looks, emit: emit, event: &r.event}
	w.emitUntil(until, complete)
}

// bound forgets traces that have been silent for the time of holding back, and the
// most silent ones when there are too many spans.
//
// Traces are in the order in which they were last touched.
func (r *reader) bound(emit func(*events.Event)) {
	hold := millis(r.hold)
	r.turns.forget(r.elapsed.Passed() - patience*hold)
	for id, t := range r.traces.All() {
		silence := r.elapsed.Passed() - t.seen
		// The most silent trace comes first, so the search ends at the first that may stay.
		if r.held <= r.most && silence <= hold {
			return
		}
		// Other traces may yet go on with it.
		if r.held <= r.most && t.isLinked() && silence <= patience*hold {
			continue
		}
		r.traces.Delete(id)
		r.drop(t, emit)
	}
}

// millis makes ms of ns.
func millis(ns int64) int64 { return ns / int64(time.Millisecond) }

// drop emits the remaining events of a trace and forgets it.
func (r *reader) drop(t *trace, emit func(*events.Event)) {
	r.emitUntil(t, 0, true, emit)
	for _, id := range t.joined {
		delete(r.partOf, id)
	}
	r.held -= len(t.spans)
}

// batch is one export batch while it is read.
// Its spans are kept only when all of it was read.
type batch struct {
	ignore   adapter.IgnoreArgs
	fallback string
	spans    []traced
	refused  int
	fault    *events.DecodeError
}

// traced is a span with the id of its trace, which it only gets from there.
type traced struct {
	trace string
	span  *span
}

// read reads one batch, the whole of which is one JSON value.
func (b *batch) read(record []byte) error {
	other, isBatch := "", false
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		if key := string(c.Key()); key == "resourceSpans" || key == "batches" {
			isBatch = true
			for c.Array(); c.Element(); {
				b.resource(c)
			}
		} else {
			other = adapter.Word(c.Key(), 40)
			// The first name that is not known is enough to say what it is.
			c.Skip()
		}
	}
	c.End()
	if !isBatch && other != "" {
		c.Fail(events.CodeMissingField, "resourceSpans", fmt.Sprintf("found %q: want a batch of spans, not of logs or metrics", other))
	}
	return c.Err()
}

// resource reads the spans of one program. Their source is set at the end, since its
// description may come behind them.
func (b *batch) resource(c *jsonwalk.Cursor) {
	first, source := len(b.spans), ""
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "resource":
			source = service(c)
		case "scopeSpans", "instrumentationLibrarySpans":
			for c.Array(); c.Element(); {
				b.scope(c)
			}
		}
	}
	for _, s := range b.spans[first:] {
		s.span.source = cmp.Or(source, b.fallback)
	}
}

// service reads the name of the program out of a resource.
//
// It is "" where the resource does not name it, and then the source of the options counts.
func service(c *jsonwalk.Cursor) string {
	var name, namespace string
	for c.Object(); c.Member(); {
		if string(c.Key()) != "attributes" {
			continue
		}
		for c.Array(); c.Element(); {
			var key string
			var value []byte
			for c.Object(); c.Member(); {
				switch string(c.Key()) {
				case "key":
					key = string(c.Text())
				case "value":
					value = anyvalue.Text(c)
				}
			}
			switch key {
			case "service.name":
				name = adapter.ID(value)
			case "service.namespace":
				namespace = adapter.Word(value, events.MaxID/2-1)
			}
		}
	}
	if namespace != "" && name != "" {
		// Two programs of one name in two namespaces are two programs.
		return namespace + "/" + name
	}
	return name
}

// scope reads the spans of one library, whose name they need.
//
// instrumentationLibrary is what it was called before OTLP 1.0.
func (b *batch) scope(c *jsonwalk.Cursor) {
	var name string
	var early []byte // spans that came before the name
	named := false
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "scope", "instrumentationLibrary":
			for c.Object(); c.Member(); {
				if string(c.Key()) == "name" {
					name = adapter.Word(c.Text(), events.MaxID)
				}
			}
			named = true
		case "spans":
			if !named {
				// The name is needed to read them, see span.frameworks.
				early = c.Raw()
				continue
			}
			for c.Array(); c.Element(); {
				b.span(c, name)
			}
		}
	}
	if len(early) > 0 {
		inner := jsonwalk.New(early)
		for inner.Array(); inner.Element(); {
			b.span(inner, name)
		}
		if err := inner.Err(); err != nil {
			c.Fail(events.CodeSyntax, "spans", err.Error())
		}
	}
}

// span reads one span. A span without ids or times is useless, and the rest of the
// batch is still good.
func (b *batch) span(c *jsonwalk.Cursor, scope string) {
	if b.refused+len(b.spans) >= adapter.MaxItems {
		c.Fail(adapter.TooMany("spans"))
		return
	}
	s := &span{scope: scope, status: events.StatusOK}
	var a attributes
	var trace string
	ok := true
	// For the error, which names the place in the record.
	at := c.Offset()
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "traceId":
			trace, ok = traceID(c.Text())
		case "spanId":
			s.id = spanID(c.Text())
		case "parentSpanId":
			s.parent = spanID(c.Text())
		// The flags say whether the parent is in another process, if the SDK knows.
		case "flags":
			// The two bits are those of OTLP's SpanFlags.
			const parentIsKnown, parentIsRemote = 0x100, 0x200
			flags, _ := c.Int()
			s.remote = flags&(parentIsKnown|parentIsRemote) == parentIsKnown|parentIsRemote
		case "traceState":
			s.sampled = sampledRate(string(c.Text()))
		case "name":
			s.name = adapter.Word(c.Text(), events.MaxID)
		case "startTimeUnixNano":
			s.start, _ = c.Int()
		case "endTimeUnixNano":
			s.end, _ = c.Int()
		case "attributes":
			a.read(c)
		case "status":
			s.readStatus(c)
		case "events":
			s.readEvents(c, &a)
		case "links":
			s.readLinks(c)
		}
	}
	if c.Err() != nil {
		return
	}
	b.keep(s, trace, ok, at, &a)
}

// keep takes a span into the batch, if its trace, id and times are good.
func (b *batch) keep(s *span, trace string, ok bool, at int, a *attributes) {
	const (
		// A time in seconds, milliseconds or microseconds is before it, and all that has passed
		// between such times would be nothing.
		earliest = 946_684_800e9     // 2000
		latest   = math.MaxInt64 / 2 // year 2116; keeps sums of times from running over
	)
	switch {
	case !ok || trace == "":
		b.refuse(at, "traceId", "want 32 hex digits")
	case s.id == 0:
		b.refuse(at, "spanId", "want 16 hex digits, not all of them 0")
	case s.start < earliest && s.end < earliest || s.start > latest || s.end > latest:
		b.refuse(at, "endTimeUnixNano", "want a time in ns since 1970")
	default:
		// A span that is emitted before it began has only an end.
		if s.start < earliest {
			s.start = s.end
		}
		s.end = max(s.end, s.start)
		if s.parent == s.id {
			s.parent = 0
		}
		s.make(a, b.ignore)
		b.spans = append(b.spans, traced{trace, s})
	}
}

// refuse counts a span that is left out; the first one is logged.
func (b *batch) refuse(at int, name, reason string) {
	if b.refused++; b.fault == nil {
		b.fault = &events.DecodeError{Code: events.CodeInvalidValue, Field: name, Offset: at, Reason: reason}
	}
}

// fromBase64 returns an id in hex, which Grafana Tempo writes in base64 as protobuf's JSON does.
// Base64 of an id is never as long as its hex.
func fromBase64(p []byte, bytes int) []byte {
	if len(p) != base64.StdEncoding.EncodedLen(bytes) {
		return p
	}
	raw, err := base64.StdEncoding.DecodeString(string(p))
	if err != nil || len(raw) != bytes {
		return p
	}
	return hex.AppendEncode(nil, raw)
}

// traceID reads 32 hex digits of either case.
//
// All zeros are no id in W3C's trace context. Lower case, so that one id has one spelling.
func traceID(p []byte) (string, bool) {
	p = fromBase64(p, 16)
	if len(p) != 32 {
		return "", false
	}
	high, err := strconv.ParseUint(string(p[:16]), 16, 64)
	low, err2 := strconv.ParseUint(string(p[16:]), 16, 64)
	if err != nil || err2 != nil || high|low == 0 {
		return "", false
	}
	return strings.ToLower(string(p)), true
}

// spanID reads 16 hex digits of either case; 0 stands for none.
//
// Spans are known by numbers inside, see hex16.
func spanID(p []byte) uint64 {
	p = fromBase64(p, 8)
	if len(p) != 16 {
		return 0
	}
	v, err := strconv.ParseUint(string(p), 16, 64)
	if err != nil {
		return 0
	}
	return v
}

// readStatus reads whether a span failed. Exporters write the code as a number or by name.
//
// Anything but an error is no failure: most spans leave the status unset.
func (s *span) readStatus(c *jsonwalk.Cursor) {
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "code":
			switch string(c.Scalar()) {
			case "2", "STATUS_CODE_ERROR":
				s.status = events.StatusError
			}
		case "message":
			// It is made the same for each occurrence by failure.
			s.failure = string(c.Text())
		}
	}
}

// readLinks takes the span that is linked, or the first of several.
// Links to several spans of one trace are one cause.
func (s *span) readLinks(c *jsonwalk.Cursor) {
	for c.Array(); c.Element(); {
		var trace string
		var id uint64
		for c.Object(); c.Member(); {
			switch string(c.Key()) {
			case "spanId":
				id = spanID(c.Text())
			case "traceId":
				trace, _ = traceID(c.Text())
			}
		}
		if s.link == 0 {
			s.link, s.linked = id, trace
		} else if trace != s.linked {
			s.linked = "" // what is caused by several goes on with none
		}
	}
}

// sampledRate reads how many spans one stands for out of the trace state of
// consistent probability sampling, "ot=th:c": traces below the threshold, a
// fraction in hex digits, were dropped. 0 means that none is known.
//
// Counts of a sampled log are estimates, and such events never refuse, see
// events.Event.SampledRate.
func sampledRate(state string) int64 {
	for member := range strings.SplitSeq(state, ",") {
		value, found := strings.CutPrefix(strings.TrimSpace(member), "ot=")
		if !found {
			continue
		}
		for sub := range strings.SplitSeq(value, ";") {
			digits, found := strings.CutPrefix(sub, "th:")
			if !found || len(digits) == 0 || len(digits) > 14 {
				continue
			}
			// Digits that are left out at the end are zeros.
			threshold, err := strconv.ParseUint(digits+strings.Repeat("0", 14-len(digits)), 16, 64)
			if err != nil {
				continue
			}
			// The threshold has 56 bits.
			const all = 1 << 56
			if rate := int64(math.Round(all / float64(all-threshold))); rate > 1 {
				return rate
			}
		}
	}
	return 0
}
