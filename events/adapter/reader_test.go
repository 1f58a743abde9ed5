package adapter_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"weir/events"
	"weir/events/adapter"
)

// cut reads an input to its end and writes down what came.
func cut(t testing.TB, in io.Reader, framing adapter.Framing) string {
	t.Helper()
	var out strings.Builder
	r, err := adapter.NewReader(in)
	if err != nil {
		return "error: " + err.Error()
	}
	r.Use(framing, func(f adapter.Fault) {
		var e *events.DecodeError
		if !errors.As(f, &e) {
			t.Errorf("fault %v has no code", f)
			return
		}
		fmt.Fprintf(&out, "%d:%d !%s %q\n", f.Line, f.Offset, e.Code, short(f.Raw))
	})
	for {
		record, err := r.Next()
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			return out.String() + "error: " + err.Error()
		}
		fmt.Fprintf(&out, "%d:%d %s\n", record.Line, record.Offset, short(record.Bytes))
	}
}

func short(p []byte) string {
	if len(p) > 60 {
		return fmt.Sprintf("%s...(%d)", p[:20], len(p))
	}
	return string(p)
}

func TestReader(t *testing.T) {
	f := func(framing adapter.Framing, in, want string) {
		t.Helper()
		want = strings.TrimPrefix(want, "\n")
		if got := cut(t, strings.NewReader(in), framing); got != want {
			t.Errorf("of %s %q came\n%swant\n%s", framing, short([]byte(in)), got, want)
		}
		// The same one byte at a time, and compressed.
		if got := cut(t, iotest.OneByteReader(strings.NewReader(in)), framing); got != want {
			t.Errorf("of %s %q, byte for byte, came\n%swant\n%s", framing, short([]byte(in)), got, want)
		}
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = io.WriteString(w, in)
		_ = w.Close()
		if got := cut(t, &z, framing); got != want {
			t.Errorf("of %s %q, compressed, came\n%swant\n%s", framing, short([]byte(in)), got, want)
		}
	}

	f(adapter.Lines, "", "")
	f(adapter.Lines, " \n\n", "")
	f(adapter.Lines, "{\"a\":1}\n{\"b\":2}", "\n1:0 {\"a\":1}\n2:8 {\"b\":2}\n")
	f(adapter.Lines, "\xef\xbb\xbf{\"a\":1}\r\n\r\n  {\"b\":2}\r\n", "\n1:3 {\"a\":1}\n3:16 {\"b\":2}\n")
	// Lines are handed over as they are; what is in them is the adapter's business.
	f(adapter.Lines, "{\"a\":1}\nnonsense\n{\"b\":2}\n", "\n1:0 {\"a\":1}\n2:8 nonsense\n3:17 {\"b\":2}\n")
	f(adapter.Lines, "{\"a\":\"cut\n{\"b\":2}\n", "\n1:0 {\"a\":\"cut\n2:10 {\"b\":2}\n")

	// One document over many lines, for either framing.
	f(adapter.Lines, "{\n  \"a\": [\n    1\n  ]\n}\n", "\n1:0 {\n  \"a\": [\n    1\n  ]\n}\n")
	f(adapter.Documents, "{\"a\":\n{\"b\":2}}\n{\"c\":3}{\"d\":4}", "\n1:0 {\"a\":\n{\"b\":2}}\n3:15 {\"c\":3}\n3:22 {\"d\":4}\n")

	// Arrays.
	f(adapter.Lines, "[{\"a\":1},{\"b\":2}]", "\n1:1 {\"a\":1}\n1:9 {\"b\":2}\n")
	f(adapter.Documents, " [\n {\"a\":1},\n {\"b\":[{}]}\n]\n", "\n2:4 {\"a\":1}\n3:14 {\"b\":[{}]}\n")
	f(adapter.Lines, "[]", "")
	f(adapter.Lines, "[{\"a\":1}", "\n1:1 {\"a\":1}\n1:8 !syntax \"\"\n")
	f(adapter.Lines, "[{\"a\":1}]\n{\"b\":2}\n", "\n1:1 {\"a\":1}\n2:10 !trailing_data \"{\\\"b\\\":2}\\n\"\n")

	// A document that breaks off costs its first line, not those behind it.
	f(adapter.Documents, "{\"a\":[1,{\n{\"b\":2}\n{\"c\":3}\n", "\n1:0 !syntax \"{\\\"a\\\":[1,{\\n\"\n2:10 {\"b\":2}\n3:18 {\"c\":3}\n")
	f(adapter.Documents, "{\"a\":\"cut\n{\"b\":2}\n", "\n1:0 !syntax \"{\\\"a\\\":\\\"cut\\n\"\n2:10 {\"b\":2}\n")
	f(adapter.Documents, "log line\n{\"b\":2}\n", "\n1:0 !syntax \"log line\\n\"\n2:9 {\"b\":2}\n")
	f(adapter.Documents, "{\"a\":1", "\n1:0 !syntax \"{\\\"a\\\":1\"\n")
	f(adapter.Documents, "{\"a\":1]\n{\"b\":2}", "\n1:0 !syntax \"{\\\"a\\\":1]\\n\"\n2:8 {\"b\":2}\n")
	f(adapter.Documents, strings.Repeat("[", 10_000)+"\n{\"b\":2}\n",
		"\n1:1 !too_deep \"[[[[[[[[[[[[[[[[[[[[...(256)\"\n2:10001 {\"b\":2}\n3:10009 !syntax \"\"\n")
}

func TestReaderBounds(t *testing.T) {
	long := strings.Repeat("x", adapter.MaxRecord)
	f := func(framing adapter.Framing, in, want string) {
		t.Helper()
		if got := cut(t, strings.NewReader(in), framing); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("came\n%swant%s", got, want)
		}
	}
	f(adapter.Lines, "{\"a\":1}\n{\"long\":\""+long+"\"}\n{\"b\":2}\n", `
1:0 {"a":1}
2:8 !too_long "{\"long\":\"xxxxxxxxxxx...(8388608)"
3:8388628 {"b":2}
`)
	f(adapter.Documents, "{\"long\":\""+long+"\"}\n{\"b\":2}\n", `
1:0 !too_long "{\"long\":\"xxxxxxxxxxx...(8388608)"
2:8388620 {"b":2}
`)
	f(adapter.Documents, "[{\"long\":\""+long+long+"\"}, {\"b\":2}]\n", `
1:1 !too_long "{\"long\":\"xxxxxxxxxxx...(8388608)"
1:16777230 {"b":2}
`)
	f(adapter.Lines, strings.Repeat(long, 4)+"\n{\"b\":2}\n", `
1:0 !too_long "xxxxxxxxxxxxxxxxxxxx...(8388608)"
2:33554433 {"b":2}
`)

	// Memory is bounded by the record, not by the input.
	endless := io.LimitReader(zeros{}, 1<<28)
	if got := cut(t, endless, adapter.Documents); !strings.HasPrefix(got, "1:0 !syntax") {
		t.Errorf("of endless zeros came %q", short([]byte(got)))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestReaderErrors(t *testing.T) {
	if got := cut(t, strings.NewReader("\x1f\x8bnot gzip"), adapter.Lines); !strings.HasPrefix(got, "error: read gzip header") {
		t.Error(got)
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, "{\"a\":1}\n{\"b\":2}\n")
	_ = w.Close()
	if got := cut(t, bytes.NewReader(z.Bytes()[:z.Len()-6]), adapter.Lines); !strings.HasPrefix(got, "1:0 {\"a\":1}\n2:8 {\"b\":2}\nerror: unexpected EOF") {
		t.Error(got)
	}
	if got := cut(t, iotest.ErrReader(errors.New("gone")), adapter.Lines); got != "error: gone" {
		t.Error(got)
	}
}

// FuzzReader checks that every byte is accounted for and nothing hangs.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n[1,{\n]}\n"), true)
	f.Add([]byte("[{\"a\":1},{},\n"), false)
	f.Add([]byte("\x1f\x8b"), false)
	f.Fuzz(func(t *testing.T, in []byte, documents bool) {
		framing := adapter.Lines
		if documents {
			framing = adapter.Documents
		}
		if got, again := cut(t, bytes.NewReader(in), framing), cut(t, iotest.OneByteReader(bytes.NewReader(in)), framing); got != again {
			t.Fatalf("of %q came\n%s, and byte for byte\n%s", in, got, again)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	run := func(name string, framing adapter.Framing, in string) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				r, _ := adapter.NewReader(strings.NewReader(in))
				r.Use(framing, nil)
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
			}
		})
	}
	line := `{"id":"m-2","source":"/caco","time":"2026-11-20T14:00:04Z","kind":"agent.call","correlation_id":"abc123"}` + "\n"
	run("lines", adapter.Lines, strings.Repeat(line, 10_000))
	run("documents", adapter.Documents, strings.Repeat(line, 10_000))
	run("array", adapter.Lines, "["+strings.TrimSuffix(strings.Repeat(strings.TrimSuffix(line, "\n")+",", 10_000), ",")+"]")
}

// TestHolesInFiles holds that the zeros which a file has where it was cut under its writer, or a
// machine lost its power, hide no record behind them.
func TestHolesInFiles(t *testing.T) {
	hole := strings.Repeat("\x00", 100_000)
	got := cut(t, strings.NewReader(hole+`{"a":1}`+"\n"+hole+`{"a":2}`+"\n\x00"), adapter.Lines)
	if strings.Contains(got, "!") || !strings.Contains(got, `{"a":1}`) || !strings.Contains(got, `{"a":2}`) {
		t.Errorf("read is %.300s", got)
	}
}
