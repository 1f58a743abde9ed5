package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// oneSpan is a batch of one span that ends n ms after an instant.
func oneSpan(n int, trace, id, parent uint64, attributes string) []byte {
	from := ""
	if parent != 0 {
		from = fmt.Sprintf(`"parentSpanId":"%016x",`, parent)
	}
	return fmt.Appendf(nil, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%016x",%s"name":"s",`+
		`"startTimeUnixNano":"%d000000","endTimeUnixNano":"%d000000","attributes":[%s]}]}]}]}`, trace, id, from, 1771900000000+n, 1771900000001+n, attributes)
}

func attribute(key, value string) string {
	return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value)
}

// TestBounded holds that no memory grows beyond MaxHeld for any input, and that every span is
// emitted all the same.
func TestBounded(t *testing.T) {
	const most, spans = 400, 20_000
	f := func(name string, batch func(n int) []byte, kind events.Kind) {
		t.Helper()
		r := newReader(adapter.Options{MaxHeld: most}).(*reader)
		told := 0
		emit := func(e *events.Event) {
			if e.Kind == kind {
				told++
			}
		}
		for n := range spans {
			if err := r.Decode(batch(n), emit); err != nil {
				t.Fatal(err)
			}
			held := 0
			if r.held > most || r.traces.Len() > most {
				t.Fatalf("%s: %d spans and %d traces are held", name, r.held, r.traces.Len())
			}
			if n%1000 != 0 {
				continue
			}
			for _, tr := range r.traces.All() {
				held += len(tr.spans)
				for what, size := range map[string]int{"pending": len(tr.pending), "awaited": len(tr.awaited), "runs": len(tr.runs),
					"answers": len(tr.answers), "worked": tr.worked.Len(), "said": len(tr.said)} {
					if size > most {
						t.Fatalf("%s: %d %s", name, size, what)
					}
				}
			}
			if held != r.held {
				t.Fatalf("%s: %d spans are held, %d counted", name, held, r.held)
			}
		}
		if err := r.Flush(emit); err != nil {
			t.Fatal(err)
		}
		if told != spans || r.held != 0 {
			t.Errorf("%s: %d of %d were told, %d are held", name, told, spans, r.held)
		}
	}
	tool := func(n int) string {
		return attribute("gen_ai.operation.name", "execute_tool") + "," + attribute("gen_ai.tool.name", fmt.Sprint("tool", n))
	}
	agent := func(n int) string {
		return attribute("gen_ai.operation.name", "invoke_agent") + "," + attribute("gen_ai.agent.name", fmt.Sprint("agent", n))
	}
	f("a trace for each span", func(n int) []byte { return oneSpan(n, uint64(n+1), 1, 2, tool(1)) }, events.ToolCall)
	f("a trace without end", func(n int) []byte { return oneSpan(n, 1, uint64(n+2), uint64(n+1_000_000), tool(1)) }, events.ToolCall)
	f("a trace whose root came first", func(n int) []byte { return oneSpan(n, 1, uint64(n+1), uint64(min(n, 1)), tool(n)) }, events.ToolCall)
	f("agents without end", func(n int) []byte { return oneSpan(n, 1, uint64(n+2), 1, agent(n)) }, events.AgentCall)
	f("spans inside each other", func(n int) []byte { return oneSpan(n, 1, uint64(spans-n+1), uint64(spans-n), tool(n)) }, events.ToolCall)
	f("spans around each other", func(n int) []byte { return oneSpan(n, 1, uint64(n+1), uint64(n+2), tool(n)) }, events.ToolCall)
}

// TestCircles feeds spans that lie above each other and are linked with themselves.
func TestCircles(t *testing.T) {
	for _, attributes := range []string{"", attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.operation.name", "execute_tool"),
		attribute("executor.id", "x"), attribute("openinference.span.kind", "LLM")} {
		r := newReader(adapter.Options{})
		told := 0
		emit := func(*events.Event) { told++ }
		for n := range 8 {
			batch := oneSpan(n, 1, uint64(n+1), uint64((n+1)%8+1), attributes)
			link := fmt.Sprintf(`"links":[{"spanId":"%016x"}],"name"`, (n+3)%8+1)
			if err := r.Decode(bytes.Replace(batch, []byte(`"name"`), []byte(link), 1), emit); err != nil {
				t.Fatal(err)
			}
		}
		visit := oneSpan(9, 1, 20, 3, attribute("gen_ai.operation.name", "invoke_agent")+","+attribute("gen_ai.agent.name", "a"))
		if err := errors.Join(r.Decode(visit, emit), r.Flush(emit)); err != nil || told < 2 {
			t.Errorf("%d events, %v", told, err)
		}
	}
}

func TestSampledRate(t *testing.T) {
	f := func(state string, want int64) {
		t.Helper()
		if got := sampledRate(state); got != want {
			t.Errorf("one span of %q stands for %d, want %d", state, got, want)
		}
	}
	f("", 0)
	f("ot=th:0", 0)
	f("ot=th:8", 2)
	f("vendor=x, ot=p:3;th:fd70a3d70a3d71;rv:1", 100)
	f("ot=th:zz", 0)
	f("ot=th:123456789abcdef", 0)
	f("th:8", 0)
}

// TestTimesInOtherUnits holds that spans with times that are not in nanoseconds are refused: all
// calls of an hour would have been made within some microseconds.
func TestTimesInOtherUnits(t *testing.T) {
	for unit, digits := range map[string]string{"s": "", "ms": "000", "µs": "000000"} {
		span := oneSpan(1, 1, 1, 2, attribute("gen_ai.operation.name", "execute_tool")+","+attribute("gen_ai.tool.name", "x"))
		for _, name := range []string{"1771900000001", "1771900000002"} {
			span = bytes.Replace(span, []byte(name+"000000"), []byte("1771900000"+digits), 1)
		}
		r := newReader(adapter.Options{})
		err := r.Decode(span, func(*events.Event) { t.Errorf("a span with times in %s was told", unit) })
		if err == nil || !strings.Contains(err.Error(), "want a time in ns since 1970") {
			t.Errorf("times in %s: %v", unit, err)
		}
		if err := r.Flush(func(*events.Event) { t.Errorf("a span with times in %s was told", unit) }); err != nil {
			t.Error(err)
		}
	}
}

// TestWildTimes holds that spans whose root never comes are emitted about a hold after they came.
// Wrong times of single other spans do not change that, and these emit nothing early.
func TestWildTimes(t *testing.T) {
	const spans, year2100 = 600, 4102444800000 - 1771900000000
	tool := attribute("gen_ai.operation.name", "execute_tool") + "," + attribute("gen_ai.tool.name", "x")
	for name, wild := range map[string]func(i int) (n int, ok bool){
		"none":            func(int) (int, bool) { return 0, false },
		"one far ahead":   func(i int) (int, bool) { return year2100, i == 100 },
		"one at first":    func(i int) (int, bool) { return year2100, i == 0 },
		"one an hour on":  func(i int) (int, bool) { return i*1000 + 3_600_000, i == 100 },
		"one of 2001":     func(i int) (int, bool) { return -791900000000, i == 100 },
		"one of four":     func(i int) (int, bool) { return year2100, i%4 == 3 },
		"another machine": func(i int) (int, bool) { return i*1000 + 3_600_000, i%4 == 3 },
	} {
		r := newReader(adapter.Options{})
		told := map[string]bool{}
		emit := func(e *events.Event) {
			if e.Kind == events.ToolCall {
				told[e.TraceID] = true
			}
		}
		early := 0
		for i := range spans {
			batches := [][]byte{oneSpan(i*1000, uint64(i+1), 1, 2, tool)}
			if n, ok := wild(i); ok {
				batches = append(batches, oneSpan(n, uint64(spans+i+1), 1, 2, tool))
			}
			for _, batch := range batches {
				if err := r.Decode(batch, emit); err != nil {
					t.Fatal(err)
				}
			}
			for _, young := range []int{i, max(0, i-28)} {
				if told[fmt.Sprintf("%032x", young+1)] {
					early++
				}
			}
		}
		late := 0
		for i := range spans - 40 {
			if !told[fmt.Sprintf("%032x", i+1)] {
				late++
			}
		}
		if early+late > 0 {
			t.Errorf("%s: %d spans told early and %d not yet, of %d", name, early, late, spans)
		}
	}
}
