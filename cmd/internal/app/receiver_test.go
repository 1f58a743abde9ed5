package app

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/cmd/internal/gate"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// recorded are the records of a recorded run, as they were sent.
func recorded(t *testing.T, name string) []string {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "events", "adapter", "testdata", "real", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := adapter.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	r.Use(adapter.Documents, func(f adapter.Fault) { t.Error(f) })
	var out []string
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(record.Bytes))
	}
}

// toldBy are the events that an adapter makes of records, by id, with what a user is
// claimed to have said marked where the default does not trust the source.
func toldBy(t *testing.T, format string, records ...string) map[string]string {
	t.Helper()
	f, err := registry.Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	a, out := f.New(adapter.Options{}), map[string]string{}
	trust, err := gate.ParseTrust(gate.DefaultTrust)
	if err != nil {
		t.Fatal(err)
	}
	source := map[string]gate.Source{"claudecode": gate.File, "langsmith": gate.Runs}[format]
	if strings.HasPrefix(format, "otlp") {
		source = gate.Spans
	}
	emit := func(e *events.Event) {
		trust.Weigh(source, e)
		out[e.ID] = string(e.AppendJSON(nil))
	}
	for _, r := range records {
		if err := a.Decode([]byte(r), emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(emit); err != nil {
		t.Fatal(err)
	}
	return out
}

// received are the events in the journal that were made of what was received, by id;
// of one that came twice the first.
func (r *running) received() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, line := range r.journalLines() {
		var ev events.Event
		if err := events.Decode([]byte(line), &ev); err != nil {
			r.t.Fatal(err)
		}
		if id := strings.Clone(ev.ID); ev.Kind != events.LimitsSet && ev.Kind != events.Tick && out[id] == "" && !strings.HasPrefix(id, "barrier") {
			out[id] = line
		}
	}
	return out
}

// waitFor lets time pass until the journal has these events, and holds that it has no
// others.
func (r *running) waitFor(want map[string]string) {
	r.t.Helper()
	r.until(func() bool { return len(r.received()) >= len(want) })
	if got := r.received(); !maps.Equal(got, want) {
		r.t.Fatalf("the journal has %d events, want %d, or others", len(got), len(want))
	}
}

func TestReceiveSpans(t *testing.T) {
	batches := recorded(t, "google_adk/transfer_pingpong.otlp.jsonl.gz")
	want := toldBy(t, "otlp", batches...)
	r := begin(t, Options{StateDir: t.TempDir()})
	for _, b := range batches {
		got := r.do("POST", "/v1/traces", b, "Content-Type", "application/json")
		r.want(got, 200)
		if got.body != "{}\n" || got.header.Get("Content-Type") != "application/json" {
			t.Fatalf("answer %q as %s", got.body, got.header.Get("Content-Type"))
		}
	}
	r.waitFor(want)
	r.folded()
	if v := r.verdictLines(); !slices.ContainsFunc(v, func(line string) bool {
		return strings.Contains(line, `"action":"halt"`) || strings.Contains(line, `"action":"deny"`)
	}) {
		t.Errorf("no stop of the ping-pong: %q", v)
	}
	// A sender that got no answer sends again.
	for _, b := range batches {
		r.want(r.do("POST", "/v1/traces", b, "Content-Type", "application/json"), 200)
	}
	r.folded()
	before := len(r.verdictLines())
	r.waitFor(want)
	r.folded()
	if after := len(r.verdictLines()); after != before {
		t.Errorf("%d verdicts became %d by repeats", before, after)
	}
}

// TestReceiveAndCrash kills the program after each batch, while spans are held back.
func TestReceiveAndCrash(t *testing.T) {
	f := func(path, format, file string, status int) {
		t.Helper()
		batches := recorded(t, file)
		want := toldBy(t, format, batches...)
		o := Options{StateDir: t.TempDir()}
		for _, b := range batches {
			r := begin(t, o)
			r.want(r.do("POST", path, b, "Content-Type", "application/json"), status)
			r.kill()
		}
		r := begin(t, o)
		r.waitFor(want)
		// What nothing needs any more is removed, for it has content.
		r.until(func() bool {
			left, err := filepath.Glob(filepath.Join(o.StateDir, "received", "*"))
			if err != nil {
				t.Fatal(err)
			}
			return len(left) == 0
		})
		r.stop()
	}
	f("/v1/traces", "otlp", "smolagents/managed_agent_loop.otlp.jsonl.gz", 200)
	f("/runs/batch", "langsmith", "langgraph/honest.langsmith_batch.jsonl.gz", 202)
}

// protoSpan is a batch with one span that has an agent, in protobuf; without an id when
// broken.
func protoSpan(broken bool) string {
	field := func(n protowire.Number, inside ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), inside)
	}
	attribute := func(key, value string) []byte {
		return field(9, append(field(1, []byte(key)...), field(2, field(1, []byte(value)...)...)...)...)
	}
	span := field(1, bytes.Repeat([]byte{0xab}, 16)...)
	if !broken {
		span = append(span, field(2, 1, 2, 3, 4, 5, 6, 7, 8)...)
	}
	span = append(span, attribute("gen_ai.operation.name", "invoke_agent")...)
	span = append(span, attribute("gen_ai.agent.name", "clerk")...)
	span = protowire.AppendFixed64(protowire.AppendTag(span, 7, protowire.Fixed64Type), 1771900000000000000)
	span = protowire.AppendFixed64(protowire.AppendTag(span, 8, protowire.Fixed64Type), 1771900001000000000)
	return string(field(1, field(2, field(2, span...)...)...))
}

func TestOTLPAnswers(t *testing.T) {
	r := begin(t, Options{})
	const proto, json = "application/x-protobuf", "application/json"
	f := func(path, contentType, body string, status int, parts ...string) {
		t.Helper()
		got := r.do("POST", path, body, "Content-Type", contentType)
		r.want(got, status, parts...)
		if want := contentType; status != 415 && got.header.Get("Content-Type") != want {
			t.Errorf("%s as %s: answer as %s", path, contentType, got.header.Get("Content-Type"))
		}
	}
	f("/v1/traces", proto, protoSpan(false), 200)
	f("/v1/traces", proto, "", 200)
	f("/v1/traces", json, `{"resourceSpans":[]}`, 200, `{}`)
	f("/v1/traces", json, `{}`, 200, `{}`)
	f("/v1/logs", json, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1771900000000000000","eventName":"other"}]}]}]}`, 200, `{}`)

	f("/v1/traces", proto, protoSpan(true), 200, "spanId", "1 of 1 spans left out")
	f("/v1/traces", json, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"1"}]}]}]}`, 200, `"rejectedSpans":"1"`, "want 32 hex digits")

	f("/v1/traces", "text/plain", "x", 415, "want application/x-protobuf or application/json")
	f("/v1/traces", json, `{"resourceSpans":[`, 400, `"code":3`, `"message":"syntax`)
	f("/v1/traces", json, `{"resourceLogs":[]}`, 400, "want a batch of spans")
	f("/v1/logs", proto, protoSpan(false), 400, "no batch of logs in protobuf; it looks like spans")
	f("/v1/traces", proto, "\x0a\x05", 400, "no batch of spans")
	f("/v1/traces", json, `{"resourceSpans":[{"x":"`+strings.Repeat("x", adapter.MaxRecord)+`"}]}`, 413)
	f("/v1/traces", json, `{"x":`+strings.Repeat("[", 10_000), 400, "too_deep")

	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, protoSpan(false)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	got := r.do("POST", "/v1/traces", zipped.String(), "Content-Type", proto, "Content-Encoding", "gzip")
	r.want(got, 200)
	if got.body != "" {
		t.Errorf("answer %q to what was taken whole", got.body)
	}
	r.want(r.do("POST", "/v1/traces", "x", "Content-Type", proto, "Content-Encoding", "zstd"), 415, "zstd")
	r.waitFor(toldBy(t, "otlp", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"abababababababababababababababab","spanId":"0102030405060708",`+
		`"startTimeUnixNano":"1771900000000000000","endTimeUnixNano":"1771900001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"invoke_agent"}},`+
		`{"key":"gen_ai.agent.name","value":{"stringValue":"clerk"}}]}]}]}]}`))
	r.want(r.do("GET", "/v1/deadletters", ""), 200, `"source":"http/otlp"`)
}

func TestLangSmith(t *testing.T) {
	r := begin(t, Options{StateDir: t.TempDir(), IntakeTokenFile: tokenFile(t, intakeSecret)})
	key := []string{"X-Api-Key", intakeSecret}
	r.want(r.do("GET", "/info", "", key...), 200, `"use_multipart_endpoint":true`)
	text := plain(t, "langgraph/honest.langsmith_multipart.txt.gz")
	head, body, ok := strings.Cut(text, "\r\n\r\n")
	contentType, found := strings.CutPrefix(head, "content-type: ")
	if !ok || !found {
		t.Fatalf("the recording begins with %.100q", head)
	}
	r.want(r.do("POST", "/runs/multipart", body, "Content-Type", contentType), 401)
	r.want(r.do("POST", "/runs/multipart", body, append(key, "Content-Type", contentType)...), 202)
	r.want(r.do("POST", "/runs/batch", `{"post":[{"id":"x"}]}`, append(key, "Content-Type", "application/json")...), 202, "1 of 1 runs left out")
	r.want(r.do("POST", "/runs/batch", `{"post":[`, append(key, "Content-Type", "application/json")...), 400, "syntax")
	r.want(r.do("POST", "/runs/batch", "x", append(key, "Content-Type", "text/plain")...), 415)
	r.waitFor(toldBy(t, "langsmith", body))
}

func plain(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "events", "adapter", "testdata", "real", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestHalfBodies sends bodies that end in the middle of something: what others send is
// taken all the same.
func TestHalfBodies(t *testing.T) {
	const form = "multipart/form-data; boundary=x"
	run := func(id string) string {
		return fmt.Sprintf(`{"post":[{"id":%q,"trace_id":%q,"dotted_order":"20261120T140000000000Z%s","name":"searcher","run_type":"tool","start_time":"2026-11-20T14:00:00Z","end_time":"2026-11-20T14:00:01Z","inputs":{"q":1},"outputs":{"a":1}}]}`, id, id, id)
	}
	for i, half := range []string{
		"--x\r\nContent-Disposition: form-data; name=\"post.1\"\r\n",
		"Content-Disposition: form-data; name=\"post.1\"",
		"Content-Disposition: form-data; name=\"attachment.1\"",
		"--x\r\nContent-Disposition: form-data; name=\"post.1\"\r\n\r\n{\"id\":\"1\"}\r\n",
		"--x\r\nContent-Disposition: form-data; name=\"feedback.1\"\r\nContent-Type: application/json\r\n",
	} {
		r := begin(t, Options{StateDir: t.TempDir()})
		r.do("POST", "/runs/multipart", half, "Content-Type", form)
		id := fmt.Sprintf("0199f971-0000-7000-8000-00000000000%d", i)
		r.want(r.do("POST", "/runs/batch", run(id), "Content-Type", "application/json"), 202)
		r.waitFor(toldBy(t, "langsmith", run(id)))
		r.stop()
	}
}
