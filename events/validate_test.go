package events

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestKindsNeedTheirFields(t *testing.T) {
	f := func(kind Kind, needs ...string) {
		t.Helper()
		parts := map[string]string{
			"to": `"to":{"agent":"a"}`, "from": `"from":{"session":"s"}`, "tool": `"tool":{"name":"t"}`, "turn_id": `"turn_id":"1"`,
			"agent_state": `"agent_state":{}`, "note": `"note":{}`, "rescue": `"rescue":{}`,
			"ack":      `"ack":{"verdict_id":"v","applied":true}`,
			"review":   `"review":{"decision":"resume"}`,
			"override": `"override":{"scope":"flow","scope_id":"f","rule":"r","mode":"off","reason":"r","by":"b","expires":"2026-12-01T00:00:00Z"}`,
			"operator": `"operator":{"reason":"r","by":"b"}`, "limits": `"limits":{}`,
		}
		text := func(but string) []byte {
			out := []string{`"id":"1","time":"2026-11-20T14:00:00Z","kind":"` + kind.String() + `"`}
			for _, name := range needs {
				if name != but {
					out = append(out, parts[name])
				}
			}
			return []byte("{" + strings.Join(out, ",") + "}")
		}
		if _, ok := agree(t, text("")); !ok {
			t.Errorf("refused %s", text(""))
		}
		for _, name := range needs {
			agree(t, text(name))
			fault, ok := errors.AsType[*DecodeError](Decode(text(name), new(Event)))
			if !ok || fault.Code != CodeMissingField || fault.Field != name {
				t.Errorf("%s without %s: %v", kind, name, fault)
			}
		}
	}
	f(AgentCall, "to")
	f(AgentReturn, "from")
	f(ToolCall, "tool")
	f(ToolResult, "tool")
	f(LLMCall)
	f(TurnStart, "turn_id")
	f(TaskLoop)
	f(TaskReflect)
	f(AgentStatus, "from", "agent_state")
	f(AgentActivity, "agent_state")
	f(NoteAdded, "note")
	f(RescueRequest, "to", "rescue")
	f(FlowStart)
	f(FlowEnd)
	f(VerdictAck, "ack")
	f(ReviewResult, "to", "review")
	f(OverrideSet, "override")
	f(OperatorStop, "operator")
	f(OperatorRelease, "operator")
	f(LimitsSet, "limits")
	f(Tick)
}

func TestOnlyWeirWritesLimitsAndTicks(t *testing.T) {
	for _, k := range Kinds() {
		err := (&Event{Kind: k}).FromProducer()
		fault, refused := errors.AsType[*DecodeError](err)
		if refused != (k == LimitsSet || k == Tick || k == AgentActivity) || refused && (fault.Code != CodeReservedKind || fault.Field != "kind") {
			t.Errorf("%s: %v", k, err)
		}
	}
	err := (&Event{Kind: AgentCall, CorrelationID: SelfTestFlows + "1"}).FromProducer()
	if fault, refused := errors.AsType[*DecodeError](err); !refused || fault.Field != "correlation_id" {
		t.Errorf("a flow of the self-test: %v", err)
	}
}

func TestValidateSaysWhatDecodeWillSay(t *testing.T) {
	f := func(change func(*Event), code Code, field string) {
		t.Helper()
		e := Event{ID: "1", Time: StampOf(time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)), Kind: ToolCall, Tool: Tool{Name: "search"}}
		change(&e)
		fault, _ := errors.AsType[*DecodeError](e.Validate())
		switch {
		case code == "" && fault != nil:
			t.Errorf("refused: %v", fault)
		case code != "" && (fault == nil || fault.Code != code || fault.Field != field):
			t.Errorf("got %v, want %s, field %q", fault, code, field)
		}
	}
	f(func(*Event) {}, "", "")
	f(func(e *Event) { e.ID = "" }, CodeMissingField, "id")
	f(func(e *Event) { e.Time = 0 }, CodeMissingField, "time")
	f(func(e *Event) { e.Kind = 0 }, CodeMissingField, "kind")
	f(func(e *Event) { e.Tool.Name = "" }, CodeMissingField, "tool")
	f(func(e *Event) { e.Time = -1 }, CodeInvalidValue, "time")
	f(func(e *Event) { e.DurationMS = -1 }, CodeOutOfRange, "duration_ms")
	f(func(e *Event) { e.DurationMS = math.NaN() }, CodeSyntax, "duration_ms")
	f(func(e *Event) { e.Sequence = -1 }, CodeOutOfRange, "sequence")
	f(func(e *Event) { e.Tool.Args = []byte(`nil`) }, CodeSyntax, "tool.args")
	f(func(e *Event) { e.Source = strings.Repeat("x", MaxSource+1) }, CodeTooLong, "source")
}

func TestDecodeErrorsSayWhatWhereAndHowToGoOn(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if err := Decode([]byte(text), new(Event)); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	f(with(`"correlation_id":"a","correlationId":"a"`),
		`duplicate_field at byte 81, field "correlation_id": is given twice, once as correlationId; give it once`)
	f(with(`"Origin":"user"`), `misspelled_field at byte 60, field "Origin": is not a known name; write origin`)
	f(with(`"tool":{"name":"a","attempt":0}`), `out_of_range at byte 89, field "tool.attempt": want a number of at least 1`)
	f(with(`"origin":"robot"`), `invalid_value at byte 69, field "origin": "robot" is not known; want one of user, agent, scheduler, applet, system`)
	if got := (&Event{Kind: Tick}).FromProducer().Error(); got != `reserved_kind, field "kind": tick is written by weir alone; leave it out` {
		t.Error(got)
	}
}

func TestCodesAreListedOnce(t *testing.T) {
	all := Codes()
	if slices.Sort(all); len(slices.Compact(all)) != 12 {
		t.Error(all)
	}
}

func TestNamesOfFieldsAreTellable(t *testing.T) {
	f := func(fs *fields) {
		t.Helper()
		folded := map[string]bool{}
		for i, name := range fs.names[1:] {
			low := plainFold(name)
			if len(name) >= maxFolded || folded[low] || int(fs.exact.find(name)) != i+1 {
				t.Errorf("%q is too long, like another but for case and underscores, or not found", name)
			}
			folded[low] = true
		}
		if len(fs.names) > 64 {
			t.Errorf("%d names have no room in a uint64", len(fs.names))
		}
	}
	f(kindIndex)
	for _, fs := range objects() {
		f(fs)
	}
}

// objects are the fields of all objects of an event, by where they stand in the schema.
func objects() map[string]*fields {
	return map[string]*fields{"": eventFields, "party": partyFields, "tool": toolFields, "work": workFields, "usage": usageFields,
		"agent_state": stateFields, "note": noteFields, "rescue": rescueFields, "ack": ackFields, "review": reviewFields,
		"override": overrideFields, "operator": operatorFields}
}

// TestLoopsWithoutATaskAreCounted holds that leaving the task out is no way around its limits.
func TestLoopsWithoutATaskAreCounted(t *testing.T) {
	for _, kind := range []Kind{TaskLoop, TaskReflect} {
		ev, ok := agree(t, []byte(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"`+kind.String()+`"}`))
		if !ok || ev.TaskID != UnknownTask {
			t.Errorf("%s without a task is of task %q", kind, ev.TaskID)
		}
	}
	if ev, _ := agree(t, []byte(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call","to":{"agent":"a"}}`)); ev.TaskID != "" {
		t.Errorf("a call without a task is of task %q", ev.TaskID)
	}
}
