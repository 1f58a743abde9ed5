package otlp

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"weir/analyzer"
	"weir/events"
)

// EventName is the name of the log events.
const EventName = "weir.verdict"

// The numbers of severity in the data model of logs.
const (
	severityInfo  = 9
	severityWarn  = 13
	severityError = 17
)

// The request of OTLP for logs, in its JSON form.
// Only what is sent is here. 64-bit numbers are texts in OTLP's JSON.
// The fields have the names of OTLP's JSON, which are those of its protobuf in camel case.
type (
	request struct {
		ResourceLogs []resourceLogs `json:"resourceLogs"`
	}
	resourceLogs struct {
		Resource  attributes  `json:"resource"`
		ScopeLogs []scopeLogs `json:"scopeLogs"`
	}
	attributes struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeLogs struct {
		Scope      scope    `json:"scope"`
		LogRecords []record `json:"logRecords"`
	}
	scope struct {
		Name string `json:"name"`
	}
	record struct {
		Time         string      `json:"timeUnixNano"`
		Observed     string      `json:"observedTimeUnixNano"`
		Severity     int         `json:"severityNumber"`
		SeverityText string      `json:"severityText"`
		EventName    string      `json:"eventName"`
		Body         value       `json:"body"`
		Attributes   []attribute `json:"attributes"`
		Flags        int         `json:"flags,omitempty"`
		TraceID      string      `json:"traceId,omitempty"`
		SpanID       string      `json:"spanId,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	// One of the two is set.
	value struct {
		String *string  `json:"stringValue,omitempty"`
		Double *float64 `json:"doubleValue,omitempty"`
	}
)

// recordOf returns the log event of a verdict.
// Time is that of the verdict, Observed the present.
func recordOf(v *events.Verdict, now time.Time) record {
	r := record{Time: nanos(events.Stamp(v.Time).Time()), Observed: nanos(now), EventName: EventName, Body: text(v.Message)}
	r.Severity, r.SeverityText = severity(v)
	r.TraceID, r.SpanID = traceOf(v)
	if r.TraceID != "" {
		r.Flags = 1 // what is known of a trace was sampled
	}
	// What is not known is left out, and never sent as "".
	say := func(key, s string) {
		if s != "" {
			r.Attributes = append(r.Attributes, attribute{key, text(s)})
		}
	}
	// The id lets a receiver recognize an event that was sent twice.
	say("weir.verdict.id", v.ID)
	say("weir.verdict.action", string(v.Action))
	say("weir.verdict.mode", string(v.Mode))
	say("weir.verdict.effective", v.Effective)
	say("weir.verdict.scope.kind", string(v.Scope.Kind))
	say("weir.verdict.scope.id", v.Scope.ID)
	say("weir.reason_code", string(v.Reason))
	say("weir.rule", v.RuleID)
	// Numbers stay numbers, so that views can compare and plot them; 0 is one that is known.
	for _, n := range []struct {
		key string
		v   *float64
	}{{"weir.limit", v.Limit}, {"weir.observed", v.Observed}} {
		if n.v != nil {
			r.Attributes = append(r.Attributes, attribute{n.key, value{Double: n.v}})
		}
	}
	say("weir.unit", string(v.Unit))
	say("weir.config_version", v.ConfigVersion)
	say("weir.correlation_id", v.CorrelationID)
	say("weir.root_correlation_id", v.RootCorrelationID)
	say("weir.detail", v.Detail)
	say("weir.project_id", v.ProjectID)
	say("weir.task_id", v.TaskID)
	say("weir.team_id", v.TeamID)
	say("weir.tenant_id", v.TenantID)
	// Names of the conventions of OpenTelemetry, where there are any; what is weir's own begins
	// with weir.
	say("gen_ai.agent.finish_reason", finishReason(v))
	say("gen_ai.agent.invocation.status", invocationStatus(v))
	say("gen_ai.agent.name", v.Agent)
	say("gen_ai.tool.name", v.Tool)
	say("gen_ai.conversation.id", v.ConversationID)
	say("session.id", v.Session)
	return r
}

// finishReason is why a run ends by the verdict, in the words proposed for
// gen_ai.agent.finish_reason; "" for a verdict that ends nothing.
func finishReason(v *events.Verdict) string {
	// A throttle ends by itself, and an order that waits for the next call may end nothing.
	if v.Mode != events.ModeEnforce || !v.Stops() || v.Action == events.Throttle || v.Effective != events.EffectiveNow {
		return ""
	}
	row, known := analyzer.RowNamed(v.RuleID)
	switch {
	case known && row.Fixed: // a person's order
		return "cancelled"
	case v.Unit == events.UnitSeconds:
		return "time_budget"
	case v.Unit == events.UnitTokens:
		return "max_tokens"
	case v.Unit == events.UnitUSD:
		return "cost_budget"
	case known && row.Status == http.StatusPaymentRequired: // a budget
		return "max_iterations"
	}
	return "guardrail"
}

// invocationStatus is how a run ends by the verdict, for gen_ai.agent.invocation.status; "" for a verdict that
// ends nothing.
func invocationStatus(v *events.Verdict) string {
	row, known := analyzer.RowNamed(v.RuleID)
	switch {
	case finishReason(v) == "":
		return ""
	case v.Action == events.Hold: // a person decides whether it goes on
		return "input_required"
	case known && row.Fixed:
		return "cancelled"
	}
	return "failed"
}

// severity is the weight of a verdict in a view of logs. What stops is an error of the run,
// what slows it or warns is a warning, and what is only watched is for information.
func severity(v *events.Verdict) (int, string) {
	switch {
	// Also what lifts an order is no warning.
	case v.Mode != events.ModeEnforce || v.Action == events.Allow:
		return severityInfo, "INFO"
	case v.Stops() && v.Action != events.Throttle:
		return severityError, "ERROR"
	}
	return severityWarn, "WARN"
}

// traceOf returns the trace and the span that the verdict is about, as far as they are ids of
// W3C. A verdict that no event brought about, such as one about silence, has the trace of its flow
// where that is known by its trace.
func traceOf(v *events.Verdict) (trace, span string) {
	// The flow's key may be the id of a trace; it stands in only where the event named none at
	// all.
	if trace = v.TraceID; !isID(trace, 16) {
		if trace = v.CorrelationID; v.TraceID != "" || !isID(trace, 16) {
			return "", ""
		}
	}
	if span = v.SpanID; !isID(span, 8) {
		span = ""
	}
	return trace, span
}

// isID reports whether s is an id of this number of bytes in lower-case hex, not all of them 0.
// W3C wants lower case, and views of traces find the call by exactly this text.
func isID(s string, size int) bool {
	b, err := hex.DecodeString(s)
	// Read and written again, which shows upper case.
	if err != nil || len(b) != size || hex.EncodeToString(b) != s {
		return false
	}
	for _, x := range b {
		if x != 0 {
			return true
		}
	}
	return false
}

// body returns the request with the records. They are all of one resource and one
// scope, weir itself: the attributes of a record name its flow.
func body(records []record) ([]byte, error) {
	return json.Marshal(request{[]resourceLogs{{
		Resource:  attributes{[]attribute{{"service.name", text("weir")}}},
		ScopeLogs: []scopeLogs{{scope{"weir"}, records}},
	}}})
}

// text is a value that is a text, also an empty one.
func text(s string) value { return value{String: &s} }

// nanos is a time in nanoseconds since 1970, as a text.
func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
