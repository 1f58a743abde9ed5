package adapter_test

import (
	"bytes"
	"testing"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// BenchmarkTracers measures records, or spans and runs, per second, framing included.
func BenchmarkTracers(b *testing.B) {
	whole := map[string][]byte{}
	units := map[string]int{}
	unit := map[string]string{"openaiagents": `"span_data"`, "langsmith": `"run_type"`, "crewai": `"event_id"`, "autogen": `"type": "`}
	for _, r := range tracerTruths {
		raw := unpacked(b, r.file)
		whole[r.format] = append(append(whole[r.format], raw...), '\n')
	}
	for _, format := range []string{"openaiagents", "langsmith", "crewai", "autogen"} {
		f, err := registry.Lookup(format)
		if err != nil {
			b.Fatal(err)
		}
		in := whole[format]
		units[format] = bytes.Count(in, []byte(unit[format]))
		if format == "autogen" {
			units[format] = bytes.Count(in, []byte("\n"))
		}
		b.Run(format, func(b *testing.B) {
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
			b.ReportMetric(float64(b.N)*float64(units[format])/seconds, "records/s")
			b.ReportMetric(float64(told)/seconds, "events/s")
		})
	}
}
