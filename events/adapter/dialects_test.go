package adapter_test

import (
	"encoding/json"
	"fmt"
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

// stories are a run that loops and one that is honest.
func stories() map[string][]step {
	out := map[string][]step{}
	for i := range 14 {
		out["loop"] = append(out["loop"], step{"make check", "make: *** No rule to make target 'check'.  Stop."})
		out["honest"] = append(out["honest"], step{fmt.Sprintf("cat docs/chapter_%d.md | wc -w", i), fmt.Sprintf("%d words in %s", 731*i+90, strings.Repeat("abcdef"[i%6:i%6+1], i+3))})
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
		if (want != "") != (story == "loop") {
			t.Errorf("%s: weir's own events get %q", story, want)
		}
		for name, write := range dialects {
			got := hear(t, strings.NewReader(write(steps)), adapter.Options{})
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
