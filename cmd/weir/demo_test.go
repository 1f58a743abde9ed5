package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/demo"
)

// TestDemoOnce holds what a newcomer sees to what the demonstration promises.
func TestDemoOnce(t *testing.T) {
	code, out, errs := weir(t, "", "demo", "--once")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if !strings.Contains(out, "stopped  Gateway S2: tool calls without end                   at call 11 of 16") {
		t.Errorf("the stop of S2 is not there:\n%s", out)
	}
	if n := strings.Count(out, "\n"); n > 40 {
		t.Errorf("%d lines, want at most 40", n)
	}
	if !strings.Contains(out, "recorded Claude Code ") || !strings.Contains(out, "refused by the flow guard") {
		t.Errorf("the real client is not there:\n%s", out)
	}
	for _, line := range strings.Split(out, "\n") {
		if len(line) > 108 {
			t.Errorf("too long for a terminal: %s", line)
		}
	}
}

// TestDemoRuns wants each runaway stopped before its end, and no honest run touched.
func TestDemoRuns(t *testing.T) {
	code, out, errs := weir(t, "", "demo", "--once", "-o", "json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	var results []demo.Result
	if err := json.Unmarshal([]byte(out), &results); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Honest && r.StoppedAt != 0 {
			t.Errorf("%s: stopped at call %d: %s", r.Run, r.StoppedAt, r.Why)
		}
		if !r.Honest && (r.StoppedAt == 0 || r.SavedCalls == 0 || r.StoppedAt+r.SavedCalls-1 != r.Calls) {
			t.Errorf("%s: stopped at call %d of %d, saved %d", r.Run, r.StoppedAt, r.Calls, r.SavedCalls)
		}
		if r.Calls == 0 {
			t.Errorf("%s: no calls", r.Run)
		}
	}
}

// TestDemoRecordings holds the embedded recordings to those that the adapters are
// tested with.
func TestDemoRecordings(t *testing.T) {
	const real = "../../events/adapter/testdata/real"
	kept := map[string]string{}
	files, err := filepath.Glob(real + "/*/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s: %v", real, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		kept[string(data)] = f
	}
	for _, r := range demo.Recordings {
		data, err := demo.Files.ReadFile("recordings/" + r.File + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := kept[string(data)]; !ok {
			t.Errorf("recordings/%s.gz is none of %s/*/*.gz: copy it again", r.File, real)
		}
	}
	entries, err := demo.Files.ReadDir("recordings")
	if err != nil || len(entries) != len(demo.Recordings)+3 {
		t.Errorf("demo holds %d files, want %d recordings, the scenarios and two of the real client (%v)", len(entries), len(demo.Recordings), err)
	}
}

// TestTracesGiven runs the published sets, where they are, and holds the outcome to
// what the rules were measured to do: no fewer loops may be warned of and stopped, and
// no more honest runs. Sets that are not in the table are left out.
func TestTracesGiven(t *testing.T) {
	dir := "../../../shared/traces"
	files, err := filepath.Glob(dir + "/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Skip("NOT TESTED: the published traces are not beside the repository; detection quality is not held to its figures")
	}
	type bounds struct{ loops, warned, stopped, honest, wronglyWarned, wronglyStopped int }
	measured := map[string]bounds{
		"whowhen_hc":        {31, 23, 11, 27, 1, 0},
		"tau_airline_gpt4o": {0, 0, 0, 84, 0, 0},
		"masft_ag2_even":    {61, 60, 50, 3539, 54, 4},
	}
	held := 0
	for _, events := range files {
		set, ok := strings.CutSuffix(events, ".events.jsonl.gz")
		if _, known := measured[filepath.Base(set)]; !ok || !known {
			continue
		}
		// All agents are watched, though none of them reports. None of a set without gaps in its
		// times may be called stuck.
		code, out, errs := weir(t, "", "replay", "--quiet", "--summary", "-o", "json", "--set", "agents.watch=all", "--labels", set+".labels.jsonl.gz", events)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", set, code, errs)
		}
		var score labelScore
		for line := range bytes.Lines([]byte(out)) {
			var s labelScore
			if err := json.Unmarshal(line, &s); err == nil && s.Labels != "" {
				score = s
			}
		}
		if score.WithoutEvents != 0 {
			t.Errorf("%s: %d traces without events", score.Labels, score.WithoutEvents)
		}
		want, ok := measured[score.Labels]
		if !ok || score.ShouldBeCaught != want.loops || score.ShouldBeLeft != want.honest {
			t.Logf("%s: not the set that was measured: %+v", score.Labels, score)
			continue
		}
		held++
		if score.Warned < want.warned || score.Stopped < want.stopped || score.WronglyWarned > want.wronglyWarned || score.WronglyStopped > want.wronglyStopped {
			t.Errorf("%s: got %+v, want %+v or better", score.Labels, score, want)
		}
		for _, r := range analyzer.Rows() {
			if r.Silence && strings.Contains(out, `"rule":"`+r.Name+`"`) {
				t.Errorf("%s: %s calls agents of honest traces stuck", score.Labels, r.Name)
			}
		}
	}
	if held == 0 {
		t.Skipf("NOT TESTED: no set in %s is one that was measured", dir)
	}
}

// TestDemoLive lets two agents talk until weir cuts them short.
func TestDemoLive(t *testing.T) {
	code, out, errs := weir(t, "", "demo", "--live", "--pace", "1ms")
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, part := range []string{"call 1   planner -> coder", "refused  planner -> coder    not sent", "advice:          finish_with_partial_work",
		"the model reads: The call was refused by the flow guard (a2a_ping_pong, "} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in\n%s", part, out)
		}
	}
}

// TestDemoSaysThatItGoesOn holds that the first line says how the demonstration ends.
func TestDemoSaysThatItGoesOn(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	env := cli.Env{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now}
	_ = program().Main(ended, env, []string{"demo", "--listen", "127.0.0.1:0"})
	if first, _, _ := strings.Cut(out.String(), "\n"); !strings.Contains(first, "Ctrl-C") || !strings.Contains(first, "--once") {
		t.Errorf("the first line is %q", first)
	}
}
