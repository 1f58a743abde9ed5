package adapter_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/events/adapter"
)

// look is a use of a tool and its result.
type look struct {
	wait, took time.Duration // before it, and by it
	tool       string
	args, said string // the result as the program's transcript has it
	response   string // and as its hook hands it over: JSON
}

// sessions write what was looked at as programs do.
var sessions = map[string]func(looks []look) string{
	"claudecode": func(looks []look) string {
		var b strings.Builder
		at, n := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), 0
		line := func(kind string, message any) {
			n++
			m, _ := json.Marshal(message)
			fmt.Fprintf(&b, `{"type":%q,"message":%s,"uuid":"u%d","parentUuid":null,"isSidechain":false,"timestamp":%q,"promptId":"p","sessionId":"s"}`+"\n", kind, m, n, at.Format(time.RFC3339Nano))
		}
		type object = map[string]any
		line("user", object{"role": "user", "content": "go on"})
		for i, l := range looks {
			at = at.Add(l.wait)
			id := fmt.Sprint("toolu_", i)
			line("assistant", object{"id": fmt.Sprint("m", i), "role": "assistant", "model": "m", "stop_reason": "tool_use",
				"content": []object{{"type": "tool_use", "id": id, "name": l.tool, "input": json.RawMessage(l.args)}}})
			at = at.Add(l.took)
			line("user", object{"role": "user", "content": []object{{"type": "tool_result", "tool_use_id": id, "content": l.said}}})
		}
		return b.String()
	},
	"claudehooks": func(looks []look) string {
		var b strings.Builder
		at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		for i, l := range looks {
			at = at.Add(l.wait)
			use := fmt.Sprintf(`"session_id":"s","prompt_id":"p","tool_name":%q,"tool_use_id":"toolu_%d","tool_input":%s`, l.tool, i, l.args)
			fmt.Fprintf(&b, `{"hook_event_name":"PreToolUse","time":%q,%s}`+"\n", at.Format(time.RFC3339Nano), use)
			at = at.Add(l.took)
			fmt.Fprintf(&b, `{"hook_event_name":"PostToolUse","time":%q,%s,"tool_response":%s}`+"\n", at.Format(time.RFC3339Nano), use, l.response)
		}
		return b.String()
	},
	"codex": func(looks []look) string {
		var b strings.Builder
		at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
		line := func(kind string, payload any) {
			p, _ := json.Marshal(payload)
			fmt.Fprintf(&b, `{"timestamp":%q,"type":%q,"payload":%s}`+"\n", at.Format(time.RFC3339Nano), kind, p)
		}
		line("session_meta", map[string]string{"id": "s", "source": "cli"})
		line("turn_context", map[string]string{"turn_id": "t", "model": "m"})
		for i, l := range looks {
			at = at.Add(l.wait)
			line("response_item", map[string]string{"type": "function_call", "name": l.tool, "arguments": l.args, "call_id": fmt.Sprint("c", i)})
			at = at.Add(l.took)
			line("response_item", map[string]string{"type": "function_call_output", "call_id": fmt.Sprint("c", i), "output": fmt.Sprintf("Chunk ID: %06x\n%s", i, l.said)})
		}
		return b.String()
	},
}

// TestPolls holds that who looks again at what goes on is left alone, that who looks at what is
// over, or without a pause, is stopped, and that who looks for ever is, by a budget.
func TestPolls(t *testing.T) {
	const s = time.Second
	task := func(wait, took time.Duration, status string) look {
		said := "not_ready"
		if status == "completed" {
			said = "success"
		}
		return look{wait, took, "TaskOutput", `{"task_id":"b1","block":false,"timeout":1000}`,
			"<retrieval_status>" + said + "</retrieval_status>\n\n<task_id>b1</task_id>\n\n<status>" + status + "</status>",
			fmt.Sprintf(`{"retrieval_status":%q,"task":{"task_id":"b1","task_type":"local_bash","status":%q,"output":""}}`, said, status)}
	}
	bash := func(wait, took time.Duration, command, said string) look {
		args, _ := json.Marshal(map[string]string{"command": command, "description": "x"})
		response, _ := json.Marshal(map[string]any{"stdout": said, "stderr": "", "interrupted": false})
		return look{wait, took, "Bash", string(args), said, string(response)}
	}
	stdin := func(wait, took time.Duration, head string) look {
		return look{wait: wait, took: took, tool: "write_stdin", args: `{"session_id":9,"chars":"","yield_time_ms":5000}`, said: head + "\nWall time: 5.0 seconds\nOutput:\n"}
	}
	const list = "src/a.go:12: the same few lines that a search finds, and which are long enough to be told from a mere acknowledgement of it, so that they count\nsrc/b.go:7: and others of the same kind, two hundred characters in all at least\n"
	f := func(what string, formats string, rounds int, want string, looks ...look) {
		t.Helper()
		var all []look
		for range rounds {
			all = append(all, looks...)
		}
		for format := range strings.FieldsSeq(formats) {
			got := hear(t, strings.NewReader(sessions[format](all)), adapter.Options{})
			// Who goes on is stopped more widely, so either word is a stop.
			order, _ := strictest(got.events)
			if stop, reason, _ := strings.Cut(order, " "); !strings.HasPrefix(reason, want) || (want == "") != (order == "") || stop == "warn" {
				t.Errorf("%s: %s: %q, want %q", format, what, order, want)
			}
		}
	}
	const claude = "claudecode claudehooks"
	f("a task that runs", claude, 40, "", task(12*s, s, "running"))
	f("a task that runs, waited for", claude, 40, "", task(4*s, 30*s, "running"))
	f("a run of CI", claude, 30, "", bash(15*s, s, "gh run view 8 --json status,conclusion", `{"conclusion":"","status":"in_progress"}`))
	f("pods that come up", claude, 20, "", bash(12*s, s, "kubectl get pods", "NAME   READY   STATUS              AGE\nweb    0/1     ContainerCreating   2m"))
	f("a page, after a sleep", claude, 20, "", bash(4*s, 20*s, "sleep 20; curl -s localhost:8080/health", list))
	f("a log, between sleeps", claude, 18, "", bash(4*s, 25*s, "sleep 25", ""), bash(4*s, s, "tail -5 build.log", list))
	f("a process", "codex", 40, "", stdin(2*s, 5*s, "Process running with session ID 9"))

	f("a task that has ended", claude, 12, "repetition", task(12*s, s, "completed"))
	f("a task that runs, without a pause", claude, 40, "", task(s, 2*s, "running"))
	f("a task that runs, many times a second", claude, 60, "hot_polling", task(s/10, s/10, "running"))
	f("a task that has ended, without a pause", claude, 12, "repetition", task(s, s, "completed"))
	f("a run of CI that has ended", claude, 12, "repetition", bash(15*s, s, "gh run view 8 --json status,conclusion", `{"conclusion":"success","status":"completed"}`))
	f("a run of CI that has ended, between sleeps", claude, 30, "circling", bash(4*s, 25*s, "sleep 25", ""), bash(4*s, s, "gh run view 8 --json status", `{"status":"completed"}`))
	f("a search", claude, 12, "repetition", bash(12*s, s, "grep -rn lines src", list))
	f("what says nothing, between sleeps, for ever", claude, 80, "circling", bash(4*s, 25*s, "sleep 25", ""), bash(4*s, s, "ls dist", list))
	f("a task that runs for ever", claude, 300, "max_chain_depth", task(12*s, s, "running"))
	f("a payment", "claudecode", 12, "repetition", look{wait: 8 * s, took: s, tool: "mcp__bank__create_payment", args: `{"amount":5}`, said: `{"status":"pending"}`})
	f("a process that has ended", "codex", 12, "repetition", stdin(8*s, s, "Process exited with code 0"))
	f("a process, without a pause", "codex", 40, "", stdin(s, 2*s, "Process running with session ID 9"))
	f("a process, many times a second", "codex", 60, "hot_polling", stdin(s/10, s/10, "Process running with session ID 9"))
	f("a look with a new text each time, between sleeps", claude, 1, "", looksAndSleeps(60, bash)...)
}

// looksAndSleeps are looks that bring something new each time, each with a sleep behind it.
func looksAndSleeps(n int, bash func(wait, took time.Duration, command, said string) look) (all []look) {
	for i := range n {
		all = append(all, bash(time.Second, time.Second, "tail -1 build.log", fmt.Sprintf("step %d of 60 is compiled, and others wait", i)), bash(time.Second, 10*time.Second, "sleep 10", ""))
	}
	return all
}

// TestCompaction holds that an agent that goes on with a summary of its results is not flagged for
// repetition when it looks at all of it once more.
func TestCompaction(t *testing.T) {
	summary := map[string]string{
		"claudecode": `{"type":"user","message":{"role":"user","content":"This session is being continued."},"isCompactSummary":true,"uuid":"c","timestamp":"2026-11-20T10:00:30Z","promptId":"p","sessionId":"s"}`,
		"codex":      `{"timestamp":"2026-11-20T10:00:30Z","type":"compacted","payload":{"message":"","replacement_history":[]}}`,
	}
	file := look{wait: time.Second, took: time.Second, tool: "read_file", args: `{"path":"a.go"}`, said: "package a"}
	for format, line := range summary {
		lines := strings.SplitAfter(sessions[format]([]look{file, file, file}), "\n")
		// Each look has two lines, and there is one more, which is empty.
		at := len(lines) - 1 - 2*2
		got := hear(t, strings.NewReader(strings.Join(lines[:at], "")+line+"\n"+strings.Join(lines[at:], "")), adapter.Options{})
		var again []bool
		for i := range got.events {
			if e := &got.events[i]; e.Kind == events.ToolCall {
				again = append(again, e.Tool.RetryOf != "")
			}
		}
		if len(again) != 3 || again[0] || !again[1] || again[2] {
			t.Errorf("%s: looks once more: %v", format, again)
		}
	}
}

// TestChildrenLook has one session after the other look at the same build, each opened by one other session, as
// OpenCode exports them. A look at a build that still runs is one more of its opener, whichever child makes it.
func TestChildrenLook(t *testing.T) {
	t.Parallel()
	export := func(n int, opener, said string) string {
		at := 1795350000000 + 15_000*n
		return fmt.Sprintf(`{"info":{"id":"ses_%[1]d","slug":"a","projectID":"p","directory":"/","parentID":%[2]q},"messages":[`+
			`{"info":{"role":"user","id":"u%[1]d","time":{"created":%[4]d}},"parts":[{"type":"text","text":"check the build"}]},`+
			`{"info":{"role":"assistant","id":"m%[1]d","parentID":"u%[1]d","agent":"explore","finish":"stop","time":{"created":%[4]d,"completed":%[5]d}},"parts":[`+
			`{"type":"tool","tool":"bash","callID":"c%[1]d","state":{"status":"completed","input":{"command":"gh run view 8 --json status"},"output":%[3]q,"time":{"start":%[4]d,"end":%[5]d}}},`+
			`{"type":"text","text":"I have looked."}]}]}`+"\n", n, opener, said, at, at+900)
	}
	for _, c := range []struct {
		said, opener string
		want         []string
	}{
		{`{"status":"in_progress"}`, "ses_root", []string{"", "c1", "c2"}},
		{`{"status":"completed"}`, "ses_root", []string{"", "", ""}},
		{`{"status":"in_progress"}`, "ses_%d", []string{"", "", ""}},
	} {
		var text string
		for n := range 3 {
			opener := c.opener
			if strings.Contains(opener, "%") {
				opener = fmt.Sprintf(opener, 10+n)
			}
			text += export(n+1, opener, c.said)
		}
		var again []string
		for _, e := range hear(t, strings.NewReader(text), adapter.Options{}).events {
			if e.Kind == events.ToolCall {
				again = append(again, e.Tool.RetryOf)
			}
		}
		if !slices.Equal(again, c.want) {
			t.Errorf("%s by %s: looks repeat %q, want %q", c.said, c.opener, again, c.want)
		}
	}
}
