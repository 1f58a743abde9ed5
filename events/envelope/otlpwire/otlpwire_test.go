package otlpwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/otlp"
)

// batches are those of all recorded runs, by file.
func batches(t testing.TB) map[string][][]byte {
	t.Helper()
	files, err := filepath.Glob("../../adapter/testdata/real/*/*otlp.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	out := map[string][][]byte{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := adapter.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		r.Use(adapter.Documents, func(f adapter.Fault) { t.Error(f) })
		for {
			record, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			out[name] = append(out[name], bytes.Clone(record.Bytes))
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// The function returns the events of batches, as JSON.
func told(t testing.TB, batches [][]byte) (out []string) {
	t.Helper()
	a := otlp.Format().New(adapter.Options{})
	emit := func(e *events.Event) { out = append(out, string(e.AppendJSON(nil))) }
	for _, b := range batches {
		if err := a.Decode(b, emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(emit); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSameEvents reads every recorded run in both encodings.
func TestSameEvents(t *testing.T) {
	files, count := 0, 0
	for name, plain := range batches(t) {
		want := told(t, plain)
		for _, backwards := range []bool{false, true} {
			var again [][]byte
			for _, b := range plain {
				p := protobuf(t, b, Spans, backwards)
				if s := SignalOf(p); s != Spans {
					t.Errorf("%s: taken for %v", name, s)
				}
				j, err := AppendJSON(nil, p, Spans)
				if err != nil || !json.Valid(j) {
					t.Fatalf("%s: %v, or no JSON", name, err)
				}
				again = append(again, j)
			}
			if got := told(t, again); !slices.Equal(got, want) {
				t.Errorf("%s (backwards %v): %d events from protobuf, %d from JSON, or others", name, backwards, len(got), len(want))
			}
		}
		files, count = files+1, count+len(want)
	}
	t.Logf("%d recordings, %d events, equal in JSON and protobuf", files, count)
}

func TestLogs(t *testing.T) {
	const batch = `{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"agent"}}]},"scopeLogs":[{"scope":{"name":"s"},"logRecords":[` +
		`{"timeUnixNano":"1771900000000000000","severityNumber":9,"eventName":"e","body":{"kvlistValue":{"values":[{"key":"a","value":{"arrayValue":{"values":[{"intValue":"-1"},{"doubleValue":0.5},{"boolValue":true},{"bytesValue":"AP8="}]}}}]}},` +
		`"attributes":[{"key":"quote","value":{"stringValue":"\"\\\n\t\r\u0001é"}}],"flags":1,"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331"}]}]}]}`
	p := protobuf(t, []byte(batch), Logs, true)
	if s := SignalOf(p); s != Logs {
		t.Errorf("taken for %v", s)
	}
	got, err := AppendJSON(nil, p, Logs)
	if err != nil || string(got) != batch {
		t.Errorf("%v\n%s\n%s", err, got, batch)
	}
}

// tag appends a field with a length.
func tag(n protowire.Number, inside ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), inside)
}

func TestSignalOf(t *testing.T) {
	f := func(p []byte, want Signal) {
		t.Helper()
		if got := SignalOf(p); got != want {
			t.Errorf("%x is taken for %v, want %v", p, got, want)
		}
	}
	in := func(item []byte) []byte { return tag(1, tag(2, tag(2, item...)...)...) }
	f(nil, Unknown)
	f(tag(1), Empty)
	f(append(tag(1), in(protowire.AppendFixed64(protowire.AppendTag(nil, 8, protowire.Fixed64Type), 1))...), Spans)
	f(in(protowire.AppendFixed64(protowire.AppendTag(nil, 11, protowire.Fixed64Type), 1)), Logs)
	f(in(protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 9)), Logs)
	f(in(tag(5, tag(1, []byte("text")...)...)), Logs)
	f(in(append(tag(1, []byte("requests")...), tag(2, []byte("how many")...)...)), Metrics) // as long as the id of a span
	f(in(append(tag(1, []byte("requests")...), tag(3, []byte("1")...)...)), Metrics)
	f([]byte("\n{\"a\": 1}"), Unknown)
	f([]byte("\n\n"), Unknown)
	f(tag(2), Unknown)
	f(append(tag(1), 0x0a), Unknown)
}

func TestRefused(t *testing.T) {
	f := func(p []byte, s Signal, want string) {
		t.Helper()
		_, err := AppendJSON(nil, p, s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, want %q", p[:min(20, len(p))], err, want)
		}
	}
	f(tag(1), Metrics, "want spans or logs")
	f([]byte{0x0a, 0x05, 1}, Spans, "broken or cut off")
	f(tag(1, tag(2, tag(2, 0x0a, 9)...)...), Spans, "broken or cut off")
	deep := tag(1, []byte("x")...)
	for range 1000 {
		deep = tag(5, tag(1, deep...)...)
	}
	f(tag(1, tag(1, tag(1, tag(2, deep...)...)...)...), Spans, "too deep")
}

// TestNoTree holds that what is small on the wire stays small: a message of empty spans
// is the worst that there is.
func TestNoTree(t *testing.T) {
	empty := bytes.Repeat(tag(2), 1<<20)
	p := tag(1, tag(2, empty...)...)
	out, err := AppendJSON(make([]byte, 0, 2*len(p)), p, Spans)
	if err != nil || cap(out) > 2*len(p) {
		t.Errorf("%d bytes became %d of %d, %v", len(p), len(out), cap(out), err)
	}
}

func FuzzAppendJSON(f *testing.F) {
	for _, all := range batches(f) {
		f.Add(protobuf(f, all[0], Spans, true))
	}
	f.Add(tag(1, tag(2, tag(2, tag(9, tag(2, tag(4, 1)...)...)...)...)...))
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, s := range []Signal{Spans, Logs} {
			SignalOf(p)
			if out, err := AppendJSON(nil, p, s); err == nil && !json.Valid(out) {
				t.Errorf("%x gives %s", p, out)
			}
		}
	})
}

// BenchmarkSpans measures protobuf to events, and how much of it the rewriting is.
func BenchmarkSpans(b *testing.B) {
	var wire, plain [][]byte
	spans := 0
	for _, all := range batches(b) {
		for _, batch := range all {
			plain = append(plain, batch)
			wire = append(wire, protobuf(b, batch, Spans, true))
			spans += bytes.Count(batch, []byte(`"spanId"`)) // with some links
		}
	}
	run := func(name string, in [][]byte, rewrite, read bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				a := otlp.Format().New(adapter.Options{})
				for _, record := range in {
					if rewrite {
						var err error
						if buf, err = AppendJSON(buf[:0], record, Spans); err != nil {
							b.Fatal(err)
						}
						record = buf
					}
					if read {
						if err := a.Decode(record, func(*events.Event) {}); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := a.Flush(func(*events.Event) {}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(spans)/b.Elapsed().Seconds(), "spans/s")
		})
	}
	run("rewrite", wire, true, false)
	run("protobuf", wire, true, true)
	run("json", plain, false, true)
}
