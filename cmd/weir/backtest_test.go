package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
)

// TestReadmeFindsLimits types what the README says of the way from a log to limits, in a
// folder that has a log, and holds each step to what it promises.
func TestReadmeFindsLimits(t *testing.T) {
	_, rest, ok := strings.Cut(readme(t), "```sh\n")
	block, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("the README does not say how limits are found")
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("logs", 0o755); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for f := range 150 {
		for i := range 3 + f%30 {
			fmt.Fprintf(&log, `{"id":"%d-%d","time":"2026-03-02T%02d:%02d:%02dZ","kind":"tool.call","correlation_id":"flow-%d","from":{"agent":"a"},"tool":{"name":"read","call_id":"c%d","args_hash":"xxh64:%016x"}}`+"\n", f, i, 10+f/60, f%60, i, f, i, 1000*f+i+1)
			fmt.Fprintf(&log, `{"id":"%d-%d-r","time":"2026-03-02T%02d:%02d:%02dZ","kind":"tool.result","correlation_id":"flow-%d","from":{"agent":"a"},"tool":{"name":"read","call_id":"c%d","args_hash":"xxh64:%016x"},"content_hash":"xxh64:%016x"}`+"\n", f, i, 10+f/60, f%60, i, f, i, 1000*f+i+1, 5000*f+i+1)
		}
	}
	if err := os.WriteFile("logs/agents.jsonl", []byte(log.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		words, file := words[1:], ""
		if n := len(words); n > 2 && words[n-2] == ">" {
			words, file = words[:n-2], words[n-1]
		}
		code, stdout, stderr := weir(t, "", words...)
		if code != 0 || stdout == "" && !strings.HasPrefix(words[0], "review") {
			t.Fatalf("%s: exit %d: %s", line, code, stderr)
		}
		if file != "" {
			if err := os.WriteFile(file, []byte(stdout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ran++
	}
	if ran < 3 {
		t.Errorf("only %d commands were found", ran)
	}
	page, err := os.ReadFile("backtest.html")
	if err != nil || !strings.Contains(string(page), "</html>") || strings.Contains(string(page), "src=") || strings.Contains(string(page), "http") {
		t.Errorf("the report is no page that stands by itself: %v", err)
	}
	data, err := os.ReadFile("limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limitfile.Parse("limits.yaml", data); err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(data), "# at most 32 calls in 150 honest flows") {
		t.Errorf("the limits do not say what they stand on:\n%s", data)
	}
}

// TestReviewGuards holds the way of a judgement: what is marked wrong fails the check
// for as long as the limits stop it.
func TestReviewGuards(t *testing.T) {
	marks := filepath.Join(t.TempDir(), "review.jsonl")
	args := []string{"backtest", "testdata/traces.events.jsonl.gz", "--marks", marks, "--check"}
	if code, _, stderr := weir(t, "", "review", "mark", "tiny/1", "wrong", "--marks", marks, "--reason", "it was a build"); code != 0 || !strings.Contains(stderr, `"tiny/1" is marked wrong`) {
		t.Fatal(stderr)
	}
	if code, _, stderr := weir(t, "", args...); code != 3 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := weir(t, "", append(args, "--profile", "none")...); code != 0 {
		t.Errorf("exit %d: %s", code, stderr)
	}
	// The same as a test.
	f := func(code int, part string, more ...string) {
		t.Helper()
		got, out, errs := weir(t, "", append([]string{"test", "testdata/traces.events.jsonl.gz"}, more...)...)
		if got != code || !strings.Contains(out+errs, part) {
			t.Errorf("weir test %v: exit %d, want %d with %q\n%s%s", more, got, code, part, out, errs)
		}
	}
	f(1, "stopped by", "--marks", marks)
	f(0, "1 flow, none differs", "--marks", marks, "--profile", "none")
	f(2, "weir review mark") // a log is no scenario
	if code, _, stderr := weir(t, "", "review", "mark", "gone/1", "wrong", "--marks", marks); code != 0 {
		t.Fatal(stderr)
	}
	f(1, "not in the logs", "--marks", marks, "--profile", "none")
	if code, _, stderr := weir(t, "", "review", "mark", "tiny/1", "right", "--marks", marks); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := weir(t, "", args...); code != 0 {
		t.Errorf("after the mark was changed: exit %d: %s", code, stderr)
	}
}

// TestReportIsLost holds that a report which cannot be written is an error before the log is read, or
// costs nothing of what the log has brought.
func TestReportIsLost(t *testing.T) {
	if code, out, stderr := weir(t, "", "backtest", "testdata/traces.events.jsonl.gz", "--report", "gone/x.html"); code != 2 || out != "" || !strings.Contains(stderr, "--report gone/x.html: ") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	folder := filepath.Join(t.TempDir(), "x.html")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := weir(t, "", "backtest", "testdata/traces.events.jsonl.gz", "--report", folder); code != 1 || !strings.Contains(out, "to review") || !strings.Contains(stderr, folder) {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
}

// TestCalibrateAsksForMarks holds that unmarked runaways are not taken for good flows
// without a word.
func TestCalibrateAsksForMarks(t *testing.T) {
	t.Chdir(t.TempDir())
	var log, marks strings.Builder
	for f := range 60 {
		calls := 3
		if f < 4 {
			calls = 130
			fmt.Fprintf(&marks, `{"flow":"flow-%d","mark":"right"}`+"\n", f)
		}
		for i := range calls {
			fmt.Fprintf(&log, `{"id":"%d-%d","time":"2026-03-02T%02d:%02d:%02dZ","kind":"agent.call","correlation_id":"flow-%d","from":{"agent":"a"},"to":{"agent":"b"},"content_hash":"xxh64:%016x"}`+"\n", f, i, f/4, i/60*10, i%60, f, i+1)
		}
	}
	for name, text := range map[string]string{"log.jsonl": log.String(), "review.jsonl": marks.String()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const asks = "4 of the 60 flows taken for good are stopped"
	if code, _, stderr := weir(t, "", "limits", "calibrate", "log.jsonl", "--share", "10%"); code != 0 || !strings.Contains(stderr, asks) {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := weir(t, "", "limits", "calibrate", "log.jsonl", "--share", "10%", "--marks", "review.jsonl"); code != 0 || strings.Contains(stderr, "taken for good") {
		t.Errorf("with marks: exit %d: %s", code, stderr)
	}
}

// TestBacktestIgnoresArguments distinguishes calls as live traffic does: without the
// arguments that the limits leave out.
func TestBacktestIgnoresArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	var log strings.Builder
	for i := range 12 {
		fmt.Fprintf(&log, `{"type":"assistant","sessionId":"s","uuid":"a%d","parentUuid":"p","timestamp":"2026-11-20T14:00:%02dZ","message":{"id":"m%d","content":[{"type":"tool_use","id":"t%d","name":"mcp__x__page","input":{"q":"a","nonce":%d}}]}}`+"\n", i, 2*i, i, i, i)
		fmt.Fprintf(&log, `{"type":"user","sessionId":"s","uuid":"u%d","parentUuid":"p","timestamp":"2026-11-20T14:00:%02dZ","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":"nothing found here"}]}}`+"\n", i, 2*i+1, i)
	}
	for name, text := range map[string]string{"log.jsonl": log.String(),
		"only.yaml":   "profile: balanced\nrules: {circling: {mode: off}}\n",
		"ignore.yaml": "profile: balanced\nrules: {circling: {mode: off}}\ntools: {mcp__x__page: {ignore_args: [nonce]}}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := func(limits, want string, more ...string) string {
		t.Helper()
		code, stdout, stderr := weir(t, "", append([]string{"backtest", "log.jsonl", "--limits", limits}, more...)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d, %s\n%s\nwant %q", limits, code, stderr, stdout, want)
		}
		return stderr
	}
	f("only.yaml", "would be stopped: 0")
	f("ignore.yaml", "would be stopped: 1")
	if said := f("only.yaml", "would be stopped: 0", "--against", "ignore.yaml"); !strings.Contains(said, "ignore_args") {
		t.Errorf("nothing is said of arguments that only one of the limits leaves out: %s", said)
	}
}
