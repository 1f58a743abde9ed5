package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"weir/events/jsontext"
)

// AppendJSON appends v as one line of JSON in the order of the schema, with absent
// fields left out and without the escapes that only HTML needs. Equal verdicts give
// equal bytes, those that encoding/json gives. It panics when a number of v is infinite
// or not a number, which no rule can measure.
// The order of the lines below is that of the struct and of the schema. string, number and
// bool write a field in any case; text, int and float leave out the zero value, as omitempty
// does.
func (v *Verdict) AppendJSON(dst []byte) []byte {
	w := verdictWriter{writer{append(dst, '{')}}
	w.int("schema_version", int64(v.SchemaVersion))
	w.string("id", v.ID)
	w.stamp("time", v.Time)
	w.key("revision")
	w.b = strconv.AppendInt(w.b, v.Revision, 10)
	w.string("mode", string(v.Mode))
	w.open("scope")
	w.string("kind", string(v.Scope.Kind))
	w.string("id", v.Scope.ID)
	w.close()
	w.string("action", string(v.Action))
	w.bool("controlled_cutoff", v.ControlledCutoff)
	w.text("effective", v.Effective)
	if v.Match != nil {
		w.match(v.Match)
	}
	w.string("reason_code", string(v.Reason))
	list(&w, "reasons", v.Reasons)
	w.text("incident_id", v.IncidentID)
	w.text("cause", v.Cause)
	w.text("rule_id", v.RuleID)
	w.text("config_version", v.ConfigVersion)
	// A limit and an observation may be 0, so they are pointers.
	if v.Limit != nil {
		w.number("limit", *v.Limit)
	}
	if v.Observed != nil {
		w.number("observed", *v.Observed)
	}
	w.text("unit", string(v.Unit))
	w.float("window_s", v.WindowS)
	w.int("window_calls", v.WindowCalls)
	w.text("message", v.Message)
	w.text("agent_message", v.AgentMessage)
	w.text("detail", v.Detail)
	w.int("ttl_s", v.TTLS)
	if !v.ExpiresAt.IsZero() {
		w.stamp("expires_at", v.ExpiresAt)
	}
	w.int("retry_after_s", v.RetryAfterS)
	w.int("http_status", int64(v.HTTPStatus))
	w.text("confidence", v.Confidence)
	w.text("correlation_id", v.CorrelationID)
	w.text("root_correlation_id", v.RootCorrelationID)
	w.text("session", v.Session)
	w.text("agent", v.Agent)
	w.text("from", v.From)
	w.text("to", v.To)
	w.text("tool", v.Tool)
	w.text("args_hash", v.ArgsHash)
	w.text("turn_id", v.TurnID)
	w.text("task_id", v.TaskID)
	w.text("task_type", v.TaskType)
	w.text("project_id", v.ProjectID)
	w.text("team_id", v.TeamID)
	w.text("tenant_id", v.TenantID)
	w.text("memory_trace_id", v.MemoryTraceID)
	w.text("conversation_id", v.ConversationID)
	w.text("message_id", v.MessageID)
	w.text("trace_id", v.TraceID)
	w.text("span_id", v.SpanID)
	w.int("loop_count", v.LoopCount)
	w.int("delegation_depth", v.DelegationDepth)
	if t := v.Trigger; t != nil {
		w.open("trigger")
		w.text("event_id", t.EventID)
		w.int("ordinal", t.Ordinal)
		w.close()
	}
	if v.Evidence != nil {
		w.evidence(v.Evidence)
	}
	if v.Recovery != nil {
		w.recovery(v.Recovery)
	}
	w.text("degraded", v.Degraded)
	if len(v.Remaining) > 0 {
		w.remaining(v.Remaining)
	}
	if v.Waiting != nil {
		w.waiting(v.Waiting)
	}
	if v.ByHand != nil {
		w.byHand(v.ByHand)
	}
	return append(w.b, '}')
}

// verdictWriter writes strings and fractions as encoding/json does, which is in the rare
// cases not as events are written.
//
// Verdicts are compared byte by byte, so a verdict has to look the same whichever of the two
// writes it.
type verdictWriter struct{ writer }

// match writes what narrows the order, in the order of the struct.
func (w *verdictWriter) match(m *Match) {
	w.open("match")
	list(w, "from", m.From)
	list(w, "to", m.To)
	list(w, "not_from", m.NotFrom)
	list(w, "not_to", m.NotTo)
	list(w, "tool", m.Tool)
	list(w, "args_hash", m.ArgsHash)
	list(w, "content_hash", m.ContentHash)
	// An edge always has both ends, empty or not.
	if len(m.Edges) > 0 {
		w.key("edges")
		for i, e := range m.Edges {
			w.b = append(w.b, "[,"[min(i, 1)], '{')
			w.string("from", e.From)
			w.string("to", e.To)
			w.close()
		}
		w.b = append(w.b, ']')
	}
	w.text("turn_id", m.TurnID)
	w.text("not_turn_id", m.NotTurnID)
	w.text("task_id", m.TaskID)
	w.text("conversation_id", m.ConversationID)
	w.text("project_id", m.ProjectID)
	w.text("root_correlation_id", m.RootCorrelationID)
	w.text("kind", m.Kind)
	w.flag("background", m.Background)
	w.close()
}

// evidence leaves out figures that are 0, which are those that say nothing.
func (w *verdictWriter) evidence(e *Evidence) {
	w.open("evidence")
	list(w, "stack", e.Stack)
	list(w, "chain_tail", e.ChainTail)
	if len(e.Ordinals) > 0 {
		w.key("ordinals")
		for i, n := range e.Ordinals {
			w.b = strconv.AppendInt(append(w.b, "[,"[min(i, 1)]), n, 10)
		}
		w.b = append(w.b, ']')
	}
	w.int("calls", e.Calls)
	w.int("tokens", e.Tokens)
	w.int("period", e.Period)
	w.int("attempts", e.Attempts)
	w.int("leaked", e.Leaked)
	w.int("offences", e.Offences)
	w.close()
}

// recovery always says whether it is safe to resume.
func (w *verdictWriter) recovery(r *Recovery) {
	w.open("recovery")
	w.bool("safe_to_resume", r.SafeToResume)
	w.float("coherence", r.Coherence)
	w.float("risk", r.Risk)
	w.flag("void_active", r.VoidActive)
	w.float("idle_s", r.IdleS)
	w.text("margin", r.Margin)
	w.text("health", r.Health)
	list(w, "conditions", r.Conditions)
	w.text("reviewer", r.Reviewer)
	w.text("requested_by", r.RequestedBy)
	w.text("certainty", r.Certainty)
	w.close()
}

// byHand always says who gave the order.
func (w *verdictWriter) byHand(h *ByHand) {
	w.open("by_hand")
	w.string("by", h.By)
	w.text("reason", h.Reason)
	w.scopes("within", h.Within)
	w.scopes("except", h.Except)
	w.close()
}

// scopes leaves out an empty list.
func (w *verdictWriter) scopes(name string, list []Scope) {
	if len(list) == 0 {
		return
	}
	w.key(name)
	for i, s := range list {
		w.b = append(w.b, "[,"[min(i, 1)], '{')
		w.string("kind", string(s.Kind))
		w.string("id", s.ID)
		w.close()
	}
	w.b = append(w.b, ']')
}

// remaining has no field that may be left out but until: 0 left is what the reader has to
// know.
func (w *verdictWriter) remaining(left []Remaining) {
	w.key("remaining")
	for i, r := range left {
		w.b = append(w.b, "[,"[min(i, 1)], '{')
		w.string("rule_id", r.RuleID)
		w.number("left", r.Left)
		w.number("limit", r.Limit)
		w.string("unit", string(r.Unit))
		// Only a limit of time has it: when it is used up.
		if !r.Until.IsZero() {
			w.stamp("until", r.Until)
		}
		if r.Forecast != nil {
			w.forecast(r.Forecast)
		}
		w.close()
	}
	w.b = append(w.b, ']')
}

// waiting leaves out a cost that is not known.
func (w *verdictWriter) waiting(x *Waiting) {
	w.open("waiting")
	w.stamp("after", x.After)
	w.key("tokens")
	w.b = strconv.AppendInt(w.b, x.Tokens, 10)
	if x.CostUSD != 0 {
		w.number("cost_usd", x.CostUSD)
	}
	w.close()
}

// forecast leaves out figures that are unknown.
func (w *verdictWriter) forecast(x *Forecast) {
	w.key("forecast")
	w.b = append(w.b, '{')
	w.key("runs")
	w.b = strconv.AppendInt(w.b, x.Runs, 10)
	for _, f := range [...]struct {
		name string
		v    float64
	}{{"low", x.Low}, {"expected", x.Expected}, {"high", x.High}} {
		if f.v != 0 {
			w.number(f.name, f.v)
		}
	}
	w.close()
}

// text and the other writers of strings here hide those of writer, which escape in another
// way.
func (w *verdictWriter) text(name, v string) {
	if v != "" {
		w.string(name, v)
	}
}

// string writes v also when it is empty.
func (w *verdictWriter) string(name, v string) {
	w.key(name)
	w.quote(v)
}

// list leaves out an empty list.
func list[S ~string](w *verdictWriter, name string, vs []S) {
	if len(vs) == 0 {
		return
	}
	w.key(name)
	for i, v := range vs {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.quote(string(v))
	}
	w.b = append(w.b, ']')
}

// stamp writes t also when it is 0.
func (w *verdictWriter) stamp(name string, t RFC3339) {
	w.key(name)
	w.b = append(Stamp(t).append(append(w.b, '"')), '"')
}

// float leaves out 0.
func (w *verdictWriter) float(name string, v float64) {
	if v != 0 {
		w.number(name, v)
	}
}

// number writes v also when it is zero.
func (w *verdictWriter) number(name string, v float64) {
	w.key(name)
	// Whole numbers are written here; -0 and those from MaxNumber on are left to
	// encoding/json, which may spell them in another way.
	if whole := int64(v); math.Abs(v) < MaxNumber && float64(whole) == v && (v != 0 || !math.Signbit(v)) {
		w.b = strconv.AppendInt(w.b, whole, 10)
		return
	}
	w.rarely(v)
}

// quote writes what needs no escape at once.
//
// Beside what JSON wants, encoding/json escapes the two line separators of Unicode.
func (w *verdictWriter) quote(v string) {
	plain := jsontext.StringEnd(unsafe.Slice(unsafe.StringData(v), len(v)), 0) == len(v) && utf8.ValidString(v)
	if !plain || strings.Contains(v, "\u2028") || strings.Contains(v, "\u2029") { // which ended lines in old JavaScript
		w.rarely(v)
		return
	}
	w.b = append(append(append(w.b, '"'), v...), '"')
}

// rarely leaves a string or number to encoding/json.
//
// It panics for infinite numbers, see AppendJSON.
func (w *verdictWriter) rarely(v any) {
	out := bytes.NewBuffer(w.b)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encode a verdict: %v", err))
	}
	w.b = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
