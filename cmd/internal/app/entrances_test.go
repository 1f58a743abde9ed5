package app

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/guard"
)

// entrance is a way on which work begins. admitted has a flow that weir has not seen begin there, and
// reports whether its first call may be made.
type entrance struct {
	name     string
	admitted func(h hand, flow string) bool
}

// TestWorkThatBeginsDuringAStop has flows, agents, schedules and cron wakes begin while all calls are
// stopped: each is refused at every entrance, and goes on after the release.
func TestWorkThatBeginsDuringAStop(t *testing.T) {
	limits, err := limitfile.Parse("test", []byte("profile: none\n"))
	if err != nil {
		t.Fatal(err)
	}
	h := beginHand(t, Options{Authz: true, AuthzGRPC: "127.0.0.1:0", Limits: limits, Clock: clock.System{}})
	list := allEntrances(h)
	try := func(when string, want bool) {
		t.Helper()
		for n, e := range list {
			// One flow begins there for the first time, the other has been refused or admitted before.
			for _, flow := range []string{fmt.Sprintf("%s-%d", when, n), fmt.Sprintf("old-%d", n)} {
				if got := e.admitted(h, flow); got != want {
					t.Errorf("%s the stop, %s: a call of %s is admitted: %v", when, e.name, flow, got)
				}
			}
		}
	}
	try("before", true)
	for _, scope := range []string{"all", "agent:*"} {
		h.stopped(fmt.Sprintf(`{"scope":%q,"reason":"a test","by":"ann"}`, scope))
		for !h.receipt(scope).Complete {
			runtime.Gosched()
		}
		try("during "+scope+",", false)
		if r := h.receipt(scope); r.Observed != 0 {
			t.Errorf("%s: refused work counts as %d calls after the stop", scope, r.Observed)
		}
		h.released(scope)
		for !h.receipt(scope).Complete {
			runtime.Gosched()
		}
		try("after "+scope+",", true)
	}
}

func allEntrances(h hand) []entrance {
	return slices.Concat(checkEntrances(), guardEntrances(h), gatewayEntrances(), hookEntrances(), evaluateEntrances())
}

// starts are the ways in which work begins, as events of checks.
var starts = []struct {
	name   string
	change func(ev *events.Event)
}{
	{"call of an agent", func(*events.Event) {}},
	{"message of a user", func(ev *events.Event) { ev.From, ev.Origin = events.Party{}, events.OriginUser }},
	{"wake by a schedule", func(ev *events.Event) { ev.From, ev.Origin = events.Party{Agent: "cron"}, events.OriginScheduler }},
	{"call of a tool", func(ev *events.Event) { ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "ls" }},
	{"agent that opens a flow", func(ev *events.Event) { ev.ParentCorrelationID, ev.RootCorrelationID = "root", "root" }},
}

func startOf(h hand, flow string, change func(*events.Event)) string {
	handAsks++
	ev := &events.Event{ID: fmt.Sprint("start-", handAsks), Source: "test", Time: events.StampOf(h.clock.Now()), Kind: events.AgentCall, CorrelationID: flow,
		From: events.Party{Agent: "a-" + flow}, To: events.Party{Agent: "b-" + flow}, HadWork: events.Yes}
	change(ev)
	ev.Ask = true
	return string(ev.AppendJSON(nil))
}

// checkEntrances are checks by request, by batch and by stream.
func checkEntrances() (list []entrance) {
	for _, s := range starts {
		list = append(list,
			entrance{"check by request, " + s.name, func(h hand, flow string) bool {
				return h.do("POST", "/v1/check", startOf(h, flow, s.change)).status == 200
			}},
			entrance{"check by batch, " + s.name, func(h hand, flow string) bool {
				got := h.do("POST", "/v1/check", startOf(h, flow, s.change)+"\n"+startOf(h, flow, s.change)+"\n", "Content-Type", "application/x-ndjson")
				h.want(got, 200)
				return strings.Count(got.body, `{"status":200,`) == 2
			}},
			entrance{"check by stream, " + s.name, func(h hand, flow string) bool {
				got := h.do("POST", "/v1/check/stream", startOf(h, flow, s.change)+"\n", "Content-Type", "application/x-ndjson")
				h.want(got, 200)
				return strings.Contains(got.body, `"status":200,`)
			}})
	}
	return list
}

// guardEntrances are all calls of a guard that decide.
func guardEntrances(h hand) []entrance {
	g := h.guardOf("a dispatcher")
	call := func(flow string) guard.Call {
		return guard.Call{Flow: flow, From: "a-" + flow, To: "b-" + flow, HadWork: events.Yes}
	}
	return []entrance{
		{"guard, Check", func(h hand, flow string) bool { d := g.Check(h.t.Context(), call(flow)); return !d.Stopped() }},
		{"guard, Ask", func(h hand, flow string) bool { d := g.Ask(h.t.Context(), call(flow)); return !d.Stopped() }},
		{"guard, Dispatch", func(h hand, flow string) bool {
			_, d := g.Dispatch(h.t.Context(), call(flow))
			return !d.Stopped()
		}},
		{"guard, Begin", func(h hand, flow string) bool {
			b := g.Begin(h.t.Context(), call(flow))
			b.Finish(guard.Outcome{})
			return !b.Decision.Stopped()
		}},
		{"guard, a user's message", func(h hand, flow string) bool {
			d := g.Check(h.t.Context(), guard.Call{Flow: flow, To: "b-" + flow, Origin: events.OriginUser})
			return !d.Stopped()
		}},
		{"guard, a wake by a schedule", func(h hand, flow string) bool {
			d := g.Check(h.t.Context(), guard.Call{Flow: flow, From: "cron", To: "b-" + flow, Origin: events.OriginScheduler})
			return !d.Stopped()
		}},
		{"guard, another that begins now", func(h hand, flow string) bool {
			d := h.guardOf("new "+flow).Check(h.t.Context(), call(flow))
			return !d.Stopped()
		}},
	}
}

// gatewayEntrances are the routes of gateways, with MCP, A2A and plain requests behind them.
func gatewayEntrances() (list []entrance) {
	const mcp = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":"x"}}}`
	const a2a = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","messageId":"m","parts":[{"kind":"text","text":"go"}]}}}`
	bodies := []struct{ name, body string }{{"MCP", mcp}, {"A2A", a2a}, {"plain", ""}}
	for _, gateway := range []string{"envoy/x", "traefik", "caddy", "nginx"} {
		for _, b := range bodies {
			list = append(list, entrance{gateway + ", " + b.name, func(h hand, flow string) bool {
				return h.do("POST", "/authz/"+gateway, b.body, "X-Correlation-Id", flow, "X-Agent-Id", "a-"+flow, "X-Forwarded-Uri", "/x", "X-Original-Uri", "/x",
					"X-Forwarded-Method", "POST", "X-Original-Method", "POST", "Content-Type", "application/json").status < 300
			}})
		}
	}
	client := gatewayClient()
	for _, b := range bodies {
		list = append(list, entrance{"ext_authz by gRPC, " + b.name, func(h hand, flow string) bool { return h.admittedByGRPC(client, flow, b.body) }})
	}
	return list
}

// admittedByGRPC sends a CheckRequest as Envoy does, and reports whether its answer allows the request.
func (h hand) admittedByGRPC(c *http.Client, flow, body string) bool {
	h.t.Helper()
	message := func(dst []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), v)
	}
	text := func(dst []byte, n protowire.Number, s string) []byte { return message(dst, n, []byte(s)) }
	request := text(text(text(nil, 2, "POST"), 4, "/x"), 5, "gateway.example")
	for name, value := range map[string]string{"x-correlation-id": flow, "x-agent-id": "a-" + flow, "content-type": "application/json"} {
		request = message(request, 3, text(text(nil, 1, name), 2, value))
	}
	request = text(request, 11, body)
	msg := message(nil, 1, message(nil, 4, message(nil, 2, request)))
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
	req, err := http.NewRequestWithContext(h.t.Context(), "POST", "http://"+h.GatewayAddr()+"/envoy.service.auth.v3.Authorization/Check", strings.NewReader(string(frame)))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	resp, err := c.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.Trailer.Get("Grpc-Status") != "0" || len(answer) < 5 {
		h.t.Fatalf("status %q, %v", resp.Trailer.Get("Grpc-Status"), err)
	}
	// An answer that refuses has a denied_response, which is field 2.
	for rest := answer[5:]; len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			h.t.Fatal(protowire.ParseError(n))
		}
		if number == 2 {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// hookEntrances are the hooks of coding agents: the use of a tool, and the prompt by which a person or a
// cron job begins a flow.
func hookEntrances() (list []entrance) {
	for name, body := range map[string]string{
		"Claude Code, a tool":   `{"session_id":%q,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`,
		"Claude Code, a prompt": `{"session_id":%q,"hook_event_name":"UserPromptSubmit","prompt":"go"}`,
		"Codex, a tool":         `{"session_id":%q,"turn_id":"1","hook_event_name":"PreToolUse","tool_name":"shell","tool_input":{"command":"ls"}}`,
		"Codex, a prompt":       `{"session_id":%q,"turn_id":"1","hook_event_name":"UserPromptSubmit","prompt":"go"}`,
		"Gemini CLI, a tool":    `{"session_id":%q,"hook_event_name":"BeforeTool","tool_name":"shell","tool_input":{"command":"ls"}}`,
		"Gemini CLI, a prompt":  `{"session_id":%q,"hook_event_name":"BeforeAgent","prompt":"go"}`,
		"Copilot CLI, a tool":   `{"sessionId":%q,"timestamp":1,"toolName":"bash","toolArgs":"{}"}`,
		"Cline, a tool":         `{"taskId":%q,"hookName":"tool_call","tool_call":{"id":"1","name":"bash","input":{}}}`,
		"Cline, a prompt":       `{"taskId":%q,"hookName":"prompt_submit","userPromptSubmit":{"prompt":"go"}}`,
		"OpenHands, a tool":     `{"session_id":%q,"event_type":"PreToolUse","tool_name":"bash","tool_input":{}}`,
		"OpenHands, a prompt":   `{"session_id":%q,"event_type":"UserPromptSubmit","message":"go"}`,
		"OpenCode, a tool":      `{"program":"opencode","session_id":%q,"hook_event_name":"PreToolUse","tool_name":"bash","tool_use_id":"1","tool_input":{}}`,
		"OpenCode, a prompt":    `{"program":"opencode","session_id":%q,"hook_event_name":"UserPromptSubmit","prompt":"go"}`,
	} {
		list = append(list, entrance{"hook of " + name, func(h hand, flow string) bool {
			got := h.do("POST", "/v1/hook", fmt.Sprintf(body, flow))
			h.want(got, 200)
			refused := strings.Contains(got.body, `"decision"`) || strings.Contains(got.body, `"permissionDecision"`) || strings.Contains(got.body, `"cancel":true`)
			if !refused && strings.TrimSpace(got.body) != "{}" {
				h.t.Errorf("%s: %s", name, got.body)
			}
			return !refused
		}})
	}
	return list
}

// evaluateEntrances are the guards of Grafana's SDKs: before a model is asked, after it has answered, and
// before one tool.
func evaluateEntrances() (list []entrance) {
	for name, input := range map[string]string{
		"before a model":  `"phase":"preflight","input":{"messages":[{"role":"user","parts":[{"text":"go"}]}]}`,
		"after a model":   `"phase":"postflight","input":{"output":[{"role":"assistant","parts":[{"tool_call":{"name":"search","input_json":{}}}]}]}`,
		"before one tool": `"phase":"postflight","input":{"tools":[{"name":"search"}],"conversation_preview":"search {}"}`,
	} {
		list = append(list, entrance{"hooks:evaluate " + name, func(h hand, flow string) bool {
			got := h.do("POST", "/api/v1/hooks:evaluate", fmt.Sprintf(`{"context":{"agent_name":"a-%s","conversation_id":%q,"model":{"provider":"p","name":"m"}},%s}`, flow, flow, input))
			h.want(got, 200)
			return strings.Contains(got.body, `"action":"allow"`)
		}})
	}
	return list
}
