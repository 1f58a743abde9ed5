package registry

import (
	"errors"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/mapped"
)

// TestHints says of logs that no format reads what they are, and that the mapping it names reads
// a record of theirs.
func TestHints(t *testing.T) {
	samples := map[string]string{
		"calls of W&B Weave":                            `{"project_id":"e/p","id":"1","op_name":"weave:///e/p/op/grep:abc","trace_id":"t","parent_id":"0","started_at":"2026-11-20T14:00:00Z","inputs":{"q":"x"},"output":"y"}`,
		"spans of Braintrust":                           `{"id":"1","span_id":"s","root_span_id":"r","created":"2026-11-20T14:00:00Z","span_attributes":{"name":"grep","type":"tool"},"input":{"q":"x"},"output":"y"}`,
		"spans of Datadog LLM Observability":            `{"trace_id":"t","span_id":"1","name":"grep","span_kind":"tool","start_ms":1763647200000,"ml_app":"a","input":{"value":"x"},"output":{"value":"y"}}`,
		"a history of Temporal":                         `{"eventId":"5","eventTime":"2026-11-20T14:00:00Z","eventType":"EVENT_TYPE_ACTIVITY_TASK_SCHEDULED","activityTaskScheduledEventAttributes":{"activityType":{"name":"grep"},"input":{}}}`,
		"requests of Helicone":                          `{"request_id":"q","request_created_at":"2026-11-20T14:00:00Z","request_properties":{"Helicone-Session-Id":"s"},"prompt_tokens":1,"completion_tokens":2}`,
		"traces of Langfuse without their observations": `{"id":"t","timestamp":"2026-11-20T14:00:00Z","name":"n","sessionId":"s","latency":1}`,
		"Bedrock's log of model invocations":            `{"schemaType":"ModelInvocationLog","timestamp":"2026-11-20T14:00:00Z","requestId":"r","modelId":"m","input":{"inputTokenCount":3},"output":{"outputTokenCount":4}}`,
		"answers of a model":                            `{"id":"c","object":"chat.completion","choices":[]}`,
	}
	for i := range hints {
		h := &hints[i]
		sample := samples[h.what]
		_, err := Detect([]byte(sample))
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "it looks like "+h.what) || (h.mapping == "") != (h.instead != "") {
			t.Errorf("%s: %v", h.what, err)
		}
		if h.mapping == "" {
			continue
		}
		f, err := mapped.Format(h.mapping)
		if err != nil {
			t.Errorf("%s: %v", h.what, err)
			continue
		}
		var told []events.Kind
		if err := f.New(adapter.Options{}).Decode([]byte(sample), func(e *events.Event) { told = append(told, e.Kind) }); err != nil || len(told) == 0 {
			t.Errorf("%s: %v, %v", h.what, told, err)
		}
	}
}

// TestBinaries says of files that hold no text what they are.
func TestBinaries(t *testing.T) {
	tar := make([]byte, 512)
	copy(tar[257:], "ustar")
	for head, want := range map[string]string{
		"PAR1\x15\x04": "duckdb", "\x89PNG\r\n\x1a\n": "image", "%PDF-1.7": "PDF", string(tar): "tar",
		"plain": "lines of text",
	} {
		if _, err := Detect([]byte(head)); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", head, err, want)
		}
	}
}
