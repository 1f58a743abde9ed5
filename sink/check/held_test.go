package check

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/events"
)

// TestHeldUntil requires the end of a hold in each shape of a refusal.
func TestHeldUntil(t *testing.T) {
	at := events.RFC3339(1_795_000_000_000)
	v := &events.Verdict{ID: "v1", Mode: "enforce", Action: events.Hold, Reason: "max_cost_exceeded", HTTPStatus: 402, Message: "Held.", AgentMessage: "Wait for a person.", ExpiresAt: at}
	call, send := &Message{ID: json.RawMessage(`7`), Method: "tools/call"}, &Message{ID: json.RawMessage(`2`), Method: "SendMessage"}
	for _, c := range []struct {
		format DenyFormat
		rpc    *Message
		code   string
	}{{Problem, nil, ""}, {Flat, nil, ""}, {JSONRPC, call, `"code":4020`}, {JSONRPC, send, `"code":4020`}, {ToolError, call, ""}} {
		r := Refuse(v, c.format, c.rpc)
		if !strings.Contains(string(r.Body), `"held_until":"`+at.String()+`"`) || !strings.Contains(string(r.Body), c.code) {
			t.Errorf("%s: %s", c.format, r.Body)
		}
		if c.format == ToolError && !strings.Contains(string(r.Body), "Wait for a person. The hold ends at "+at.String()+" at the latest.") {
			t.Errorf("the model does not read until when: %s", r.Body)
		}
		if r.Header.Get("Weir-Held-Until") != at.String() || r.Header.Get("Retry-After") != "" || r.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %v", c.format, r.Header)
		}
	}
	stop := *v
	stop.Action = events.Deny
	if r := Refuse(&stop, Problem, nil); r.Header.Get("Weir-Held-Until") != "" || strings.Contains(string(r.Body), "held_until") {
		t.Errorf("a stop is held: %v %s", r.Header, r.Body)
	}
}
