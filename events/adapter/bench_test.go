package adapter_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/adapter/claudecode"
	"weir/events/adapter/otlp"
	"weir/events/adapter/trace"
)

// BenchmarkAdapters measures records per second, framing included.
func BenchmarkAdapters(b *testing.B) {
	golden := func(file string) []byte {
		in, err := os.ReadFile("testdata/golden/" + file)
		if err != nil {
			b.Fatal(err)
		}
		return bytes.Repeat(in, 20)
	}
	run := func(name string, f adapter.Format, in []byte) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			told := 0
			for b.Loop() {
				r, err := adapter.NewReader(bytes.NewReader(in))
				if err != nil {
					b.Fatal(err)
				}
				if err := adapter.Read(r, f, f.New(adapter.Options{}), func(*events.Event) { told++ }, nil); err != nil {
					b.Fatal(err)
				}
			}
			seconds := b.Elapsed().Seconds()
			b.ReportMetric(float64(b.N)*float64(bytes.Count(in, []byte("\n")))/seconds, "records/s")
			b.ReportMetric(float64(told)/seconds, "events/s")
		})
	}
	var lines []byte
	for i := range 1000 {
		lines = fmt.Appendf(lines, `{"id":"m-%d","source":"/bus","time":"2026-11-20T14:00:04.123Z","kind":"tool.call","correlation_id":"flow-%d","from":{"agent":"planner"},`+
			`"tool":{"name":"search","call_id":"c-%d","args_hash":"xxh64:4f3a2b9c00112233"},"trace_id":"0af7651916cd43dd8448eb211c80319c"}`+"\n", i, i%10, i)
	}
	run("canonical", canonical.Format(), lines)
	run("trace", trace.Format(), golden("trace/basic.in"))
	run("claudecode", claudecode.Format(), golden("claudecode/mixed.in"))
	var batches, single []byte
	for _, r := range truths {
		whole := recording(b, r.file)
		batches = append(batches, whole...)
		for _, s := range spans(b, whole) {
			single = append(append(single, s...), '\n')
		}
	}
	run("otlp/batches", otlp.Format(), batches)
	run("otlp/single_spans", otlp.Format(), single)
}
