package adapter_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// TestKimiCallsInPieces holds that a call is reported also if the log ends with it, once, and as one of the agent
// that made it.
func TestKimiCallsInPieces(t *testing.T) {
	const (
		begin = `{"type":"TurnBegin","payload":{"user_input":"go"}}`
		task  = `{"type":"ToolCall","payload":{"type":"function","id":"t1","function":{"name":"Task","arguments":""}}}`
		args  = `{"type":"ToolCallPart","payload":{"arguments_part":"{\"prompt\":"}}`
		rest  = `{"type":"ToolCallPart","payload":{"arguments_part":"\"look\"}"}}`
		inner = `{"type":"SubagentEvent","payload":{"parent_tool_call_id":"t1","event":{"type":"ToolCall","payload":{"type":"function","id":"t2","function":{"name":"Read","arguments":"{\"path\":\"x\"}"}}}}}`
		end   = `{"type":"ToolResult","payload":{"tool_call_id":"t1","return_value":{"is_error":false,"output":"done"}}}`
	)
	for name, c := range map[string]struct{ lines, want []string }{
		"the log ends with a call":               {[]string{begin, task, args, rest}, []string{"t1 Task kimi"}},
		"the log ends with a call of a subagent": {[]string{begin, inner}, []string{"t2 Read subagent"}},
		"a subagent calls next":                  {[]string{begin, task, args, rest, inner, end}, []string{"t1 Task kimi", "t2 Read subagent"}},
		"a subagent calls last":                  {[]string{begin, task, args, rest, inner}, []string{"t1 Task kimi", "t2 Read subagent"}},
		"nothing is called":                      {[]string{begin}, nil},
	} {
		format, err := registry.Lookup("kimi")
		if err != nil {
			t.Fatal(err)
		}
		r := format.New(adapter.Options{})
		var got []string
		var hashes []events.Hash
		emit := func(ev *events.Event) {
			if ev.Kind == events.ToolCall {
				got, hashes = append(got, ev.Tool.CallID+" "+ev.Tool.Name+" "+ev.From.Agent), append(hashes, ev.Tool.ArgsHash)
			}
		}
		for i, line := range c.lines {
			if err := r.Decode(fmt.Appendf(nil, `{"timestamp":%d.5,"message":%s}`, 1795165200+i, line), emit); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for range 2 { // a second time it has nothing to report
			if err := r.Flush(emit); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !slices.Equal(got, c.want) || slices.ContainsFunc(hashes, events.Hash.IsZero) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
