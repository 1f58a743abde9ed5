package otlp_test

import (
	"fmt"
	"testing"

	"weir/events"
)

// TestResultsAreWhatToolsBrought holds that what tracers write around a result, as ids of calls and
// their arguments, makes no other result of it, and hides no error.
func TestResultsAreWhatToolsBrought(t *testing.T) {
	message := `{"type": "tool", "data": {"content": "%s", "type": "tool", "name": "look", "id": null, "tool_call_id": "c%d", "status": "%s"}}`
	output := `{"blocks": [{"text": "%s"}], "tool_name": "look", "raw_input": {"args": [], "kwargs": {"n": %d}}, "raw_output": "%[1]s", "is_error": %[3]s}`
	results := func(form, status string, said ...string) (all []events.Event) {
		for i, s := range said {
			e := read(t, span(i+1, text("openinference.span.kind", "TOOL")+", "+text("tool.name", "look")+", "+text("output.value", fmt.Sprintf(form, s, i, status))))
			all = append(all, e[len(e)-1])
		}
		return all
	}
	for name, form := range map[string][3]string{"LangChain": {message, "success", "error"}, "LlamaIndex": {output, "false", "true"}} {
		got := results(form[0], form[1], "running, 10 % done", "running, 10 % done", "running, 20 % done")
		if got[0].Content != got[1].Content || got[0].Content == got[2].Content || got[0].Content.IsZero() {
			t.Errorf("%s: results are %v", name, got)
		}
		if e := results(form[0], form[2], "card declined")[0]; e.Status != events.StatusError || e.ErrorType != "card declined" {
			t.Errorf("%s: an error is %q, %q", name, e.Status, e.ErrorType)
		}
	}
}
