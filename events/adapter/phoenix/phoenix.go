// Package phoenix reads spans exported from Arize Phoenix.
//
// They report the same as the OpenInference spans that they were made of.
package phoenix

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/spanrow"
)

// Format returns the format of Phoenix's exports.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "phoenix",
		Title:   "Arize Phoenix: exported spans, pages or one per line",
		Framing: adapter.Documents,
		Score:   score,
		New:     func(o adapter.Options) adapter.Adapter { return spanrow.New(o, "phoenix", rows) },
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never, Tokens: adapter.Always,
			Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always, Tasks: adapter.Never},
	}
}

// score asks for names that stand in every span, whatever its form.
func score(head *adapter.Head) adapter.Match {
	has := func(name string) bool { return bytes.Contains(head.Bytes, []byte(name)) }
	// The first object is enough: a page and a line both hold the names close to their
	// beginning.
	for top := range head.Tops() {
		// Spans that another program has wrapped are not Phoenix's pages.
		if !top.Has("span_kind") && top["data"] != "[" {
			break
		}
		if has(`"span_kind"`) && has(`"parent_id"`) && has(`"status_code"`) && (has(`"context"`) && has(`"trace_id"`) || has(`"context.trace_id"`)) {
			return adapter.Certain
		}
		break
	}
	return adapter.NoMatch
}

// rows reads a page, or one span.
func rows(record []byte) (out []spanrow.Row, err error) {
	// A page has its spans in data; a line is one by itself.
	spans, err := spanrow.Objects(record, "data")
	if err != nil {
		return nil, err
	}
	for _, span := range spans {
		var context struct {
			Trace string `json:"trace_id"`
			Span  string `json:"span_id"`
		}
		// The names of the context are columns in a data frame.
		_ = json.Unmarshal(span["context"], &context) // a data frame has none
		row := spanrow.Row{
			Trace: context.Trace, Span: context.Span, Parent: spanrow.Text(span["parent_id"]), Name: spanrow.Text(span["name"]),
			Start: spanrow.Time(span["start_time"]), End: spanrow.Time(span["end_time"]),
			Failed: spanrow.Text(span["status_code"]) == "ERROR", Message: spanrow.Text(span["status_message"]),
			Attributes: map[string]string{"openinference.span.kind": spanrow.Text(span["span_kind"])},
		}
		// A data frame has one column for each attribute, and a page one object for all.
		for name, value := range span {
			if rest, ok := strings.CutPrefix(name, "attributes."); ok {
				flatten(row.Attributes, rest, value)
			}
		}
		var attributes map[string]json.RawMessage
		if json.Unmarshal(span["attributes"], &attributes) == nil {
			for name, value := range attributes {
				flatten(row.Attributes, name, value)
			}
		}
		// Only now are all columns there.
		gather(row.Attributes)
		// Of a data frame the context is in columns of its own.
		if row.Trace == "" {
			row.Trace, row.Span = spanrow.Text(span["context.trace_id"]), spanrow.Text(span["context.span_id"])
		}
		// One such span spoils its page: the caller of the spans around it could not be determined.
		if row.Trace == "" || row.Span == "" || row.Start.IsZero() {
			return nil, &events.DecodeError{Code: events.CodeMissingField, Field: "context", Offset: -1, Reason: "the span has no context.trace_id, context.span_id or start_time"}
		}
		// A span without an end still runs, or was cut off.
		if row.End.IsZero() {
			row.End = row.Start
		}
		out = append(out, row)
	}
	return out, nil
}

// flatten names what is nested by its path, as the attributes of a span are. What holds
// people's own members stays whole.
// Lists are named by their indexes.
//
// Maps have no order, and need none: each name has a place of its own.
func flatten(into map[string]string, name string, value json.RawMessage) {
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case name == "metadata" || name == "tag.tags" || strings.HasSuffix(name, ".value"):
	case json.Unmarshal(value, &object) == nil && object != nil:
		for key, inner := range object {
			flatten(into, name+"."+key, inner)
		}
		return
	case json.Unmarshal(value, &list) == nil && list != nil:
		for i, inner := range list {
			flatten(into, name+"."+strconv.Itoa(i), inner)
		}
		return
	}
	// null and an empty text count as missing.
	if text := spanrow.Text(value); text != "" {
		into[name] = text
	}
}

// gather puts the members of metadata, which Phoenix takes apart, together again.
// Package otlp reads metadata as one JSON object.
func gather(attributes map[string]string) {
	const prefix = "metadata."
	metadata := map[string]string{}
	for name, value := range attributes {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			metadata[rest] = value
			delete(attributes, name)
		}
	}
	if len(metadata) > 0 {
		whole, _ := json.Marshal(metadata) // of texts: no error
		attributes["metadata"] = string(whole)
	}
}
