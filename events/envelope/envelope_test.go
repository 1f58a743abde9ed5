package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/events"
)

func message(value string, headers ...string) Message {
	m := Message{Value: []byte(value)}
	for i := 0; i < len(headers); i += 2 {
		m.Headers = append(m.Headers, Header{headers[i], []byte(headers[i+1])})
	}
	return m
}

// spans is a batch with one span, in protobuf.
func spans() string {
	bytesField := func(n protowire.Number, inside []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), inside)
	}
	span := bytesField(1, bytes.Repeat([]byte{0xab}, 16))
	span = append(span, bytesField(2, bytes.Repeat([]byte{1}, 8))...)
	span = protowire.AppendFixed64(protowire.AppendTag(span, 8, protowire.Fixed64Type), 1771900000000000000)
	return string(bytesField(1, bytesField(2, bytesField(2, span))))
}

const spansJSON = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"abababababababababababababababab","spanId":"0101010101010101","endTimeUnixNano":"1771900000000000000"}]}]}]}`

func TestOpen(t *testing.T) {
	f := func(m Message, want, wrapping string) {
		t.Helper()
		c, err := Open(m)
		if err != nil || string(c.Bytes) != want || c.Wrapping != wrapping {
			t.Errorf("%q: %v\ngot  %q (%s)\nwant %q (%s)", m.Value, err, c.Bytes, c.Wrapping, want, wrapping)
		}
		if m.Value[0] == '{' && !json.Valid(c.Bytes) {
			t.Errorf("no JSON: %s", c.Bytes)
		}
	}
	bare := `{"id":"1","kind":"agent.call","time":"2026-11-20T14:00:00Z","to":{"agent":"b"}}`
	f(message(bare), bare, "")
	f(message(bare, "content-type", "application/json"), bare, "")
	f(message("\n"+bare), "\n"+bare, "")
	f(message("--boundary\r\n"), "--boundary\r\n", "")

	f(message("\x00\x00\x00\x00\x07"+bare), bare, "schema registry (schema 7)")
	f(message(bare, "__value_schema_id", "\x01guid"), bare, "")

	f(message(spans()), spansJSON, "OTLP protobuf (spans)")
	f(message("\x0a\x00"), `{"resourceSpans":[{}]}`, "OTLP protobuf (empty)")

	attributes := []string{"ce_specversion", "1.0", "ce_id", "e1", "ce_source", "/bus", "CE_Type", "weir.agent.call.v1", "ce_time", "2026-11-20T14:00:00.123Z",
		"ce_correlationid", "abc", "ce_causationid", "e0", "ce_sequence", "0000000042", "ce_traceparent", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	full := `"id":"e1","source":"/bus","time":"2026-11-20T14:00:00.123Z","sequence":42,"correlation_id":"abc","causation_id":"e0","trace_id":"0af7651916cd43dd8448eb211c80319c"`
	f(message(`{"to":{"agent":"b"}}`, attributes...), `{"kind":"agent.call",`+full+`,"to":{"agent":"b"}}`, "CloudEvents (binary)")
	f(message(`{}`, attributes...), `{"kind":"agent.call",`+full+`}`, "CloudEvents (binary)")
	// What the data says itself counts, in every spelling that a decoder takes.
	f(message(`{"Kind":"agent.call","id":"2","correlationId":"other"}`, attributes...),
		`{"source":"/bus","time":"2026-11-20T14:00:00.123Z","sequence":42,"causation_id":"e0","trace_id":"0af7651916cd43dd8448eb211c80319c","Kind":"agent.call","id":"2","correlationId":"other"}`, "CloudEvents (binary)")
	// Data of another format is left to its adapter.
	f(message(`{"type":"user","sessionId":"s"}`, "ce_specversion", "1.0", "ce_id", "1", "ce_source", "/x", "ce_type", "com.acme.line"), `{"type":"user","sessionId":"s"}`, "CloudEvents (binary)")
	f(message(spans(), "ce_specversion", "1.0", "content-type", "application/x-protobuf"), spansJSON, "CloudEvents (binary), OTLP protobuf (spans)")

	structured := `{"specversion":"1.0","id":"e1","source":"/bus","type":"weir.agent.call.v1","correlationid":"abc","data":{"to":{"agent":"b"}}}`
	inside := `{"kind":"agent.call","id":"e1","source":"/bus","correlation_id":"abc","to":{"agent":"b"}}`
	f(message(structured), inside, "CloudEvents (structured)")
	f(message(structured, "content-type", "application/cloudevents+json; charset=utf-8"), inside, "CloudEvents (structured)")
	f(message("\x00\x00\x00\x00\x07"+structured), inside, "schema registry (schema 7), CloudEvents (structured)")
	f(message(strings.Replace(structured, `{"to":{"agent":"b"}}`, `"{\"to\":{\"agent\":\"b\"}}"`, 1)), inside, "CloudEvents (structured)")
	f(message(strings.Replace(structured, `"data":{"to":{"agent":"b"}}`, `"data_base64":"eyJ0byI6eyJhZ2VudCI6ImIifX0="`, 1)), inside, "CloudEvents (structured)")
	f(message(`{"specversion":"1.0","id":"e1","source":"/bus","type":"weir.flow.end.v1"}`), `{"kind":"flow.end","id":"e1","source":"/bus"}`, "CloudEvents (structured)")
	// A log that only speaks of CloudEvents is none.
	f(message(`{"type":"user","text":"\"specversion\""}`), `{"type":"user","text":"\"specversion\""}`, "")
	f(message(`{"type":"user","x":{"specversion":"1.0"}}`), `{"type":"user","x":{"specversion":"1.0"}}`, "")
}

func TestRefused(t *testing.T) {
	f := func(m Message, want string) {
		t.Helper()
		c, err := Open(m)
		if err == nil {
			t.Errorf("%q: taken as %q", m.Value, c.Bytes)
			return
		}
		if _, ok := errors.AsType[*events.DecodeError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", m.Value, err, want)
		}
	}
	f(message("\x00\x00\x00"), "want the frame of a schema registry, or JSON")
	f(message("\x00\x00\x00\x00\x07\x02\x06foo"), "schema 7 of a schema registry, and its value is Avro or Protobuf")
	f(message("\x02\x06foo\x00\x01", "__value_schema_id", "\x01guid"), "name the registry with --schema-registry")
	f(message("\xff\xfe\x00"), "begins with the bytes ff fe 00")
	f(message("{}", "content-type", "application/cloudevents-batch+json"), "a batch of CloudEvents")
	f(message("{}", "content-type", "application/cloudevents+avro"), "want application/cloudevents+json")
	f(message("{}", "content-type", "application/cloudevents+json"), "lacks one of specversion")
	f(message("{", "content-type", "application/cloudevents+json"), "syntax")
	f(message(`{"to":`, "ce_specversion", "1.0", "ce_type", "weir.agent.call.v1"), "syntax")
	f(message(`{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"?"}`), "data_base64")
	f(message(`{"specversion":"1.0","id":"1","source":"s","type":"weir.agent.call.v1","data":{"kind":"tool.call"}}`), "the kind of its data tool.call")
	f(message(`{"specversion":"1.0","id":"1","source":"s","type":"weir.agent.dance.v1","data":{}}`), `no event has the kind "agent.dance"`)
	f(message(strings.Repeat("\x00\x00\x00\x00\x07", 9)+"{}"), "name the registry")
	nested := `{"to":{}}`
	for range 5 {
		quoted, err := json.Marshal(nested)
		if err != nil {
			t.Fatal(err)
		}
		nested = `{"specversion":"1.0","id":"1","source":"s","type":"t","data":` + string(quoted) + `}`
	}
	f(message(nested), "more than 4 envelopes")
	if _, err := Open(Message{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no value: %v", err)
	}
	if _, err := Open(message("\x00\x00\x00\x00\x01")); !errors.Is(err, ErrEmpty) {
		t.Errorf("no value in a frame: %v", err)
	}
}

// TestTwoMeanings has a value that is JSON and, by a rare chance, a batch too.
func TestTwoMeanings(t *testing.T) {
	value := "\n{\"a\":\"" + strings.Repeat("x", 0x7b-7) + "\"}"
	if !json.Valid([]byte(value)) {
		t.Fatal("the test is wrong: no JSON")
	}
	c, err := Open(message(value))
	if err != nil || string(c.Bytes) != value {
		t.Errorf("a text that is only as long as a batch: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{spans(), "\x00\x00\x00\x00\x07{}", `{"specversion":"1.0","id":"1","source":"s","type":"weir.agent.call.v1","data":{}}`, `{"kind":"agent.call"}`} {
		f.Add(s, "1.0", "application/json")
	}
	f.Fuzz(func(t *testing.T, value, version, contentType string) {
		for _, m := range []Message{message(value), message(value, "ce_specversion", version, "ce_type", "weir.agent.call.v1", "content-type", contentType)} {
			c, err := Open(m)
			if _, known := errors.AsType[*events.DecodeError](err); err != nil && !known && !errors.Is(err, ErrEmpty) {
				t.Errorf("%q: %v", value, err)
			}
			if err == nil && c.Wrapping != "" && c.Bytes[0] == '{' && !strings.Contains(c.Wrapping, "registry") && !json.Valid(c.Bytes) && json.Valid([]byte(value)) {
				t.Errorf("%q gives %q", value, c.Bytes)
			}
		}
	})
}
