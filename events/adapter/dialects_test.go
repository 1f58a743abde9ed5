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
	"weir/events/adapter/mapped"
	"weir/events/adapter/pairing"
	"weir/events/adapter/registry"
	"weir/events/fingerprint"
)

// step is a command of a story and what it printed.
type step struct{ command, printed string }

// object and list are JSON.
type (
	object map[string]any
	list   []any
)

// plots are seven runs that loop and seven that are honest: each says what the command at a place is, and what it
// prints.
var plots = map[string]func(i int) step{
	"loop: one command":                     func(int) step { return step{"make check", "make: *** No rule to make target 'check'.  Stop."} },
	"loop: one command that prints nothing": func(int) step { return step{"grep -r total src", ""} },
	"loop: two by turns": func(i int) step {
		return []step{{"make check", "make: *** No rule to make target 'check'.  Stop."}, {"cat Makefile", "all:\n\techo ok"}}[i%2]
	},
	"loop: three by turns": func(i int) step {
		return []step{{"ls", "Makefile notes.md"}, {"cat Makefile", "all:\n\techo ok"}, {"git status", "nothing to commit, working tree clean"}}[i%3]
	},
	"loop: four by turns": func(i int) step {
		return []step{{"ls src", "main.go"}, {"cat src/main.go", "package main"}, {"go vet ./src", "src/main.go:1: expected declaration"}, {"git log -1", "commit 4f2a"}}[i%4]
	},
	"loop: after some work": func(i int) step {
		if i < 4 {
			return step{fmt.Sprintf("wc -w chapter_%d.md", i), fmt.Sprintf("%d chapter_%d.md", 731*i+90, i)}
		}
		return step{"curl -s localhost:9000/health", "connection refused"}
	},
	"loop: an edit that changes nothing": func(i int) step {
		return []step{{"sed -i s/a/b/ conf.ini", ""}, {"make test", "FAIL: 3 of 9 tests, see conf.ini"}}[i%2]
	},
	"honest: many files": func(i int) step {
		return step{fmt.Sprintf("cat docs/chapter_%d.md | wc -w", i), fmt.Sprintf("%d words in %s", 731*i+90, strings.Repeat("abcdef"[i%6:i%6+1], i+3))}
	},
	"honest: pages of a file": func(i int) step {
		return step{fmt.Sprintf("sed -n %d,%dp access.log", 100*i+1, 100*i+100), fmt.Sprintf("GET /orders/%d 200\nGET /items/%x 404", 7919*i+11, 104729*i+5)}
	},
	"honest: a job that gets on": func(i int) step {
		return step{"tail -n 1 build.log", fmt.Sprintf("compiled %d of 140 packages, now %s", 10*i+3, []string{"net", "io", "os", "fmt", "log", "sort", "sync"}[i%7])}
	},
	"honest: tests that fail less": func(i int) step {
		if i%2 == 0 {
			return step{fmt.Sprintf("patch -p1 < fix_%d.diff", i), fmt.Sprintf("patching file src/part_%d.go", i)}
		}
		return step{"make test", fmt.Sprintf("FAIL: %d of 40 tests: %s", 30-2*i, strings.Repeat("x", 30-2*i))}
	},
	"honest: one command in many folders": func(i int) step {
		return step{fmt.Sprintf("make -C service_%d build", i), fmt.Sprintf("built service_%d in %d steps", i, 17*i+4)}
	},
	"honest: writes that print nothing": func(i int) step {
		return step{fmt.Sprintf("mkdir -p out/report_%d", i*i+3), ""}
	},
	"honest: one look twice": func(i int) step {
		if i == 3 || i == 9 {
			return step{"git diff --stat", fmt.Sprintf("%d files changed", i)}
		}
		return step{fmt.Sprintf("gofmt -l pkg_%d", i), fmt.Sprintf("pkg_%d/main_%d.go", i, 31*i)}
	},
}

// stories are the plots in 14 steps each.
func stories() map[string][]step {
	out := map[string][]step{}
	for name, at := range plots {
		for i := range 14 {
			out[name] = append(out[name], at(i))
		}
	}
	return out
}

// storyAt is when a step of a story begins.
func storyAt(i int) string {
	return time.Date(2026, 11, 20, 9, 0, 4*i, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
}

func storyID(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }

// written returns records as lines.
func written(records list) string {
	var b strings.Builder
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// dialects write a story as each program would.
var dialects = map[string]func([]step) string{
	"claudestream": func(s []step) string {
		out := list{object{"type": "system", "subtype": "init", "session_id": "s", "uuid": "u", "tools": list{"Bash"}}}
		for i, x := range s {
			out = append(out, object{"type": "assistant", "session_id": "s", "uuid": storyID("a", i), "message": object{"id": storyID("m", i), "role": "assistant",
				"content": list{object{"type": "tool_use", "id": storyID("c", i), "name": "Bash", "input": object{"command": x.command}}}}},
				object{"type": "user", "session_id": "s", "uuid": storyID("r", i), "timestamp": storyAt(i), "message": object{"role": "user",
					"content": list{object{"type": "tool_result", "tool_use_id": storyID("c", i), "content": x.printed}}}})
		}
		return written(out)
	},
	"pi": func(s []step) string {
		out := list{object{"type": "session", "version": 3, "id": "s", "timestamp": storyAt(0), "cwd": "/"}}
		for i, x := range s {
			out = append(out, object{"type": "message", "id": storyID("a", i), "parentId": "x", "timestamp": storyAt(i), "message": object{"role": "assistant",
				"content": list{object{"type": "toolCall", "id": storyID("c", i), "name": "bash", "arguments": object{"command": x.command}}}}},
				object{"type": "message", "id": storyID("r", i), "parentId": "x", "timestamp": storyAt(i), "message": object{"role": "toolResult", "toolCallId": storyID("c", i),
					"toolName": "bash", "content": list{object{"type": "text", "text": x.printed}}}})
		}
		return written(out)
	},
	"atif": func(s []step) string {
		var steps list
		for i, x := range s {
			steps = append(steps, object{"step_id": i + 1, "timestamp": storyAt(i), "source": "agent", "message": "",
				"tool_calls":  list{object{"tool_call_id": storyID("c", i), "function_name": "bash", "arguments": object{"command": x.command}}},
				"observation": object{"results": list{object{"source_call_id": storyID("c", i), "content": x.printed}}}})
		}
		return written(list{object{"schema_version": "ATIF-v1.6", "session_id": "s", "agent": object{"name": "a"}, "steps": steps}})
	},
	"agui": func(s []step) string {
		out := list{object{"type": "RUN_STARTED", "threadId": "t", "runId": "r"}}
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			id := storyID("c", i)
			out = append(out, object{"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "bash"}, object{"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": string(call[:7])},
				object{"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": string(call[7:])}, object{"type": "TOOL_CALL_END", "toolCallId": id},
				object{"type": "TOOL_CALL_RESULT", "toolCallId": id, "messageId": storyID("r", i), "content": x.printed})
		}
		return written(out)
	},
	"openai": func(s []step) string {
		out := list{object{"role": "system", "content": "You are."}}
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			out = append(out, object{"role": "assistant", "content": nil, "tool_calls": list{object{"id": storyID("c", i), "type": "function", "function": object{"name": "bash", "arguments": string(call)}}}},
				object{"role": "tool", "tool_call_id": storyID("c", i), "content": x.printed})
		}
		return written(list{out})
	},
	"responses": func(s []step) string {
		var out list
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			out = append(out, object{"type": "function_call", "call_id": storyID("c", i), "name": "bash", "arguments": string(call)},
				object{"type": "function_call_output", "call_id": storyID("c", i), "output": x.printed})
		}
		return written(out)
	},
	"gemini": func(s []step) string {
		var out list
		for _, x := range s {
			out = append(out, object{"role": "model", "parts": list{object{"functionCall": object{"name": "bash", "args": object{"command": x.command}}}}},
				object{"role": "user", "parts": list{object{"functionResponse": object{"name": "bash", "response": object{"output": x.printed}}}}})
		}
		return written(list{object{"contents": out}})
	},
	"roo by tags": func(s []step) string {
		out := list{object{"role": "user", "content": "<task>Go</task>"}}
		for i, x := range s {
			out = append(out, object{"role": "assistant", "content": list{object{"type": "text", "text": "<execute_command>\n<command>" + x.command + "</command>\n</execute_command>"}}},
				object{"role": "user", "content": list{object{"type": "text", "text": "[execute_command for '" + x.command + "'] Result:"}, object{"type": "text", "text": x.printed},
					object{"type": "text", "text": "<environment_details>" + storyAt(i) + "</environment_details>"}}})
		}
		return written(list{out})
	},
	"sweagent": func(s []step) string {
		var out list
		for _, x := range s {
			out = append(out, object{"action": x.command, "observation": x.printed, "thought": "t"})
		}
		return written(list{object{"environment": "e", "trajectory": out}})
	},
	"mini": func(s []step) string {
		out := list{object{"role": "user", "content": "Go"}}
		for _, x := range s {
			out = append(out, object{"role": "assistant", "content": "I look.\n```bash\n" + x.command + "\n```"}, object{"role": "user", "content": x.printed})
		}
		return written(list{object{"info": object{"exit_status": "x"}, "messages": out}})
	},
	"inspect": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"role": "assistant", "content": "", "tool_calls": list{object{"id": storyID("c", i), "function": "bash", "arguments": object{"command": x.command}}}},
				object{"role": "tool", "tool_call_id": storyID("c", i), "function": "bash", "content": x.printed})
		}
		return written(list{object{"version": 2, "status": "success", "eval": object{"eval_id": "e"}, "samples": list{object{"id": 1, "epoch": 1, "messages": out}}}})
	},
	"goose": func(s []step) string {
		out := list{object{"working_dir": "/", "description": "d", "message_count": 0}}
		for i, x := range s {
			out = append(out, object{"role": "assistant", "created": 1795165200 + i, "content": list{object{"type": "toolRequest", "id": storyID("c", i), "toolCall": object{"status": "success",
				"value": object{"name": "developer__shell", "arguments": object{"command": x.command}}}}}},
				object{"role": "user", "created": 1795165200 + i, "content": list{object{"type": "toolResponse", "id": storyID("c", i), "toolResult": object{"status": "success",
					"value": list{object{"type": "text", "text": x.printed, "annotations": object{"priority": 0.0}}}}}}})
		}
		return written(out)
	},
	"goose exported": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"id": storyID("a", i), "role": "assistant", "created": 1795165200 + i, "content": list{object{"type": "toolRequest", "id": storyID("c", i),
				"toolCall": object{"status": "success", "value": object{"name": "shell", "arguments": object{"command": x.command}}}}}},
				object{"id": storyID("r", i), "role": "user", "created": 1795165200 + i, "content": list{object{"type": "toolResponse", "id": storyID("c", i), "toolResult": object{"status": "success",
					"value": object{"content": list{object{"type": "text", "text": x.printed}}, "isError": false}}}}})
		}
		return written(list{object{"id": "20261120_1", "working_dir": "/", "conversation": out}})
	},
	"goose stream": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"type": "message", "message": object{"id": nil, "role": "assistant", "created": 1795165200 + i, "content": list{object{"type": "toolRequest", "id": storyID("c", i),
				"toolCall": object{"status": "success", "value": object{"name": "shell", "arguments": object{"command": x.command}}}}}}},
				object{"type": "message", "message": object{"role": "user", "created": 1795165200 + i, "content": list{object{"type": "toolResponse", "id": storyID("c", i), "toolResult": object{"status": "success",
					"value": object{"content": list{object{"type": "text", "text": x.printed}}}}}}}})
		}
		return written(append(out, object{"type": "complete", "total_tokens": 10}))
	},
	"cursor": func(s []step) string {
		out := list{object{"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/", "session_id": "s", "model": "m", "permissionMode": "default"}}
		for i, x := range s {
			out = append(out, object{"type": "tool_call", "subtype": "started", "call_id": storyID("c", i), "session_id": "s", "tool_call": object{"shellToolCall": object{"args": object{"command": x.command}}}},
				object{"type": "tool_call", "subtype": "completed", "call_id": storyID("c", i), "session_id": "s", "tool_call": object{"shellToolCall": object{"args": object{"command": x.command},
					"result": object{"success": object{"exitCode": 0, "stdout": x.printed, "stderr": "", "executionTime": 17 + i}}}}})
		}
		return written(out)
	},
	"cursor sdk": func(s []step) string {
		out := list{object{"type": "system", "subtype": "init", "agent_id": "s", "run_id": "r", "tools": list{"shell"}}}
		for i, x := range s {
			call := object{"type": "tool_call", "agent_id": "s", "run_id": "r", "call_id": storyID("c", i), "name": "shell", "args": object{"command": x.command}, "status": "running"}
			done := object{"type": "tool_call", "agent_id": "s", "run_id": "r", "call_id": storyID("c", i), "name": "shell", "args": object{"command": x.command}, "status": "completed",
				"result": object{"status": "success", "value": object{"exitCode": 0, "signal": "", "stdout": x.printed, "stderr": "", "executionTime": 17 + i}}}
			out = append(out, call, done)
		}
		return written(out)
	},
	"cursor sdk kept": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"runId": "r", "seq": i + 1, "offset": fmt.Sprint(i + 1), "eventType": "run_stream_event", "payloadRef": nil, "createdAt": storyAt(i),
				"payload": object{"schemaVersion": 1, "type": "sdk_message", "agentId": "s", "runId": "r", "message": object{"type": "tool_call", "agent_id": "s", "run_id": "r",
					"call_id": storyID("c", i), "name": "shell", "args": object{"command": x.command}, "status": "completed",
					"result": object{"status": "success", "value": object{"exitCode": 0, "stdout": x.printed, "stderr": "", "executionTime": 17 + i}}}}})
		}
		return written(out)
	},
	"kimi": func(s []step) string {
		out := list{object{"type": "metadata", "protocol_version": "1.9"}, object{"timestamp": 1795165200.5, "message": object{"type": "TurnBegin", "payload": object{"user_input": "Go"}}}}
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			at := 1795165201.25 + 4*float64(i)
			out = append(out, object{"timestamp": at, "message": object{"type": "ToolCall", "payload": object{"type": "function", "id": storyID("c", i), "function": object{"name": "Shell", "arguments": string(call[:5])}}}},
				object{"timestamp": at, "message": object{"type": "ToolCallPart", "payload": object{"arguments_part": string(call[5:])}}},
				object{"timestamp": at + 1, "message": object{"type": "ToolResult", "payload": object{"tool_call_id": storyID("c", i), "return_value": object{"is_error": false, "output": x.printed, "message": "done"}}}})
		}
		return written(out)
	},
	"kimi context": func(s []step) string {
		out := list{object{"role": "_system_prompt", "content": "You are."}, object{"role": "_checkpoint", "id": 0}, object{"role": "user", "content": "Go"}}
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			out = append(out, object{"role": "assistant", "content": list{object{"type": "think", "think": "hm"}}, "tool_calls": list{object{"type": "function", "id": storyID("c", i),
				"function": object{"name": "Shell", "arguments": string(call)}}}}, object{"role": "_usage", "token_count": 100 + i},
				object{"role": "tool", "content": list{object{"type": "text", "text": x.printed}}, "tool_call_id": storyID("c", i)})
		}
		return written(out)
	},
	"hermes": func(s []step) string {
		out := list{object{"role": "user", "content": "Go", "timestamp": 1795165200.5}}
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			out = append(out, object{"role": "assistant", "content": "", "timestamp": 1795165201.5 + 4*float64(i), "tool_calls": list{object{"id": storyID("c", i), "type": "function",
				"function": object{"name": "terminal", "arguments": string(call)}}}},
				object{"role": "tool", "tool_name": "terminal", "tool_call_id": storyID("c", i), "content": x.printed, "timestamp": 1795165202.5 + 4*float64(i)})
		}
		return written(list{object{"id": "s", "source": "cli", "model": "m", "messages": out}})
	},
	"sharegpt": func(s []step) string {
		out := list{object{"from": "system", "value": "You call so:\n<tool_call>\n{'name': <function-name>,'arguments': <args-dict>}\n</tool_call>"}, object{"from": "human", "value": "Go"}}
		for i, x := range s {
			call, _ := json.Marshal(object{"name": "terminal", "arguments": object{"command": x.command}})
			said, _ := json.Marshal(object{"tool_call_id": storyID("c", i), "name": "terminal", "content": x.printed})
			out = append(out, object{"from": "gpt", "value": "I look.\n<tool_call>\n" + string(call) + "\n</tool_call>"},
				object{"from": "tool", "value": "<tool_response>\n" + string(said) + "\n</tool_response>"})
		}
		return written(list{object{"conversations": out, "timestamp": storyAt(0), "model": "m", "completed": true}})
	},
	"flink": func(s []step) string {
		out := list{object{"timestamp": storyAt(0), "logLevel": "VERBOSE", "eventId": "e", "eventType": "_input_event", "eventAttributes": object{"input": "Go"}}}
		for i, x := range s {
			out = append(out, object{"timestamp": storyAt(i), "logLevel": "VERBOSE", "eventId": storyID("q", i), "eventType": "_tool_request_event", "eventAttributes": object{"model": "m",
				"tool_calls": list{object{"id": storyID("c", i), "type": "function", "function": object{"name": "bash", "arguments": object{"command": x.command}}}}}},
				object{"timestamp": storyAt(i), "logLevel": "VERBOSE", "eventId": storyID("r", i), "eventType": "_tool_response_event", "eventAttributes": object{"request_id": storyID("q", i),
					"responses": object{storyID("c", i): object{"success": true, "result": x.printed, "executionTimeMs": 5 + i}}, "external_ids": object{storyID("c", i): nil}}})
		}
		return written(out)
	},
	"flink indented": func(s []step) string {
		var b strings.Builder
		for i, x := range s {
			for _, record := range (list{
				object{"timestamp": storyAt(i), "jobId": "j", "subtaskId": 0, "event": object{"eventType": "_tool_request_event", "id": storyID("q", i), "attributes": object{"model": "m",
					"tool_calls": list{object{"id": storyID("c", i), "type": "function", "function": object{"name": "bash", "arguments": object{"command": x.command}}}}}}},
				object{"timestamp": storyAt(i), "jobId": "j", "subtaskId": 0, "event": object{"eventType": "_tool_response_event", "id": storyID("r", i), "attributes": object{
					"request_id": storyID("q", i), "responses": object{storyID("c", i): x.printed}}}},
			}) {
				text, _ := json.MarshalIndent(record, "", "  ")
				b.Write(append(text, '\n'))
			}
		}
		return b.String()
	},
	"flink 0.2": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"timestamp": storyAt(i), "event": object{"eventType": "org.apache.flink.agents.api.event.ToolRequestEvent", "id": storyID("q", i), "attributes": object{}, "model": "m",
				"toolCalls": list{object{"id": storyID("c", i), "type": "function", "function": object{"name": "bash", "arguments": object{"command": x.command}}}}, "timestamp": 1795165200000 + i}},
				object{"timestamp": storyAt(i), "event": object{"eventType": "org.apache.flink.agents.api.event.ToolResponseEvent", "id": storyID("r", i), "attributes": object{}, "requestId": storyID("q", i),
					"responses": object{storyID("c", i): object{"result": x.printed, "success": true, "error": nil, "executionTimeMs": i, "resultAsString": x.printed}}, "success": object{storyID("c", i): true}, "error": object{}}})
		}
		return written(out)
	},
	"roo native": func(s []step) string {
		out := list{object{"role": "user", "content": list{object{"type": "text", "text": "<task>Go</task>"}}, "ts": 1795165200000}}
		for i, x := range s {
			out = append(out, object{"role": "assistant", "ts": 1795165201000 + 4000*i, "content": list{object{"type": "tool_use", "id": storyID("c", i), "name": "execute_command", "input": object{"command": x.command}}}},
				object{"role": "user", "ts": 1795165202000 + 4000*i, "content": list{object{"type": "tool_result", "tool_use_id": storyID("c", i), "content": x.printed}}})
		}
		return written(list{out})
	},
	"openhands": func(s []step) string {
		out := list{object{"id": "s", "timestamp": storyAt(0), "source": "agent", "kind": "SystemPromptEvent", "system_prompt": object{"type": "text", "text": "You are."}, "tools": list{}},
			object{"id": "u", "parent_id": "s", "timestamp": storyAt(0), "source": "user", "kind": "MessageEvent", "llm_message": object{"role": "user", "content": list{object{"type": "text", "text": "Go"}}}}}
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			out = append(out, object{"id": storyID("a", i), "parent_id": "u", "timestamp": storyAt(i), "source": "agent", "kind": "ActionEvent", "tool_name": "terminal", "tool_call_id": storyID("c", i),
				"action": object{"command": x.command, "kind": "TerminalAction"}, "tool_call": object{"id": storyID("c", i), "name": "terminal", "arguments": string(call)}, "llm_response_id": storyID("l", i)},
				object{"id": storyID("o", i), "parent_id": storyID("a", i), "timestamp": storyAt(i), "source": "environment", "kind": "ObservationEvent", "tool_name": "terminal", "tool_call_id": storyID("c", i), "action_id": storyID("a", i),
					"observation": object{"content": list{object{"type": "text", "text": x.printed}}, "is_error": false, "command": x.command, "exit_code": 0, "kind": "TerminalObservation"}})
		}
		return written(out)
	},
	"claude transcript": func(s []step) string {
		out := list{object{"type": "user", "uuid": "u", "sessionId": "s", "timestamp": storyAt(0), "message": object{"role": "user", "content": "Go"}}}
		for i, x := range s {
			out = append(out, object{"type": "assistant", "uuid": storyID("a", i), "parentUuid": "u", "sessionId": "s", "timestamp": storyAt(i), "message": object{"id": storyID("m", i), "role": "assistant", "type": "message",
				"content": list{object{"type": "tool_use", "id": storyID("c", i), "name": "Bash", "input": object{"command": x.command}}}}},
				object{"type": "user", "uuid": storyID("r", i), "parentUuid": storyID("a", i), "sessionId": "s", "timestamp": storyAt(i), "message": object{"role": "user",
					"content": list{object{"type": "tool_result", "tool_use_id": storyID("c", i), "content": x.printed}}}})
		}
		return written(out)
	},
	"mcp": func(s []step) string {
		var out list
		for i, x := range s {
			of := func(direction string, body object) object {
				return object{"time": storyAt(i), "direction": direction, "exchange": i, "proxy": "mcp", "method": "POST", "path": "/mcp", "status": 200, "headers": object{"mcp-session-id": "s"}, "body": body}
			}
			out = append(out, of("request", object{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": object{"name": "bash", "arguments": object{"command": x.command}}}),
				of("response", object{"jsonrpc": "2.0", "id": i, "result": object{"content": list{object{"type": "text", "text": x.printed}}, "isError": false}}))
		}
		return written(out)
	},
	"otlp": func(s []step) string {
		named := func(pairs ...string) (out list) {
			for i := 0; i < len(pairs); i += 2 {
				out = append(out, object{"key": pairs[i], "value": object{"stringValue": pairs[i+1]}})
			}
			return out
		}
		trace, root := strings.Repeat("a", 32), strings.Repeat("b", 16)
		at := func(seconds int) string { return fmt.Sprint(1795165200+seconds) + "000000000" }
		spans := list{object{"traceId": trace, "spanId": root, "name": "invoke_agent a", "startTimeUnixNano": at(0), "endTimeUnixNano": at(90),
			"attributes": named("gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "a", "gen_ai.conversation.id", "s")}}
		for i, x := range s {
			call, _ := json.Marshal(object{"command": x.command})
			spans = append(spans, object{"traceId": trace, "spanId": fmt.Sprintf("%016x", i+1), "parentSpanId": root, "name": "execute_tool bash", "startTimeUnixNano": at(4*i + 1), "endTimeUnixNano": at(4*i + 2),
				"attributes": named("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "bash", "gen_ai.tool.call.id", storyID("c", i), "gen_ai.tool.call.arguments", string(call), "gen_ai.tool.call.result", x.printed)})
		}
		return written(list{object{"resourceSpans": list{object{"resource": object{}, "scopeSpans": list{object{"scope": object{"name": "x"}, "spans": spans}}}}}})
	},
	"adk": func(s []step) string {
		out := list{object{"id": "u", "invocation_id": "i", "author": "user", "timestamp": 1795165200, "content": object{"parts": list{object{"text": "Go"}}}}}
		for i, x := range s {
			of := func(id string, second int, part object) object {
				return object{"id": id, "invocation_id": "i", "author": "a", "timestamp": 1795165200 + 4*i + second, "content": object{"parts": list{part}}}
			}
			out = append(out, of(storyID("a", i), 1, object{"function_call": object{"id": storyID("c", i), "name": "bash", "args": object{"command": x.command}}}),
				of(storyID("r", i), 2, object{"function_response": object{"id": storyID("c", i), "name": "bash", "response": object{"result": x.printed}}}))
		}
		return written(out)
	},
	"autogen": func(s []step) string {
		var out list
		for i, x := range s {
			of := func(kind string, content object) object {
				payload, _ := json.Marshal(object{"message": object{"id": storyID(kind, i), "source": "a", "created_at": storyAt(i), "content": list{content}, "type": kind}})
				return object{"type": "Message", "kind": "MessageKind.PUBLISH", "delivery_stage": "DeliveryStage.SEND", "sender": "a/s", "receiver": "output_topic/s", "payload": string(payload)}
			}
			args, _ := json.Marshal(object{"command": x.command})
			out = append(out, of("ToolCallRequestEvent", object{"id": storyID("c", i), "name": "bash", "arguments": string(args)}),
				of("ToolCallExecutionEvent", object{"call_id": storyID("c", i), "name": "bash", "content": x.printed, "is_error": false}))
		}
		return written(out)
	},
	"autogen core": func(s []step) string {
		var b strings.Builder
		for i, x := range s {
			record, _ := json.Marshal(object{"type": "ToolCall", "tool_name": "bash", "arguments": object{"command": x.command}, "result": x.printed, "agent_id": "a/s"})
			fmt.Fprintf(&b, "2026-11-20 09:00:%02d,%03d autogen_core.events INFO %s\n", 4*i%60, i, record)
		}
		return b.String()
	},
	"llamaindex": func(s []step) string {
		out := list{object{"event": "AgentInput", "data": object{"current_agent_name": "a", "input": list{object{"role": "user", "blocks": list{object{"block_type": "text", "text": "Go"}}}}}}}
		for i, x := range s {
			out = append(out, object{"event": "ToolCall", "data": object{"tool_name": "bash", "tool_kwargs": object{"command": x.command}, "tool_id": storyID("c", i)}},
				object{"event": "ToolCallResult", "data": object{"tool_name": "bash", "tool_kwargs": object{"command": x.command}, "tool_id": storyID("c", i),
					"tool_output": object{"blocks": list{object{"block_type": "text", "text": x.printed}}, "tool_name": "bash", "is_error": false}, "return_direct": false}})
		}
		return written(out)
	},
	"managedagents": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"id": storyID("sevt_a", i), "type": "agent.tool_use", "session_id": "s", "processed_at": storyAt(i), "name": "bash", "input": object{"command": x.command}},
				object{"id": storyID("sevt_r", i), "type": "agent.tool_result", "session_id": "s", "processed_at": storyAt(i), "tool_use_id": storyID("sevt_a", i), "is_error": false, "content": list{object{"type": "text", "text": x.printed}}})
		}
		return written(out)
	},
	"agentgateway": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"level": "info", "time": storyAt(i), "scope": "request", "route": "tools", "src.addr": "10.0.0.7:51034", "http.status": 200, "protocol": "mcp", "mcp.method.name": "tools/call", "mcp.target": "shell",
				"gen_ai.tool.name": "bash", "mcp.tool.arguments": object{"command": x.command}, "mcp.tool.result": object{"content": list{object{"type": "text", "text": x.printed}}}, "correlation_id": "f", "duration": "1ms"})
		}
		return written(out)
	},
	"caco": func(s []step) string {
		out := list{object{"id": "e", "timestamp": storyAt(0), "parentId": nil, "type": "session.start", "data": object{"sessionId": "s"}}}
		for i, x := range s {
			out = append(out, object{"id": storyID("a", i), "timestamp": storyAt(i), "parentId": "e", "type": "tool.execution_start", "data": object{"toolCallId": storyID("c", i), "toolName": "bash", "arguments": object{"command": x.command}}},
				object{"id": storyID("r", i), "timestamp": storyAt(i), "parentId": "e", "type": "tool.execution_complete", "data": object{"toolCallId": storyID("c", i), "success": true, "result": object{"content": x.printed}}})
		}
		return written(out)
	},
	"litellm": func(s []step) string {
		var out list
		for i, x := range s {
			arguments, _ := json.Marshal(object{"command": x.command})
			call := list{object{"id": storyID("c", i), "type": "function", "function": object{"name": "bash", "arguments": string(arguments)}}}
			of := func(id, at string, messages list, answer object) object {
				return object{"id": id, "litellm_call_id": id, "trace_id": "t", "call_type": "acompletion", "status": "success", "startTime": at, "endTime": at, "model": "m", "messages": messages,
					"response": object{"choices": list{object{"message": answer}}}, "metadata": object{}}
			}
			out = append(out, of(storyID("q", i), storyAt(i), list{object{"role": "user", "content": "Go"}}, object{"role": "assistant", "tool_calls": call}),
				of(storyID("p", i), storyAt(i), list{object{"role": "user", "content": "Go"}, object{"role": "assistant", "tool_calls": call},
					object{"role": "tool", "tool_call_id": storyID("c", i), "content": x.printed}}, object{"role": "assistant", "content": "next"}))
		}
		return written(out)
	},
	"litellm mcp": func(s []step) string {
		var out list
		for i, x := range s {
			id := storyID("c", i)
			out = append(out, object{"id": id, "litellm_call_id": id, "trace_id": "t", "call_type": "call_mcp_tool", "status": "success", "startTime": storyAt(i), "endTime": storyAt(i), "model": "MCP: bash", "messages": list{},
				"metadata": object{"mcp_tool_call_metadata": object{"name": "bash", "arguments": object{"command": x.command}, "mcp_server_name": "shell"}},
				"response": object{"content": list{object{"type": "text", "text": x.printed}}, "isError": false}})
		}
		return written(out)
	},
	"atif shared": func(s []step) string {
		var steps list
		for i, x := range s {
			steps = append(steps, object{"step_id": i + 1, "timestamp": storyAt(i), "source": "agent", "message": "",
				"tool_calls":  list{object{"tool_call_id": storyID("c", i), "function_name": "bash", "arguments": object{"command": x.command}}},
				"observation": object{"results": list{object{"content": x.printed}}}})
		}
		return written(list{object{"schema_version": "ATIF-v1.8", "session_id": "s", "trajectory_id": "t", "agent": object{"name": "a", "version": "1"}, "steps": list{object{"step_id": 1, "source": "user", "message": "Go"}},
			"subagent_trajectories": list{object{"schema_version": "ATIF-v1.8", "trajectory_id": "sub", "agent": object{"name": "b", "version": "1"}, "steps": steps}}}})
	},
	"flink before 0.4": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"timestamp": storyAt(i), "logLevel": "STANDARD", "eventType": "_tool_request_event", "event": object{"eventType": "_tool_request_event", "id": storyID("q", i), "attributes": object{"model": "m",
				"tool_calls": list{object{"id": storyID("c", i), "type": "function", "function": object{"name": "bash", "arguments": object{"command": x.command}}}}}}},
				object{"timestamp": storyAt(i), "logLevel": "STANDARD", "eventType": "_tool_response_event", "event": object{"eventType": "_tool_response_event", "id": storyID("r", i), "attributes": object{
					"request_id": storyID("q", i), "responses": object{storyID("c", i): x.printed}, "external_ids": object{}}}})
		}
		return written(out)
	},
}

// own is a story in events of weir's own.
func own(s []step) *told {
	out := &told{}
	for i, x := range s {
		at, _ := events.ParseStamp(storyAt(i))
		args, _ := json.Marshal(object{"command": x.command})
		e := events.Event{ID: storyID("call", i), Source: "s", Time: at, Kind: events.ToolCall, CorrelationID: "f", CorrelationSource: events.CorrelationExplicit,
			Origin: events.OriginAgent, From: events.Party{Agent: "a"}, Tool: events.Tool{Name: "bash", CallID: storyID("c", i), ArgsHash: fingerprint.Args(args, nil), ArgsSim: fingerprint.ArgsText(args)}}
		out.events = append(out.events, e)
		e.ID, e.Kind, e.Status, e.Tool.ResultSize = storyID("result", i), events.ToolResult, events.StatusOK, int64(len(x.printed))
		pairing.Returned(&e, []byte(x.printed))
		out.events = append(out.events, e)
	}
	return out
}

// TestDialects holds that a run gets the same verdict in whatever dialect it is written: that of
// weir's own events of it.
func TestDialects(t *testing.T) {
	for story, steps := range stories() {
		want, _ := judge(own(steps))
		if (want != "") != strings.HasPrefix(story, "loop") {
			t.Errorf("%s: weir's own events get %q", story, want)
		}
		for name, write := range dialects {
			got := hear(t, strings.NewReader(write(steps)), adapter.Options{})
			// A flow whose name was derived is only warned about, and the stories are about the calls.
			for i := range got.events {
				if e := &got.events[i]; e.CorrelationSource == events.CorrelationDerived {
					e.CorrelationSource = events.CorrelationExplicit
				}
			}
			order, reasons := judge(got)
			if order != want || len(got.faults) > 0 || len(got.tools) != len(steps) {
				t.Errorf("%s in %s: %q (%s), %d calls, faults %q; want %q", story, name, order, reasons, len(got.tools), got.faults, want)
			}
		}
	}
}

// unknowns write a story in forms that no format is for.
var unknowns = map[string]func([]step) string{
	"a document with steps": func(s []step) string {
		var out list
		for _, x := range s {
			out = append(out, object{"thought": "I look", "act": object{"name": "bash", "args": object{"command": x.command}}, "observed": "", "result": x.printed})
		}
		return written(list{object{"run": object{"id": "r1"}, "started": storyAt(0), "history": object{"steps": out}}})
	},
	"lines of starts and ends": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"when": storyAt(i), "job_id": "j", "event": "tool_started", "toolName": "bash", "toolInput": object{"command": x.command}},
				object{"when": storyAt(i), "job_id": "j", "event": "tool_finished", "toolName": "bash", "toolOutput": x.printed}, object{"when": storyAt(i), "job_id": "j", "event": "heartbeat"})
		}
		return written(out)
	},
	"ids that are called otherwise": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"tsMs": 1795165200000 + 4000*i, "conversationUid": "c9", "worker": "fixer", "toolCall": object{"name": "bash", "input": object{"command": x.command}}, "toolOutput": x.printed})
		}
		return written(out)
	},
	"runs of turns of calls": func(s []step) string {
		var out list
		for i, x := range s {
			out = append(out, object{"n": i, "calls": list{object{"function": "bash", "arguments": object{"command": x.command}, "output": x.printed}}})
		}
		return written(list{list{object{"id": "run-1", "turns": out}}})
	},
}

// TestProposedMappings reads a run in a form without a description, by the proposed mapping. It
// holds that the run gets the verdict of weir's own events of it.
func TestProposedMappings(t *testing.T) {
	for story, steps := range stories() {
		if slices.ContainsFunc(steps, func(x step) bool { return x.printed == "" }) {
			continue // an unknown record with an empty output may be one of a call that is not over
		}
		want, _ := judge(own(steps))
		for name, write := range unknowns {
			r, err := adapter.NewReader(strings.NewReader(write(steps)))
			if err != nil {
				t.Fatal(err)
			}
			if f, err := registry.Detect(r.Head()); err == nil {
				t.Fatalf("%s is read as %s", name, f.Name)
			}
			p, err := registry.Propose(r.Head())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			f, err := registry.Lookup(mapped.Prefix + p.Mapping)
			if err != nil {
				t.Fatal(err)
			}
			got := hearAs(t, r, f, adapter.Options{})
			order, reasons := judge(got)
			if order != want || len(got.faults) > 0 || len(got.tools) != len(steps) {
				t.Errorf("%s in %s: %q (%s), %d calls, faults %q; want %q, by %s", story, name, order, reasons, len(got.tools), got.faults, want, p.Mapping)
			}
		}
	}
}
