package registry

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
)

// guesses are the members that logs have for the fields that matter most, the likeliest first.
var guesses = []struct {
	field string
	names []string
}{
	{"correlation_id", []string{"correlation_id", "flow", "flow_id", "run_id", "run", "trace_id", "traceid", "session_id", "sessionid", "session", "sid", "conversation_id", "conversation", "thread_id", "thread", "chat_id", "request_id"}},
	{"time", []string{"time", "timestamp", "@timestamp", "ts", "created_at", "created", "started_at", "start_time", "date", "datetime", "at"}},
	{"id", []string{"id", "event_id", "message_id", "uuid"}},
	{"from", []string{"from", "caller", "sender", "from_agent", "agent", "agent_name", "agent_id", "source", "actor", "speaker", "author", "name", "role"}},
	{"to", []string{"to", "callee", "target", "recipient", "receiver", "to_agent"}},
	{"tool", []string{"tool", "tool_name", "function", "function_name", "action"}},
	{"args", []string{"args", "arguments", "tool_args", "tool_input", "params", "parameters", "input"}},
	{"result", []string{"result", "output", "tool_output", "observation", "response", "out"}},
	{"message", []string{"message", "content", "text", "msg", "body"}},
	{"model", []string{"model", "model_name"}},
	{"input_tokens", []string{"input_tokens", "prompt_tokens"}},
	{"output_tokens", []string{"output_tokens", "completion_tokens"}},
	{"cost_usd", []string{"cost_usd", "cost", "price"}},
}

// leastGuesses is from how many fields on a mapping is proposed: a time alone maps nothing.
const leastGuesses = 3

// nearestTo says what an input that no format fits is nearest to, and proposes how to read it: a
// mapping for tables with a head, events for lines of text. For JSON see Propose.
func nearestTo(head []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	line = bytes.TrimSpace(line)
	if r := csv.NewReader(bytes.NewReader(line)); bytes.ContainsAny(line, ",;\t") {
		for _, comma := range ",;\t" {
			r.Comma = comma
			if columns, err := r.Read(); err == nil && len(columns) > 1 && !slices.ContainsFunc(columns, func(c string) bool { return strings.ContainsAny(c, ":{") }) {
				paths := map[string]string{}
				for _, c := range columns {
					paths[strings.ToLower(strings.TrimSpace(c))] = path(strings.TrimSpace(c))
				}
				if text := proposed("a table (CSV)", paths); text != "" {
					return text
				}
			}
			r = csv.NewReader(bytes.NewReader(line))
		}
	}
	if !bytes.HasPrefix(line, []byte("{")) && !bytes.HasPrefix(line, []byte("[")) {
		return `it is nearest to lines of text, such as a console log, which weir does not read; ` +
			`let the program write one JSON object per call, for example {"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"run-1","from":{"agent":"a"},"to":{"agent":"b"}}`
	}
	return ""
}

// path is a path as in jq.
func path(name string) string {
	plain := !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if plain && name != "" && (name[0] < '0' || name[0] > '9') {
		return "." + name
	}
	return "." + fmt.Sprintf("%q", name)
}

// proposed is the sentence with the mapping; "" where too little is known to propose one.
func proposed(what string, paths map[string]string) string {
	var mapping []string
	for _, g := range guesses {
		for _, name := range g.names {
			// One member may stand for one field alone.
			if p, ok := paths[name]; ok && !slices.ContainsFunc(mapping, func(m string) bool { return strings.HasSuffix(m, "="+p) }) {
				mapping = append(mapping, g.field+"="+p)
				break
			}
		}
	}
	if len(mapping) < leastGuesses {
		return ""
	}
	// No name looks like that of a flow, and without one a mapping is rejected.
	flow := ""
	if !slices.ContainsFunc(mapping, func(m string) bool { return strings.HasPrefix(m, "correlation_id=") }) {
		flow = " with ,flow=PATH of the member that one run has throughout"
	}
	return fmt.Sprintf("it is nearest to %s; try --map '%s'%s, and correct it by weir events describe map", what, strings.Join(mapping, ","), flow)
}
