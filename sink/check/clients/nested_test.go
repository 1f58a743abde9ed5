package clients

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNestedSessionsShareABudget has Claude Code start another one by its shell, and that one a
// third: three sessions, each of which knows nothing of the others. All spend what the first
// may; when that is used up all are refused, and a person's grant to the last is one to all.
func TestNestedSessionsShareABudget(t *testing.T) {
	s := newBudgeted(t, "rules:\n  max_tree_calls: {max: 6, tell: 2, action: hold}\n")
	start := func(prompt string) use {
		return use{tool: "Bash", input: object{"command": s.client.binary + " -p '" + prompt + "' --permission-mode bypassPermissions </dev/null", "description": prompt}}
	}
	last := echo("seven")
	last.then = func() {
		list := strings.Split(s.command("flows", "ls", "-o", "json"), `"flow":"`)
		flow, _, _ := strings.Cut(list[len(list)-1], `"`)
		s.command("flows", "grant", flow, "--calls", "1", "--until", "1h", "--reason", "nearly done", "--by", "ann")
	}
	model, ran := s.drive(map[string][]use{
		"lead": {echo("one"), start("mate: do your part"), echo("six"), last, echo("eight")},
		"mate": {echo("three"), start("aide: do its part")},
		"aide": {echo("five"), echo("more")},
	})
	s.command("flows", "ls")
	// Six calls are one, start, three, start, five, and one that is refused to the third session
	// or made by the first.
	model.hears("mate1", "calls left", false)
	model.hears("mate2", "2 of 6 calls left", true)
	model.hears("aide1", "1 of 6 calls left", true)
	model.hears("aide2", "0 of 6 calls left", true)
	model.hears("lead3", "a person", true)
	model.hears("lead4", "0 of 7 calls left", true)
	model.hears("lead5", "a person", true)
	if ran != "one three five more seven" {
		t.Errorf("%q ran", ran)
	}
	t.Log(s.transcript.String())
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
