package clients

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNestedSessionsShareABudget has Claude Code start another one by its shell, and that one a
// third: three sessions, each of which knows nothing of the others. All spend what the first
// may; when that is used up all are refused, and a person's grant to the last is one to all.
func TestNestedSessionsShareABudget(t *testing.T) {
	dir, weir := begin(t)
	c := all[slices.IndexFunc(all, func(c client) bool { return c.name == "claude-code" })]
	c.find(t, dir)
	home := t.TempDir()
	r := run{T: t}
	file := func(path, text string) string {
		r.write(filepath.Join(home, path), text)
		return filepath.Join(home, path)
	}
	token := file("admin", strings.Repeat("a-token-of-this-test-", 2))
	limits := file("limits.yaml", "rules:\n  max_tree_calls: {max: 6, tell: 2, action: hold}\n")
	url := startWeir(t, weir, "--limits", limits, "--admin-token-file", token)
	command := func(args ...string) string {
		out, err := exec.Command(weir, append(args, "--server", url, "--token-file", token)...).CombinedOutput()
		t.Logf("$ weir %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			t.Errorf("weir %v: %v", args, err)
		}
		return string(out)
	}
	echo := func(word string) use {
		return use{tool: "Bash", input: object{"command": "echo " + word + " >> ran", "description": word}}
	}
	start := func(prompt string) use {
		return use{tool: "Bash", input: object{"command": c.binary + " -p '" + prompt + "' --permission-mode bypassPermissions </dev/null", "description": prompt}}
	}
	last := echo("seven")
	last.then = func() {
		list := strings.Split(command("flows", "ls", "-o", "json"), `"flow":"`)
		flow, _, _ := strings.Cut(list[len(list)-1], `"`)
		command("flows", "grant", flow, "--calls", "1", "--until", "1h", "--reason", "nearly done", "--by", "ann")
	}
	model := &crew{t: t, heard: make(map[string]string), plays: map[string][]use{
		"lead": {echo("one"), start("mate: do your part"), echo("six"), last, echo("eight")},
		"mate": {echo("three"), start("aide: do its part")},
		"aide": {echo("five"), echo("more")},
	}}
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	project := filepath.Dir(file("project/README", "a project\n"))
	emptied := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	install := exec.Command(weir, "check", "--hook-config", c.name, "--server", url, "--closed", "--install", "--yes")
	install.Env = emptied
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install the hooks: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, "-p", "lead: build it", "--permission-mode", "bypassPermissions", "--output-format", "json")
	cmd.Dir, cmd.Env = project, emptied
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with what it started
	for _, e := range c.env {
		cmd.Env = append(cmd.Env, strings.NewReplacer("{model}", server.URL, "{home}", home).Replace(e))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the client ends with %v\n%s", err, tail(out))
	}
	command("flows", "ls")
	// Six calls are one, start, three, start, five, and one that is refused to the third session
	// or made by the first.
	model.hears("mate1", "calls left", false)
	model.hears("mate2", "2 of 6 calls left", true)
	model.hears("aide1", "1 of 6 calls left", true)
	model.hears("aide2", "0 of 6 calls left", true)
	model.hears("lead3", "a person", true)
	model.hears("lead4", "0 of 7 calls left", true)
	model.hears("lead5", "a person", true)
	ran, _ := os.ReadFile(filepath.Join(project, "ran"))
	if got := strings.Join(strings.Fields(string(ran)), " "); got != "one three five more seven" {
		t.Errorf("%q ran", got)
	}
}

// TestAgentsStartAgents has agents start others by their shell, each of which is to be found in
// the tree of the session that started it: one budget of three calls is told to both.
func TestAgentsStartAgents(t *testing.T) {
	dir, weir := begin(t)
	for _, pair := range [][2]string{{"claude-code", "codex"}, {"codex", "claude-code"}, {"opencode", "claude-code"}, {"claude-code", "opencode"}} {
		t.Run(pair[1]+" in "+pair[0], func(t *testing.T) {
			var both [2]client
			for i, name := range pair {
				both[i] = all[slices.IndexFunc(all, func(c client) bool { return c.name == name })]
				both[i].find(t, dir)
			}
			limits := filepath.Join(t.TempDir(), "limits.yaml")
			if err := os.WriteFile(limits, []byte("rules:\n  max_tree_calls: {max: 3}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			url := startWeir(t, weir, "--limits", limits)
			home := t.TempDir()
			inner := run{T: t, client: both[1], weir: weir, model: newEndpoint(t, "echo inner", "echo inner again")}
			script := filepath.Join(home, "inner.sh")
			inner.script(home, url, script)
			outer := run{T: t, client: both[0], weir: weir}
			out, err := outer.live(home, url, false, []string{"sh " + script, "echo outer", "echo outer again"})
			_, inside := inner.model.told()
			_, outside := outer.model.told()
			if err != nil || len(inside) != 2 || len(outside) != 3 || strings.Contains(inside[1], "max_tree_calls_exceeded") || !strings.Contains(outside[1], "max_tree_calls_exceeded") {
				t.Errorf("%v: the one that was started came back with %.600q, the one that started it with %.900q; want the fourth call of both to be refused\n%s", err, inside, outside, tail(out))
			}
		})
	}
}

// script writes one that runs the client against its model, with its hooks in the home.
func (r *run) script(home, url, path string) {
	r.Helper()
	r.settle(home, url, false, filepath.Join(home, "weir-plugin"))
	text := "#!/bin/sh\nexport"
	for _, e := range r.client.env {
		text += " " + r.fill(home).Replace(e)
	}
	text += "\nexec"
	if r.client.node {
		text += " node"
	}
	text += " " + r.client.binary
	for _, a := range r.client.args {
		text += " '" + a + "'"
	}
	r.write(path, text+" </dev/null\n")
}
