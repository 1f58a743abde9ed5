package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReports replays public bug reports, rebuilt as the logs of the programs that they are
// about, by the default limits: runaways are stopped in time, and honest work is left alone.
func TestReports(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		file string
		rule string // that stops first; "" for honest work
		most int    // calls before the stop, at most
	}{
		{"r03_deep", "max_stack_depth", 20},                            // claude-code#68430: agents 50 levels deep
		{"r04_nudge_loop.export.json.gz", "circling", 12},              // kimchi#115: 40 nudges by a plugin
		{"r06_near_duplicates.jsonl.gz", "circling", 20},               // zeroclaw#7143: 43 spellings of one look
		{"r07_empty_output.jsonl.gz", "repetition", 8},                 // LLMKube#569: 58 commands without output
		{"r10_overnight_stages.qwen.jsonl.gz", "", 0},                  // qwen-code#9733: six stages in 3.3 h
		{"r13_look_and_sleep.claude.jsonl.gz", "", 0},                  // stella#359: look, sleep 10, look
		{"r15b_hooks_same_tests.jsonl.gz", "", 0},                      // superpowers#2202: reviewers rerun tests
		{"r16_pipeline_of_seven.jsonl.gz", "", 0},                      // multica#1355: seven roles hand over
		{"r16b_pipeline_pass_control.jsonl.gz", "", 0},                 // the same with pass_control
		{"r17b_two_bots_wake_sessions.jsonl.gz", "repeated_wakes", 20}, // hermes-agent#91481: a flow for each wake
		{"r28b_distinct_batch_300.jsonl.gz", "", 0},                    // odysseus#3183: 300 distinct writes
		{"s01_look_instead_of_write.pi.jsonl.gz", "repetition", 14},    // pi#6158: looks at a folder instead of the write
		{"s02_lists_that_are_empty.otlp.jsonl.gz", "circling", 14},     // superplane#4123: three empty lists in turn
		{"s03_status_again.export.json.gz", "repetition", 20},          // opencode#43800: git status after honest phases
		{"s04_file_too_large.claude.jsonl.gz", "repetition", 9},        // claude-code#30014: a file that is too large
		{"s05_shell_that_fails.hooks.jsonl.gz", "repetition", 9},       // octos#284: a shell command that fails
		{"s06_status_of_an_import.langsmith.jsonl.gz", "", 0},          // OpenMonoAgent.ai#47: polls of a job that runs
		{"s07_three_reads_at_once.pi.jsonl.gz", "", 0},                 // pi-auto-pilot#46: three reads in each message
		{"s08_empty_polls.codex.jsonl.gz", "", 0},                      // weave-os/router#1123: a command, then empty polls
		{"s09_reviewers_side_by_side.hooks.jsonl.gz", "", 0},           // preflight#607: agents side by side run the same tests
		{"s10_many_pages.openai_agents.jsonl.gz", "", 0},               // atomic-agent#458: a tool, and new pages each time
	} {
		code, out, errs := weir(t, "", "replay", "--quiet", "-o", "json", filepath.Join("testdata", "reports", r.file))
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", r.file, code, errs)
		}
		calls, rule := 0, ""
		for line := range strings.Lines(out) {
			var v struct {
				Action  string
				RuleID  string `json:"rule_id"`
				Trigger struct{ Ordinal int }
			}
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatalf("%s: %v in %s", r.file, err, line)
			}
			if v.Action == "deny" || v.Action == "halt" || v.Action == "throttle" {
				// A call, its result and the tokens of its request are three events.
				calls, rule = v.Trigger.Ordinal/3, v.RuleID
				break
			}
		}
		if rule != r.rule || calls > r.most {
			t.Errorf("%s: stopped by %q after some %d calls, want %q within %d", r.file, rule, calls, r.rule, r.most)
		}
	}
}

// TestOrderOfLines is a law: lines of a session that stand a few places from where they belong give
// the same verdicts.
func TestOrderOfLines(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(4, 37))
	for _, file := range []string{"r07_empty_output.jsonl.gz", "r10_overnight_stages.qwen.jsonl.gz", "s02_lists_that_are_empty.otlp.jsonl.gz", "s04_file_too_large.claude.jsonl.gz", "s05_shell_that_fails.hooks.jsonl.gz",
		"s06_status_of_an_import.langsmith.jsonl.gz", "s08_empty_polls.codex.jsonl.gz", "s01_look_instead_of_write.pi.jsonl.gz"} {
		packed, err := os.Open(filepath.Join("testdata", "reports", file))
		if err != nil {
			t.Fatal(err)
		}
		text, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(text)
		if err != nil {
			t.Fatal(err)
		}
		_ = packed.Close() // it was only read
		lines := strings.Split(strings.TrimSpace(string(all)), "\n")
		want := ""
		for i := range 3 {
			code, out, errs := weir(t, strings.Join(lines, "\n")+"\n", "replay", "--quiet", "-o", "json", "-")
			out, _, _ = strings.Cut(out, `{"summary":`) // it has the time that it took
			switch {
			case code != 0:
				t.Fatalf("%s: exit code %d: %s", file, code, errs)
			case i == 0:
				want = out
			case out != want:
				t.Fatalf("%s, shuffled:\n%s\nwant\n%s", file, out, want)
			}
			for at := 0; at < len(lines); at += 6 {
				part := lines[at:min(at+6, len(lines))]
				rnd.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
			}
		}
	}
}

// TestOrderOfFiles is a law: the files of a session in any order give the same verdicts.
func TestOrderOfFiles(t *testing.T) {
	t.Parallel()
	var files []string
	err := filepath.WalkDir(filepath.Join("testdata", "reports", "r03_deep"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	rnd := rand.New(rand.NewPCG(3, 37))
	want := ""
	for i := range 8 {
		code, out, errs := weir(t, "", append([]string{"replay", "--quiet", "-o", "json"}, files...)...)
		out, _, _ = strings.Cut(out, `{"summary":`) // it has the time that it took
		switch {
		case code != 0 || out == "":
			t.Fatalf("exit code %d: %s", code, errs)
		case i == 0:
			want = out
		case out != want:
			t.Fatalf("in the order %q:\n%s\nwant\n%s", files, out, want)
		}
		rnd.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	}
}
