package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// evaluated plays a client of Evaluate: refuse says which calls are refused, by the ids of the calls.
type evaluated struct {
	t       *testing.T
	e       *Evaluate
	refuse  map[string]bool
	stopped map[string]*events.Verdict // by flow
	heard   []string                   // kind, flow and tool of each event, with a ? for a check
	failed  error
}

func newEvaluated(t *testing.T) *evaluated {
	p := &evaluated{t: t, refuse: map[string]bool{}, stopped: map[string]*events.Verdict{}}
	note := func(ev *events.Event, mark string) {
		p.heard = append(p.heard, strings.TrimSpace(fmt.Sprintf("%s%s %s %s", ev.Kind, mark, ev.CorrelationID, ev.Tool.CallID)))
	}
	p.e = NewEvaluate(func(batch []*Request) {
		for _, q := range batch {
			note(q.Event, "?")
			var again events.Event
			if err := events.Decode(q.Raw, &again); err != nil || !again.Ask {
				t.Errorf("%s: %v", q.Raw, err)
			}
			q.Verdict = &events.Verdict{ID: "v", Mode: "enforce", Action: "allow", Reason: "allowed"}
			if p.refuse[q.Event.Tool.CallID] {
				q.Verdict = &events.Verdict{ID: "v", Mode: "enforce", Action: "deny", Reason: "repetition_detected", RuleID: "repetition", Message: "again", AgentMessage: "Do not repeat it."}
			}
			if q.Event.Tool.CallID == "broken" {
				q.Verdict, q.Err = nil, ErrTimeout
			}
		}
	}, func(_ context.Context, lines [][]byte) error {
		for _, line := range lines {
			var ev events.Event
			if err := events.Decode(line, &ev); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			note(&ev, "")
		}
		return nil
	}, func(_ context.Context, flow string) *events.Verdict { return p.stopped[flow] },
		func(w http.ResponseWriter, _ *http.Request, err error) {
			p.failed = err
			w.WriteHeader(http.StatusServiceUnavailable)
		}, func() time.Time { return heldAt })
	return p
}

// post sends a request, and returns the answer and what weir heard.
func (p *evaluated) post(body string) (a EvaluateAnswer, heard string) {
	p.t.Helper()
	p.heard, p.failed = nil, nil
	w := httptest.NewRecorder()
	p.e.ServeHTTP(w, httptest.NewRequest("POST", EvaluatePath, strings.NewReader(body)))
	if p.failed == nil {
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Evaluations == nil {
			p.t.Fatalf("%s: %v", w.Body, err)
		}
	}
	return a, strings.Join(p.heard, ", ")
}

const evaluateContext = `"context":{"agent_name":"planner","conversation_id":"c1","model":{"provider":"p","name":"m"}}`

func callPart(id string) string {
	return `{"kind":"tool_call","tool_call":{"id":"` + id + `","name":"search","input_json":{"q":"x"}}}`
}

func resultPart(id string) string {
	return `{"kind":"tool_result","tool_result":{"tool_call_id":"` + id + `","name":"search","content":"nothing","content_json":{"n":0}}}`
}

// talk is a conversation of one prompt and some calls with their results.
func talk(ids ...string) string {
	text := `{"role":"user","parts":[{"kind":"text","text":"find it"}]}`
	for _, id := range ids {
		text += `,{"role":"assistant","parts":[{"kind":"thinking","thinking":"hm"},` + callPart(id) + `]},{"role":"tool","name":"search","parts":[` + resultPart(id) + `]}`
	}
	return text
}

// TestEvaluateAfterAModel checks the calls that a model wants to make.
func TestEvaluateAfterAModel(t *testing.T) {
	p := newEvaluated(t)
	output := func(ids ...string) string {
		parts := make([]string, len(ids))
		for i, id := range ids {
			parts[i] = callPart(id)
		}
		return `{"phase":"postflight",` + evaluateContext + `,"input":{"output":[{"role":"assistant","parts":[` + strings.Join(parts, ",") + `]}]}}`
	}
	a, heard := p.post(output("1"))
	if a.Action != "allow" || len(a.Evaluations) != 0 || heard != "tool.call? c1 1" {
		t.Errorf("%+v, heard %s", a, heard)
	}
	// Before the next request to the model the same call is known, and its result is new.
	if a, heard = p.post(`{"phase":"preflight",` + evaluateContext + `,"input":{"messages":[` + talk("1") + `]}}`); a.Action != "allow" || heard != "agent.call c1, tool.result c1 1" {
		t.Errorf("%+v, heard %s", a, heard)
	}
	if _, heard = p.post(`{"phase":"preflight",` + evaluateContext + `,"input":{"messages":[` + talk("1") + `]}}`); heard != "" {
		t.Errorf("again it heard %s", heard)
	}
	// Of several calls none runs when one is refused. Sent again, the answer is the same.
	p.refuse["2"] = true
	for range 2 {
		a, heard = p.post(output("2", "3"))
		want := EvaluatedRule{RuleID: "repetition", EvaluatorID: "weir", Kind: "weir", Reason: "again"}
		if a.Action != "deny" || a.RuleID != "repetition" || a.Reason != "Do not repeat it." || len(a.Evaluations) != 1 || a.Evaluations[0] != want || heard != "tool.call? c1 2" {
			t.Errorf("%+v, heard %s", a, heard)
		}
	}
	// The model may read that it was refused.
	if a, _ = p.post(`{"phase":"preflight",` + evaluateContext + `,"input":{"messages":[` + talk("1", "2") + `]}}`); a.Action != "allow" {
		t.Errorf("%+v", a)
	}
	// An error is no answer: the client goes by its own setting.
	if p.post(output("broken")); !errors.Is(p.failed, ErrTimeout) {
		t.Errorf("%v", p.failed)
	}
}

// TestEvaluateBeforeAModelAlone is a client that asks before models alone: a call is checked when it has
// run, once.
func TestEvaluateBeforeAModelAlone(t *testing.T) {
	p := newEvaluated(t)
	pre := func(ids ...string) (EvaluateAnswer, string) {
		t.Helper()
		return p.post(`{"phase":"preflight",` + evaluateContext + `,"input":{"messages":[` + talk(ids...) + `]}}`)
	}
	if a, heard := pre("1", "2"); a.Action != "allow" || heard != "agent.call c1, tool.call c1 1, tool.result c1 1, tool.call? c1 2, tool.result c1 2" {
		t.Errorf("%+v, heard %s", a, heard)
	}
	p.refuse["3"] = true
	if a, heard := pre("1", "2", "3"); a.Action != "deny" || heard != "tool.call? c1 3, tool.result c1 3" {
		t.Errorf("%+v, heard %s", a, heard)
	}
	if a, heard := pre("1", "2", "3"); a.Action != "deny" || heard != "" {
		t.Errorf("sent again: %+v, heard %s", a, heard)
	}
	p.stopped["c1"] = &events.Verdict{ID: "s", Mode: "enforce", Action: "halt", Reason: "operator_stop"}
	if a, _ := pre("1", "2"); a.Action != "deny" || a.RuleID != "operator_stop" || a.Reason == "" {
		t.Errorf("a stopped flow: %+v", a)
	}
}

// TestEvaluateOthers reads what other clients send, and refuses what is none.
func TestEvaluateOthers(t *testing.T) {
	p := newEvaluated(t)
	f := func(body, action, heard string) {
		t.Helper()
		if a, got := p.post(body); a.Action != action || got != heard || p.failed != nil {
			t.Errorf("%s: %+v (%v), heard %q, want %q", body, a, p.failed, got, heard)
		}
	}
	// A guard before a tool, without a conversation.
	f(`{"phase":"preflight","context":{"agent_name":"x"},"input":{"tools":[{"name":"Bash"}],"conversation_preview":"Bash {\"command\":\"ls\"}"}}`, "allow", "tool.call? authz:x")
	f(`{"phase":"preflight","context":{"agent_name":"x","trace_id":"0123456789abcdef0123456789abcdef"},"input":{"tools":[{"name":"Bash"}],"conversation_preview":"Bash {}"}}`, "allow", "tool.call? 0123456789abcdef0123456789abcdef")
	f(`{"phase":"preflight","context":{},"input":{"tools":[{"name":"Bash"}],"messages":[{"role":2,"parts":[{"kind":"text","text":"hi"}]}],"conversation_preview":"Bash"}}`, "allow", "")
	// Arguments as text, an unknown part, members that are null.
	f(`{"phase":"postflight","context":{"conversation_id":"c"},"input":{"output":[{"role":"assistant","parts":[{"kind":"new"},{"kind":"tool_call","tool_call":{"name":"","input_json":"not JSON"}}]}],"messages":null}}`, "allow", "tool.call? c")
	f(`{"phase":"postflight","context":null,"input":null}`, "allow", "")
	for _, bad := range []string{``, `[]`, `{}`, `{"phase":"flight"}`, `{"phase":"preflight","input":{"messages":[{"parts":{}}]}}`} {
		p.post(bad)
		if e, ok := errors.AsType[*Error](p.failed); !ok || e.Status != http.StatusBadRequest {
			t.Errorf("%s: %v", bad, p.failed)
		}
	}
}

// TestEvaluateSessionInTheName: a guard that sends no conversation gets a flow for each session, by the
// name of its agent.
func TestEvaluateSessionInTheName(t *testing.T) {
	for name, want := range map[string]events.Event{
		"claude-code":        {CorrelationID: "authz:claude-code", CorrelationSource: events.CorrelationDerived, From: events.Party{Agent: "claude-code"}},
		"claude-code#s-1":    {CorrelationID: "s-1", CorrelationSource: events.CorrelationSession, From: events.Party{Agent: "claude-code", Session: "s-1"}},
		"opencode#s-1:build": {CorrelationID: "s-1", CorrelationSource: events.CorrelationSession, From: events.Party{Agent: "opencode:build", Session: "s-1"}},
		"pi#":                {CorrelationID: "authz:pi", CorrelationSource: events.CorrelationDerived, From: events.Party{Agent: "pi"}},
		"#s-1":               {CorrelationID: "s-1", CorrelationSource: events.CorrelationSession, From: events.Party{Agent: unnamed, Session: "s-1"}},
		"x#principal:ann":    {CorrelationID: "principal", CorrelationSource: events.CorrelationSession, From: events.Party{Agent: "x:ann", Session: "principal"}},
		"":                   {CorrelationID: "authz:client", CorrelationSource: events.CorrelationDerived, From: events.Party{Agent: unnamed, Session: "authz:client"}},
	} {
		in := evaluation{}
		in.Context.Agent = name
		got := in.base(http.Header{})
		if got.CorrelationID != want.CorrelationID || got.CorrelationSource != want.CorrelationSource || got.From.Agent != want.From.Agent || got.From.Session != want.From.Session {
			t.Errorf("%q: flow %s by %s of %+v, want %s by %s of %+v", name, got.CorrelationID, got.CorrelationSource, got.From, want.CorrelationID, want.CorrelationSource, want.From)
		}
	}
	// What the request names itself goes first.
	in := evaluation{}
	in.Context.Agent, in.Context.Conversation = "pi#s-1", "c1"
	if got := in.base(http.Header{}); got.CorrelationID != "c1" || got.From.Session != "s-1" {
		t.Errorf("%+v", got)
	}
}
