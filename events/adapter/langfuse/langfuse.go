// Package langfuse reads traces and observations exported from Langfuse. What its SDKs send is OpenTelemetry, which
// package otlp reads.
//
// An observation reports the same as the span that it was made of. Only traces have names of sessions:
// observations by themselves are of their trace.
package langfuse

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/spanrow"
)

// Format returns the format of Langfuse's exports.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "langfuse",
		Title:   "Langfuse: exported observations and traces, pages or one per line",
		Framing: adapter.Documents,
		Score:   score,
		New:     func(o adapter.Options) adapter.Adapter { return spanrow.New(o, "langfuse", rows) },
		// Starts are never reported: an exported observation has ended, or has no end.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never, Tokens: adapter.Sometimes,
			Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always, Tasks: adapter.Never},
	}
}

// score looks for names in the whole beginning, since pages hold traces with lists of
// observations.
func score(head *adapter.Head) adapter.Match {
	has := func(name string) bool { return bytes.Contains(head.Bytes, []byte(name)) }
	for top := range head.Tops() {
		// Observations that another program has wrapped are not Langfuse's pages.
		if !top.Has("traceId") && !top.Has("trace_id") && top["data"] != "[" && top["observations"] != "[" {
			break
		}
		if (has(`"traceId"`) && (has(`"parentObservationId"`) || has(`"isRootObservation"`)) || has(`"trace_id"`) && has(`"parent_observation_id"`)) && has(`"type"`) {
			return adapter.Certain
		}
		// One object is enough, since the names are looked for in all of the beginning.
		break
	}
	return adapter.NoMatch
}

// rows reads a page, a trace with its observations, or one observation.
func rows(record []byte) (out []spanrow.Row, err error) {
	list, err := spanrow.Objects(record, "data", "observations")
	if err != nil {
		return nil, err
	}
	var of trace
	_ = json.Unmarshal(record, &of) // is there of a trace
	// The page of a trace is downloaded with the trace beside its observations.
	var beside struct {
		Trace *trace `json:"trace"`
	}
	if _ = json.Unmarshal(record, &beside); beside.Trace != nil {
		of = *beside.Trace
	}
	// Names differ by case and underscores between the API and files.
	for _, fields := range list {
		o := observation{}
		for name, value := range fields {
			o[strings.ToLower(strings.ReplaceAll(name, "_", ""))] = value
		}
		// A page of traces has observations within each; two bytes are an empty list.
		if inner := o["observations"]; len(inner) > 2 { // a page of traces
			more, err := rows(marshal(fields))
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
			continue
		}
		// An observation that names its session itself goes before its trace.
		row, err := o.row(&of)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// marshal writes fields again, so that a trace in a page is read like one by itself.
func marshal(fields map[string]json.RawMessage) []byte {
	b, _ := json.Marshal(fields) // of JSON: no error
	return b
}

// trace is what a trace says once for all of its observations.
type trace struct {
	Session  string                     `json:"sessionId"`
	Tags     json.RawMessage            `json:"tags"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

// observation is one by the names of its fields, in lower case.
type observation map[string]json.RawMessage

// text returns a text, and anything else as JSON.
func (o observation) text(name string) string { return spanrow.Text(o[name]) }

// row makes the span that an observation was: its fields under the names of the SDK's
// attributes, which package otlp reads.
func (o observation) row(of *trace) (spanrow.Row, error) {
	row := spanrow.Row{
		Trace: o.text("traceid"), Span: o.text("id"), Parent: o.text("parentobservationid"), Name: o.text("name"),
		Start: spanrow.Time(o["starttime"]), End: spanrow.Time(o["endtime"]),
		Failed: o.text("level") == "ERROR", Message: o.text("statusmessage"),
		Attributes: map[string]string{
			"langfuse.observation.type":  strings.ToLower(o.text("type")),
			"langfuse.observation.input": o.text("input"), "langfuse.observation.output": o.text("output"),
			"langfuse.observation.model.name":    o.text("model"),
			"langfuse.observation.usage_details": o.text("usagedetails"), "langfuse.observation.cost_details": o.text("costdetails"),
			"session.id":          cmp.Or(o.text("sessionid"), of.Session),
			"langfuse.trace.tags": spanrow.Text(of.Tags),
		},
	}
	for name, value := range of.Metadata {
		row.Attributes["langfuse.trace.metadata."+name] = string(value)
	}
	if row.Trace == "" || row.Span == "" || row.Start.IsZero() {
		return row, &events.DecodeError{Code: events.CodeMissingField, Field: "traceId", Offset: -1, Reason: "the observation has no id, traceId or startTime"}
	}
	// What has no end is an event, or still runs.
	if row.End.IsZero() {
		row.End = row.Start
	}
	// Some exports have usage in the place of usageDetails.
	if a := row.Attributes; a["langfuse.observation.usage_details"] == "" {
		a["langfuse.observation.usage_details"] = o.text("usage")
	}
	// An attribute that is there and empty would count as reported.
	for name, value := range row.Attributes {
		if value == "" {
			delete(row.Attributes, name)
		}
	}
	var metadata map[string]json.RawMessage
	if o["metadata"] != nil && json.Unmarshal([]byte(o.text("metadata")), &metadata) != nil { // files have it as text
		return row, nil
	}
	// By three of them, which are LangChain's and LangGraph's, package otlp finds agents and nodes.
	for _, name := range []string{"lc_agent_name", "langgraph_node", "langgraph_checkpoint_ns", "tags"} {
		if value := metadata[name]; len(value) > 0 {
			// Attributes of these names are JSON, so a number or an object becomes a text.
			if value[0] != '"' {
				value, _ = json.Marshal(string(value))
			}
			row.Attributes["langfuse.observation.metadata."+name] = string(value)
		}
	}
	// What the resource of the span said is kept in the metadata.
	var resource map[string]json.RawMessage
	if json.Unmarshal([]byte(spanrow.Text(metadata["resourceAttributes"])), &resource) == nil {
		row.Service = spanrow.Text(resource["service.name"])
	}
	return row, nil
}
