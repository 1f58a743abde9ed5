package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/events"
	"weir/state"
)

// running is a command that runs until it is stopped.
type running struct {
	t       *testing.T
	url     string
	signals chan<- os.Signal
	stdout  *watched
	stderr  *watched
	ended   chan int
}

// watched is a writer of which a test can await a line.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed and renewed at each write
}

func newWatched() *watched { return &watched{more: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.more)
	w.more = make(chan struct{})
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await returns the first line that holds what, once it is there.
func (w *watched) await(t *testing.T, what string, ended <-chan int) string {
	t.Helper()
	for {
		w.mu.Lock()
		text, more := w.text.String(), w.more
		w.mu.Unlock()
		for line := range strings.Lines(text) {
			if strings.Contains(line, what) && strings.HasSuffix(line, "\n") {
				return line
			}
		}
		select {
		case <-more:
		case code := <-ended:
			t.Fatalf("ended with exit code %d before %q came:\n%s", code, what, text)
		case <-t.Context().Done():
			t.Fatalf("%q never came:\n%s", what, text)
		}
	}
}

// start runs a command that serves, and returns when it listens.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, stdout: newWatched(), stderr: newWatched(), ended: make(chan int, 1)}
	notified := make(chan chan<- os.Signal, 1)
	env := cli.Env{In: strings.NewReader(""), Out: r.stdout, Err: r.stderr, Getenv: func(string) string { return "" }, Now: time.Now,
		Notify: func(c chan<- os.Signal, _ ...os.Signal) func() { notified <- c; return func() {} }}
	go func() { r.ended <- program().Main(context.Background(), env, args) }()
	select {
	case r.signals = <-notified:
	case code := <-r.ended:
		t.Fatalf("weir %s: exit code %d\n%s", strings.Join(args, " "), code, r.stderr)
	}
	return r
}

// startRun runs weir run and finds out its address.
func startRun(t *testing.T, args ...string) *running {
	t.Helper()
	r := start(t, append([]string{"run", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	var line struct{ Address string }
	if err := json.Unmarshal([]byte(r.stderr.await(t, "weir is running", r.ended)), &line); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + line.Address
	return r
}

// end sends a signal and returns the exit code.
func (r *running) end(s os.Signal) int {
	r.signals <- s
	return <-r.ended
}

// post sends the file of events.
func (r *running) post(body []byte) {
	r.t.Helper()
	resp, err := http.Post(r.url+"/v1/events", "application/x-ndjson", bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
		r.t.Fatalf("HTTP %d: %s", resp.StatusCode, text)
	}
}

// stopped reads the stream of verdicts up to the first that stops.
func (r *running) stopped() events.Verdict {
	r.t.Helper()
	enough := errors.New("enough")
	var found events.Verdict
	c := &client.Client{Base: r.url, HTTP: http.DefaultClient}
	err := c.Verdicts(r.t.Context(), "", 1000, func(v *events.Verdict) error {
		if v.Stops() {
			found = *v
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		r.t.Fatalf("no stop in the stream: %v", err)
	}
	return found
}

// loopOfNow is testdata/events.jsonl as if it happened now.
func loopOfNow(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	var first events.Stamp
	for line := range bytes.Lines(data) {
		var ev events.Event
		if err := events.Decode(bytes.TrimSpace(line), &ev); err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = ev.Time
		}
		ev.Time = events.StampOf(time.Now().Add(-time.Minute)) + ev.Time - first
		out = append(ev.AppendJSON(out), '\n')
	}
	return out
}

// TestRun starts weir, sees a verdict, ends it, starts it again and sees the same.
func TestRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	r := startRun(t, "--state", dir)
	r.post(loopOfNow(t))
	before := r.stopped()
	if before.RuleID != "repetition" || before.CorrelationID != "loop" {
		t.Errorf("stopped by %s in %s", before.RuleID, before.CorrelationID)
	}
	askRunning(t, r.url)
	if code := r.end(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.stderr)
	}
	if !strings.Contains(r.stderr.String(), before.Message) {
		t.Errorf("the verdict is not in the log:\n%s", r.stderr)
	}
	lookIntoState(t, dir)

	again := startRun(t, "--state", dir)
	after := again.stopped()
	if string(after.AppendJSON(nil)) != string(before.AppendJSON(nil)) {
		t.Errorf("after the restart\n%s\nbefore\n%s", after.AppendJSON(nil), before.AppendJSON(nil))
	}
	again.signals <- syscall.SIGHUP
	again.stderr.await(t, "read again", again.ended)
	if code := again.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d\n%s", code, again.stderr)
	}
}

// askRunning asks a running weir by the commands that do.
func askRunning(t *testing.T, url string) {
	t.Helper()
	f := func(code int, want string, stdin string, args ...string) {
		t.Helper()
		got, out, errs := weirNow(t, stdin, append(args, "--server", url)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("weir %s: exit code %d, want %d with %q in\n%s%s", strings.Join(args, " "), got, code, want, out, errs)
		}
	}
	call, err := os.ReadFile("testdata/call.json")
	if err != nil {
		t.Fatal(err)
	}
	f(0, "allow  allowed", strings.ReplaceAll(string(call), `"lookup"`, `"other"`), "check")
	f(3, "deny  repetition (repetition_detected)", string(call), "check")
	f(3, `"allowed": false`, string(call), "check", "-o", "json")
	f(1, "only agent.call, tool.call, task.loop and task.reflect", `{"kind":"flow.end","correlation_id":"loop"}`, "check")
	f(0, "stopped", "", "flows", "ls")
	f(0, "stopped at 6 of 6, repetition", "", "flows", "ls", "--sort", "near")
	f(0, "Tool call rejected", "", "explain", "loop")
	f(0, "No active order", "", "explain", "hon")
	f(1, "did you mean loop", "", "explain", "lop")
	f(0, "max_chain_depth", "", "flows", "show", "loop")
}

// weirNow is weir with a clock that goes.
func weirNow(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	env := cli.Env{In: strings.NewReader(stdin), Out: &out, Err: &err, Getenv: func(string) string { return "" }, Now: time.Now}
	code = program().Main(t.Context(), env, args)
	return code, out.String(), err.String()
}

// TestTailOfPartitions holds that the last verdicts of a state folder are the last ones of all of
// its partitions, in the order in which they were given.
func TestTailOfPartitions(t *testing.T) {
	dir := t.TempDir()
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []events.Stamp{3000, 1000, 4000, 2000} {
		partition := uint16(i / 2)
		v := events.Verdict{ID: fmt.Sprintf("%016x-1", at), Time: events.RFC3339(at), CorrelationID: fmt.Sprintf("flow%d", at), Action: events.Halt, Message: "stopped"}
		if err := store.Commit(&state.Checkpoint{Partition: partition}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Verdicts(partition).Append([]state.Entry{{Appended: at, Value: v.AppendJSON(nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, out, errs := weir(t, "", "flows", "tail", "-n", "2", "-o", "json", "--state", dir)
	var flows []string
	for line := range strings.Lines(out) {
		var v events.Verdict
		if err := events.DecodeVerdict([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s%s", err, out, errs)
		}
		flows = append(flows, v.CorrelationID)
	}
	if got := strings.Join(flows, " "); got != "flow3000 flow4000" {
		t.Errorf("the last two are %q, want flow3000 and flow4000%s", got, errs)
	}
}

// lookIntoState asks the state of a weir that has ended.
func lookIntoState(t *testing.T, dir string) {
	t.Helper()
	for _, x := range []struct{ want, args string }{
		{"stopped", "flows ls"}, {"Tool call rejected", "explain loop"}, {"repetition", "flows tail"}, {"repetition", "flows tail loop"},
	} {
		code, out, errs := weir(t, "", append(strings.Fields(x.args), "--state", dir)...)
		if code != 0 || !strings.Contains(out, x.want) {
			t.Errorf("weir %s --state: exit code %d, want %q in\n%s%s", x.args, code, x.want, out, errs)
		}
	}
	if _, out, _ := weir(t, "", "flows", "tail", "-n", "1", "--state", dir); strings.Count(out, "\n") != 2 {
		t.Errorf("flows tail -n 1: %s", out)
	}
}

// TestTail follows the verdicts of a running weir.
func TestTail(t *testing.T) {
	r := startRun(t, "--in-memory")
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := newWatched(), make(chan int, 1)
	env := cli.Env{Out: out, Err: io.Discard, Getenv: func(string) string { return "" }, Now: time.Now}
	go func() { ended <- program().Main(ctx, env, []string{"flows", "tail", "--server", r.url}) }()
	r.post(loopOfNow(t))
	out.await(t, "deny", ended)
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	r.end(syscall.SIGTERM)
}

// TestRunFollowsFilesAndWritesVerdicts reads events from a file and has verdicts in
// another, with limits from a third.
func TestRunFollowsFilesAndWritesVerdicts(t *testing.T) {
	dir := t.TempDir()
	verdicts := filepath.Join(dir, "verdicts.jsonl")
	r := startRun(t, "--in-memory", "--follow", "canonical=testdata/events.jsonl", "--verdict-file", verdicts, "--limits", "testdata/limits.yaml")
	found := r.stopped()
	if found.RuleID != "max_tool_calls" || found.Effective != "next" {
		t.Errorf("stopped by %s, effective %s", found.RuleID, found.Effective)
	}
	if code := r.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, r.stderr)
	}
	data, err := os.ReadFile(verdicts)
	if err != nil || !bytes.Contains(data, []byte(found.ID)) {
		t.Errorf("the verdict is not in the file: %v\n%s", err, data)
	}
}

func TestRunIsRefused(t *testing.T) {
	f := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errs := weir(t, "", append([]string{"run", "--in-memory"}, args...)...)
		if got != code || out != "" || !strings.Contains(errs, want) {
			t.Errorf("weir run %s: exit code %d, want %d with %q in\n%s%s", strings.Join(args, " "), got, code, want, out, errs)
		}
	}
	r := startRun(t, "--in-memory")
	f(1, "choose a port with --listen", "--listen", strings.TrimPrefix(r.url, "http://"))
	if code := r.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	f(2, "one argument too many", "file")
	f(2, "quote a pattern", "--follow", "a.jsonl", "b.jsonl")
	f(2, "did you mean --listen", "--lisen", "x")
	f(2, "would undo them", "--limits", "testdata/limits.yaml", "--profile", "team")
	f(2, "unknown format", "--follow", "nosuch=testdata/nothing.jsonl")
	f(1, "rules.max_tool_cals", "--limits", "testdata/broken.yaml")
	f(1, "no-such-token", "--admin-token-file", "testdata/no-such-token")
}

func TestRunReadsTheEnvironment(t *testing.T) {
	var errs bytes.Buffer
	env := cli.Env{Out: io.Discard, Err: &errs, Now: time.Now, Getenv: func(name string) string {
		return map[string]string{"WEIR_MEMORY": "much"}[name]
	}}
	if code := program().Main(t.Context(), env, []string{"run"}); code != cli.CodeUsage || !strings.Contains(errs.String(), "WEIR_MEMORY") {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
}

// TestLiveDemo lets the demonstration go on until it has refused a call.
func TestLiveDemo(t *testing.T) {
	r := start(t, "demo", "--listen", "127.0.0.1:0", "--pace", "1ms")
	r.stdout.await(t, "Now live", r.ended)
	r.stdout.await(t, "refused", r.ended)
	if code := r.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d\n%s", code, r.stderr)
	}
}
