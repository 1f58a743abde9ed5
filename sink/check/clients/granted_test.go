package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// crew is a model by script that hands a task to an agent: whoever is asked with a word of plays
// makes its calls one after the other, each of which it may hear of before the next.
type crew struct {
	t     *testing.T
	plays map[string][]use

	mu    sync.Mutex
	heard map[string]string // all that came back to it of a call
}

// use is what the model does, once then has run.
type use struct {
	tool  string
	input object
	then  func()
}

func (c *crew) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, ok := asked(w, r)
	if !ok {
		return
	}
	c.mu.Lock()
	made := q.hear(c.heard)
	c.mu.Unlock()
	id, next := "", use{}
	for word, play := range c.plays {
		if len(q.Tools) > 0 && made < len(play) && bytes.Contains(q.Messages[0].Content, []byte(word)) {
			id, next = "toolu_"+word+string(rune('1'+made)), play[made]
		}
	}
	if next.then != nil {
		next.then()
	}
	message := "" // an id of its own, or Claude Code takes all answers for one
	if id != "" {
		message = "msg_" + id
	}
	answer(w, q.Model, q.Stream, said{message: message, tokens: 50, text: "Finished.", id: id, tool: next.tool, input: next.input})
}

// hears wants the words in what came back to the model of a call.
func (c *crew) hears(call, words string, want bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.heard["toolu_"+call]; strings.Contains(got, words) != want || got == "" {
		c.t.Errorf("of %s the model hears %.1500q; want %q in it: %v", call, got, words, want)
	}
}

// budgeted is Claude Code with a crew for a model, hooked to a weir of some limits, and a person
// who gives that weir orders.
type budgeted struct {
	*testing.T
	client                 client
	weir, url, token, home string
	transcript             strings.Builder // of the orders
}

func newBudgeted(t *testing.T, limits string) *budgeted {
	dir, weir := begin(t)
	b := &budgeted{T: t, weir: weir, home: t.TempDir(), client: all[slices.IndexFunc(all, func(c client) bool { return c.name == "claude-code" })]}
	b.client.find(t, dir)
	b.token = b.file("admin", strings.Repeat("a-token-of-this-test-", 2))
	b.url = startWeir(t, weir, "--limits", b.file("limits.yaml", limits), "--admin-token-file", b.token)
	return b
}

// file writes a file into the home and returns where it is.
func (b *budgeted) file(path, text string) string {
	path = filepath.Join(b.home, path)
	r := run{T: b.T}
	r.write(path, text)
	return path
}

// command gives an order.
func (b *budgeted) command(args ...string) string {
	out, err := exec.Command(b.weir, append(args, "--server", b.url, "--token-file", b.token)...).CombinedOutput()
	b.transcript.WriteString("$ weir " + strings.Join(args, " ") + "\n" + string(out))
	if err != nil {
		b.Errorf("weir %v: %v", args, err)
	}
	return string(out)
}

// drive has the client build what the lead is asked for. It returns the model, and the words that
// the commands of the plays have written.
func (b *budgeted) drive(plays map[string][]use) (model *crew, ran string) {
	b.Helper()
	model = &crew{t: b.T, heard: make(map[string]string), plays: plays}
	server := httptest.NewServer(model)
	b.Cleanup(server.Close)
	b.install()
	b.claude(server.URL, nil, "-p", "lead: build it")
	return model, b.ran()
}

// emptied is an environment with nothing in it but the home.
func (b *budgeted) emptied() []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home} }

// install installs weir's hooks for the client.
func (b *budgeted) install() {
	b.Helper()
	install := exec.Command(b.weir, "check", "--hook-config", b.client.name, "--server", b.url, "--closed", "--install", "--yes")
	install.Env = b.emptied()
	if out, err := install.CombinedOutput(); err != nil {
		b.Fatalf("install the hooks: %v\n%s", err, out)
	}
}

// claude runs the client in its project before the model.
func (b *budgeted) claude(model string, env []string, args ...string) {
	b.Helper()
	fill := strings.NewReplacer("{model}", model, "{home}", b.home).Replace
	ctx, cancel := context.WithTimeout(b.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.client.binary, append(args, "--permission-mode", "bypassPermissions", "--output-format", "json")...)
	cmd.Dir, cmd.Env = filepath.Dir(b.file("project/README", "a project\n")), append(b.emptied(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with what it started
	for _, e := range b.client.env {
		cmd.Env = append(cmd.Env, fill(e))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("the client ends with %v\n%s", err, tail(out))
	}
}

// ran returns the words that the commands have written.
func (b *budgeted) ran() string {
	text, _ := os.ReadFile(filepath.Join(b.home, "project", "ran"))
	return strings.Join(strings.Fields(string(text)), " ")
}

// echo writes a word behind those of the calls before it.
func echo(word string) use {
	return use{tool: "Bash", input: object{"command": "echo " + word + " >> ran", "description": word}}
}

// TestClaudeCodeIsHeldAndGoesOn drives Claude Code with an agent that it starts itself: both
// spend one budget. The agent is told that it ends and wraps up, its caller is held, a person
// grants more, and it goes on in the same run.
func TestClaudeCodeIsHeldAndGoesOn(t *testing.T) {
	s := newBudgeted(t, "rules:\n  max_tool_calls: {max: 5, tell: 2, action: hold}\n")
	grant := func() {
		var list struct{ Flows []struct{ Flow string } }
		res, err := http.Get(s.url + "/v1/flows")
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&list); err != nil || len(list.Flows) != 1 {
			t.Errorf("%d flows (%v), want one for the session and the agent that it starts", len(list.Flows), err)
			return
		}
		s.command("flows", "ls")
		s.command("flows", "grant", list.Flows[0].Flow, "--calls", "2", "--until", "1h", "--reason", "nearly done", "--by", "ann")
	}
	held := echo("seven")
	held.then = grant
	model, ran := s.drive(map[string][]use{
		"lead": {echo("one"), {tool: "Agent", input: object{"description": "part", "prompt": "mate: do your part", "subagent_type": "general-purpose"}}, echo("five"), echo("six"), held},
		"mate": {echo("two"), echo("three"), echo("four")},
	})
	model.hears("mate1", "calls left", false)
	model.hears("mate2", "2 of 5 calls left", true)
	model.hears("mate3", "1 of 5 calls left", true)
	model.hears("mate3", "Wrap up", true)
	model.hears("lead3", "0 of 5 calls left", true)
	model.hears("lead4", "a person", true)
	model.hears("lead5", "1 of 7 calls left", true)
	model.hears("lead5", "0 of 7 calls left", false)
	if ran != "one two three four five seven" {
		t.Errorf("%q ran, want all but six, which was held", ran)
	}
	if out := s.command("flows", "ls"); !strings.Contains(out, " ok ") {
		t.Errorf("a flow that was granted more and goes on:\n%s", out)
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	t.Logf("%s %s\n%s\nof the held call the model hears: %s", s.client.name, s.client.installed(t), s.transcript.String(), model.heard["toolu_lead4"])
	said := func(call, pattern string) string {
		all := regexp.MustCompile(pattern).FindAllString(model.heard["toolu_"+call], -1)
		if len(all) == 0 {
			return ""
		}
		return all[len(all)-1] // what it heard before comes first
	}
	const left = `\d+ of \d+ calls left`
	shown := fmt.Sprintf("Claude Code %s\n%s, %s, %s, held: %s; granted 2: %s\n", s.client.installed(t),
		said("mate2", left), said("mate3", left), said("lead3", left), said("lead4", `The flow waits for a person[^."\\]*`), said("lead5", left))
	r := run{T: t}
	r.shown("claude_code_held.txt", shown)
}
