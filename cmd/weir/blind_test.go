package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestBlind has a source that reports little, and checks that each place says what cannot be seen.
func TestBlind(t *testing.T) {
	r := startRun(t, "--in-memory", "--metrics", "127.0.0.1:0", "--self-test", "0")
	defer r.end(syscall.SIGTERM)
	span := func(id int, attributes string) string {
		return fmt.Sprintf(`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"%016x","name":"s","startTimeUnixNano":"1763900000%08d0","endTimeUnixNano":"1763900000%08d5","attributes":[%s]}`, id, id, id, attributes)
	}
	spans := []string{span(1, `{"key":"http.request.method","value":{"stringValue":"GET"}}`)}
	for id := range 60 {
		spans = append(spans, span(id+2, `{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"read"}}`))
	}
	batch := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"spans":[` + strings.Join(spans, ",") + `]}]}]}`
	resp, err := http.Post(r.url+"/v1/traces", "application/json", strings.NewReader(batch))
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d", resp.StatusCode)
	}
	r.stderr.await(t, "a source does not tell all that rules need", r.ended)
	const lacks = "arguments in 0 of "
	code, out, errs := weirNow(t, "", "doctor", "--in-memory", "--listen", strings.TrimPrefix(r.url, "http://"))
	if code != 0 || !strings.Contains(out, "sources    shop: "+lacks) {
		t.Errorf("doctor: exit code %d\n%s%s", code, out, errs)
	}
	if got := get(t, r.url+"/v1/inspect/timeline?flow=0af7651916cd43dd8448eb211c80319c"); !strings.Contains(got, `"blind":"`+lacks+"60 tool calls") {
		t.Errorf("the page of the flow is not told: %.300s", got)
	}
}

// TestBlindOfFlows mixes a source that reports no arguments with one that does. What cannot be judged
// of the first is printed wherever the log is looked at.
func TestBlindOfFlows(t *testing.T) {
	t.Chdir(t.TempDir())
	var log strings.Builder
	for i := range 20 {
		for _, flow := range []string{"full", "bare"} {
			args := fmt.Sprintf(`,"args_hash":"xxh64:%016x"`, i+1)
			if flow == "bare" {
				args = ""
			}
			fmt.Fprintf(&log, `{"id":"%s-%d","time":"2026-03-02T10:00:%02dZ","kind":"tool.call","correlation_id":"%[1]s","from":{"agent":"a"},"tool":{"name":"read","call_id":"c%[2]d"%[4]s}}`+"\n", flow, i, i, args)
			fmt.Fprintf(&log, `{"id":"%s-%d-r","time":"2026-03-02T10:00:%02dZ","kind":"tool.result","correlation_id":"%[1]s","from":{"agent":"a"},"tool":{"name":"read","call_id":"c%[2]d"},"content_hash":"xxh64:%016[4]x"}`+"\n", flow, i, i, i+1)
		}
	}
	if err := os.WriteFile("log.jsonl", []byte(log.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	const says = "1 of 2 flows tell no arguments in their tool calls"
	for _, command := range []string{"replay log.jsonl", "backtest log.jsonl", "backtest log.jsonl --report r.md", "backtest log.jsonl --report r.html"} {
		args := strings.Fields(command)
		code, out, errs := weir(t, "", args...)
		if last := args[len(args)-1]; strings.HasPrefix(last, "r.") {
			data, err := os.ReadFile(last)
			if err != nil {
				t.Fatal(err)
			}
			out = string(data)
		}
		if code != 0 || !strings.Contains(out, says) || !strings.Contains(out, "bare") {
			t.Errorf("%s: exit %d, not told that %s\n%s%.2000s", command, code, says, errs, out)
		}
	}
}

// TestCutOff holds that a log which breaks off within its only record is reported as cut off.
func TestCutOff(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("cut.jsonl", []byte(`{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[{"spans":[{"traceId":"0af7`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"replay", "backtest"} {
		if code, _, errs := weir(t, "", command, "cut.jsonl"); code != 1 || !strings.Contains(errs, "1 record could not be read: was it copied whole?") {
			t.Errorf("%s: exit %d: %s", command, code, errs)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestMisnamedAtIntake sends an event with a slip in a name.
func TestMisnamedAtIntake(t *testing.T) {
	r := startRun(t, "--in-memory", "--metrics", "", "--self-test", "0")
	defer r.end(syscall.SIGTERM)
	r.post([]byte(`{"id":"1","source":"bus","time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":"b"},"colour":"red"}` + "\n"))
	r.post([]byte(`{"id":"2","source":"bus","time":"2026-11-20T14:00:01Z","kind":"agent.call","correlation_id":"f","form":{"agent":"a"},"to":{"agent":"b"}}` + "\n"))
	if line := r.stderr.await(t, "a name in an event is not known", r.ended); !strings.Contains(line, `"event":"2","name":"form","meant":"from"`) {
		t.Error(line)
	}
}

// TestMisnamedInFile follows a file with such an event.
func TestMisnamedInFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bus.jsonl")
	if err := os.WriteFile(file, []byte(`{"id":"2","source":"bus","time":"2026-11-20T14:00:01Z","kind":"agent.call","correlation_id":"f","form":{"agent":"a"},"to":{"agent":"b"}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRun(t, "--in-memory", "--metrics", "", "--self-test", "0", "--follow", file)
	defer r.end(syscall.SIGTERM)
	if line := r.stderr.await(t, "a name in an event is not known", r.ended); !strings.Contains(line, `"event":"2","name":"form","meant":"from"`) {
		t.Error(line)
	}
}

// TestUnheard replays spans of which most give no event.
func TestUnheard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans.jsonl")
	if err := os.WriteFile(file, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[`+
		`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"0000000000000001","name":"run","startTimeUnixNano":"1763900000000000000","endTimeUnixNano":"1763900009000000000","attributes":[{"key":"openinference.span.kind","value":{"stringValue":"AGENT"}}]},`+
		`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"0000000000000002","parentSpanId":"0000000000000001","name":"POST","startTimeUnixNano":"1763900001000000000","endTimeUnixNano":"1763900002000000000"}`+
		`]}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, _ := weir(t, "", "replay", file)
	for _, want := range []string{"tools in 0 of 1 answers: ", "cannot be judged; no tool spans came", "1 span gave no event: 1 tell of no agent, tool or model\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if _, out, _ = weir(t, "", "replay", file, "-o", "json"); !strings.Contains(out, `"spans_without_event": {
`) && !strings.Contains(out, `"spans_without_event":{"unknown":1}`) {
		t.Errorf("not in\n%s", out)
	}
}

// TestNothingHeard replays a span of a web server, which gives no event, and checks the reason.
func TestNothingHeard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans.jsonl")
	if err := os.WriteFile(file, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"0000000000000001","name":"GET /",`+
		`"startTimeUnixNano":"1763900000000000000","endTimeUnixNano":"1763900009000000000"}]}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := weir(t, "", "replay", file); code != 1 || !strings.Contains(errs, "1 span gave no event: 1 tell of no agent, tool or model") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestWorkUnknown lets two agents call each other over and over without reported work.
func TestWorkUnknown(t *testing.T) {
	var log strings.Builder
	for n := range 12 {
		fmt.Fprintf(&log, `{"id":"%d","source":"bus","time":"2026-11-20T14:00:%02dZ","kind":"agent.call","correlation_id":"f","from":{"agent":"%c"},"to":{"agent":"%c"}}`+"\n", n, n, "ab"[n%2], "ba"[n%2])
	}
	file := filepath.Join(t.TempDir(), "bus.jsonl")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := weir(t, "", "explain", "f", "--log", file)
	if code != 0 || !strings.Contains(out, "Whether work was done before its calls is unknown, so ping_pong_same, no_work_hops, no_work_burst do not count them") ||
		!strings.Contains(out, "because it is unknown whether agents worked: ping_pong_other. ") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// TestBriefsUnknown gives one message to one agent after the other, and does not report whether they worked.
// The warning, and the explanation, say why it is no more than a warning, and what is missing.
func TestBriefsUnknown(t *testing.T) {
	var log strings.Builder
	for n := range 20 {
		at := fmt.Sprintf(`"source":"bus","time":"2026-11-20T14:0%d:%02dZ","correlation_id":"f"`, n/10, n%10*6)
		fmt.Fprintf(&log, `{"id":"c%d",%s,"kind":"agent.call","from":{"agent":"lead"},"to":{"agent":"w%d"},"content_hash":"xxh64:0000000000000001"}`+"\n", n, at, n)
		fmt.Fprintf(&log, `{"id":"r%d",%s,"kind":"agent.return","from":{"agent":"w%d"},"to":{"agent":"lead"},"content_hash":"xxh64:0000000000000002"}`+"\n", n, at, n)
	}
	file := filepath.Join(t.TempDir(), "bus.jsonl")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, errs := weir(t, "", "explain", "f", "--log", file)
	for _, want := range []string{
		"because it is unknown whether agents worked: ping_pong_other, repeated_brief. The log has to report tool calls or had_work.",
		"came to the same (only warns, from 4 on); the log does not report whether they worked, so five agents count as one and none are refused",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s%s", want, out, errs)
		}
	}
	if _, out, _ = weir(t, "", "replay", file); !strings.Contains(out, "known work in 0 of 20 agent calls: ") || !strings.Contains(out, " cannot be judged, ping_pong_other, repeated_brief only warn, and late") {
		t.Errorf("replay does not say it:\n%s", out)
	}
}

// TestResultsUnknown explains a flow whose tools report neither arguments nor results.
func TestResultsUnknown(t *testing.T) {
	var log strings.Builder
	for n := range 8 {
		fmt.Fprintf(&log, `{"id":"%d","source":"bus","time":"2026-11-20T14:00:%02dZ","kind":"tool.call","correlation_id":"f","from":{"agent":"a"},"tool":{"name":"read"}}`+"\n", n, n)
	}
	file := filepath.Join(t.TempDir(), "bus.jsonl")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, errs := weir(t, "", "explain", "f", "--log", file)
	for _, want := range []string{
		"The log does not report arguments of tool calls (tool.args_hash): stale_delegation, stale_answers, repetition, ",
		"The log does not report results of tool calls (content_hash): ", "repeated_brief cannot be judged.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s%s", want, out, errs)
		}
	}
}

// TestStrayAnswers explains and replays a flow in which an agent answers that was not called.
func TestStrayAnswers(t *testing.T) {
	const log = `{"id":"1","source":"bus","time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"f","from":{"agent":"lead"},"to":{"agent":"coder"}}
{"id":"2","source":"bus","time":"2026-11-20T14:00:01Z","kind":"agent.return","correlation_id":"f","from":{"agent":"coder-1"},"to":{"agent":"lead"}}
{"id":"3","source":"bus","time":"2026-11-20T14:00:02Z","kind":"agent.return","correlation_id":"f","from":{"agent":"coder"},"to":{"agent":"lead"}}
`
	file := filepath.Join(t.TempDir(), "bus.jsonl")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	const fix = "from is the agent that answers, to its caller, each named as in its agent.call"
	if _, out, errs := weir(t, "", "explain", "f", "--log", file); !strings.Contains(out, "\n1 answer (agent.return) matched no call") || !strings.Contains(out, fix) {
		t.Errorf("%s%s", out, errs)
	}
	if _, out, errs := weir(t, "", "replay", file); !strings.Contains(out, "\n1 of 2 answers match no call") || !strings.Contains(out, fix) {
		t.Errorf("%s%s", out, errs)
	}
}
