package collector

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/otlp"
	"weir/events/envelope"
	"weir/events/envelope/otlpwire"
)

// recordings are the batches of all recorded runs of OpenTelemetry spans, by file.
func recordings(t *testing.T) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob("../../../../../events/adapter/testdata/real/*/*otlp.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	out := map[string][][]byte{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := adapter.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		r.Use(adapter.Documents, func(f adapter.Fault) { t.Error(f) })
		for {
			record, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			out[name] = append(out[name], bytes.Clone(record.Bytes))
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// told are the events of batches, as JSON.
func told(t *testing.T, batches [][]byte) (out []string) {
	t.Helper()
	a := otlp.Format().New(adapter.Options{})
	emit := func(e *events.Event) { out = append(out, string(e.AppendJSON(nil))) }
	for _, b := range batches {
		if err := a.Decode(b, emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(emit); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRecordings writes the recorded runs in protobuf by the library of the Collector
// and reads them by weir: the events are those of the recording.
func TestRecordings(t *testing.T) {
	files, n := 0, 0
	for name, batches := range recordings(t) {
		var again [][]byte
		for _, b := range batches {
			traces, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b)
			if err != nil {
				t.Fatal(err)
			}
			wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
			if err != nil {
				t.Fatal(err)
			}
			c, err := envelope.Open(envelope.Message{Value: wire})
			if err != nil || c.Wrapping != "OTLP protobuf (spans)" {
				t.Fatalf("%s: %v, %q", name, err, c.Wrapping)
			}
			again = append(again, c.Bytes)
			back, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(c.Bytes)
			if err != nil || !reflect.DeepEqual(traces, back) {
				t.Errorf("%s: the Collector reads other spans from what weir makes of them: %v", name, err)
			}
		}
		want := told(t, batches)
		if got := told(t, again); !slices.Equal(got, want) {
			t.Errorf("%s: %d events from protobuf, %d from JSON, or others", name, len(got), len(want))
		}
		files, n = files+1, n+len(want)
	}
	t.Logf("%d recordings, %d events", files, n)
}

// fill puts one value of each kind into attributes.
func fill(m pcommon.Map) {
	m.PutStr("text", "\"\\\n\t\r\x01 é")
	m.PutStr("empty", "")
	m.PutBool("yes", true)
	m.PutBool("no", false)
	m.PutInt("least", math.MinInt64)
	m.PutInt("zero", 0)
	m.PutDouble("half", 0.5)
	m.PutDouble("large", 1e300)
	m.PutEmptyBytes("bytes").FromRaw([]byte{0, 255})
	m.PutEmpty("nothing")
	list := m.PutEmptySlice("list")
	list.AppendEmpty().SetStr("a")
	list.AppendEmpty().SetEmptyMap().PutInt("deep", 1)
	m.PutEmptySlice("none")
}

// TestEveryField has every field of the messages, as the Collector's library writes and
// reads them.
func TestEveryField(t *testing.T) {
	id, span := pcommon.TraceID{1, 2, 3, 0xff}, pcommon.SpanID{4, 5, 6}
	traces := ptrace.NewTraces()
	for range 2 {
		rs := traces.ResourceSpans().AppendEmpty()
		fill(rs.Resource().Attributes())
		rs.Resource().SetDroppedAttributesCount(7)
		rs.SetSchemaUrl("r")
		for range 2 {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().SetName("s")
			ss.Scope().SetVersion("1")
			fill(ss.Scope().Attributes())
			ss.Scope().SetDroppedAttributesCount(8)
			ss.SetSchemaUrl("s")
			s := ss.Spans().AppendEmpty()
			s.SetTraceID(id)
			s.SetSpanID(span)
			s.SetParentSpanID(span)
			s.TraceState().FromRaw("ot=th:c")
			s.SetFlags(0x301)
			s.SetName("n")
			s.SetKind(ptrace.SpanKindClient)
			s.SetStartTimestamp(math.MaxInt64)
			s.SetEndTimestamp(math.MaxInt64)
			fill(s.Attributes())
			s.SetDroppedAttributesCount(1)
			s.SetDroppedEventsCount(2)
			s.SetDroppedLinksCount(math.MaxUint32)
			s.Status().SetCode(ptrace.StatusCodeError)
			s.Status().SetMessage("m")
			e := s.Events().AppendEmpty()
			e.SetName("e")
			e.SetTimestamp(3)
			e.SetDroppedAttributesCount(4)
			fill(e.Attributes())
			l := s.Links().AppendEmpty()
			l.SetTraceID(id)
			l.SetSpanID(span)
			l.TraceState().FromRaw("a=b")
			l.SetFlags(1)
			l.SetDroppedAttributesCount(5)
			fill(l.Attributes())
			ss.Spans().AppendEmpty().SetSpanID(span)
		}
	}
	wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	text, err := otlpwire.AppendJSON(nil, wire, otlpwire.Spans)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(text); err != nil || !reflect.DeepEqual(traces, back) {
		t.Errorf("other spans: %v\n%s", err, text)
	}

	logs := plog.NewLogs()
	rl := logs.ResourceLogs().AppendEmpty()
	fill(rl.Resource().Attributes())
	rl.SetSchemaUrl("r")
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("s")
	sl.SetSchemaUrl("s")
	r := sl.LogRecords().AppendEmpty()
	r.SetTimestamp(1)
	r.SetObservedTimestamp(2)
	r.SetSeverityNumber(plog.SeverityNumberError)
	r.SetSeverityText("ERROR")
	r.SetEventName("e")
	fill(r.Body().SetEmptyMap())
	fill(r.Attributes())
	r.SetDroppedAttributesCount(3)
	r.SetFlags(1)
	r.SetTraceID(id)
	r.SetSpanID(span)
	if wire, err = (&plog.ProtoMarshaler{}).MarshalLogs(logs); err != nil {
		t.Fatal(err)
	}
	if s := otlpwire.SignalOf(wire); s != otlpwire.Logs {
		t.Errorf("logs are taken for %v", s)
	}
	if text, err = otlpwire.AppendJSON(nil, wire, otlpwire.Logs); err != nil {
		t.Fatal(err)
	}
	if back, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(text); err != nil || !reflect.DeepEqual(logs, back) {
		t.Errorf("other logs: %v\n%s", err, text)
	}
}
