package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/events"
)

// TestAgents asks a weir that runs about its agents, and then the folder that it has left.
func TestAgents(t *testing.T) {
	dir := t.TempDir()
	token, folder := filepath.Join(dir, "token"), filepath.Join(dir, "state")
	if err := os.WriteFile(token, []byte(strings.Repeat("secret", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRun(t, "--state", folder, "--admin-token-file", token)
	f := func(code int, parts []string, args ...string) {
		t.Helper()
		got, out, errs := weir(t, "", args...)
		if got != code {
			t.Errorf("weir %s: exit code %d, want %d", strings.Join(args, " "), got, code)
		}
		for _, part := range parts {
			if !strings.Contains(out+errs, part) {
				t.Errorf("weir %s: %q is not in\n%s%s", strings.Join(args, " "), part, out, errs)
			}
		}
	}
	server := []string{"--server", r.url}
	ask := func(args ...string) []string { return append(args, server...) }
	rescue := func(more ...string) []string {
		return append(ask("agents", "rescue", "planner", "--reason", "no answer", "--by", "ann"), more...)
	}

	f(0, []string{"there are no agents yet"}, ask("agents", "ls")...)
	f(0, []string{"no agent is stuck"}, ask("agents", "ls", "--stuck")...)
	f(0, []string{"there are no such notes"}, ask("notes", "ls")...)
	f(1, []string{"nothing is known of agent planner"}, ask("agents", "show", "planner")...)
	status := events.Event{ID: "s", Source: "test", Time: events.StampOf(time.Now().Add(-8 * time.Minute)), Kind: events.AgentStatus, From: events.Party{Agent: "planner"},
		AgentState: &events.AgentState{Status: "active", Margin: "comfortable", Coherence: 0.9, HasCoherence: true, Risk: 0.1, HasRisk: true}}
	r.post(status.AppendJSON(nil))
	f(3, []string{"planner: notify  Agent is not stuck - no rescue needed", "by ann"}, rescue()...)
	f(1, []string{"only who has the admin token"}, rescue("--admin")...)
	f(0, []string{"planner: resume  Auto-recovery"}, rescue("--admin", "--token-file", token)...)
	f(0, []string{"noted about planner: event order-", "by ann"}, ask("notes", "add", "its key is lost", "--agent", "planner", "--tag", "keys", "--by", "ann")...)
	f(3, []string{"writer: notify  Agent is not stuck"}, ask("notes", "add", "I wait for a key", "--tag", "stuck", "--tag", "help", "--by", "writer")...)
	f(0, []string{"planner  weir", "auto-recovery stuck-agent", "planner  ann"}, ask("notes", "ls", "--agent", "planner")...)
	f(0, []string{"planner", "resume"}, ask("agents", "ls", "--stuck")...)
	f(0, []string{"planner is ", "(rescue_requested)", "step      resume until 20", "asked by  ann", "its key is lost"}, ask("agents", "show", "planner")...)
	r.end(syscall.SIGTERM)

	server = []string{"--state", folder}
	f(0, []string{"planner", "resume"}, ask("agents", "ls")...)
	f(0, []string{"(rescue_requested)"}, ask("agents", "show", "planner")...)
	f(0, []string{"its key is lost"}, ask("notes", "ls", "--tag", "keys")...)
	f(1, []string{"nothing is known of project planner"}, ask("agents", "show", "planner", "--project")...)
}
