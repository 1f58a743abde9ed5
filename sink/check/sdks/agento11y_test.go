package sdks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// agentRun is what a run of testdata/evaluate.py prints.
type agentRun struct {
	Wanted, Ran int
	End         string
}

// TestAgentObservability lets the SDK of Grafana Agent Observability ask weir, with nothing of weir's
// installed. It prints a table.
func TestAgentObservability(t *testing.T) {
	dir := os.Getenv(installed)
	if dir == "" {
		t.Skip("the SDKs are not installed; run: make sdks")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(dir, "python", "bin", "python")
	version, err := exec.Command(python, "-c", "import importlib.metadata as m; print(m.version('agento11y'))").Output()
	if err != nil {
		t.Skip("*** NOT TESTED: agento11y is not installed ***")
	}
	token := filepath.Join(t.TempDir(), "token")
	const secret = "intake-0123456789012345678901234567890"
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, url, phases, kind, fail string, during func()) (a agentRun) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, "testdata/evaluate.py", url, secret, phases, kind, fail, "40")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_PROXY=127.0.0.1"}
		var errs strings.Builder
		cmd.Stderr = &errs
		in, _ := cmd.StdinPipe()
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if during != nil && lines.Scan() {
			during()
			fmt.Fprintln(in)
		}
		for lines.Scan() {
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				t.Errorf("%s: %v", lines.Text(), err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, errs.String())
		}
		return a
	}
	weir := weirtest.Run(t, "--in-memory", "--intake-token-file", token)
	var table strings.Builder
	fmt.Fprintf(&table, "\nagento11y %s for Python: asks | run | wanted | ran | end", strings.TrimSpace(string(version)))
	row := func(name, kind string, a agentRun) {
		fmt.Fprintf(&table, "\n%-34s | %-6s | %6d | %3d | %s", name, kind, a.Wanted, a.Ran, a.End)
	}
	for _, phases := range []string{"both", "postflight", "preflight"} {
		for _, kind := range []string{"loop", "honest"} {
			a := run(t, weir.URL, phases, kind, "closed", nil)
			row(phases, kind, a)
			switch {
			case kind == "honest" && a.Ran != 40, kind == "loop" && (a.Ran < 3 || a.Ran > 7):
				t.Errorf("%s, %s: %+v", phases, kind, a)
			case kind == "loop" && !strings.HasPrefix(a.End, "HookDeniedError repetition: ") && !strings.HasPrefix(a.End, "HookDeniedError circling: "):
				t.Errorf("%s: it ended by %s", phases, a.End)
			}
		}
	}
	over := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer slow.Close()
	defer close(over)
	for _, fail := range []string{"open", "closed"} {
		mortal := weirtest.Run(t, "--in-memory", "--intake-token-file", token)
		a := run(t, mortal.URL, "both", "loop-wait", fail, mortal.Kill)
		row("weir is killed after 3, fails "+fail, "loop", a)
		if want := map[string]int{"open": 40, "closed": 3}[fail]; a.Ran != want {
			t.Errorf("killed, fails %s: %+v, want %d", fail, a, want)
		}
	}
	a := run(t, slow.URL, "postflight", "loop", "closed", nil)
	row("weir does not answer, fails closed", "loop", a)
	if a.Ran != 0 || !strings.HasPrefix(a.End, "closed: ") {
		t.Errorf("slow: %+v", a)
	}
	t.Log(table.String())
}
