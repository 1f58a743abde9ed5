// Package spanjson reads spans in the JSON of Jaeger, Zipkin, Elasticsearch and others. A span has the same content
// as in OTLP, which package otlp reads, except for its events.
package spanjson

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/spanrow"
)

// Format returns the format of all of them.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "spanjson",
		Title:   "OpenTelemetry spans as Jaeger, Zipkin, MLflow or a console exporter writes them",
		Framing: adapter.Documents,
		Score:   score,
		New:     func(o adapter.Options) adapter.Adapter { return spanrow.New(o, "otlp", rows) },
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Always, Turn: adapter.Sometimes,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Never, Work: adapter.Always},
	}
}

// score knows each by the members of a span, or of what is around spans.
func score(head *adapter.Head) adapter.Match {
	has := func(name string) bool { return bytes.Contains(head.Bytes, []byte(name)) }
	for top := range head.Tops() {
		switch {
		case top.Has("traceID", "spanID", "operationName"),
			(top["data"] == "[" || top.Has("traceID") && top["spans"] == "[") && has(`"traceID"`) && has(`"operationName"`),
			top.Has("traceId", "id", "timestamp") && (top["localEndpoint"] == "{" || top["tags"] == "{"),
			top.Has("name", "start_time", "end_time", "parent_id") && top["context"] == "{" && top["attributes"] == "{" && !top.Has("span_kind"),
			top.Has("Name", "StartTime") && top["SpanContext"] == "{",
			top["info"] == "{" && top["data"] == "{" && has(`"spans"`) && has("mlflow."):
			return adapter.Certain
		}
		break
	}
	return adapter.NoMatch
}

// span has the members of a span under all names that the programs have for them. Names of Go
// differ from those of Python by case alone, which encoding/json does not mind.
type span struct {
	Name      string `json:"name"`
	Operation string `json:"operationName"`

	Context     *ids            `json:"context"`
	SpanContext *ids            `json:"SpanContext"`
	Parent      json.RawMessage `json:"parent"` // of Go an object
	PythonUp    string          `json:"parent_id"`

	Trace    string `json:"traceId"` // of Jaeger traceID
	Zipkin   string `json:"id"`
	Up       string `json:"parentId"`
	Jaeger   string `json:"spanID"`
	JaegerUp string `json:"parentSpanID"` // of old versions
	Refs     []struct {
		Type string `json:"refType"`
		Span string `json:"spanID"`
	} `json:"references"`

	MLflowTrace string `json:"trace_id"`
	MLflowSpan  string `json:"span_id"`
	MLflowUp    string `json:"parent_span_id"`
	StartNS     int64  `json:"start_time_unix_nano"`
	EndNS       int64  `json:"end_time_unix_nano"`

	StartTime json.RawMessage `json:"startTime"` // µs in Jaeger, a text of Go
	EndTime   json.RawMessage `json:"endTime"`
	Start     json.RawMessage `json:"start_time"`
	End       json.RawMessage `json:"end_time"`
	Timestamp int64           `json:"timestamp"` // µs
	Duration  float64         `json:"duration"`  // µs

	Status     json.RawMessage `json:"status"`
	Attributes json.RawMessage `json:"attributes"`
	Tags       json.RawMessage `json:"tags"`

	Resource json.RawMessage `json:"resource"`
	Process  *process        `json:"process"`
	In       string          `json:"processID"`
	Endpoint struct {
		Service string `json:"serviceName"`
	} `json:"localEndpoint"`
}

// ids name a span in its context.
type ids struct {
	Trace   string `json:"trace_id"`
	Span    string `json:"span_id"`
	GoTrace string `json:"TraceID"`
	GoSpan  string `json:"SpanID"`
}

// process is the program that a span of Jaeger is of.
type process struct {
	Service string `json:"serviceName"`
}

// page is what stands around spans.
type page struct {
	Data      json.RawMessage    `json:"data"`
	Spans     []json.RawMessage  `json:"spans"`
	Processes map[string]process `json:"processes"`
}

// rows reads a span, or what is around spans: a list, a trace, an answer with traces.
func rows(record []byte) (out []spanrow.Row, err error) { return appendRows(nil, record, nil, 0) }

// maxAround is how deep spans may lie in what is around them.
const maxAround = 4

func appendRows(out []spanrow.Row, value []byte, processes map[string]process, deep int) ([]spanrow.Row, error) {
	value = bytes.TrimSpace(value)
	if deep > maxAround || len(value) == 0 {
		return out, nil
	}
	if deep == 0 && value[0] == '{' {
		if err := spanrow.Check(value); err != nil {
			return nil, err
		}
	}
	if value[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, fault(err)
		}
		for _, one := range list {
			var err error
			if out, err = appendRows(out, one, processes, deep+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	var around page
	if err := json.Unmarshal(value, &around); err != nil {
		return nil, fault(err)
	}
	if len(around.Data) > 0 {
		return appendRows(out, around.Data, nil, deep+1)
	}
	if around.Spans != nil {
		for _, one := range around.Spans {
			var err error
			if out, err = appendRows(out, one, around.Processes, deep+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	var s span
	if err := json.Unmarshal(value, &s); err != nil {
		return nil, fault(err)
	}
	row, err := s.row(processes)
	return append(out, row), err
}

// fault is that of a record that is no JSON of these programs.
func fault(err error) error {
	return &events.DecodeError{Code: events.CodeWrongType, Offset: -1, Reason: "it is none of their spans: " + err.Error()}
}

// row makes a row of a span in any of the formats.
func (s *span) row(processes map[string]process) (spanrow.Row, error) {
	up := ids{}
	_ = json.Unmarshal(s.Parent, &up) // there only in Go's
	in := ids{}
	switch {
	case s.Context != nil:
		in = *s.Context
	case s.SpanContext != nil:
		in = *s.SpanContext
	}
	row := spanrow.Row{
		Name:       cmp.Or(s.Name, s.Operation),
		Trace:      id(cmp.Or(in.Trace, in.GoTrace, s.Trace, s.MLflowTrace), 16),
		Span:       id(cmp.Or(in.Span, in.GoSpan, s.Jaeger, s.MLflowSpan, s.Zipkin), 8),
		Parent:     id(cmp.Or(s.PythonUp, s.Up, s.JaegerUp, s.MLflowUp, up.GoSpan), 8),
		Attributes: map[string]string{},
	}
	if strings.Trim(row.Parent, "0") == "" { // Go's for none
		row.Parent = ""
	}
	for _, ref := range s.Refs {
		if row.Parent == "" && ref.Type == "CHILD_OF" {
			row.Parent = id(ref.Span, 8)
		}
	}
	put(row.Attributes, s.Attributes)
	put(row.Attributes, s.Tags)
	resource := map[string]string{}
	var python struct {
		Attributes json.RawMessage `json:"attributes"`
	}
	if json.Unmarshal(s.Resource, &python) == nil && len(python.Attributes) > 0 {
		put(resource, python.Attributes)
	} else {
		put(resource, s.Resource)
	}
	row.Service = cmp.Or(resource["service.name"], s.Endpoint.Service, processes[s.In].Service)
	if s.Process != nil {
		row.Service = cmp.Or(row.Service, s.Process.Service)
	}
	s.times(&row)
	s.status(&row)
	if row.Trace == "" || row.Span == "" || row.Start.IsZero() {
		return row, &events.DecodeError{Code: events.CodeMissingField, Offset: -1, Reason: "the span names no trace, no span or no start"}
	}
	return row, nil
}

// times reads the start and the end of a span. A span without an end gets a duration of 0.
func (s *span) times(row *spanrow.Row) {
	micro := func(raw json.RawMessage) int64 {
		n, _ := strconv.ParseInt(string(raw), 10, 64)
		return n
	}
	switch at := cmp.Or(s.Timestamp, micro(s.StartTime)); {
	case s.StartNS > 0:
		row.Start, row.End = time.Unix(0, s.StartNS).UTC(), time.Unix(0, s.EndNS).UTC()
	case at > 0:
		row.Start = time.UnixMicro(at).UTC()
		row.End = row.Start.Add(time.Duration(s.Duration * float64(time.Microsecond)))
	default:
		row.Start, row.End = first(s.Start, s.StartTime), first(s.End, s.EndTime)
	}
	if row.End.Before(row.Start) {
		row.End = row.Start
	}
}

// first returns the time of the first that is one.
func first(raws ...json.RawMessage) (t time.Time) {
	for _, raw := range raws {
		if t = spanrow.Time(raw); !t.IsZero() {
			break
		}
	}
	return t
}

// status reads whether a span failed: a member of its own, or a tag.
func (s *span) status(row *spanrow.Row) {
	var status struct {
		Python  string          `json:"status_code"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Text    string          `json:"description"`
	}
	_ = json.Unmarshal(s.Status, &status) // where there is none it is unset
	code := strings.ToUpper(cmp.Or(status.Python, spanrow.Text(status.Code), row.Attributes["otel.status_code"]))
	failed := row.Attributes["error"]
	row.Failed = strings.HasSuffix(code, "ERROR") || failed != "" && failed != "false" && code != "OK"
	row.Message = cmp.Or(status.Text, status.Message, row.Attributes["otel.status_description"])
	if row.Message == "" && failed != "true" {
		row.Message = failed
	}
}

// put adds attributes: an object, or a list of names and values.
func put(into map[string]string, raw json.RawMessage) {
	var object map[string]json.RawMessage
	var list []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	switch {
	case json.Unmarshal(raw, &object) == nil:
		for name, value := range object {
			into[name] = spanrow.Text(value)
		}
	case json.Unmarshal(raw, &list) == nil:
		for _, one := range list {
			// Go's have their type beside them.
			var typed struct{ Type, Value json.RawMessage }
			if json.Unmarshal(one.Value, &typed) == nil && len(typed.Type) > 0 && len(typed.Value) > 0 {
				one.Value = typed.Value
			}
			into[one.Key] = spanrow.Text(one.Value)
		}
	}
	for name, value := range into {
		if value == "" {
			delete(into, name)
		}
	}
}

// id returns an id of the given number of bytes in hex. MLflow writes base64, and Jaeger omits
// leading zeros.
func id(s string, bytes int) string {
	if raw, err := base64.StdEncoding.DecodeString(s); err == nil && len(raw) == bytes {
		return hex.EncodeToString(raw)
	}
	s = strings.TrimPrefix(strings.ToLower(s), "0x")
	if s != "" && strings.Trim(s, "0123456789abcdef") == "" && len(s) < 2*bytes {
		s = strings.Repeat("0", 2*bytes-len(s)) + s
	}
	return s
}
