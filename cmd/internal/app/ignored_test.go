package app

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"weir/cmd/internal/intake"
	"weir/events"
)

// TestReloadedIgnoreArgs has two calls of a tool that differ in an argument that limits begin
// to leave out between the first pair and the second, however they come.
func TestReloadedIgnoreArgs(t *testing.T) {
	dir := t.TempDir()
	alone := filepath.Join(dir, "alone.jsonl")
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	inFolder := filepath.Join(dir, "folder", "one.jsonl")
	path := limitsFile(t, "profile: balanced\n")
	r := begin(t, Options{LimitsFile: path, Follow: []intake.Follow{{Path: alone, Format: "otlp"}, {Path: filepath.Join(dir, "folder"), Format: "otlp"}}})
	n := 0
	hashes := func(way string) (out [2]events.Hash) {
		t.Helper()
		for i := range out {
			n++
			span := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%016x","name":"execute_tool search","startTimeUnixNano":"1763640000000000000","endTimeUnixNano":"1763640001000000000",`+
				`"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"search"}},`+
				`{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{\"q\":\"x\",\"cursor\":%d}"}}]}]}]}]}`, n, n, n)
			if way == "" {
				r.want(r.do("POST", "/v1/traces", span, "Content-Type", "application/json"), 200)
			} else {
				appendFile(t, way, span+"\n")
			}
			trace := fmt.Sprintf("%032x", n)
			r.until(func() bool {
				for _, line := range r.journalLines() {
					var ev events.Event
					if err := events.Decode([]byte(line), &ev); err != nil {
						t.Fatal(err)
					}
					if ev.TraceID == trace && ev.Kind == events.ToolCall && ev.Tool.ArgsHash != (events.Hash{}) {
						out[i] = ev.Tool.ArgsHash
						return true
					}
				}
				return false
			})
		}
		return out
	}
	ways := []string{"", alone, inFolder}
	for _, way := range ways {
		if h := hashes(way); h[0] == h[1] {
			t.Errorf("%q: the argument is left out before limits say so", way)
		}
	}
	if err := os.WriteFile(path, []byte("profile: balanced\ntools: {search: {ignore_args: [cursor]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.folded()
	for _, way := range ways {
		if h := hashes(way); h[0] != h[1] {
			t.Errorf("%q: limits that were reloaded are not known", way)
		}
	}
}
