package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// TestFirstHook is what a new user does: the command of the README in a home without settings, then Claude Code.
// Of 40 equal calls at most 7 run, and an honest run loses none.
func TestFirstHook(t *testing.T) {
	j := weirtest.NewJourney(t, "J11 Claude Code", "of 40 equal calls at most 7 run, of an honest run all")
	j.Lines = 1 // the command of the README
	dir, weir := begin(t)
	c := all[slices.IndexFunc(all, func(c client) bool { return c.name == "claude-code" })]
	c.find(t, dir)
	page, err := os.ReadFile(filepath.Join(weirtest.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("\\| Claude Code[^|]*\\| `weir ([^`]+)` \\|").FindSubmatch(page)
	if command == nil {
		t.Fatal("the README does not say how to protect Claude Code")
	}
	url := startWeir(t, weir)
	for _, p := range []struct {
		name     string
		commands []string
		ran      func(n int) bool
	}{
		{"40 equal calls", slices.Repeat([]string{"echo hi"}, 40), func(n int) bool { return n >= 1 && n <= 7 }},
		{"an honest run", different, func(n int) bool { return n == len(different) }},
	} {
		t.Run(p.name, func(t *testing.T) {
			home := t.TempDir()
			project := filepath.Join(home, "project")
			if err := os.Mkdir(project, 0o755); err != nil {
				t.Fatal(err)
			}
			install := exec.Command(weir, strings.Fields(string(command[1]))...)
			install.Dir, install.Env, install.Stdin = project, append(emptied(home), "WEIR_SERVER="+url), strings.NewReader("y\n")
			if out, err := install.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command[0], err, out)
			}
			r := run{T: t, client: c, weir: weir, model: newEndpoint(t, marked(p.commands)...)}
			agent := exec.CommandContext(t.Context(), c.binary, c.args...)
			agent.Dir, agent.Env = project, append(emptied(home), "WEIR_SERVER="+url)
			for _, e := range c.env {
				agent.Env = append(agent.Env, r.fill(home).Replace(e))
			}
			out, err := agent.CombinedOutput()
			asked, _ := r.model.told()
			ran := r.lines(filepath.Join(project, "ran"))
			t.Logf("%s %s: %d of %d calls ran (%v)", c.name, c.installed(t), ran, asked, err)
			j.Saw("%d of %d calls ran in %s", ran, asked, p.name)
			if !p.ran(ran) {
				t.Errorf("%d of %d calls ran\n%s", ran, asked, tail(out))
			}
		})
	}
}
