package check

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/events"
)

// longest is a refusal in which every text has the length that rules and orders give at most in
// practice, and every list is filled.
func longest(id string) *events.Verdict {
	limit, stack := 5.0, []string{"planner", "coder", "reviewer", "planner", "coder", "reviewer"}
	return &events.Verdict{SchemaVersion: 1, ID: id, Time: 1, Revision: 1795785330793, Mode: events.ModeEnforce, Scope: events.Scope{Kind: events.ScopePair, ID: "planner|coder"},
		Action: events.Deny, ControlledCutoff: true, Effective: events.EffectiveNow, Reason: "a2a_ping_pong", Reasons: []events.Reason{"a2a_ping_pong", "repeated_delegation"},
		IncidentID: "d341e925167bb67b", Cause: "loop", RuleID: "ping_pong_same", ConfigVersion: "xxh64:e59f9c3b7c77ac36", Limit: &limit, Observed: &limit, Unit: events.UnitCalls,
		Message:      "Agent call rejected: the same 2 calls between agents with the same content, 3 times in a row without work (limit 3)",
		AgentMessage: "The call was refused by the flow guard (a2a_ping_pong, 3 of 3). Do not try it again. Finish with what you have and report back.",
		RetryAfterS:  7, TTLS: 900, ExpiresAt: 2, HTTPStatus: 403, CorrelationID: strings.Repeat("f", 36), From: "planner", To: "coder",
		Match: &events.Match{Kind: "agent.call", Edges: []events.Edge{{From: "planner", To: "coder"}, {From: "coder", To: "planner"}}}, Evidence: &events.Evidence{Stack: stack, ChainTail: stack}}
}

// TestRefusalsOfManyAreBrief holds that as many refusals as may be in flight fit into one write,
// that each still has the shape of Answer with what guards go by, and that a check of its own gets
// the whole verdict.
func TestRefusalsOfManyAreBrief(t *testing.T) {
	refuse := func(asks []*Request) {
		for _, q := range asks {
			q.Verdict = longest(q.Event.ID)
		}
	}
	var body strings.Builder
	for range MostAsks {
		body.WriteString(lineOfMany("5c1cd95827ae4ccc922b94dfb9affce7") + "\n")
	}
	batch := postTo(&Handler{Check: refuse}, "", body.String()).Body.String()
	s := openStream(t, &Stream{Handler: Handler{Check: refuse}}, "")
	s.send(body.String())
	var stream strings.Builder
	for range MostAsks {
		text, err := s.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		stream.WriteString(text)
	}
	for name, all := range map[string]string{"batch": batch, "stream": stream.String()} {
		if len(all) > bytesUnderWay {
			t.Errorf("%s: %d refusals take %d bytes, more than one write of %d", name, MostAsks, len(all), bytesUnderWay)
		}
		for line := range strings.Lines(all) {
			var got struct{ Body json.RawMessage }
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			isBrief(t, name, got.Body)
		}
	}
	w := httptest.NewRecorder()
	(&Handler{Check: refuse}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/check", strings.NewReader(lineOfMany("1"))))
	if !bytes.Contains(w.Body.Bytes(), []byte(`"chain_tail"`)) || !bytes.Contains(w.Body.Bytes(), []byte(`"incident_id"`)) {
		t.Errorf("a check by itself gets %s", w.Body)
	}
}

// isBrief holds what a refusal among many has.
func isBrief(t *testing.T, name string, body []byte) {
	t.Helper()
	var a struct {
		problem
		Verdict events.Verdict
		Allowed *bool
		ID      *string
	}
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatal(err)
	}
	want := longest(a.Verdict.ID)
	if a.Allowed == nil || *a.Allowed || a.ID == nil || a.Type == "" || a.Title == "" || a.Detail != want.Message || a.problem.Status != 403 ||
		a.Instance != "urn:weir:verdict:"+want.ID || a.problem.Reason != want.Reason || a.problem.Action != want.Action || *a.problem.Limit != 5 || *a.problem.Observed != 5 ||
		a.problem.Unit != want.Unit || a.problem.RetryAfterS != 7 || a.problem.AgentMessage != want.AgentMessage || a.problem.CorrelationID != want.CorrelationID {
		t.Fatalf("%s: guards lose something of %s", name, body)
	}
	if v := a.Verdict; v.ID != want.ID || v.Revision != want.Revision || v.Mode != want.Mode || v.Scope != want.Scope || v.Action != want.Action || !v.ControlledCutoff || v.Reason != want.Reason || v.Time != want.Time {
		t.Fatalf("%s: the verdict lacks a required member: %s", name, body)
	}
}
