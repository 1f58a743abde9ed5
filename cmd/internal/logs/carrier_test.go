package logs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter"
)

// carriedIn are what programs put around a record, each as that program writes it.
var carriedIn = map[string]struct {
	says string
	wrap func(lines []string) string
}{
	"docker": {"in .log", func(lines []string) string { // pieces of 16 KiB, each with the stream that it is of
		return each(lines, func(_ int, line string) string {
			var b strings.Builder
			for text := line + "\n"; text != ""; {
				n := min(len(text), 16<<10)
				fmt.Fprintln(&b, object("log", text[:n], "stream", "stdout", "time", "2026-11-20T14:00:00.1Z"))
				if text = text[n:]; text != "" {
					fmt.Fprintln(&b, object("log", "between two pieces\n", "stream", "stderr", "time", "2026-11-20T14:00:00.1Z"))
				}
			}
			return b.String()
		})
	}},
	"cri": {"behind other text on each line", func(lines []string) string {
		return "2026-11-20T14:00:00.1Z stdout F Listening on {port 80}\n" + each(lines, func(_ int, line string) string {
			var b strings.Builder
			for n := min(len(line), 16<<10); len(line) > n; line = line[n:] {
				fmt.Fprintf(&b, "2026-11-20T14:00:00.123456789Z stdout P %s\n2026-11-20T14:00:00.123456789Z stderr F between\n", line[:n])
			}
			fmt.Fprintf(&b, "2026-11-20T14:00:00.123456789Z stdout F %s\n", line)
			return b.String()
		})
	}},
	"compose": {"behind other text on each line", func(lines []string) string {
		return "agent-1  | Listening on :80\n" + each(lines, func(_ int, line string) string { return "agent-1  | " + line + "\n" })
	}},
	"kubectl": {"behind other text on each line", func(lines []string) string {
		return each(lines, func(_ int, line string) string { return "[pod/agent-0/agent] " + line + "\n" })
	}},
	"a program that prints other lines": {"behind other text on each line", func(lines []string) string {
		return "Starting\n" + each(lines, func(_ int, line string) string { return line + "\n" }) + "done\n"
	}},
	"journald": {"in .MESSAGE", func(lines []string) string {
		return each(lines, func(_ int, line string) string {
			return object("__REALTIME_TIMESTAMP", "1700000000000000", "MESSAGE", line) + "\n"
		})
	}},
	"elasticdump": {"in ._source", func(lines []string) string {
		return each(lines, func(i int, line string) string {
			return fmt.Sprintf(`{"_index":"agents","_id":"%d","_source":%s}`+"\n", i, line)
		})
	}},
	"elasticsearch of filebeat": {"in .hits.hits[]._source.message", func(lines []string) string {
		return `{"took":3,"hits":{"total":{"value":1},"hits":[` + strings.TrimSuffix(each(lines, func(_ int, line string) string {
			return `{"_index":"f","_source":` + object("@timestamp", "2026-11-20T14:00:00Z", "message", line) + `},`
		}), ",") + `]}}`
	}},
	"cloudwatch": {"in .events[].message", func(lines []string) string {
		return `{"events":[` + strings.TrimSuffix(each(lines, func(i int, line string) string {
			return object("logStreamName", "s", "message", line, "eventId", fmt.Sprint(i)) + ","
		}), ",") + "\n],\"searchedLogStreams\":[]}"
	}},
	"loki": {"in .data.result[].values[][1]", func(lines []string) string {
		rows := make([][2]string, len(lines))
		for i, line := range lines {
			rows[i] = [2]string{fmt.Sprint(1700000000000000000 + i), line}
		}
		raw, _ := json.Marshal(rows)
		return `{"status":"success","data":{"resultType":"streams","result":[{"stream":{"app":"a"},"values":` + string(raw) + `}],"stats":{}}}`
	}},
	"google cloud": {"in .jsonPayload", func(lines []string) string {
		return "[" + strings.TrimSuffix(each(lines, func(i int, line string) string {
			return fmt.Sprintf("\n  {\n    \"insertId\": \"%d\",\n    \"jsonPayload\": %s,\n    \"severity\": \"INFO\"\n  },", i, line)
		}), ",") + "\n]\n"
	}},
	"a table": {`in the column "payload"`, func(lines []string) string {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		_ = w.Write([]string{"id", "payload", "created_at"})
		for i, line := range lines {
			_ = w.Write([]string{fmt.Sprint(i), line, "2026-11-20"})
		}
		w.Flush()
		return b.String()
	}},
	"splunk of docker": {"in .log in .result._raw", func(lines []string) string {
		return each(lines, func(i int, line string) string {
			return fmt.Sprintf(`{"preview":false,"offset":%d,"result":%s}`+"\n", i, object("_raw", object("log", line, "stream", "stdout"), "host", "h"))
		})
	}},
}

func each(lines []string, wrap func(i int, line string) string) string {
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(wrap(i, line))
	}
	return b.String()
}

// object writes an object of texts.
func object(pairs ...string) string {
	members := make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		raw, _ := json.Marshal(pairs[i+1])
		members = append(members, fmt.Sprintf("%q:%s", pairs[i], raw))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// toldBy reads a log and returns its format, its events and how many records were bad.
func toldBy(t *testing.T, name, text, format string) (says string, told []string, bad []BadRecord, in *Input) {
	t.Helper()
	in, err := From(name, strings.NewReader(text))
	if err == nil {
		err = in.Recognize(format)
	}
	if err != nil {
		return err.Error(), nil, nil, in
	}
	r := &Reader{Inputs: []*Input{in}, Bad: func(b BadRecord) { bad = append(bad, b) }, Event: func(ev *events.Event) error {
		told = append(told, string(ev.AppendJSON(nil)))
		return nil
	}}
	if err := r.Read(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return in.Says(), told, bad, in
}

// TestCarried reads recordings of real programs as collectors of logs return them: they give the same
// events as without the collector.
func TestCarried(t *testing.T) {
	var files []string
	root := filepath.Join("..", "..", "..", "events", "adapter", "testdata", "real")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		// One of each program.
		if strings.Contains(d.Name(), ".jsonl") && (len(files) == 0 || filepath.Dir(files[len(files)-1]) != filepath.Dir(path)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		in, err := From(path, f)
		if err != nil {
			t.Fatal(err)
		}
		in.Body().Use(adapter.Lines, nil)
		var lines []string
		for record, err := in.Body().Next(); err == nil; record, err = in.Body().Next() {
			lines = append(lines, string(record.Bytes))
		}
		_ = f.Close()
		if len(lines) > 200 {
			lines = lines[:200]
		}
		says, want, faults, _ := toldBy(t, path, strings.Join(lines, "\n"), "")
		if len(want) == 0 {
			continue
		}
		for name, c := range carriedIn {
			if name == "a program that prints other lines" && says == "autogen" {
				continue // which reads logs in which Python's logging has put other lines
			}
			got, told, bad, _ := toldBy(t, name, c.wrap(lines), "")
			if got != says+" "+c.says || len(bad) != len(faults) || !slices.Equal(told, want) {
				t.Errorf("%s of %s: read as %s with %d events, %d faults; want %s %s with %d, %d", name, path, got, len(told), len(bad), says, c.says, len(want), len(faults))
				if len(bad) > 0 {
					t.Log(bad[0].Reason)
				}
			}
		}
	}
}

// own returns events of weir's own format, one per line.
func own(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"id":"m%d","time":"2026-11-20T14:00:%02dZ","kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":"b"}}`, i, i))
	}
	return lines
}

// TestCarriedNewestFirst reads what stands in the order in which collectors answer, the newest
// first, from its end.
func TestCarriedNewestFirst(t *testing.T) {
	lines := own(9)
	_, want, _, _ := toldBy(t, "own", strings.Join(lines, "\n"), "")
	slices.Reverse(lines)
	says, told, bad, _ := toldBy(t, "search", carriedIn["elasticdump"].wrap(lines), "")
	if says != "canonical, the newest first, in ._source" || len(bad) > 0 || !slices.Equal(told, want) {
		t.Errorf("%s: %q, %v; want %q", says, told, bad, want)
	}
}

// TestCarriedPlaces says of what cannot be read on which line of the file it stands, and counts
// what is no record.
func TestCarriedPlaces(t *testing.T) {
	lines := own(3)
	text := "agent | Listening\nagent | " + lines[0] + "\nagent | " + lines[1][:60] + "\n\nagent | done\nagent | " + lines[2] + "\n"
	_, told, bad, in := toldBy(t, "compose.log", text, "")
	if len(told) != 2 || len(bad) != 1 || bad[0].Line != 3 || in.Beside() != 2 {
		t.Errorf("%d events, %+v, %d beside; want 2, one on line 3, and 2", len(told), bad, in.Beside())
	}
	text = carriedIn["journald"].wrap(lines[:1]) + object("MESSAGE", "done") + "\n" + `{"MESSAGE":"{\"id\":` + "\n" + carriedIn["journald"].wrap(lines[1:])
	if _, told, bad, in = toldBy(t, "journal", text, ""); len(told) != 3 || len(bad) != 1 || bad[0].Line != 3 || in.Beside() != 1 {
		t.Errorf("%d events, %+v, %d beside; want 3, one on line 3, and 1", len(told), bad, in.Beside())
	}
}

// TestCarriedMapped looks for what a mapping reads within what carries it, unless the mapping
// finds events as things stand.
func TestCarriedMapped(t *testing.T) {
	lines := []string{`{"run":"r1","who":"a","whom":"b"}`, `{"run":"r1","who":"b","whom":"a"}`}
	for name, text := range map[string]string{
		"docker": carriedIn["docker"].wrap(lines),
		"table":  "run,who,whom\nr1,a,b\nr1,b,a\n",
		"cri":    carriedIn["cri"].wrap(lines),
	} {
		if says, told, bad, _ := toldBy(t, name, text, "map:flow=.run,from=.who,to=.whom"); len(told) != 2 || len(bad) > 0 {
			t.Errorf("%s: read as %s with %d events, %v", name, says, len(told), bad)
		}
	}
	text := carriedIn["docker"].wrap(lines)
	if says, told, _, _ := toldBy(t, "docker", text, "map:flow=.stream,from=.stream,to=.time"); len(told) != 2 || strings.Contains(says, " in ") {
		t.Errorf("read as %s with %d events", says, len(told))
	}
}

// TestCarriedUnknown says of what holds nothing that is known the same as before.
func TestCarriedUnknown(t *testing.T) {
	for _, text := range []string{"hello\nworld\n", `{"log":"hello\n"}`, "a,b\n1,2\n", "{", `{"a":{"b":[{"c":"{\"d\":1}"}]}}`, "\x89PNG\r\n\x1a\n\x00\x00", strings.Repeat("[", 70000), strings.Repeat(`{"a":`, 20000)} {
		if says, _, _, _ := toldBy(t, "some", text, ""); !strings.Contains(says, "unknown format") {
			t.Errorf("%.40q: %s", text, says)
		}
	}
}

// TestCarriedRest reads a file again that rested, as all files of a folder do.
func TestCarriedRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "docker.log")
	lines := own(5)
	if err := os.WriteFile(path, []byte(carriedIn["docker"].wrap(lines)), 0o600); err != nil {
		t.Fatal(err)
	}
	in := rested(t, path)
	n := 0
	r := &Reader{Inputs: []*Input{in}, Bad: func(b BadRecord) { t.Error(b) }, Event: func(*events.Event) error { n++; return nil }}
	if err := r.Read(); err != nil || n != len(lines) {
		t.Errorf("%d events, %v; want %d", n, err, len(lines))
	}
}

// TestCarriedLong gives up a value that is longer than may be held, and not the memory.
func TestCarriedLong(t *testing.T) {
	text := func(pad int) io.Reader {
		return io.MultiReader(strings.NewReader(`{"events":[{"message":`+fmt.Sprintf("%q", own(1)[0])+`},{"message":"`), io.LimitReader(endless('x'), int64(pad)), strings.NewReader(`"}]}`))
	}
	for pad, wantErr := range map[int]bool{100: false, 5 * adapter.MaxRecord: true} {
		in, err := From("long", text(pad))
		if err == nil {
			err = in.Recognize("")
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		r := &Reader{Inputs: []*Input{in}, Bad: func(BadRecord) {}, Event: func(*events.Event) error { n++; return nil }}
		err = r.Read()
		_ = r.End()
		if (err != nil) != wantErr {
			t.Errorf("%d bytes: %v", pad, err)
		}
	}
}

// endless gives one byte without end.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// FuzzCarried reads anything: it ends, and finds what is there in any carrier.
func FuzzCarried(f *testing.F) {
	for _, c := range carriedIn {
		f.Add(c.wrap(own(2)))
	}
	f.Add(`{"a":["x","{\"log\":`)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := From("fuzz", strings.NewReader(text))
		if err != nil || in.Recognize("") != nil {
			return
		}
		r := &Reader{Inputs: []*Input{in}, Bad: func(BadRecord) {}, Event: func(*events.Event) error { return nil }}
		_ = r.Read()
	})
}

// TestCarriedExports reads what Langfuse, Phoenix and LiteLLM export when it was put into a
// table or into Elasticsearch, and a trace as Langfuse's page downloads it.
func TestCarriedExports(t *testing.T) {
	for name, list := range map[string]string{"langfuse/loop.json.gz": "data", "phoenix/loop.json.gz": "data", "litellm/loop.jsonl.gz": ""} {
		path := filepath.Join("..", "..", "..", "events", "adapter", "testdata", "exports", name)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		in, err := From(path, f)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(in.Body().Rest())
		if err != nil {
			t.Fatal(err)
		}
		says, want, _, _ := toldBy(t, name, string(raw), "")
		var of []map[string]json.RawMessage
		if list != "" {
			var page map[string]json.RawMessage
			if err = json.Unmarshal(raw, &page); err == nil {
				err = json.Unmarshal(page[list], &of)
			}
		} else {
			for line := range strings.Lines(string(raw)) {
				var one map[string]json.RawMessage
				err = json.Unmarshal([]byte(line), &one)
				of = append(of, one)
			}
		}
		if err != nil || len(of) == 0 {
			t.Fatal(name, err)
		}
		var lines []string
		for _, one := range of {
			raw, _ := json.Marshal(one)
			lines = append(lines, string(raw))
		}
		check := func(what, text, carried string) {
			t.Helper()
			got, told, bad, _ := toldBy(t, what, text, "")
			if strings.ReplaceAll(got, ", the newest first,", "") != says+carried || len(bad) > 0 || len(told) != len(want) {
				t.Errorf("%s of %s: read as %s with %d events, %v; want %s with %d", what, name, got, len(told), bad, says, len(want))
			}
		}
		check("elasticdump", carriedIn["elasticdump"].wrap(lines), " in ._source")
		if says != "langfuse" {
			continue
		}
		check("download", `{"trace":{"id":"t","name":"n"},"observations":[`+strings.Join(lines, ",")+`]}`, "")
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		header := slices.Sorted(maps.Keys(of[0]))
		_ = w.Write(header)
		for _, one := range of {
			row := make([]string, len(header))
			for i, name := range header {
				if json.Unmarshal(one[name], &row[i]) != nil {
					row[i] = string(one[name])
				}
			}
			_ = w.Write(row)
		}
		w.Flush()
		check("csv", b.String(), " in rows of a table")
	}
}
