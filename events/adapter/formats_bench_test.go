package adapter_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// cpu is the processor time that the process has used, that of the garbage collector
// included.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFormats measures records per second of processor time for each format, framing
// included, on all samples of it. Of spans and runs, of which a record has many, each
// counts.
func BenchmarkFormats(b *testing.B) {
	units := map[string]string{"otlp": `"spanId"`, "otlplogs": `"timeUnixNano"`, "langsmith": `"run_type"`, "openaiagents": `"span_data"`}
	inputs := map[string][]byte{}
	add := func(format, file string) {
		inputs[format] = append(append(inputs[format], bytes.TrimSpace(sample(b, file))...), '\n')
	}
	for _, file := range recordings(b) {
		raw := unpacked(b, file)
		f, err := registry.Detect(raw[:min(len(raw), adapter.HeadSize)])
		if err != nil {
			b.Fatal(err)
		}
		if !strings.HasSuffix(file, ".session.json") && !strings.HasSuffix(file, ".txt") && !strings.HasSuffix(file, ".log") {
			add(f.Name, "real/"+file+".gz")
		}
	}
	for _, s := range registry.Sources() {
		if inputs[s.Format] == nil {
			add(s.Format, s.Sample)
		}
	}
	for _, f := range append(registry.Formats(), mapping(b)) {
		in := inputs[f.Name]
		name := f.Name
		if strings.HasPrefix(name, "map:") {
			in, name = bytes.TrimSpace(sample(b, "map/any.jsonl")), "map"
			in = append(in, '\n')
		}
		once := int64(len(in))
		in = bytes.Repeat(in, 1+(256<<10)/len(in))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			records, told := 0, 0
			began := cpu(b)
			for b.Loop() {
				r, err := adapter.NewReader(bytes.NewReader(in))
				if err != nil {
					b.Fatal(err)
				}
				r.Use(f.Framing, nil)
				var a adapter.Adapter
				emit := func(*events.Event) { told++ }
				for again := int64(0); ; {
					record, err := r.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					// What comes again would be passed over, so it goes to another adapter.
					if record.Offset >= again {
						if a != nil {
							_ = a.Flush(emit)
						}
						a, again = f.New(adapter.Options{}), (record.Offset/once+1)*once
					}
					records++
					_ = a.Decode(record.Bytes, emit) // samples hold broken lines, too
				}
				if err := a.Flush(emit); err != nil {
					b.Fatal(err)
				}
			}
			if unit := units[f.Name]; unit != "" {
				records = b.N * bytes.Count(in, []byte(unit))
			}
			seconds := (cpu(b) - began).Seconds()
			b.ReportMetric(float64(records)/seconds, "records/cpu-s")
			b.ReportMetric(float64(told)/seconds, "events/cpu-s")
			b.ReportMetric(float64(len(in)*b.N)/float64(records), "B/record")
		})
	}
}
