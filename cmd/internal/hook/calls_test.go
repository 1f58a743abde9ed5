package hook

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/sink/check"
)

// TestWithCalls adds the model calls of the agent that acts, from the transcript that is its own.
func TestWithCalls(t *testing.T) {
	dir := t.TempDir()
	file := func(path, message string, before int) string {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf(`{"isSidechain":%t,"message":{"id":"%s","usage":{"input_tokens":5,"output_tokens":6}}}`+"\n", strings.Contains(path, "agent-"), message)
		if err := os.WriteFile(path, []byte(strings.Repeat("x", before)+"\n"+line), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	session := file("p/s.jsonl", "msg_main", tailBytes)
	file("p/s/subagents/agent-a1.jsonl", "msg_a1", 0)
	file("p/agent-a2.jsonl", "msg_a2", 0)
	ended := file("elsewhere/agent-a3.jsonl", "msg_a3", 0)
	far := filepath.Join(dir, "far.jsonl")
	if err := os.WriteFile(far, []byte(`{"message":{"id":"msg_far","usage":{"input_tokens":5}}}`+"\n"+strings.Repeat("x", tailBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(what, more, want string, environ ...string) {
		t.Helper()
		body := `{"session_id":"s","hook_event_name":"PreToolUse"` + more + "}\n"
		got, _ := withCalls([]byte(body), environ)
		var in struct {
			Session string `json:"session_id"`
			Calls   []struct {
				ID    string
				Input int `json:"input_tokens"`
			} `json:"model_calls"`
		}
		if err := json.Unmarshal(got, &in); err != nil || in.Session != "s" {
			t.Errorf("%s: %s: %v", what, got, err)
			return
		}
		id := ""
		if len(in.Calls) > 0 {
			id = in.Calls[0].ID
		}
		if id != want || want == "" && string(got) != body {
			t.Errorf("%s: %s, want the call %q", what, got, want)
		}
	}
	at := func(path string) string { return `,"transcript_path":"` + path + `"` }
	f("the main agent", at(session), "msg_main")
	f("a subagent", at(session)+`,"agent_id":"a1"`, "msg_a1")
	f("a subagent of an older version", at(session)+`,"agent_id":"a2"`, "msg_a2")
	f("the end of a subagent", at(session)+`,"agent_id":"a3","agent_transcript_path":"`+ended+`"`, "msg_a3")
	f("a subagent without a transcript", at(session)+`,"agent_id":"a4"`, "")
	f("an id that is a path", at(session)+`,"agent_id":"../agent-a2"`, "")
	f("no transcript", "", "")
	f("a transcript that is gone", at(filepath.Join(dir, "gone")), "")
	f("a folder", at(dir), "")
	f("a pipe, which would block", at(pipe), "")
	f("a call too far from the end", at(far), "")
	f("telemetry that brings the calls", at(session), "", "CLAUDE_CODE_ENABLE_TELEMETRY=1", "OTEL_LOGS_EXPORTER=console,otlp")
	f("telemetry without calls", at(session), "msg_main", "CLAUDE_CODE_ENABLE_TELEMETRY=1", "OTEL_METRICS_EXPORTER=otlp")
	f("telemetry that is off", at(session), "msg_main", "CLAUDE_CODE_ENABLE_TELEMETRY=0", "OTEL_LOGS_EXPORTER=otlp")
	for _, x := range []struct{ event, more, want string }{
		{"PreToolUse", at(filepath.Join(dir, "gone")), check.UnreadMissing},
		{"Stop", at(filepath.Join(dir, "gone")), check.UnreadMissing},
		{"PreToolUse", at(dir), check.UnreadOther},
		{"PreToolUse", at(pipe), check.UnreadOther},
		{"PreToolUse", at(session) + `,"agent_id":"a4"`, check.UnreadMissing},
		{"SubagentStop", at(session) + `,"agent_id":"a3","agent_transcript_path":"` + filepath.Join(dir, "gone") + `"`, check.UnreadMissing},
		{"SessionStart", at(filepath.Join(dir, "gone")), ""}, // it is not begun yet
		{"UserPromptSubmit", at(filepath.Join(dir, "gone")), ""},
		{"PreToolUse", "", ""},
		{"PreToolUse", at(session), ""},
		{"PreToolUse", at(far), ""},
	} {
		if _, unread := withCalls([]byte(`{"session_id":"s","hook_event_name":"`+x.event+`"`+x.more+"}"), nil); unread != x.want {
			t.Errorf("%s%s: unread because %q, want %q", x.event, x.more, unread, x.want)
		}
	}
	for _, body := range []string{"", "{", "{}", "[]", "null", `{"transcript_path":1}`, `{"transcript_path":"` + session + `","model_calls":[]}`} {
		if got, unread := withCalls([]byte(body), nil); unread != "" || string(got) != body {
			t.Errorf("%s became %s", body, got)
		}
	}
}
