package clients

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestClineIsEnded holds the hooks to Cline, which has no refusal of a single call: what a hook
// refuses ends the run.
func TestClineIsEnded(t *testing.T) {
	dir, weir := begin(t)
	cline := client{name: "cline", program: "node_modules/cline/bin/cline", version: "cline", node: true,
		args:   []string{"--json", "-P", "openai", "-m", "fake-model", "say hi"},
		env:    []string{"CLINE_NO_AUTO_UPDATE=1"},
		plugin: [][]string{{"auth", "-p", "openai", "-k", "dummy", "-m", "fake-model", "-b", "{model}/v1"}}}
	cline.find(t, dir)
	url := startWeir(t, weir)
	// Five equal calls one after the other end a run of Cline by themselves.
	turns := slices.Repeat([]string{"echo hi", "echo ho"}, 10)
	for _, each := range []struct {
		name, url string
		closed    bool
		commands  []string
		runs      int
		ended     bool
	}{
		{"honest", url, true, different, len(different), false},
		{"loop", url, false, turns, 7, true},
		{"away, open", "http://127.0.0.1:1", false, turns[:8], 8, false},
		{"away, closed", "http://127.0.0.1:1", true, different[:3], 0, true},
	} {
		home := t.TempDir()
		r := run{T: t, client: cline, weir: weir, asPlugin: true, pluginAt: ".cline/hooks"}
		out, err := r.live(home, each.url, each.closed, each.commands)
		endDaemons(t, home)
		asked, _ := r.model.told()
		ran := r.lines(filepath.Join(home, "project", "ran"))
		want := each.runs
		if each.ended {
			want++ // the call that ends the run
		}
		if asked != want || ran != each.runs {
			t.Errorf("%s: %d calls were asked for and %d ran, want %d and %d (%v)\n%s", each.name, asked, ran, want, each.runs, err, tail(out))
		}
		t.Logf("%s %s, %s: %d of %d calls ran", cline.name, cline.installed(t), each.name, ran, asked)
	}
}

// endDaemons ends the processes that Cline leaves behind for a home.
func endDaemons(t *testing.T, home string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file) // of one that has ended there is none
		if err != nil || !bytes.Contains(text, []byte(home)) || !bytes.Contains(text, []byte("cline")) {
			continue
		}
		if id, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil && id != os.Getpid() {
			_ = syscall.Kill(id, syscall.SIGTERM)
		}
	}
}
