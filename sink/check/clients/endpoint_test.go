package clients

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// endpoint is a model by script: whatever it is told, it asks for its commands one after
// the other, and then ends. It speaks the four protocols of the agents, and keeps what
// the agents tell it of each call.
type endpoint struct {
	URL string

	mu       sync.Mutex
	commands []string
	mcp      string            // the end of the name of the tool that is asked for instead of a shell
	word     string            // of this endpoint, because ids of calls are never the same again
	results  map[string]string // by id of the call
	order    []string          // ids
	heard    []byte            // the last request about calls, whole
}

func newEndpoint(t *testing.T, commands ...string) *endpoint {
	e := &endpoint{commands: commands, word: strings.ToLower(rand.Text()[:12]), results: make(map[string]string)}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.URL = s.URL
	return e
}

// told returns how many calls were asked for, and what came back of each.
func (e *endpoint) told() (asked int, results []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range e.order {
		results = append(results, e.results[id])
	}
	return len(e.order), results
}

// hears reports whether the words stand in what the model was told in all.
func (e *endpoint) hears(words string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return bytes.Contains(e.heard, []byte(words))
}

// pick returns the tool that the model asks for, and its arguments.
func (e *endpoint) pick(tools []string, command string) (name string, arguments object) {
	if e.mcp == "" {
		return shell(tools, command)
	}
	if i := slices.IndexFunc(tools, func(t string) bool { return strings.HasSuffix(t, e.mcp) }); i >= 0 {
		return tools[i], object{}
	}
	if slices.Contains(tools, "tool_search") { // Qwen Code keeps the tools of servers back until they are asked for
		return "tool_search", object{"query": "select:mcp__weir__" + e.mcp}
	}
	return "", nil
}

// next returns what the model does after this many calls: a call with an id, or nothing.
func (e *endpoint) next(calls int) (id, command string) {
	if calls >= len(e.commands) {
		return "", ""
	}
	id = e.id(calls)
	if calls == len(e.order) { // a request may come twice
		e.order = append(e.order, id)
	}
	return id, e.commands[calls]
}

func (e *endpoint) id(call int) string { return fmt.Sprintf("call_%s%02d", e.word, call) }

// object is a JSON object.
type object = map[string]any

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(body) > len(e.heard) { // the conversation grows; what is asked beside it is short
		e.heard = body
	}
	p := r.URL.Path
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(p, "/models"):
		reply(w, object{"object": "list", "data": []object{{"id": "fake-model", "object": "model", "owned_by": "fake"}}, "models": []object{}})
	case strings.HasSuffix(p, "/count_tokens"):
		reply(w, object{"input_tokens": 10})
	case strings.HasSuffix(p, ":countTokens"):
		reply(w, object{"totalTokens": 50})
	case strings.HasSuffix(p, "/v1/messages"):
		e.messages(w, body)
	case strings.HasSuffix(p, "/responses"):
		e.responses(w, body)
	case strings.HasSuffix(p, "/chat/completions"):
		e.completions(w, body)
	case strings.HasSuffix(p, "enerateContent"):
		e.contents(w, body, strings.HasSuffix(p, ":streamGenerateContent"))
	default:
		reply(w, object{})
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// stream sends events, whose names are left out where they are "".
func stream(w http.ResponseWriter, names []string, data []any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i, v := range data {
		if names != nil {
			_, _ = fmt.Fprintf(w, "event: %s\n", names[i])
		}
		text, _ := json.Marshal(v)
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
	}
}

// question is what Anthropic's model is asked, by Claude Code.
type question struct {
	Model    string
	Stream   bool
	Tools    []struct{ Name string }
	Messages []struct{ Content json.RawMessage }
}

// made is how many calls the model has made so far. Of each that something came back of, heard
// is given its id, the result, and the message that this came in.
func (q *question) made(heard func(call string, result, message json.RawMessage)) (calls int) {
	for _, m := range q.Messages {
		var blocks []struct {
			Type      string
			ToolUseID string `json:"tool_use_id"`
			Content   json.RawMessage
		}
		_ = json.Unmarshal(m.Content, &blocks) // a text has none
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				calls++
			case "tool_result":
				heard(b.ToolUseID, b.Content, m.Content)
			}
		}
	}
	return calls
}

// asked reads a question to Anthropic's model. It answers every other request itself, such as one for a count
// of tokens.
func asked(w http.ResponseWriter, r *http.Request) (q question, ok bool) {
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &q)
	if !strings.HasSuffix(r.URL.Path, "/v1/messages") || len(q.Messages) == 0 {
		reply(w, object{"input_tokens": 10})
		return q, false
	}
	return q, true
}

// hear keeps, by id of the call, the message in which its result came first: what a hook adds is beside the
// result. It returns how many calls the model has made so far.
func (q *question) hear(heard map[string]string) (calls int) {
	return q.made(func(call string, _, message json.RawMessage) {
		if heard[call] == "" {
			heard[call] = string(message)
		}
	})
}

// messages is Anthropic's, for Claude Code.
func (e *endpoint) messages(w http.ResponseWriter, body []byte) {
	var q question
	_ = json.Unmarshal(body, &q)
	calls := q.made(func(call string, result, _ json.RawMessage) { e.results[call] = string(result) })
	var tools []string
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
	}
	id, tool, input := "", "", object{}
	if tool, _ = e.pick(tools, ""); tool != "" {
		var command string
		id, command = e.next(calls)
		_, input = e.pick(tools, command)
	}
	sayMessage(w, q.Model, q.Stream, id, tool, input)
}

// sayMessage answers as Anthropic's model: with the use of a tool, or with its last word where
// that has no id.
func sayMessage(w http.ResponseWriter, model string, streamed bool, id, tool string, input object) {
	answer(w, model, streamed, said{tokens: 50, text: "Finished.", id: id, tool: tool, input: input})
}

// said is an answer of Anthropic's model: a text, or the use of a tool where it has an id.
type said struct {
	message  string // its id; Claude Code joins messages of one id
	tokens   int    // of the input
	text     string
	id, tool string
	input    object
}

func answer(w http.ResponseWriter, model string, streamed bool, s said) {
	block, delta, stop := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": s.text}, "end_turn"
	if s.id != "" {
		text, _ := json.Marshal(s.input)
		block, delta, stop = object{"type": "tool_use", "id": s.id, "name": s.tool, "input": object{}}, object{"type": "input_json_delta", "partial_json": string(text)}, "tool_use"
	}
	message := object{"id": cmp.Or(s.message, "msg_1"), "type": "message", "role": "assistant", "model": model, "content": []object{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": s.tokens, "output_tokens": 1}}
	if !streamed {
		message["content"], message["stop_reason"] = []object{{"type": "text", "text": s.text}}, "end_turn"
		reply(w, message)
		return
	}
	names := []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}
	data := []any{object{"message": message}, object{"index": 0, "content_block": block}, object{"index": 0, "delta": delta}, object{"index": 0},
		object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 20}}, object{}}
	for i := range data {
		data[i].(object)["type"] = names[i]
	}
	stream(w, names, data)
}

// shell returns the tool that runs commands, and its arguments.
func shell(tools []string, command string) (name string, arguments object) {
	for _, t := range []struct {
		name      string
		arguments object
	}{
		{"Bash", object{"command": command, "description": "say hi"}},                                      // Claude Code
		{"exec_command", object{"cmd": command}},                                                           // Codex
		{"run_shell_command", object{"command": command, "description": "say hi", "is_background": false}}, // Qwen Code
		{"bash", object{"command": command, "description": "say hi"}},                                      // OpenCode, Copilot CLI
		{"run_commands", object{"commands": []string{command}}},                                            // Cline
	} {
		if slices.Contains(tools, t.name) {
			return t.name, t.arguments
		}
	}
	return "", nil
}

// responses is OpenAI's, for Codex.
func (e *endpoint) responses(w http.ResponseWriter, body []byte) {
	var q struct {
		Model string
		Tools []struct {
			Name  string
			Tools []struct{ Name string } // of an MCP server, whose calls name it apart
		}
		Input []struct {
			Type   string
			CallID string `json:"call_id"`
			Output json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &q)
	calls := 0
	for _, i := range q.Input {
		switch i.Type {
		case "function_call":
			calls++
		case "function_call_output":
			e.results[i.CallID] = string(i.Output)
		}
	}
	var tools []string
	within := map[string]string{}
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
		for _, one := range t.Tools {
			tools, within[one.Name] = append(tools, one.Name), t.Name
		}
	}
	item := object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": "Finished.", "annotations": []object{}}}}
	if tool, _ := e.pick(tools, ""); tool != "" {
		if id, command := e.next(calls); id != "" {
			_, arguments := e.pick(tools, command)
			text, _ := json.Marshal(arguments)
			item = object{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": tool, "arguments": string(text), "status": "completed"}
			if within[tool] != "" {
				item["namespace"] = within[tool]
			}
		}
	}
	begun := object{"id": "resp_1", "object": "response", "created_at": time.Now().Unix(), "model": q.Model, "status": "in_progress", "output": []object{}}
	done := object{"id": "resp_1", "object": "response", "created_at": time.Now().Unix(), "model": q.Model, "status": "completed", "output": []object{item},
		"usage": object{"input_tokens": 50, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 20, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 70}}
	names := []string{"response.created", "response.output_item.added", "response.output_item.done", "response.completed"}
	data := []any{object{"response": begun}, object{"output_index": 0, "item": item}, object{"output_index": 0, "item": item}, object{"response": done}}
	for i := range data {
		data[i].(object)["type"], data[i].(object)["sequence_number"] = names[i], i
	}
	stream(w, names, data)
}

// completions is OpenAI's older protocol, for OpenCode, Qwen Code and Copilot CLI.
func (e *endpoint) completions(w http.ResponseWriter, body []byte) {
	var q struct {
		Model  string
		Stream bool
		Tools  []struct{ Function struct{ Name string } }

		Messages []struct {
			Role       string
			Content    json.RawMessage
			ToolCallID string            `json:"tool_call_id"`
			ToolCalls  []json.RawMessage `json:"tool_calls"`
		}
	}
	_ = json.Unmarshal(body, &q)
	calls := 0
	for _, m := range q.Messages {
		calls += len(m.ToolCalls)
		if m.Role == "tool" {
			e.results[m.ToolCallID] = string(m.Content)
		}
	}
	var tools []string
	for _, t := range q.Tools {
		tools = append(tools, t.Function.Name)
	}
	message, stop := object{"role": "assistant", "content": "Finished."}, "stop"
	if tool, _ := e.pick(tools, ""); tool != "" {
		if id, command := e.next(calls); id != "" {
			_, arguments := e.pick(tools, command)
			text, _ := json.Marshal(arguments)
			message = object{"role": "assistant", "content": nil, "tool_calls": []object{
				{"index": 0, "id": id, "type": "function", "function": object{"name": tool, "arguments": string(text)}}}}
			stop = "tool_calls"
		}
	}
	usage := object{"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
	answer := func(kind string, choices ...object) object {
		return object{"id": "chatcmpl-1", "created": time.Now().Unix(), "model": cmp.Or(q.Model, "fake-model"), "object": kind, "choices": choices, "usage": usage}
	}
	if !q.Stream {
		reply(w, answer("chat.completion", object{"index": 0, "message": message, "finish_reason": stop}))
		return
	}
	stream(w, nil, []any{
		answer("chat.completion.chunk", object{"index": 0, "delta": message, "finish_reason": nil}),
		answer("chat.completion.chunk", object{"index": 0, "delta": object{}, "finish_reason": stop}),
	})
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// contents is Google's, for Gemini CLI.
func (e *endpoint) contents(w http.ResponseWriter, body []byte, streamed bool) {
	var q struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionCall     json.RawMessage
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
		GenerationConfig struct {
			ResponseMIMEType   string `json:"responseMimeType"`
			ResponseJSONSchema *schema
			ResponseSchema     *schema
		}
	}
	_ = json.Unmarshal(body, &q)
	calls, answers := 0, 0
	for _, c := range q.Contents {
		for _, p := range c.Parts {
			if p.FunctionCall != nil {
				calls++
			}
			if p.FunctionResponse != nil {
				e.results[e.id(answers)] = string(p.FunctionResponse.Response)
				answers++
			}
		}
	}
	var tools []string
	for _, t := range q.Tools {
		for _, d := range t.FunctionDeclarations {
			tools = append(tools, d.Name)
		}
	}
	tool, _ := e.pick(tools, "")
	part := object{"text": "Finished."}
	if form := cmp.Or(q.GenerationConfig.ResponseJSONSchema, q.GenerationConfig.ResponseSchema); form != nil || q.GenerationConfig.ResponseMIMEType == "application/json" {
		text, _ := json.Marshal(form.sample()) // a question of the agent itself: which model, who is next
		part = object{"text": string(text)}
	}
	if tool != "" {
		if id, command := e.next(calls); id != "" {
			_, arguments := e.pick(tools, command)
			part = object{"functionCall": object{"name": tool, "args": arguments}}
		}
	}
	answer := object{"candidates": []object{{"index": 0, "content": object{"role": "model", "parts": []object{part}}, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 50, "candidatesTokenCount": 20, "totalTokenCount": 70}, "modelVersion": "fake-model", "responseId": "fake"}
	if streamed {
		stream(w, nil, []any{answer})
		return
	}
	reply(w, answer)
}

// schema is a JSON Schema, as far as a value is made that fits it.
type schema struct {
	Type       string
	Enum       []any
	Properties map[string]*schema
}

func (s *schema) sample() any {
	if s == nil {
		return object{}
	}
	if len(s.Enum) > 0 {
		return s.Enum[len(s.Enum)-1]
	}
	switch strings.ToLower(s.Type) {
	case "array":
		return []any{}
	case "string":
		return "none"
	case "number", "integer":
		return 0
	case "boolean":
		return false
	}
	v := object{}
	for name, p := range s.Properties {
		v[name] = p.sample()
	}
	return v
}
