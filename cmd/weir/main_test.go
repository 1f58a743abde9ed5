package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/operate"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt; commit only what you can explain")

// noon is the wall clock of all tests that do not need one that moves.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// weir runs a command in this process and returns its exit code and output.
func weir(t testing.TB, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	env := cli.Env{In: strings.NewReader(stdin), Out: &out, Err: &err, Getenv: func(string) string { return "" }, Now: func() time.Time { return noon }}
	code = program().Main(t.Context(), env, args)
	return code, out.String(), err.String()
}

// TestTranscripts runs the command lines of testdata/*.txt. A file is what a terminal
// would show: lines that begin with "$ weir" are run, and what they print stands
// below them, what goes to standard error with a bar in front, and the exit code when
// it is not 0.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := transcribe(t, string(want))
			if got == string(want) {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s: %s\nrun the tests with -update, and read the difference", file, firstDifference(string(want), got))
		})
	}
}

// transcribe runs the commands of a transcript and writes it anew.
func transcribe(t *testing.T, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "% ") { // a comment
			b.WriteString("\n" + line + "\n")
		}
		command, ok := strings.CutPrefix(line, "$ weir")
		if !ok {
			continue
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n\n") && !strings.HasPrefix(lastLine(b.String()), "% ") {
			b.WriteByte('\n')
		}
		b.WriteString(line + "\n")
		args, stdin := shell(t, command)
		code, stdout, stderr := weir(t, stdin, args...)
		b.WriteString(stdout)
		for line := range strings.Lines(stderr) {
			b.WriteString("| " + line)
		}
		if code != 0 {
			fmt.Fprintf(&b, "exit code %d\n", code)
		}
	}
	return b.String()
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}

// shell splits a command line at spaces outside of single quotes. What follows a <
// is the file of the standard input.
func shell(t *testing.T, command string) (args []string, stdin string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	if n := len(args); n >= 2 && args[n-2] == "<" {
		data, err := os.ReadFile(args[n-1])
		if err != nil {
			t.Fatal(err)
		}
		return args[:n-2], string(data)
	}
	return args, ""
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d is\n  %s\nand was\n  %s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, and were %d", len(g), len(w))
}

// TestEveryCommandIsTried fails when a command stands in no transcript and in no
// test of its own.
func TestEveryCommandIsTried(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	elsewhere := []string{"weir run", "weir version", "weir limits schema", "weir rules ls", "weir backup", "weir restore", "weir approvals"} // tests of their own
	var walk func(path string, cmds []cli.Command)
	walk = func(path string, cmds []cli.Command) {
		for _, c := range cmds {
			name := path + " " + c.Name
			switch {
			case c.Hidden:
			case c.Setup == nil:
				walk(name, c.Commands)
			case !strings.Contains(all.String(), "$ "+name+"\n") && !strings.Contains(all.String(), "$ "+name+" "):
				if strings.Contains(strings.Join(elsewhere, "\n"), name) {
					continue
				}
				t.Errorf("%s stands in no testdata/*.txt", name)
			}
		}
	}
	walk("weir", program().Commands)
}

// TestEveryCommandHelps asks each command for its help.
func TestEveryCommandHelps(t *testing.T) {
	var walk func(path []string, cmds []cli.Command)
	walk = func(path []string, cmds []cli.Command) {
		for _, c := range cmds {
			if c.Hidden {
				continue
			}
			args := append(append([]string{}, path...), c.Name)
			code, out, errs := weir(t, "", append(args, "--help")...)
			if code != 0 || !strings.Contains(out, "Usage: weir "+strings.Join(args, " ")) || errs != "" {
				t.Errorf("weir %s --help: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
			}
			if c.Short == "" || strings.HasSuffix(c.Short, ".") || len(c.Short) > 76 {
				t.Errorf("weir %s: short help %q: want one line without a full stop", strings.Join(args, " "), c.Short)
			}
			for _, line := range strings.Split(c.Long, "\n") {
				if len(line) > 90 {
					t.Errorf("weir %s: a line of its help is too long: %s", strings.Join(args, " "), line)
				}
			}
			walk(args, c.Commands)
		}
	}
	walk(nil, program().Commands)
}

// TestLists tries what prints lists that grow with formats, rules and profiles.
func TestLists(t *testing.T) {
	f := func(code int, wants []string, args ...string) {
		t.Helper()
		got, out, errs := weir(t, "", args...)
		for _, want := range wants {
			if got != code || !strings.Contains(out+errs, want) {
				t.Errorf("weir %s: exit code %d, want %d with %q in\n%s%s", strings.Join(args, " "), got, code, want, out, errs)
			}
		}
	}
	f(0, append(operate.FormatNames(), "SOURCE", "always", " kinds of sources write "), "events", "describe")
	f(2, []string{"did you mean: weir events describe otlp"}, "events", "describe", "otpl")
	f(0, ruleNames(), "rules", "ls")
	f(0, []string{`{"name":"self_call"`}, "rules", "ls", "-o", "json")
	f(2, []string{"did you mean gateway"}, "rules", "ls", "--profile", "gatewy")
	f(2, []string{`invalid value "nothing" for flag format`}, "replay", "--format", "nothing", "testdata/events.jsonl")
	f(1, []string{"unknown format", "weir events describe"}, "replay", "testdata/limits.yaml")
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if code, out, errs := weir(t, "", args...); code != 0 || errs != "" || !strings.Contains(out, "revision") || !strings.Contains(out, "go1.") {
			t.Errorf("%s: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	if code, out, _ := weir(t, "", "version", "-o", "json"); code != 0 || !strings.Contains(out, `"go": "go1.`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestBuildOf reads what Go and the linker put into a program.
func TestBuildOf(t *testing.T) {
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-20T09:00:00Z"}, {Key: "vcs.modified", Value: "true"}}
	for name, c := range map[string]struct {
		info           debug.BuildInfo
		stamped        [2]string
		version, shown string
	}{
		"nothing is known":        {debug.BuildInfo{}, [2]string{}, "(devel)", "unknown"},
		"a checkout":              {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: checkout}, [2]string{}, "(devel)", "abc, modified"},
		"a module of that name":   {debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, [2]string{}, "v1.2.3", "unknown"},
		"a release":               {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, [2]string{"v1.2.3", "def"}, "v1.2.3", "def"},
		"a release of a checkout": {debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-1"}, Settings: checkout}, [2]string{"v1.2.3", "def"}, "v1.2.3", "def, modified"},
		"a commit and no version": {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, [2]string{"", "def"}, "(devel)", "def"},
	} {
		if b := buildOf(&c.info, true, c.stamped[0], c.stamped[1]); b.Version != c.version || b.revision() != c.shown {
			t.Errorf("%s: version %q, revision %q, want %q and %q", name, b.Version, b.revision(), c.version, c.shown)
		}
	}
	if b := buildOf(nil, false, "v1.2.3", "def"); b.Version != "v1.2.3" || b.Revision != "def" {
		t.Errorf("without Go's own record: %+v", b)
	}
}

// TestStamp builds both programs as a release does and asks them for their version.
func TestStamp(t *testing.T) {
	if testing.Short() {
		t.Skip("it links both programs once more")
	}
	t.Parallel()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-X main.version=v1.2.3 -X main.revision=0123456789ab", "-o", folder, ".", "../weir-hook")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"weir", "version"}, {"weir", "--version"}, {"weir-hook", "--version"}} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(folder, args[0]), args[1:]...).CombinedOutput()
		if fields := strings.Fields(string(out)); err != nil || len(fields) < 2 || fields[0] != args[0] || fields[1] != "v1.2.3" || !strings.Contains(string(out), "0123456789ab") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}

// TestReference holds REFERENCE.md to the table of commands.
func TestReference(t *testing.T) {
	const file = "REFERENCE.md"
	code, out, errs := weir(t, "", "help", "--markdown")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != out {
		t.Errorf("%s: %s (%v); run the tests with -update", file, firstDifference(string(want), out), err)
	}
}

// TestSchema holds what is printed for editors to what the package publishes.
func TestSchema(t *testing.T) {
	code, out, errs := weir(t, "", "limits", "schema")
	if code != 0 || errs != "" || out != string(limitfile.JSONSchema()) {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
}
