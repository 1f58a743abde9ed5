package adapter_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/a2a"
)

// TestA2AFlowExtension holds that what a message says by weir's extension is in its event: before baggage, and
// after what names the flow itself.
func TestA2AFlowExtension(t *testing.T) {
	const said = `"urn:weir:a2a:flow:v1":{"flow":"f1","parent":"p","root":"top","hops":3}`
	for metadata, want := range map[string]string{
		said: "f1 baggage p top 3",
		said + `,"baggage":"correlation_id=b,root_correlation_id=other"`: "f1 baggage p top 3",
		said + `,"correlation_id":"e"`:                                   "e explicit p top 3",
		`"urn:weir:a2a:flow:v1":{"hops":"3"},"correlation_id":"e"`:       "e explicit   0",
		`"urn:weir:a2a:flow:v1":7,"correlation_id":"e"`:                  "e explicit   0",
	} {
		line := fmt.Sprintf(`{"time":"2026-11-20T14:00:00Z","direction":"request","exchange":1,"proxy":"hub","headers":{},"body":{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"metadata":{%s},"parts":[{"text":"go"}]}}}}`, metadata)
		var got []string
		reader := a2a.Format().New(adapter.Options{})
		if err := reader.Decode([]byte(line), func(ev *events.Event) {
			got = append(got, fmt.Sprintf("%s %s %s %s %d", ev.CorrelationID, ev.CorrelationSource, ev.ParentCorrelationID, ev.RootCorrelationID, ev.DelegationDepth))
		}); err != nil || strings.Join(got, ", ") != want {
			t.Errorf("%s: %q (%v), want %q", metadata, got, err, want)
		}
	}
}
