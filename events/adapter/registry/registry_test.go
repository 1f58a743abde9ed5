package registry

import (
	"errors"
	"slices"
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
	if _, err := Lookup("xml"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "canonical, otlp, otlplogs, claudecode") {
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
	f(`{"resourceLogs":[{"scopeLogs":[`, "otlplogs")
	f(`{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash"}`, "claudehooks")
	f("event: message\ndata: {\"id\":\"sevt_1\",\"type\":\"user.message\"}\n", "managedagents")
	f(`{"data":[{"id":"sevt_1","type":"agent.message"}]}`, "managedagents")
	f("2026-11-20T14:00:02.000000Z\tinfo\trequest route=r http.status=200 protocol=mcp\n", "agentgateway")
	f(`{"time":"2026-11-20T14:00:02Z","scope":"request","http.status":200}`, "agentgateway")
	f(`{"path":"/api/sessions/s-1/messages","body":{"prompt":"x"}}`, "caco")
	f(`[{"id":1,"message_id":"m","channel":"c","sender":"s","sender_id":"1","message":"x","agent":"a","from_agent":null,"created_at":1}]`, "tinyagi")
	f(`{"specversion":"1.0","id":"1","source":"/x","type":"weir.agent.call.v1","data":{}}`, "cloudevents")
	f(`{"event":"AgentInput","data":{"current_agent_name":"a"}}`, "llamaindex")
	f("SQLite format 3\x00\x10\x00\x01\x01", "")
	f("", "")
	f("plain text", "")
	f(`{"kind":"unknown.kind"}`, "")
	f(`{"type":"user"}`, "")
}

// TestWhatIsNoText holds that what is packed in other ways, or encoded otherwise, is called so,
// and that text which begins alike is not.
func TestWhatIsNoText(t *testing.T) {
	line := `{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call","to":{"agent":"a"}}`
	wide := func(mark string, low, high int) string {
		out := []byte(mark)
		for i := range len(line) {
			pair := [2]byte{}
			pair[low], pair[high] = line[i], 0
			out = append(out, pair[:]...)
		}
		return string(out)
	}
	for head, want := range map[string]string{
		"\xfd7zXZ\x00\x00\x04": "xz", "BZh91AY&SY\x01": "bzip2", "\x04\x22\x4d\x18\x64": "lz4", "PK\x03\x04\x14": "zip", "x\x9c\xcb\x48": "zlib", "x\xda\xcb": "zlib",
		"SQLite format 3\x00": "SQLite", "PAR1\x15": "Parquet",
		wide("\xff\xfe", 0, 1): "UTF-16", wide("\xfe\xff", 1, 0): "UTF-16", wide("", 0, 1): "UTF-16", wide("", 1, 0): "UTF-16",
		line: "", "\xef\xbb\xbf" + line: "", "": "", "x": "", "BZh": "", "x^2": "", "PKG": "", strings.Repeat("\x00", 20) + line: "",
	} {
		err := adapter.CheckText([]byte(head))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.12q: %v, want a word of %q", head, err, want)
		}
	}
}

// TestSources holds that the table of sources names formats that are there, and each
// source once.
func TestSources(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Sources() {
		if _, err := Lookup(s.Format); err != nil || seen[s.Name] || s.Title == "" || s.Sample == "" {
			t.Errorf("%s: %v, named before: %v", s.Name, err, seen[s.Name])
		}
		seen[s.Name] = true
		if got, err := Source(s.Name); err != nil || got.Name != s.Name {
			t.Errorf("%s: %+v, %v", s.Name, got, err)
		}
	}
	for _, format := range Formats() {
		if !slices.ContainsFunc(Sources(), func(s adapter.Source) bool { return s.Format == format.Name }) {
			t.Errorf("%s has no source: nobody is told how to get at such a log", format.Name)
		}
	}
	f := func(name, want string) {
		t.Helper()
		got, err := Source(name)
		if got.Name != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q (%v), want %q", name, got.Name, err, want)
		}
	}
	f("otlp", "otel-genai")
	f("claudehooks", "claude-code-hooks")
	f("map:flow=.a,to=.b", "map:flow=.a,to=.b")
	f("LangGraph", "traceloop")
	f("llama_index", "llamaindex")
	f("Semantic Kernel", "semantic-kernel")
	f("camel-ai", "model-client")
	f("nothing", "")
	if s, err := Source("map:flow=.a,to=.b"); err != nil || s.Gives.Args != adapter.Never || s.Gives.Time != adapter.Never {
		t.Errorf("a mapping of two fields gives %+v (%v)", s.Gives, err)
	}
}

func TestDetectAmbiguous(t *testing.T) {
	format := func(name string, m adapter.Match) adapter.Format {
		return adapter.Format{Name: name, Score: func(*adapter.Head) adapter.Match { return m }}
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
	f("unknown format: it looks like none of the 2 that are read; name one with --format", format("a", adapter.NoMatch), format("b", adapter.NoMatch))
}
