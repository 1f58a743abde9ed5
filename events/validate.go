package events

import (
	"fmt"
	"strings"
)

// UnknownTask is the task of a loop or a reflection that names none: all of a flow that do not say
// what they are for are counted together.
const UnknownTask = "unknown"

// Validate reports what Decode will say of the canonical encoding of e. It is for events that
// are made by hand or by an adapter and not decoded. The error is a *DecodeError whose Offset
// is a place in AppendJSON's output. It costs an encoding and a decoding.
func (e *Event) Validate() error {
	_, err := e.Canonical()
	return err
}

// Canonical returns the canonical encoding of e, and what Validate says of it: for who puts
// the event into a log if it is fit for one. With an error there is a line, too, for the dead
// letter.
func (e *Event) Canonical() (line []byte, err error) {
	var again Event
	line = e.AppendJSON(nil)
	return line, Decode(line, &again)
}

// FromProducer refuses the kinds and the flows that only weir itself may write. Whoever takes
// events in from outside calls it after Decode, which has to read weir's own log as well. The
// error is a *DecodeError.
func (e *Event) FromProducer() error {
	if e.Kind == LimitsSet || e.Kind == Tick || e.Kind == AgentActivity {
		return &DecodeError{Code: CodeReservedKind, Field: "kind", Offset: -1,
			Reason: fmt.Sprintf("%s is written by weir alone; leave it out", e.Kind)}
	}
	// Nobody is shown the flows of the self-test, so a producer could hide in one.
	if strings.HasPrefix(e.CorrelationID, SelfTestFlows) {
		return &DecodeError{Code: CodeReservedKind, Field: "correlation_id", Offset: -1,
			Reason: "flows of " + SelfTestFlows + " are weir's own, to test itself; choose another id"}
	}
	return nil
}

// validate wants of each kind what its rules cannot do without, and nothing that they only
// profit from: a log that tells little is folded as far as it goes. The one thing that it
// changes is that a loop without a task gets one.
func (e *Event) validate() *DecodeError {
	switch {
	case e.ID == "":
		return e.missing("id", "every event")
	case e.Time == 0:
		return e.missing("time", "every event")
	case e.Kind == KindUnset:
		return e.missing("kind", "every event")
	}
	switch e.Kind {
	case AgentCall:
		return e.needs(!e.To.IsZero(), "to")
	case AgentReturn:
		return e.needs(!e.From.IsZero(), "from")
	case ToolCall, ToolResult:
		return e.needs(e.Tool.Name != "", "tool")
	case TurnStart:
		return e.needs(e.TurnID != "", "turn_id")
	case TaskLoop, TaskReflect:
		if e.TaskID == "" {
			e.TaskID = UnknownTask // left out, a task would have no limits
		}
	case AgentStatus, AgentActivity:
		if e.From.IsZero() && e.Kind == AgentStatus { // what a flow tells of itself needs nobody

			return e.needs(false, "from")
		}
		return e.needs(e.AgentState != nil, "agent_state")
	case NoteAdded:
		return e.needs(e.Note != nil, "note")
	case RescueRequest:
		if e.To.IsZero() {
			return e.needs(false, "to")
		}
		return e.needs(e.Rescue != nil, "rescue")
	case VerdictAck:
		return e.needs(e.Ack != nil, "ack")
	case ReviewResult:
		if e.To.IsZero() {
			return e.needs(false, "to")
		}
		return e.needs(e.Review != nil, "review")
	case OverrideSet:
		return e.needs(e.Override != nil, "override")
	case OperatorStop, OperatorRelease:
		return e.needs(e.Operator != nil, "operator")
	case LimitsSet:
		return e.needs(len(e.Limits) > 0, "limits")
	}
	return nil
}

// needs takes what was found and not the field, since each is looked for in another way.
func (e *Event) needs(has bool, field string) *DecodeError {
	if has {
		return nil
	}
	return e.missing(field, e.Kind.String())
}

// Offset is set by Decode, to the end of the event: that is where the field was not found.
func (e *Event) missing(field, who string) *DecodeError {
	return &DecodeError{Code: CodeMissingField, Field: field, Offset: -1, Reason: who + " needs it; add it"}
}
