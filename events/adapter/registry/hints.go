package registry

import (
	"bytes"

	"weir/events/adapter"
)

// hint says of a log that no format reads what it is, and how to go on.
type hint struct {
	what    string
	members []string // of the outermost object
	names   []string // that stand anywhere in the beginning
	mapping string   // that reads it; "" where none can
	instead string   // what to do where no mapping can read it
}

// hints are logs that people have and that are read by a mapping, or not at all. A list that
// lies deeper is found as in any other log.
var hints = []hint{
	{what: "calls of W&B Weave", members: []string{"op_name", "started_at", "trace_id"},
		mapping: `trace_id=.trace_id,id=.id,time=.started_at,tool=(.op_name|split("/")|last|split(":")|first),args=.inputs,result=.output,error=.exception`},
	{what: "spans of Braintrust", members: []string{"span_id", "root_span_id", "span_attributes"},
		mapping: `flow=.root_span_id,id=.id,time=.created,kind=.span_attributes.type,kind.tool=tool.call,tool=.span_attributes.name,args=.input,result=.output,error=.error`},
	{what: "spans of Datadog LLM Observability", names: []string{`"span_kind"`, `"ml_app"`},
		mapping: `trace_id=.trace_id,id=.span_id,time=.start_ms,kind=.span_kind,kind.tool=tool.call,tool=.name,args=.input,result=.output`},
	{what: "a history of Temporal", names: []string{`"eventType"`, `EVENT_TYPE_`},
		mapping: `flow="WORKFLOW",id=.eventId,time=.eventTime,kind=.eventType,kind.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED=tool.call,kind.EVENT_TYPE_ACTIVITY_TASK_COMPLETED=tool.result,kind.EVENT_TYPE_ACTIVITY_TASK_FAILED=tool.result,` +
			`tool=.activityTaskScheduledEventAttributes.activityType.name,call_id=.activityTaskCompletedEventAttributes.scheduledEventId//.activityTaskFailedEventAttributes.scheduledEventId//.eventId,` +
			`args=.activityTaskScheduledEventAttributes.input,result=.activityTaskCompletedEventAttributes.result,error=.activityTaskFailedEventAttributes.failure.message`},
	{what: "requests of Helicone", members: []string{"request_id", "request_created_at"},
		mapping: `session=.request_properties."Helicone-Session-Id"//.request_id,id=.request_id,time=.request_created_at,kind="llm.call",model=.model,input_tokens=.prompt_tokens,output_tokens=.completion_tokens`},
	{what: "traces of Langfuse without their observations", members: []string{"id", "timestamp", "sessionId", "latency"},
		instead: "export its observations, which tell what was called"},
	{what: "Bedrock's log of model invocations", members: []string{"schemaType", "modelId", "requestId"},
		mapping: `flow=.requestId,id=.requestId,time=.timestamp,kind="llm.call",model=.modelId,input_tokens=.input.inputTokenCount,output_tokens=.output.outputTokenCount`},
	{what: "answers of a model", names: []string{`"chat.completion"`},
		instead: "they tell which tools it asked for, and not what came of it: record the program that called it, by OpenTelemetry or as events"},
}

// hintOf returns the hint for the beginning of a log, nil when nothing is known of it.
func hintOf(head *adapter.Head) *hint {
	for top := range head.Tops() {
		for i := range hints {
			h := &hints[i]
			fits := top.Has(h.members...)
			for _, name := range h.names {
				fits = fits && bytes.Contains(head.Bytes, []byte(name))
			}
			if fits {
				return h
			}
		}
		break
	}
	return nil
}

// String says what it is, and how to go on.
func (h *hint) String() string {
	if h.mapping == "" {
		return "it looks like " + h.what + "; " + h.instead
	}
	return "it looks like " + h.what + ", which a mapping reads: --map '" + h.mapping + "'"
}
