package gate_test

import (
	"errors"
	"strings"
	"testing"

	"weir/cmd/internal/gate"
	"weir/events"
)

// TestTable checks every kind from every source. A new kind fails here until its senders are
// defined.
func TestTable(t *testing.T) {
	orders := map[events.Kind]bool{events.OperatorStop: true, events.OperatorRelease: true, events.OverrideSet: true}
	own := map[events.Kind]bool{events.LimitsSet: true, events.Tick: true, events.AgentActivity: true}
	calls := map[events.Kind]bool{events.AgentCall: true, events.ToolCall: true, events.TaskLoop: true, events.TaskReflect: true}
	told := []events.Kind{events.AgentReturn, events.ToolResult, events.LLMCall, events.TurnStart, events.AgentStatus,
		events.NoteAdded, events.RescueRequest, events.FlowStart, events.FlowEnd, events.VerdictAck, events.ReviewResult}
	if len(told)+len(orders)+len(own)+len(calls) != len(events.Kinds()) {
		t.Fatal("there is a kind of which this table does not say who may send it")
	}
	for _, s := range gate.Sources() {
		for _, k := range events.Kinds() {
			may := calls[k] || !own[k] && s != gate.Ask && (!orders[k] || s == gate.Admin)
			err := s.Admit(&events.Event{Kind: k})
			if (err == nil) != may {
				t.Errorf("%v from %v: %v", k, s, err)
			}
			var fault *events.DecodeError
			if err != nil && (!errors.As(err, &fault) || fault.Code != events.CodeReservedKind || !strings.Contains(fault.Reason, k.String())) {
				t.Errorf("%v from %v: %v does not say what is wrong", k, s, err)
			}
		}
		rescue := &events.Event{Kind: events.RescueRequest, Rescue: &events.Rescue{Admin: true}}
		if err := s.Admit(rescue); (err == nil) != (s == gate.Admin) {
			t.Errorf("rescue.admin from %v: %v", s, err)
		}
		if err := s.Admit(&events.Event{Kind: events.AgentCall, CorrelationID: events.SelfTestFlows + "1"}); err == nil {
			t.Errorf("a flow of weir's own from %v", s)
		}
		if err := s.Admit(&events.Event{}); err == nil {
			t.Errorf("an event without a kind from %v", s)
		}
	}
}
