package registry

import (
	"errors"
	"strings"
	"testing"

	"weir/events/adapter"
)

func TestLookup(t *testing.T) {
	for _, f := range Formats() {
		got, err := Lookup(f.Name)
		if err != nil || got.Name != f.Name || got.Title == "" || got.New(adapter.Options{}) == nil {
			t.Errorf("format %q: %+v, %v", f.Name, got, err)
		}
	}
	if _, err := Lookup("xml"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "canonical, otlp, claudecode, trace") {
		t.Errorf("unknown name: %v", err)
	}
}

func TestDetect(t *testing.T) {
	f := func(head, want string) {
		t.Helper()
		got, err := Detect([]byte(head))
		if got.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q looks like %q (%v), want %q", head, got.Name, err, want)
		}
	}
	f(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call","to":{"agent":"a"}}`, "canonical")
	f("\xef\xbb\xbf[\n {\n  \"time\":\"x\",\n  \"kind\":\"tick\"", "canonical")
	f(`{"resourceSpans":[{"resource":{"attributes":[`, "otlp")
	f("{\n  \"resourceSpans\": [", "otlp")
	f(`{"dataset":"d","trace_id":"1","seq":0,"from":"a","kind":"call"}`, "trace")
	f(`{"type":"summary","summary":"x","leafUuid":"y"}`+"\n"+`{"parentUuid":null,"sessionId":"s","type":"user","uuid":"u"}`, "claudecode")
	f(`{"type":"queue-operation","sessionId":"s"}`, "claudecode")
	f("", "")
	f("plain text", "")
	f(`{"kind":"unknown.kind"}`, "")
	f(`{"type":"user"}`, "")
}

func TestDetectAmbiguous(t *testing.T) {
	format := func(name string, m adapter.Match) adapter.Format {
		return adapter.Format{Name: name, Score: func([]byte) adapter.Match { return m }}
	}
	f := func(want string, formats ...adapter.Format) {
		t.Helper()
		got, err := detect(nil, formats)
		if err != nil {
			got.Name = err.Error()
		}
		if got.Name != want {
			t.Errorf("detected %q, want %q", got.Name, want)
		}
	}
	f("b", format("a", adapter.Maybe), format("b", adapter.Certain), format("c", adapter.Maybe))
	f("b", format("a", adapter.NoMatch), format("b", adapter.Maybe))
	f("ambiguous format: the input looks like each of a, b; name one with --format", format("a", adapter.Certain), format("b", adapter.Certain), format("c", adapter.Maybe))
	f("ambiguous format: the input looks like each of a, c; name one with --format", format("a", adapter.Maybe), format("b", adapter.NoMatch), format("c", adapter.Maybe))
	f("unknown format: the input looks like none of a, b; name one with --format", format("a", adapter.NoMatch), format("b", adapter.NoMatch))
}
