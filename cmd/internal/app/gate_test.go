package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/api"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/intake"
	"weir/events"
)

// TestFilesGiveNoOrders follows a file and a folder that a user may write to: a person's
// orders in them become dead letters that say why.
func TestFilesGiveNoOrders(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "one.jsonl"), filepath.Join(dir, "many")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	now := events.StampOf(clock.NewFake().Now())
	operator := &events.Operator{Reason: "a test", By: "ann"}
	orders := []*events.Event{
		{Kind: events.OperatorStop, Operator: operator},
		{Kind: events.OperatorRelease, Operator: operator},
		{Kind: events.OverrideSet, Override: &events.Override{Scope: events.ScopeFlow, ScopeID: "f", Rule: "max_total_calls", Mode: "off", Reason: "a test", By: "ann", Expires: now + 1000}},
		{Kind: events.RescueRequest, From: events.Party{Agent: "ann"}, To: events.Party{Agent: "planner"}, Rescue: &events.Rescue{Reason: "a claim", Admin: true}},
	}
	for i, ev := range orders {
		ev.ID, ev.Time, ev.CorrelationID = fmt.Sprint("order", i), now, "f"
	}
	for _, path := range []string{file, filepath.Join(folder, "a.jsonl")} {
		if err := os.WriteFile(path, []byte(lines(call("g", 1, "a", "b"))+lines(orders...)+lines(call("g", 2, "a", "b"))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := begin(t, Options{Follow: []intake.Follow{{Path: file}, {Path: folder}}})
	r.until(func() bool {
		n := 0
		for _, line := range r.journalLines() {
			if strings.Contains(line, `"id":"g-2"`) {
				n++
			}
		}
		return n == 2
	})
	for _, line := range r.journalLines() {
		if strings.Contains(line, `"id":"order`) {
			t.Errorf("the journal has %s", line)
		}
	}
	var told struct {
		DeadLetters []api.DeadLetterAnswer `json:"dead_letters"`
	}
	if err := json.Unmarshal([]byte(r.do("GET", "/v1/deadletters?limit=100", "").body), &told); err != nil || len(told.DeadLetters) != 2*len(orders) {
		t.Fatalf("%d dead letters, %v", len(told.DeadLetters), err)
	}
	for _, l := range told.DeadLetters {
		if l.Code != string(events.CodeReservedKind) || !strings.Contains(l.Reason, "admin token") {
			t.Errorf("dead letter %+v", l)
		}
	}
}

// TestSpansGiveNoFlowsOfWeir holds that what adapters make of a sender's spans passes the
// same gate.
func TestSpansGiveNoFlowsOfWeir(t *testing.T) {
	r := begin(t, Options{})
	batch := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"abababababababababababababababab","spanId":"0102030405060708",`+
		`"startTimeUnixNano":"1771900000000000000","endTimeUnixNano":"1771900001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"invoke_agent"}},`+
		`{"key":"gen_ai.agent.name","value":{"stringValue":"clerk"}},{"key":"correlation_id","value":{"stringValue":%q}}]}]}]}]}`, events.SelfTestFlows+"1")
	r.want(r.do("POST", "/v1/traces", batch, "Content-Type", "application/json"), 200)
	for _, line := range r.journalLines() {
		if strings.Contains(line, events.SelfTestFlows) {
			t.Errorf("the journal has %s", line)
		}
	}
	if r.store.DeadLetterCount() == 0 {
		t.Error("nothing is said of what was refused")
	}
}
