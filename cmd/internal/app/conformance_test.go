package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/app/checktest"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/guard/conformance"
)

// conforming is a weir in one process that plays the suite.
func conforming(t *testing.T, dir, text string, hands clock.Clock) (*running, *conformance.Weir) {
	t.Helper()
	limits, err := limitfile.Parse("suite", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r := beginHand(t, Options{StateDir: dir, Limits: limits, Clock: hands, AnswerTimeout: time.Minute}).running
	w := &conformance.Weir{URLs: []string{"http://" + r.Addr()}, Token: adminSecret, Now: hands.Now}
	w.Give = func(verdict string) {
		var v events.Verdict
		if err := events.DecodeVerdict([]byte(verdict), &v); err != nil {
			t.Fatalf("%v: %s", err, verdict)
		}
		r.give(v)
	}
	return r, w
}

// TestConformanceDecisions makes the decisions of the suite by each way to check calls.
func TestConformanceDecisions(t *testing.T) {
	t.Parallel()
	decisions, err := conformance.Decisions()
	if err != nil {
		t.Fatal(err)
	}
	_, w := conforming(t, t.TempDir(), "profile: none\n", clock.NewFake())
	ways := conformance.HTTP()
	for i := range decisions {
		w.Decide(t, &decisions[i], ways...)
	}
	if len(decisions) < 60 {
		t.Errorf("only %d decisions", len(decisions))
	}
}

// TestConformanceDialogues plays the dialogues of the suite by each way to check calls, and by each guard.
func TestConformanceDialogues(t *testing.T) {
	commands := guards(t)
	conformance.EachDialogues(t, func(t *testing.T, limits string, dialogues []conformance.Dialogue) {
		_, w := conforming(t, t.TempDir(), limits, clock.System{})
		ways := append(conformance.HTTP(), checktest.NewGuard(t, w.URLs[0]))
		for language, command := range commands {
			ways = append(ways, conformance.Begin(t, language, append(command, w.URLs[0], `{"ask_s":60}`)...))
		}
		for _, way := range ways {
			for i := range dialogues {
				w.Play(t, &dialogues[i], way, fmt.Sprint(way.Name(), "-", i, "-"))
			}
		}
	})
}

// guards are the commands of guards of other languages, by language.
func guards(t *testing.T) map[string][]string {
	t.Helper()
	commands := make(map[string][]string)
	if testing.Short() {
		return commands
	}
	const folder = "../../../sink/guard"
	for language, program := range map[string]string{"python": "python3", "typescript": "node"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Logf("MISSING: %s; NOT TESTED: the guard of its language", program)
			continue
		}
		if language == "python" {
			commands[language] = []string{path, folder + "/testdata/conformance.py", folder + "/python"}
		} else if module := typescriptGuard(t, path, folder+"/typescript"); module != "" {
			commands[language] = []string{path, folder + "/testdata/conformance.mjs", module}
		}
	}
	return commands
}

// typescriptGuard compiles the guard of TypeScript; "" without its compiler.
func typescriptGuard(t *testing.T, node, folder string) (module string) {
	t.Helper()
	compiler := filepath.Join(folder, "node_modules", "typescript", "bin", "tsc")
	if _, err := os.Stat(compiler); err != nil {
		t.Log("MISSING: the compiler that `make setup` brings; NOT TESTED: the guard of TypeScript")
		return ""
	}
	out := t.TempDir()
	if text, err := exec.Command(node, compiler, "-p", folder, "--outDir", out).CombinedOutput(); err != nil {
		t.Fatalf("compile the guard of TypeScript: %v\n%s", err, text)
	}
	module = filepath.Join(out, "weir-guard.mjs")
	if err := errors.Join(os.Rename(filepath.Join(out, "weir-guard.js"), module), os.WriteFile(filepath.Join(out, "package.json"), []byte(`{"type":"module"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	return module
}

// TestConformanceRestarted stops, and then kills, weir in the middle of all dialogues, and starts it again: the answers
// are the same as without that.
func TestConformanceRestarted(t *testing.T) {
	conformance.EachDialogues(t, func(t *testing.T, limits string, dialogues []conformance.Dialogue) {
		dir := t.TempDir()
		r, w := conforming(t, dir, limits, clock.System{})
		var stopped, killed []*conformance.Player
		for i := range dialogues {
			w.Play(t, &dialogues[i], conformance.Requests{}, fmt.Sprint("whole-", i, "-"))
			stopped = append(stopped, w.Player(t, &dialogues[i], conformance.Requests{}, fmt.Sprint("stopped-", i, "-")))
			killed = append(killed, w.Player(t, &dialogues[i], conformance.Requests{}, fmt.Sprint("killed-", i, "-")))
		}
		for _, half := range []struct {
			players []*conformance.Player
			end     func()
		}{{stopped, func() { r.stop() }}, {killed, func() { r.kill() }}} {
			for _, p := range half.players {
				p.First()
			}
			half.end()
			again, next := conforming(t, dir, limits, clock.System{})
			r, w.URLs = again, next.URLs
			for _, p := range half.players {
				p.Rest()
			}
		}
	})
}
