package adapter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// mapping is a format that a user could have given.
func mapping(t testing.TB) adapter.Format {
	t.Helper()
	f, err := registry.Lookup("map:correlation_id=.flow,time=.ts,kind=.type,kind.tool=tool.call,kind.done=tool.result,from=.sender.id,to=.target,tool=.tool.name,args=.tool.args,result=.out")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// endless is an input that begins with text and goes on with n bytes of filler.
func endless(text string, filler byte, n int64, end string) io.Reader {
	return io.MultiReader(strings.NewReader(text), io.LimitReader(repeated(filler), n), strings.NewReader(end))
}

type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHugeDocuments holds that a document of 100 MB, and one of brackets without end, are
// refused with a line that says what is wanted, whatever the framing, and that no more of
// them is held than a record may have.
func TestHugeDocuments(t *testing.T) {
	f := func(what string, in io.Reader, framing adapter.Framing, want string) {
		t.Helper()
		r, err := adapter.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		var faults []string
		r.Use(framing, func(f adapter.Fault) { faults = append(faults, f.Error()) })
		before := heap()
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
		if grown := int64(heap() - before); grown > 4*adapter.MaxRecord {
			t.Errorf("%s: the heap grew by %d MiB", what, grown>>20)
		}
		if len(faults) == 0 || !strings.Contains(faults[0], want) {
			t.Errorf("%s: faults %.200q, want %q", what, faults, want)
		}
		runtime.KeepAlive(r)
	}
	const huge = 100 << 20
	f("a string of 100 MB", endless(`{"x":"`, 'x', huge, "\"}\n"), adapter.Lines, "want records of at most 8388608 bytes")
	f("a document of 100 MB", endless(`{"x":[0`, '0', huge, "]}\n"), adapter.Documents, "want records of at most 8388608 bytes")
	f("10,000 levels", endless("", '[', 10_000, "\n"), adapter.Documents, "want at most 256 objects and arrays inside each other")
	f("100 MB of brackets", endless("", '[', huge, "\n"), adapter.Lines, "want at most 256 objects and arrays inside each other")
	for _, format := range append(registry.Formats(), mapping(t)) {
		err := format.New(adapter.Options{}).Decode([]byte(`{"x":"`+strings.Repeat("x", adapter.MaxRecord)+`"}`), func(*events.Event) {})
		if fault, ok := errors.AsType[*events.DecodeError](err); !ok || !strings.Contains(fault.Reason, "; want at most ") {
			t.Errorf("%s: %v", format.Name, err)
		}
	}
}

// TestManyNames holds that no adapter grows with the number of flows, agents, calls and
// lines that it sees.
func TestManyNames(t *testing.T) {
	f := func(format string, lines ...string) {
		t.Helper()
		kind := mapping(t)
		if format != "map" {
			var err error
			if kind, err = registry.Lookup(format); err != nil {
				t.Fatal(err)
			}
		}
		a := kind.New(adapter.Options{MaxHeld: 64})
		told := 0
		emit := func(*events.Event) { told++ }
		decode := func(from, to int) {
			for i := from; i < to; i++ {
				for _, line := range lines {
					if err := a.Decode([]byte(strings.ReplaceAll(line, "#", fmt.Sprint(100000+i))), emit); err != nil {
						t.Fatalf("%s: %v", format, err)
					}
				}
			}
		}
		decode(0, 2000)
		before := heap()
		decode(2000, 22_000)
		if grown := int64(heap() - before); grown > 1<<20 {
			t.Errorf("%s: the heap grew by %d KiB", format, grown>>10)
		}
		if told < 20_000 {
			t.Errorf("%s: only %d events", format, told)
		}
		runtime.KeepAlive(a)
	}
	f("claudehooks", `{"hook_event_name":"PreToolUse","session_id":"s#","prompt_id":"p#","tool_name":"Task","tool_input":{"subagent_type":"a#","prompt":"x#"},"tool_use_id":"t#"}`,
		`{"hook_event_name":"PreToolUse","session_id":"s#","prompt_id":"p#","tool_name":"Bash#","tool_input":{"c":"x#"}}`)
	f("otlplogs", `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1771900000000000000","body":{"stringValue":"claude_code.tool_result"},"attributes":[{"key":"session.id","value":{"stringValue":"s#"}},{"key":"tool_name","value":{"stringValue":"Bash"}},{"key":"tool_use_id","value":{"stringValue":"t#"}}]}]}]}]}`)
	f("managedagents", `{"id":"sevt_#","session_id":"s#","session_thread_id":"th#","agent_name":"a#","processed_at":"2026-07-06T17:00:44Z","type":"agent.tool_use","name":"x","input":{"a":#}}`,
		`{"id":"sevt_m#","session_id":"s#","processed_at":"2026-07-06T17:00:44Z","type":"agent.message","content":"x#"}`)
	f("agentgateway", `{"time":"2026-11-20T14:00:02.#Z","route":"r#","protocol":"mcp","http.status":200,"mcp.method.name":"tools/call","gen_ai.tool.name":"t#","mcp.session.id":"s#","jwt.sub":"j#"}`)
	f("caco", `{"path":"/api/sessions/s#/messages","body":{"prompt":"p#","source":"agent","fromSession":"f#","correlationId":"c#"}}`,
		`{"file":"session-state/s#/events.jsonl","line":{"id":"e#","timestamp":"2026-02-08T00:41:44.000Z","type":"tool.execution_start","data":{"toolCallId":"c#","toolName":"t#","arguments":{}}}}`)
	f("tinyagi", `{"id":#,"message_id":"m#","channel":"c#","sender":"s#","sender_id":"i#","message":"x#","agent":"a#","from_agent":"f#","created_at":1774900000000}`)
	f("llamaindex", `{"event":"AgentInput","data":{"input":[{"role":"user","blocks":[{"text":"x#"}]}],"current_agent_name":"a#"}}`,
		`{"event":"ToolCall","data":{"tool_name":"t#","tool_kwargs":{},"tool_id":"c#"}}`)
	f("map", `{"flow":"f#","type":"tool","sender":{"id":"s#"},"target":"t#","tool":{"name":"n#","args":{"x":#}}}`)
	f("mcp", `{"time":"2026-11-21T14:53:22.951Z","direction":"request","exchange":#,"proxy":"p#","path":"/mcp","headers":{"mcp-session-id":"s#"},"body":{"jsonrpc":"2.0","id":#,"method":"tools/call","params":{"name":"t#","arguments":{}}}}`)
	f("a2a", `{"time":"2026-11-21T14:53:22.951Z","direction":"request","exchange":#,"proxy":"p#","path":"/","headers":{},"body":{"jsonrpc":"2.0","id":"#","method":"SendMessage","params":{"message":{"messageId":"m#","contextId":"c#","role":"ROLE_USER","parts":[{"text":"x#"}]}}}}`)
}

// leaf is a text in a record that can be replaced.
type leaf struct {
	path string // of names, without indexes
	set  func(s string)
	old  string
}

// leaves lists the texts in a record.
func leaves(v any, path string, set func(any), out *[]leaf) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			at := path + "." + name
			if key, ok := v["key"].(string); ok && name == "value" {
				at += "[" + key + "]"
			}
			leaves(inner, at, func(x any) { v[name] = x }, out)
		}
	case []any:
		for i, inner := range v {
			leaves(inner, path, func(x any) { v[i] = x }, out)
		}
	case string:
		*out = append(*out, leaf{path, func(s string) { set(s) }, v})
	}
}

var hexID = regexp.MustCompile(`^[0-9a-f-]{16,}$`)

// other is another text of the same kind, so that ids differ.
func other(s string, i int) string {
	switch {
	case hexID.MatchString(s):
		return s[:len(s)-4] + fmt.Sprintf("%04x", i+0x1000)
	case len(s) > 3 && strings.ContainsAny(s, "0123456789") && !strings.Contains(s, ":"):
		return s + fmt.Sprint(i)
	}
	return s
}

// TestLongTexts holds that whatever text of a record is long, an adapter does not keep it:
// what it remembers is bounded by a number of things, and each thing has to be small. In
// short each fourth place is tried.
func TestLongTexts(t *testing.T) {
	const size, times = 64 << 10, 8
	for _, format := range registry.Formats() {
		files, _ := filepath.Glob("testdata/golden/" + format.Name + "/*.in")
		if testing.Short() {
			files = files[:min(1, len(files))]
		}
		done := map[string]bool{}
		for _, file := range files {
			in, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var records [][]byte
			if json.Valid(in) {
				records = append(records, in)
			} else {
				for line := range bytes.Lines(in) {
					records = append(records, bytes.TrimSpace(line))
				}
			}
			for _, record := range records {
				var v any
				if json.Unmarshal(record, &v) != nil {
					continue
				}
				var all []leaf
				leaves(v, "", func(x any) { v = x }, &all)
				// kept is the memory of two adapters for the record, which is sent many times. Each time
				// one place in it is different: alone, and with other ids beside it.
				kept := func(n int, text func(i int) string) int64 {
					readers := [2]adapter.Adapter{format.New(adapter.Options{}), format.New(adapter.Options{})}
					before := heap()
					for i := range times {
						for k, a := range readers {
							for m, o := range all {
								if k == 1 && m != n {
									o.set(other(o.old, i))
								}
							}
							all[n].set(text(i))
							b, err := json.Marshal(v)
							if err != nil {
								t.Fatal(err)
							}
							_ = a.Decode(b, func(*events.Event) {}) // it may well be refused
							for _, o := range all {
								o.set(o.old)
							}
						}
					}
					grown := int64(heap() - before)
					runtime.KeepAlive(readers)
					return grown
				}
				if len(all) == 0 {
					continue
				}
				// A record of many spans is something by itself.
				short := kept(0, func(i int) string { return other(all[0].old, i) })
				for n, l := range all {
					if done[l.path] {
						continue
					}
					done[l.path] = true
					if testing.Short() && len(done)%4 != 0 {
						continue
					}
					grown := kept(n, func(i int) string { return fmt.Sprintf("%s %x", l.old, i) + strings.Repeat("word ", size/5) }) - short
					if grown > size*times*3/4 { // one record may be there still, of each
						t.Errorf("%s: %s: %d KiB are kept of %d", format.Name, l.path, grown>>10, size*times>>10)
					}
				}
			}
		}
	}
}
