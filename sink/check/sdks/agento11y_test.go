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

// agentRun is what a run of testdata/evaluate.py or testdata/integrations.py prints.
type agentRun struct {
	Version     string
	Wanted, Ran int
	End         string
}

// asker runs such a program.
type asker struct {
	*testing.T
	python, secret, token string // token is the file of the secret
}

func newAsker(t *testing.T, environment string) *asker {
	t.Helper()
	dir := folder(t)
	a := &asker{T: t, python: filepath.Join(dir, environment, "bin", "python"), secret: "intake-0123456789012345678901234567890", token: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(a.token, []byte(a.secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// version returns the version of a package, or skips the test.
func (a *asker) version(name string) string {
	a.Helper()
	version, err := exec.Command(a.python, "-c", "import importlib.metadata as m; print(m.version('"+name+"'))").Output()
	if err != nil {
		a.Skipf("*** NOT TESTED: %s is not installed ***", name)
	}
	return strings.TrimSpace(string(version))
}

// run runs a program in an empty environment. After its first line it waits until during returns.
func (a *asker) run(during func(), args ...string) (r agentRun) {
	a.Helper()
	cmd := exec.CommandContext(a.Context(), a.python, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + a.TempDir(), "NO_PROXY=127.0.0.1"}
	var errs strings.Builder
	cmd.Stderr = &errs
	in, _ := cmd.StdinPipe()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		a.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if during != nil && lines.Scan() {
		during()
		fmt.Fprintln(in)
	}
	for lines.Scan() {
		if text := lines.Text(); strings.HasPrefix(text, "{") {
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				a.Errorf("%s: %v", text, err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		a.Fatalf("%v: %s", err, errs.String())
	}
	return r
}

// TestAgentObservability lets the SDK of Grafana Agent Observability ask weir, with nothing of weir's
// installed. It prints a table.
func TestAgentObservability(t *testing.T) {
	python := newAsker(t, "python")
	version := python.version("agento11y")
	run := func(t *testing.T, url, phases, kind, fail string, during func()) agentRun {
		t.Helper()
		return python.run(during, "testdata/evaluate.py", url, python.secret, phases, kind, fail, "40")
	}
	token := python.token
	weir := weirtest.Run(t, "--in-memory", "--intake-token-file", token)
	var table strings.Builder
	fmt.Fprintf(&table, "\nagento11y %s for Python: asks | run | wanted | ran | end", version)
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

// TestAgentObservabilityIntegrations lets agents of frameworks ask weir by the same SDK, with the integration
// that records them. Those of LiteLLM and of the Claude Agent SDK ask by themselves; before the tools of the
// others the agent asks in the place that its framework has for it. It prints a table.
func TestAgentObservabilityIntegrations(t *testing.T) {
	python := newAsker(t, "agento11y")
	version := python.version("agento11y")
	weir := weirtest.Run(t, "--in-memory", "--intake-token-file", python.token)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	over := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer slow.Close()
	defer close(over)
	var table strings.Builder
	fmt.Fprintf(&table, "\nagento11y %s for Python with | version | run | wanted | ran | refused | end", version)
	for _, framework := range []struct {
		name string
		most int  // calls of a loop that run
		goes bool // its model reads the refusal and goes on
		open bool // a call runs when its hook fails, whatever fail_open says
	}{
		{name: "langgraph", most: 7}, {name: "openai-agents", most: 7}, {name: "pydantic-ai", most: 7}, {name: "litellm", most: 7},
		{name: "claude-agent-sdk", most: 31, goes: true, open: true}, // it hands over no results
	} {
		t.Run(framework.name, func(t *testing.T) {
			python := &asker{T: t, python: python.python, secret: python.secret, token: python.token}
			play := func(run, url, kind, fail, calls string) agentRun {
				r := python.run(nil, "testdata/integrations.py", framework.name, url, python.secret, kind, fail, calls)
				fmt.Fprintf(&table, "\n%s | %s | %s | %d | %d | %d | %.90s", framework.name, r.Version, run, r.Wanted, r.Ran, r.Wanted-r.Ran, r.End)
				return r
			}
			switch r := play("loop", weir.URL, "loop", "closed", "40"); {
			case r.Ran < 3 || r.Ran > framework.most:
				t.Errorf("of a loop %d calls ran", r.Ran)
			case framework.goes && r.Wanted != 40, !framework.goes && !strings.Contains(r.End, "refused by the flow guard"):
				t.Errorf("%+v", r)
			}
			if r := play("honest", weir.URL, "honest", "closed", "40"); r.Ran != 40 {
				t.Errorf("%+v", r)
			}
			if r := play("weir is away, fails open", gone.URL, "loop", "open", "10"); r.Ran != 10 {
				t.Errorf("%+v", r)
			}
			for name, url := range map[string]string{"away": gone.URL, "slow": slow.URL} {
				if r := play("weir is "+name+", fails closed", url, "loop", "closed", "3"); (r.Ran == 3) != framework.open || (r.Ran == 0) == framework.open {
					t.Errorf("%s: %+v", name, r)
				}
			}
			if r := play("weir is slow, fails open", slow.URL, "loop", "open", "2"); r.Ran != 2 {
				t.Errorf("%+v", r)
			}
		})
	}
	t.Log(table.String())
}
