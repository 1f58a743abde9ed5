package otlp_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
)

// nested is a trace of runs within each other. Each run makes one request of 110 tokens, and reports
// those of the runs within it as its own, unless it reports its own alone.
func nested(runs int, requests, inclusive bool) string {
	var spans []string
	number := func(key string, n int) string { return fmt.Sprintf(`{"key":%q,"value":{"intValue":"%d"}}`, key, n) }
	for i := range runs {
		n := 1
		if inclusive {
			n = runs - i
		}
		at := func(ms int) string { return fmt.Sprint(1_764_000_000_000_000_000 + int64(ms)*1_000_000) }
		frame := func(id, parent, begin, end int, attributes ...string) {
			spans = append(spans, fmt.Sprintf(`{"traceId":"%032x","spanId":"%016x","parentSpanId":"%016x","name":"s","startTimeUnixNano":"%s","endTimeUnixNano":"%s","attributes":[%s]}`,
				7, id, parent, at(begin), at(end), strings.Join(attributes, ",")))
		}
		parent := 0
		if i > 0 {
			parent = 100 + i - 1
		}
		frame(100+i, parent, i*10, 10_000-i*10, text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", fmt.Sprint("agent-", i)),
			number("gen_ai.usage.input_tokens", 100*n), number("gen_ai.usage.output_tokens", 10*n))
		if requests {
			frame(500+i, 100+i, i*10+1, i*10+2, text("gen_ai.operation.name", "chat"), text("gen_ai.request.model", "m"), number("gen_ai.usage.input_tokens", 100), number("gen_ai.usage.output_tokens", 10))
		}
	}
	return `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join(spans, ",") + `]}]}]}`
}

// TestNestedRunsCountOnce holds that 27 runs within each other report the tokens of each request once
// as parts, and once as sums.
func TestNestedRunsCountOnce(t *testing.T) {
	const runs = 27
	for _, c := range []struct {
		requests, inclusive bool
		want                [2]int64 // in parts, and as sums
	}{
		{true, true, [2]int64{110 * runs, 110 * runs}},
		{false, true, [2]int64{0, 110 * runs}},
		// Runs that report their own alone look like those of one request; the parts then count.
		{true, false, [2]int64{110 * runs, 110}},
	} {
		var got [2]int64
		for _, ev := range read(t, nested(runs, c.requests, c.inclusive)) {
			way := 0
			if ev.Usage.Scope == events.UsageAggregate {
				way = 1
			}
			got[way] += ev.Usage.Input + ev.Usage.Output
		}
		if got != c.want {
			t.Errorf("requests %t, inclusive %t: %v tokens, want %v", c.requests, c.inclusive, got, c.want)
		}
	}
}
