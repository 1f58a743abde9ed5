package otlp

import (
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// TestTempo reads an answer of Grafana Tempo: batches, with ids in base64 as protobuf's JSON has
// them.
func TestTempo(t *testing.T) {
	const spans = `:[{"resource":{},"scopeSpans":[{"spans":[{"traceId":"TRACE","spanId":"SPAN","name":"execute_tool grep","startTimeUnixNano":"1763647200000000000","endTimeUnixNano":"1763647201000000000",` +
		`"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"grep"}}]}]}]}]}`
	tell := func(text string) (out string) {
		f := Format()
		if f.Score(&adapter.Head{Bytes: []byte(text)}) != adapter.Certain {
			t.Errorf("not known: %s", text)
		}
		a := f.New(adapter.Options{})
		emit := func(e *events.Event) { out += string(e.AppendJSON(nil)) }
		if err := a.Decode([]byte(text), emit); err != nil {
			t.Error(err)
		}
		if err := a.Flush(emit); err != nil {
			t.Error(err)
		}
		return out
	}
	want := tell(`{"resourceSpans"` + strings.NewReplacer("TRACE", "4bf92f3577b34da6a3ce929d0e0e4736", "SPAN", "00f067aa0ba902b7").Replace(spans))
	got := tell(`{"batches"` + strings.NewReplacer("TRACE", "S/kvNXezTaajzpKdDg5HNg==", "SPAN", "APBnqgupArc=").Replace(spans))
	if got != want || want == "" {
		t.Errorf("it tells\n%s\nwant\n%s", got, want)
	}
}
