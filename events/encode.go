package events

import (
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"

	"weir/events/jsontext"
)

// AppendJSON appends the canonical encoding of e: one line of JSON without white
// space, names in the order of the schema, absent fields left out, times in UTC with
// milliseconds, hashes cut to the 64 bits that weir keeps. Decode reads it back to
// the same Event.
//
// Args, Limits and the values of Attributes are taken as they are and must be JSON;
// line breaks between their tokens become spaces. Text that is not UTF-8 gets
// replacement characters. Appended is not written: it belongs to the log.
// Nothing is validated: Decode may refuse what comes out, see Validate. schema_version is not
// written, since absent means 1.
func (e *Event) AppendJSON(dst []byte) []byte {
	w := writer{append(dst, '{')}
	w.text("id", e.ID)
	w.text("source", e.Source)
	w.time("time", e.Time)
	w.time("observed_time", e.Observed)
	w.int("sequence", e.Sequence)
	w.word("kind", e.Kind.String())
	w.text("correlation_id", e.CorrelationID)
	// Defaults are not written, so that an event which does not say them and one which does
	// have the same bytes.
	if e.CorrelationSource != CorrelationExplicit {
		w.word("correlation_source", e.CorrelationSource.String())
	}
	w.text("parent_correlation_id", e.ParentCorrelationID)
	w.text("root_correlation_id", e.RootCorrelationID)
	w.text("causation_id", e.CausationID)
	w.word("origin", e.Origin.String())
	// A flag that is false is left out.
	w.flag("claimed", e.Claimed)
	w.flag("ask", e.Ask)
	w.flag("tell", e.Tell)
	w.party("from", e.From)
	w.party("to", e.To)
	w.text("message_id", e.MessageID)
	w.text("conversation_id", e.ConversationID)
	w.text("task_id", e.TaskID)
	w.text("task_type", e.TaskType)
	w.text("project_id", e.ProjectID)
	w.text("team_id", e.TeamID)
	w.text("tenant_id", e.TenantID)
	w.text("principal", e.Principal)
	w.text("memory_trace_id", e.MemoryTraceID)
	// The next three are ids of W3C's trace context; all other ids are the producer's own.
	w.text("trace_id", e.TraceID)
	w.text("span_id", e.SpanID)
	w.text("parent_span_id", e.ParentSpanID)
	w.text("turn_id", e.TurnID)
	w.int("loop_count", e.LoopCount)
	w.int("delegation_depth", e.DelegationDepth)
	w.word("transfer_mode", e.TransferMode.String())
	w.flag("background", e.Background)
	// A tool without a name is none: Decode would refuse it.
	if e.Tool.Name != "" {
		w.tool(&e.Tool)
	}
	w.sum("content_hash", e.Content.Algorithm.String(), e.Content.Value)
	w.sum("content_sim", e.Sim.Algorithm.String(), e.Sim.Value)
	w.word("status", e.Status.String())
	w.text("error_type", e.ErrorType)
	w.float("duration_ms", e.DurationMS)
	if e.HadWork != Unknown {
		w.bool("had_work", e.HadWork == Yes)
	}
	if e.Work.Known {
		w.open("work")
		w.int("tool_calls", e.Work.ToolCalls)
		w.int("outputs", e.Work.Outputs)
		w.close()
	}
	if e.Usage.Known {
		w.usage(&e.Usage)
	}
	w.text("model", e.Model)
	w.text("provider", e.Provider)
	w.rare(e)
	w.int("sampled_rate", e.SampledRate)
	w.tags(e.Tags)
	if len(e.Attributes) > 0 {
		w.open("attributes")
		// A name may be any text, so it is quoted; the value is JSON already.
		for _, a := range e.Attributes {
			w.comma()
			w.quote(a.Name)
			w.b = append(w.b, ':')
			w.oneLine(a.Value)
		}
		w.close()
	}
	return append(w.b, '}')
}

// writer writes the fields of an object, leaving out those that are absent. It cannot fail:
// text that does not fit into JSON is replaced. It appends to the caller's slice, so one
// buffer serves all lines of a log.
type writer struct{ b []byte }

// A zero party is left out and not written as null: both decode to the same.
func (w *writer) party(name string, p Party) {
	if p.IsZero() {
		return
	}
	w.open(name)
	w.text("session", p.Session)
	w.text("agent", p.Agent)
	w.text("name", p.Name)
	if p.Type != PartyAgent {
		w.word("type", p.Type.String())
	}
	w.tags(p.Tags)
	w.close()
}

// tool writes what there is; Args are the producer's own bytes.
func (w *writer) tool(t *Tool) {
	w.open("tool")
	w.text("name", t.Name)
	w.text("call_id", t.CallID)
	w.text("server", t.Server)
	w.text("type", t.Type)
	w.raw("args", t.Args)
	w.sum("args_hash", t.ArgsHash.Algorithm.String(), t.ArgsHash.Value)
	w.int("args_bytes", t.ArgsSize)
	w.sum("args_sim", t.ArgsSim.Algorithm.String(), t.ArgsSim.Value)
	w.int("result_bytes", t.ResultSize)
	w.text("retry_of", t.RetryOf)
	w.int("attempt", t.Attempt)
	w.tags(t.Tags)
	w.flag("beside", t.Beside)
	if o := t.Outcome; o != nil {
		w.open("outcome")
		w.word("effect", o.Effect.String())
		w.sum("state_hash", o.State.Algorithm.String(), o.State.Value)
		w.int("files", o.Files)
		w.optional("exit_code", o.Exit)
		w.optional("tests_passed", o.Passed)
		w.optional("tests_failed", o.Failed)
		w.close()
	}
	w.close()
}

// usage writes the object also when all its figures are 0, since that it is there says that
// usage is known.
func (w *writer) usage(u *Usage) {
	w.open("usage")
	if u.Scope != UsageDelta {
		w.word("scope", u.Scope.String())
	}
	w.int("input_tokens", u.Input)
	w.int("output_tokens", u.Output)
	w.int("cache_read_input_tokens", u.CacheRead)
	w.int("cache_creation_input_tokens", u.CacheCreation)
	w.int("cache_creation_1h_input_tokens", u.CacheHour)
	w.int("reasoning_output_tokens", u.Reasoning)
	if u.CacheInInput != Unknown {
		w.bool("cache_in_input", u.CacheInInput == Yes)
	}
	w.int("total_tokens", u.Total)
	w.dollars("cost_usd", u.CostMicroUSD)
	if u.Batch {
		w.bool("batch", true)
	}
	w.close()
}

// rare writes the objects that few events carry.
func (w *writer) rare(e *Event) {
	if a := e.AgentState; a != nil {
		w.open("agent_state")
		w.text("status", a.Status)
		w.text("margin", a.Margin)
		w.text("health", a.Health)
		// 0 is a figure here, so whether it was given is kept beside it.
		w.given("coherence", a.HasCoherence, a.Coherence)
		w.given("risk", a.HasRisk, a.Risk)
		w.flag("void_active", a.VoidActive)
		w.int("total_updates", a.TotalUpdates)
		w.time("last_update", a.LastUpdate)
		w.close()
	}
	if n := e.Note; n != nil {
		w.open("note")
		w.text("summary", n.Summary)
		w.tags(n.Tags)
		w.text("details", n.Details)
		w.close()
	}
	if r := e.Rescue; r != nil {
		w.open("rescue")
		w.text("reason", r.Reason)
		w.flag("admin", r.Admin)
		w.close()
	}
	if a := e.Ack; a != nil {
		w.open("ack")
		w.text("verdict_id", a.VerdictID)
		// That a verdict was not applied is said, and not left out.
		w.bool("applied", a.Applied)
		w.text("override_reason", a.OverrideReason)
		w.float("latency_ms", a.LatencyMS)
		w.close()
	}
	if r := e.Review; r != nil {
		w.open("review")
		w.word("decision", r.Decision)
		w.text("reason", r.Reason)
		w.close()
	}
	if o := e.Override; o != nil {
		w.open("override")
		w.word("scope", string(o.Scope))
		w.text("scope_id", o.ScopeID)
		w.text("rule", o.Rule)
		// A threshold of 0 is one; an absent one leaves the rule's own.
		w.optional("warn", o.Warn)
		w.optional("stop", o.Stop)
		w.int("extra", o.Extra)
		w.text("mode", o.Mode)
		w.text("reason", o.Reason)
		w.text("by", o.By)
		w.time("expires", o.Expires)
		w.close()
	}
	if o := e.Operator; o != nil {
		w.open("operator")
		w.text("reason", o.Reason)
		w.text("by", o.By)
		// Fractions of a second are cut off; the schema has whole seconds.
		w.int("for_s", int64(o.For/time.Second))
		w.close()
	}
	w.raw("limits", e.Limits)
}

// open begins an object in the object that is being written; close ends it. That they pair is
// the caller's care.
func (w *writer) open(name string) {
	w.key(name)
	w.b = append(w.b, '{')
}

// close ends what open or AppendJSON began.
func (w *writer) close() { w.b = append(w.b, '}') }

// comma knows by the last byte whether it is at the first member, so the writer needs no state
// of its own beside the buffer.
func (w *writer) comma() {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
}

// key writes a name that needs no escapes.
func (w *writer) key(name string) {
	w.comma()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

// text leaves out an empty string, which is what an absent field decodes to.
func (w *writer) text(name, v string) {
	if v != "" {
		w.key(name)
		w.quote(v)
	}
}

// tags leaves out an empty list. The index picks the bracket before the first element and a
// comma before the others.
func (w *writer) tags(vs []string) {
	if len(vs) == 0 {
		return
	}
	w.key("tags")
	for i, v := range vs {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.quote(v)
	}
	w.b = append(w.b, ']')
}

// word writes a word of a closed list, which needs no escapes.
func (w *writer) word(name, v string) {
	if v != "" {
		w.key(name)
		w.b = append(w.b, '"')
		w.b = append(w.b, v...)
		w.b = append(w.b, '"')
	}
}

// bool writes v also when it is false.
func (w *writer) bool(name string, v bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, v)
}

// flag writes v if it is true.
func (w *writer) flag(name string, v bool) {
	if v {
		w.bool(name, true)
	}
}

// int leaves out 0, which decodes to the same. Where 0 and absent differ, the field is an
// Optional, or stands in an object that is there or not.
func (w *writer) int(name string, v int64) {
	if v != 0 {
		w.key(name)
		w.b = strconv.AppendInt(w.b, v, 10)
	}
}

// optional writes 0 as well, if it is set.
func (w *writer) optional(name string, v Optional) {
	if v.Set {
		w.key(name)
		w.b = strconv.AppendInt(w.b, v.Value, 10)
	}
}

// float leaves out 0; given writes it where the field has a flag of its own.
func (w *writer) float(name string, v float64) { w.given(name, v != 0, v) }

// given writes v, also 0, when it is known.
func (w *writer) given(name string, given bool, v float64) {
	if given {
		w.key(name)
		w.b = strconv.AppendFloat(w.b, v, 'g', -1, 64)
	}
}

// dollars writes millionths as a decimal without trailing zeros, so that one amount has one
// spelling, and no float comes between it and Decode.
func (w *writer) dollars(name string, micro int64) {
	if micro == 0 {
		return
	}
	w.key(name)
	w.b = strconv.AppendInt(w.b, micro/1_000_000, 10)
	if micro %= 1_000_000; micro != 0 {
		w.b = append(w.b, '.')
		// Each turn writes one digit and takes it away; what is left 0 needs no digits.
		for weight := int64(100_000); micro != 0; weight /= 10 {
			w.b = append(w.b, byte('0'+micro/weight))
			micro %= weight
		}
	}
}

// time leaves out the zero Stamp, which Decode takes from nobody.
func (w *writer) time(name string, t Stamp) {
	if t != 0 {
		w.key(name)
		w.b = append(w.b, '"')
		w.b = append(t.append(w.b), '"')
	}
}

// sum writes algorithm:hex with 16 digits, which is all that is kept of a longer hash (see
// Hash). No algorithm means that no hash is known.
func (w *writer) sum(name, algorithm string, v uint64) {
	if algorithm == "" {
		return
	}
	w.key(name)
	w.b = append(w.b, '"')
	w.b = append(w.b, algorithm...)
	w.b = append(w.b, ':')
	// Four bits are one digit, the highest first.
	for shift := 60; shift >= 0; shift -= 4 {
		w.b = append(w.b, hexDigits[v>>shift&15])
	}
	w.b = append(w.b, '"')
}

// hexDigits are in lower case, as ids and hashes are compared as text.
const hexDigits = "0123456789abcdef"

// raw writes JSON that somebody else has made.
func (w *writer) raw(name string, v []byte) {
	if len(v) > 0 {
		w.key(name)
		w.oneLine(v)
	}
}

// oneLine writes JSON with its line breaks as spaces: a log has one event a line, and
// arguments that came indented would end it. In JSON a line break can only stand between
// tokens, so no content is touched.
func (w *writer) oneLine(v []byte) {
	from := len(w.b)
	w.b = append(w.b, v...)
	for i, c := range w.b[from:] {
		if c == '\n' || c == '\r' {
			w.b[from+i] = ' '
		}
	}
}

// quote writes a string with the escapes that JSON asks for and no others: </script> and the
// like stay as they are, because nothing here goes into HTML. Most strings need none and are
// copied in one piece.
func (w *writer) quote(v string) {
	w.b = append(w.b, '"')
	// The slice aliases the string and is only read, by a search that looks at eight bytes at
	// a time.
	if jsontext.StringEnd(unsafe.Slice(unsafe.StringData(v), len(v)), 0) == len(v) && utf8.ValidString(v) {
		w.b = append(append(w.b, v...), '"')
		return
	}
	from := 0 // what stands before is written
	for i := 0; i < len(v); {
		c := v[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(v[i:])
			// A byte that is no UTF-8 becomes U+FFFD: Decode refuses bad UTF-8, and the line
			// would be lost for one byte.
			if r == utf8.RuneError && n == 1 {
				w.b = append(append(w.b, v[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		w.b = append(w.b, v[from:i]...)
		switch c {
		case '"', '\\':
			w.b = append(w.b, '\\', c)
		// These three are frequent; other control characters are spelt by their number.
		case '\n':
			w.b = append(w.b, '\\', 'n')
		case '\r':
			w.b = append(w.b, '\\', 'r')
		case '\t':
			w.b = append(w.b, '\\', 't')
		default:
			w.b = append(w.b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	w.b = append(append(w.b, v[from:]...), '"')
}
