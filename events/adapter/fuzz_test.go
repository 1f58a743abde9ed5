package adapter_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/agentgateway"
	"weir/events/adapter/caco"
	"weir/events/adapter/canonical"
	"weir/events/adapter/chat"
	"weir/events/adapter/claudecode"
	"weir/events/adapter/claudehooks"
	"weir/events/adapter/cloudevents"
	"weir/events/adapter/llamaindex"
	"weir/events/adapter/managedagents"
	"weir/events/adapter/otlp"
	"weir/events/adapter/otlplogs"
	"weir/events/adapter/registry"
	"weir/events/adapter/tinyagi"
	"weir/events/adapter/trace"
)

// fuzz feeds an adapter with lines made from real ones. All resulting events must be
// fit for the log (see add in real_test.go), and nothing may panic.
func fuzz(f *testing.F, format adapter.Format) {
	files, _ := filepath.Glob("testdata/golden/" + format.Name + "/*.in")
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		a := format.New(adapter.Options{MaxHeld: 8})
		out := &told{}
		emit := func(e *events.Event) { out.add(t, e) }
		_ = format.Score(&adapter.Head{Bytes: in})
		_ = a.Decode(in, emit)
		for line := range bytes.Lines(in) {
			_ = a.Decode(bytes.TrimSpace(line), emit)
		}
		if err := a.Flush(emit); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzCanonical(f *testing.F)  { fuzz(f, canonical.Format()) }
func FuzzOTLP(f *testing.F)       { fuzz(f, otlp.Format()) }
func FuzzClaudeCode(f *testing.F) { fuzz(f, claudecode.Format()) }
func FuzzTrace(f *testing.F)      { fuzz(f, trace.Format()) }

func FuzzOTLPLogs(f *testing.F)      { fuzz(f, otlplogs.Format()) }
func FuzzClaudeHooks(f *testing.F)   { fuzz(f, claudehooks.Format()) }
func FuzzManagedAgents(f *testing.F) { fuzz(f, managedagents.Format()) }
func FuzzAgentGateway(f *testing.F)  { fuzz(f, agentgateway.Format()) }
func FuzzCaco(f *testing.F)          { fuzz(f, caco.Format()) }
func FuzzTinyAGI(f *testing.F)       { fuzz(f, tinyagi.Format()) }
func FuzzCloudEvents(f *testing.F)   { fuzz(f, cloudevents.Format()) }
func FuzzLlamaIndex(f *testing.F)    { fuzzLog(f, llamaindex.Format()) }

// fuzzChat is fuzz for a dialect of package chat, of which name is the format.
func fuzzChat(f *testing.F, name string) {
	for _, format := range chat.Formats() {
		if format.Name == name {
			fuzz(f, format)
		}
	}
}

func FuzzClaudeStream(f *testing.F) { fuzzChat(f, "claudestream") }
func FuzzPi(f *testing.F)           { fuzzChat(f, "pi") }
func FuzzATIF(f *testing.F)         { fuzzChat(f, "atif") }
func FuzzAGUI(f *testing.F)         { fuzzChat(f, "agui") }
func FuzzMessages(f *testing.F)     { fuzzChat(f, "messages") }
func FuzzSWEAgent(f *testing.F)     { fuzzChat(f, "sweagent") }
func FuzzInspect(f *testing.F)      { fuzzChat(f, "inspect") }
func FuzzGoose(f *testing.F)        { fuzzChat(f, "goose") }
func FuzzCursor(f *testing.F)       { fuzzChat(f, "cursor") }
func FuzzKimi(f *testing.F)         { fuzzChat(f, "kimi") }
func FuzzShareGPT(f *testing.F)     { fuzzChat(f, "sharegpt") }
func FuzzFlink(f *testing.F)        { fuzzChat(f, "flink") }

// TestEveryFormatIsFuzzed holds that each format has a target of its own.
func TestEveryFormatIsFuzzed(t *testing.T) {
	var all []byte
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	for _, f := range registry.Formats() {
		if !regexp.MustCompile(`func Fuzz\w+\(f \*testing.F\) +\{ fuzz\w*\(f, ("` + f.Name + `"|` + f.Name + `\.Format\(\))`).Match(all) {
			t.Errorf("%s has no fuzz target", f.Name)
		}
	}
}

// FuzzDetect checks that no head makes the detection panic.
func FuzzDetect(f *testing.F) {
	f.Add([]byte(`[{"resourceSpans":[`))
	f.Fuzz(func(_ *testing.T, head []byte) { _, _ = registry.Detect(head) })
}

// TestMonsters feeds what no honest producer sends. All adapters refuse it with a
// code, and go on.
func TestMonsters(t *testing.T) {
	refuse := func(what string, record []byte, want events.Code) {
		t.Helper()
		for _, format := range append(registry.Formats(), mapping(t)) {
			a := format.New(adapter.Options{})
			err := a.Decode(record, func(e *events.Event) { t.Errorf("%s: %s of %s", format.Name, e.Kind, what) })
			var e *events.DecodeError
			if !errors.As(err, &e) || e.Code != want {
				t.Errorf("%s: %s: %v, want code %s", format.Name, what, err, want)
			}
			if err := a.Flush(func(*events.Event) {}); err != nil {
				t.Errorf("%s: %v", format.Name, err)
			}
		}
	}
	deep := func(open, end string) string { return strings.Repeat(open, 10_000) + "0" + strings.Repeat(end, 10_000) }
	refuse("10,000 arrays inside each other", []byte(`{"x":`+deep("[", "]")+`}`), events.CodeTooDeep)
	refuse("10,000 objects inside each other", []byte(`{"x":`+deep(`{"x":`, "}")+`}`), events.CodeTooDeep)
	refuse("a huge record", []byte(`{"x":"`+strings.Repeat("x", adapter.MaxRecord)+`"}`), events.CodeTooLong)
	refuse("half a record", []byte(`{"x":[`), events.CodeSyntax)
	refuse("a string", []byte(`"x"`), events.CodeWrongType)

	// Deep inside of what the adapters do read.
	attribute := func(value string) []byte {
		return []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b000000000000003",` +
			`"endTimeUnixNano":"1771900001300000000","attributes":[{"key":"gen_ai.tool.call.arguments","value":` + value + `}]}]}]}]}`)
	}
	a := otlp.Format().New(adapter.Options{})
	err := a.Decode(attribute(strings.Repeat(`{"arrayValue":{"values":[`, 10_000)+`{}`+strings.Repeat(`]}}`, 10_000)), func(*events.Event) {})
	var e *events.DecodeError
	if !errors.As(err, &e) || e.Code != events.CodeTooDeep {
		t.Errorf("10,000 lists in an attribute: %v", err)
	}
}
