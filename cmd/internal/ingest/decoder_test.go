package ingest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter/registry"
	"weir/events/envelope"
)

func newDecoder(t *testing.T, o DecoderOptions) *Decoder {
	t.Helper()
	d, err := NewDecoder(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	call = `{"id":"1","kind":"agent.call","time":"2026-11-20T14:00:00.000Z","correlation_id":"f","to":{"agent":"b"}}`
	// span has a parent that has not come.
	span = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"abababababababababababababababab","spanId":"0102030405060708","parentSpanId":"0102030405060709",` +
		`"startTimeUnixNano":"1771900000000000000","endTimeUnixNano":"1771900001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"invoke_agent"}},` +
		`{"key":"gen_ai.agent.name","value":{"stringValue":"clerk"}}]}]}]}]}`
)

func TestDecoder(t *testing.T) {
	var told, ids []string
	d := newDecoder(t, DecoderOptions{Changed: func(format, wrapping string) { told = append(told, format+" "+wrapping) }})
	emit := func(ev *events.Event) { ids = append(ids, ev.ID) }
	decode := func(place int64, value string) {
		t.Helper()
		if err := d.Decode(place, envelope.Message{Value: []byte(value)}, emit); err != nil {
			t.Fatal(err)
		}
	}
	decode(0, call)
	if d.Held() || d.Oldest(1) != 1 {
		t.Errorf("an event of weir's own is held: oldest %d", d.Oldest(1))
	}
	decode(1, span)
	decode(2, call)
	decode(3, "\x00\x00\x00\x00\x01"+call)
	decode(4, "")
	if !d.Held() || d.Oldest(5) != 1 {
		t.Errorf("a span without its parent is not held: oldest %d", d.Oldest(5))
	}
	if len(ids) != 3 {
		t.Errorf("told are %q", ids)
	}
	if err := d.Flush(emit); err != nil || d.Held() || d.Oldest(5) != 5 || len(ids) != 5 {
		t.Errorf("after all was told: %v, held %v, oldest %d, told %q", err, d.Held(), d.Oldest(5), ids)
	}
	if want := []string{"canonical ", "otlp ", "canonical schema registry (schema 1)"}; !slices.Equal(told, want) {
		t.Errorf("said %q, want %q", told, want)
	}
}

func TestDecoderRefuses(t *testing.T) {
	f := func(format, value string, kind error, want string) {
		t.Helper()
		d := newDecoder(t, DecoderOptions{Format: format})
		err := d.Decode(0, envelope.Message{Value: []byte(value)}, func(ev *events.Event) { t.Errorf("told %s", ev.ID) })
		if err == nil || !strings.Contains(err.Error(), want) || kind != nil && !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
	f("", `{"a":1}`, registry.ErrUnknown, "looks like none of")
	f("", `{"resourceSpans":[],"resourceLogs":[]}`, registry.ErrAmbiguous, "looks like each of otlp, otlplogs")
	f("canonical", `{"resourceSpans":[]}`, nil, "missing_field")
	f("otlp", "\x00\x00\x00\x00\x07\x02", nil, "schema 7")
	if _, err := NewDecoder(DecoderOptions{Format: "csv"}); !errors.Is(err, registry.ErrUnknown) {
		t.Errorf("a format that is not known: %v", err)
	}
}

func TestSkips(t *testing.T) {
	f := func(value string, want bool) {
		t.Helper()
		if got := newDecoder(t, DecoderOptions{}).Skips(envelope.Message{Value: []byte(value)}); got != want {
			t.Errorf("%.60s: skips %v", value, got)
		}
	}
	f(call, true)
	f(span, true)
	f("", true)
	f(`{"type":"user","sessionId":"s","uuid":"u","parentUuid":null,"message":{"content":"hi"}}`, false)
}
