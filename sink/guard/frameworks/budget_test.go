package frameworks

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// TestLangGraphIsHeldAtABudget runs a graph of LangGraph against a budget in dollars: the call beyond it
// waits, a person grants more, and the same run goes on to its end.
func TestLangGraphIsHeldAtABudget(t *testing.T) {
	dir := folder(t)
	home := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := file("admin.token", "a-token-of-this-test-which-is-long-enough")
	limits := file("limits.yaml", "budgets:\n- {name: agent-day, scope: agent, window: day, zone: "+weirtest.Zone(time.Now())+", hard: 0.10, reserve: 0.02, action: hold}\n")
	program := weirtest.Binary(t)
	w := startWeir(t, program, "--limits", limits, "--admin-token-file", token)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := newScript(ctx, t, []string{filepath.Join(dir, "python", "bin", "python"), "testdata/langgraph_budget.py", w.url, "run-1", "0.02", "8"})
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("MISSING: %v", err)
	}
	lines := bufio.NewScanner(out)
	next := func() (got struct {
		Held string
		Ran  int
	}) {
		t.Helper()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil {
			t.Fatalf("MISSING, or it failed: %q %.3000s", lines.Text(), &cmd.errs)
		}
		return got
	}
	first := next()
	held := time.Now()
	if first.Ran == 0 || first.Ran > 5 || !strings.Contains(first.Held, "budget_exhausted") || !strings.Contains(first.Held, "a person") {
		t.Errorf("after %d calls the model reads %q; want it to be held at $0.10, of which each call costs $0.02", first.Ran, first.Held)
	}
	command := func(args ...string) string {
		t.Helper()
		said, err := exec.CommandContext(ctx, program, append(args, "--server", w.url)...).CombinedOutput()
		if err != nil {
			t.Errorf("weir %v: %v: %s", args, err, said)
		}
		return string(said)
	}
	before := command("budgets", "ls")
	command("budgets", "grant", "agent-day", "planner", "0.20", "--reason", "the run is worth it", "--by", "ann", "--token-file", token)
	if _, err := io.WriteString(in, "decided\n"); err != nil {
		t.Fatal(err)
	}
	waited := time.Since(held)
	last := next()
	if last.Ran != 8 || last.Held != "" {
		t.Errorf("%d calls ran in all, and it is held again: %q; want 8", last.Ran, last.Held)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the run ends with %v: %s", err, &cmd.errs)
	}
	t.Logf("%d calls before the hold, %.1f s held, %d calls after the grant\n%s%s", first.Ran, waited.Seconds(), last.Ran-first.Ran, before, command("budgets", "ls"))
}
