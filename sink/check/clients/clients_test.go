// Package clients holds the hooks of weir to the agents that run them: the real programs,
// each with the settings that `weir check --hook-config` installs, in an environment that
// has nothing else in it, against a model by script.
package clients

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

const (
	// programs is the folder that install.sh has filled.
	programs = "WEIR_CLIENTS"
	// required makes a failure of what could not be installed.
	required = "WEIR_CLIENTS_REQUIRED"
	// shut is set in a process that sees nothing of the network but loopback.
	shut = "WEIR_CLIENTS_SHUT_IN"
)

// client is an agent for the command line.
type client struct {
	name    string
	program string   // below the folder of the client; a pattern
	version string   // package.json below the folder of the client
	node    bool     // it is run by node
	args    []string // {model} and {home} are filled in
	env     []string
	files   map[string]string // below the home, before weir's hooks are installed

	dir, binary string // where it was found
	told        bool   // its model hears what a hook says before the use of a tool
	hook        string // what it hands to a hook, for the time that one takes; "" where it runs no process

	// plugin are the commands that install one from {plugin}; pluginFile replaces a file of
	// those, where that is how plugins are installed.
	plugin     [][]string
	pluginFile map[string]string
}

var all = []client{
	{name: "claude-code", told: true, plugin: [][]string{{"plugin", "marketplace", "add", "{plugin}"}, {"plugin", "install", "weir@weir"}}, program: "node_modules/@anthropic-ai/claude-code-*/claude", version: "@anthropic-ai/claude-code",
		args:  []string{"-p", "say hi", "--permission-mode", "bypassPermissions", "--output-format", "json"},
		env:   []string{"ANTHROPIC_BASE_URL={model}", "ANTHROPIC_API_KEY=dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1"},
		files: map[string]string{".claude/settings.json": `{"permissions": {"deny": ["Bash(rm *)"]}, "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "cat >> {home}/other-hook"}]}]}}`},
		hook:  `{"session_id":"time","transcript_path":"/t","cwd":"/w","prompt_id":"%[1]d","permission_mode":"bypassPermissions","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls %[1]d"},"tool_use_id":"toolu_%[1]d"}`},
	{name: "codex", told: true, program: "node_modules/@openai/codex/bin/codex.js", version: "@openai/codex", node: true,
		args: []string{"exec", "--skip-git-repo-check", "--json", "--dangerously-bypass-hook-trust", "say hi"},
		env:  []string{"FAKE_KEY=dummy"},
		files: map[string]string{".codex/config.toml": `model = "gpt-5"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
`, ".codex/hooks.json": `{"hooks": {"PreToolUse": [{"matcher": "", "hooks": [{"type": "command", "command": "cat >> {home}/other-hook", "timeout": 3}]}]}}`},
		hook: `{"session_id":"time","turn_id":"%[1]d","cwd":"/w","hook_event_name":"PreToolUse","model":"gpt-5","permission_mode":"bypassPermissions","tool_name":"Bash","tool_input":{"command":"ls %[1]d"},"tool_use_id":"call_%[1]d"}`},
	{name: "gemini-cli", plugin: [][]string{{"extensions", "install", "{plugin}", "--consent"}}, program: "node_modules/@google/gemini-cli/bundle/gemini.js", version: "@google/gemini-cli", node: true,
		args: []string{"-p", "say hi", "--yolo", "-m", "gemini-2.5-flash", "-o", "json"},
		env:  []string{"GOOGLE_GEMINI_BASE_URL={model}", "GEMINI_API_KEY=dummy", "GEMINI_CLI_TRUST_WORKSPACE=true"},
		files: map[string]string{".gemini/settings.json": `{
  // Its own detection of loops ends the run at the fifth equal call.
  "model": {"disableLoopDetection": true},
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "hooks": {"BeforeTool": [{"matcher": "*", "hooks": [{"type": "command", "command": "cat >> {home}/other-hook; echo '{}'"}]}]}
}`},
		hook: `{"session_id":"time%[1]d","transcript_path":"/t","cwd":"/w","hook_event_name":"BeforeTool","timestamp":"2026-11-22T12:24:14.039Z","tool_name":"run_shell_command","tool_input":{"command":"ls %[1]d"}}`},
	{name: "qwen-code", program: "node_modules/@qwen-code/qwen-code/cli.js", version: "@qwen-code/qwen-code", node: true,
		args: []string{"-p", "say hi", "--yolo", "--auth-type", "openai", "-o", "json"},
		env:  []string{"OPENAI_BASE_URL={model}/v1", "OPENAI_API_KEY=dummy", "OPENAI_MODEL=fake-model"},
		files: map[string]string{".qwen/settings.json": `{"general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},
  "security": {"auth": {"selectedType": "openai"}}, "model": {"name": "fake-model"}, "$version": 4,
  "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "cat >> {home}/other-hook"}]}]}}`},
		hook: `{"session_id":"time%[1]d","transcript_path":"/t","cwd":"/w","hook_event_name":"PreToolUse","timestamp":"2026-11-22T12:24:24.346Z","permission_mode":"yolo","tool_name":"run_shell_command","tool_input":{"command":"ls %[1]d"},"tool_use_id":"toolu_%[1]d"}`},
	{name: "copilot-cli", told: true, program: "node_modules/@github/copilot/npm-loader.js", version: "@github/copilot", node: true,
		args:  []string{"-p", "say hi", "--allow-all-tools", "--no-auto-update"},
		env:   []string{"COPILOT_PROVIDER_BASE_URL={model}/v1", "COPILOT_PROVIDER_API_KEY=dummy", "COPILOT_MODEL=gpt-4.1", "COPILOT_OFFLINE=true"},
		files: map[string]string{".copilot/hooks/other.json": `{"version": 1, "hooks": {"PreToolUse": [{"type": "command", "bash": "cat >> {home}/other-hook", "timeoutSec": 3}]}}`},
		hook:  `{"hook_event_name":"PreToolUse","session_id":"time%[1]d","timestamp":"2026-11-22T14:20:07.089Z","cwd":"/w","tool_name":"Bash","tool_input":{"command":"ls %[1]d"}}`},
	{name: "opencode", pluginFile: map[string]string{`"autoupdate": false`: `"autoupdate": false, "plugin": ["file://{plugin}/weir.js"]`}, program: "node_modules/opencode-*/bin/opencode", version: "opencode-ai",
		args: []string{"run", "--format", "json", "say hi"},
		env:  []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"},
		files: map[string]string{".config/opencode/opencode.json": `{"autoupdate": false, "share": "disabled", "model": "fake/fake-model", "small_model": "fake/fake-model", "permission": "allow",
  "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": {"baseURL": "{model}/v1", "apiKey": "dummy"}, "models": {"fake-model": {"name": "fake-model", "tool_call": true}}}}}`,
			".config/opencode/plugin/other.js": `import fs from "node:fs"
export const Other = async () => ({ "tool.execute.before": async (input) => { fs.appendFileSync("{home}/other-hook", input.callID + "\n") } })
`}},
}

// TestPlugins holds the plugins and extensions to the agents that install them.
func TestPlugins(t *testing.T) {
	dir, weir := begin(t)
	url := startWeir(t, weir)
	for _, c := range all {
		if c.plugin == nil && c.pluginFile == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.find(t, dir)
			r := run{T: t, client: c, weir: weir, asPlugin: true}
			honest, _ := r.play("honest", url, true, different, len(different), "")
			loop, _ := r.play("loop", url, false, slices.Repeat([]string{"echo hi"}, 15), 6, "flow guard")
			t.Logf("%s %s as a plugin: honest %s, loop %s", c.name, c.installed(t), honest, loop)
		})
	}
}

// row is what the table says of a client.
type row struct{ client, version, honest, loop, open, closed, hangs, saw, p50 string }

// begin builds weir and finds the folder of the programs.
func begin(t *testing.T) (dir, weir string) {
	t.Helper()
	if dir = os.Getenv(programs); dir == "" {
		t.Skipf("MISSING: %s, the folder that install.sh fills; run: make clients", programs)
	}
	weir = weirtest.Binary(t) // weir-hook is beside it
	if lo, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); os.Getenv(shut) != "" && err != nil {
		t.Fatalf("loopback: %v\n%s", err, lo)
	}
	return dir, weir
}

// find looks for the program of the client, and skips the test when it is not there.
func (c *client) find(t *testing.T, dir string) {
	t.Helper()
	c.dir = filepath.Join(dir, c.name)
	program, _ := filepath.Glob(filepath.Join(c.dir, c.program))
	if len(program) == 0 {
		text := fmt.Sprintf("*** NOT TESTED: %s is not in %s ***", c.name, c.dir)
		fmt.Fprintln(os.Stderr, text)
		if os.Getenv(required) != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	c.binary, _ = filepath.Abs(program[0])
}

// TestModelsAreToldWhatIsLeft holds an agent to a budget that is told before it ends. An
// agent without a way to tell its model lets calls run and refuses them all the same.
func TestModelsAreToldWhatIsLeft(t *testing.T) {
	dir, weir := begin(t)
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("rules:\n  max_tool_calls: {max: 4, tell: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := startWeir(t, weir, "--limits", limits)
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			c.find(t, dir)
			r := run{T: t, client: c, weir: weir}
			cell, _ := r.play("told", url, true, different, 4, "flow guard")
			told := r.model.hears("1 of 4 calls left (max_tool_calls)") && r.model.hears("0 of 4 calls left (max_tool_calls)")
			if told != c.told {
				t.Errorf("the model is told what is left: %v, want %v", told, c.told)
			}
			t.Logf("%s %s: calls %s, the model is told what is left: %v", c.name, c.installed(t), cell, told)
		})
	}
}

func TestClients(t *testing.T) {
	dir, weir := begin(t)
	// Whatever a client asks for after an order was under way, so that on a slow machine
	// nothing is made of its trying: see TestHaltEndsTheRun.
	url := startWeir(t, weir, "--limits", grace(t, "15m"))
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // connections wait in its queue
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	rows := []row{{"client", "version", "honest", "loop", "away, open", "away, closed", "hangs, closed", "what the model was told", "p50"}}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			missing := true
			defer func() {
				if missing {
					rows = append(rows, row{client: c.name, saw: "*** NOT TESTED ***"})
				}
			}()
			c.find(t, dir)
			missing = false
			r := run{T: t, client: c, weir: weir}
			found := row{client: c.name, version: c.installed(t)}
			defer func() { rows = append(rows, found) }()

			const nowhere, away = "http://127.0.0.1:1", "The flow guard does not answer"
			found.honest, _ = r.play("honest", url, true, different, len(different), "")
			found.loop, found.saw = r.play("loop", url, false, slices.Repeat([]string{"echo hi"}, 15), 6, "flow guard")
			if c.name == "claude-code" {
				r.keep(found)
			}
			found.open, _ = r.play("away, open", nowhere, false, slices.Repeat([]string{"echo hi"}, 8), 8, "")
			found.closed, _ = r.play("away, closed", nowhere, true, different[:3], 0, away)
			found.hangs, _ = r.play("hangs, closed", "http://"+hangs.Addr().String(), true, different[:2], 0, away)
			found.p50 = r.decision(url)
		})
	}
	t.Logf("calls: run / refused of those that the model asked for\n%s", table(rows))
}

// grace writes limits in which calls so soon after an order count as under way.
func grace(t *testing.T, so string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("orders: {grace: "+so+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHaltEndsTheRun holds what becomes of a model that goes on trying against an order: after
// six calls its agent is halted. Gemini CLI ends the run then, as it is told to; Claude Code is
// told, too, and goes on.
func TestHaltEndsTheRun(t *testing.T) {
	dir, weir := begin(t)
	url := startWeir(t, weir, "--limits", grace(t, "0s"))
	most := map[string]int{"claude-code": 15, "gemini-cli": 13}
	for _, c := range all {
		if most[c.name] == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.find(t, dir)
			home := t.TempDir()
			r := run{T: t, client: c, weir: weir}
			out, err := r.live(home, url, false, slices.Repeat([]string{"echo hi"}, 15))
			asked, _ := r.model.told()
			ran := r.lines(filepath.Join(home, "project", "ran"))
			t.Logf("%s %s: %d calls were asked for, %d ran (%v)", c.name, c.installed(t), asked, ran, err)
			if asked != most[c.name] || ran != 6 {
				t.Errorf("%d calls were asked for and %d ran, want %d and 6\n%s", asked, ran, most[c.name], tail(out))
			}
		})
	}
}

// update writes the recording of the demonstration anew.
var update = flag.Bool("update", false, "write what weir demo shows of a real client")

// keep holds what the demonstration shows of a real client to what happened.
func (r *run) keep(found row) {
	r.Helper()
	told, _ := strconv.Unquote(found.saw)
	r.shown("claude_code.txt", fmt.Sprintf("Claude Code %s\n%s\n%s\n", found.version, found.loop, strings.TrimSpace(told)))
}

// shown holds a text of the demonstration to what happened.
func (r *run) shown(name, text string) {
	r.Helper()
	file := filepath.Join("../../../cmd/internal/demo/recordings", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			r.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != text {
		r.Errorf("the demonstration shows %q (%v), and what happened is %q: write it anew with -update", kept, err, text)
	}
}

// different is what an honest run does.
var different = []string{"echo one", "ls", "echo two", "pwd", "echo three", "date"}

type run struct {
	*testing.T
	client client
	weir   string
	model  *endpoint // of the last play

	asPlugin bool   // the hooks are installed as a plugin
	pluginAt string // below the home, where the client wants it; "" where it is installed from anywhere
}

// play runs the client in a home of its own, with hooks that ask weir at the URL, and wants
// this many of its first calls to run and all others to be refused with the reason.
func (r *run) play(name, url string, closed bool, commands []string, runs int, reason string) (cell, saw string) {
	r.Helper()
	home := r.TempDir()
	project := filepath.Join(home, "project")
	out, err := r.live(home, url, closed, commands)
	if err != nil {
		r.Errorf("%s: the client ends with %v", name, err)
	}
	asked, results := r.model.told()
	ran := r.lines(filepath.Join(project, "ran"))
	refused := 0
	for i, result := range results {
		if i >= runs && reason != "" && strings.Contains(result, reason) {
			refused++
		}
		if i < runs && (result == "" || strings.Contains(result, "refused by the flow guard")) {
			r.Errorf("%s: call %d came back with %.200q, want it to run", name, i+1, result)
		}
	}
	_, others := os.Stat(filepath.Join(home, "other-hook"))
	if asked != len(commands) || ran != runs || refused != asked-runs || ran > 0 && others != nil {
		r.Errorf("%s: %d calls were asked for, %d ran, %d were refused with %q, the hook of others left %v; want %d, %d, %d\nresults: %.2000q\n%s",
			name, asked, ran, refused, reason, others, len(commands), runs, len(commands)-runs, results, tail(out))
	}
	if refused > 0 {
		saw = results[len(results)-1]
	}
	return fmt.Sprintf("%d / %d of %d", ran, refused, asked), saw
}

// live runs the client in the home, with hooks that ask weir at the URL, against a model that asks
// for the commands and then ends. It returns what the client printed.
func (r *run) live(home, url string, closed bool, commands []string) (out []byte, err error) {
	r.Helper()
	project := filepath.Join(home, "project")
	model := newEndpoint(r.T, marked(commands)...)
	r.model = model
	plugin := filepath.Join(home, cmp.Or(r.pluginAt, "weir-plugin"))
	r.settle(home, url, closed, plugin)
	if err := os.MkdirAll(project, 0o755); err != nil {
		r.Fatal(err)
	}
	fill, emptied := r.fill(home).Replace, emptied(home)
	ctx, cancel := context.WithTimeout(r.Context(), 4*time.Minute)
	defer cancel()
	args := r.client.args
	binary := r.client.binary
	if r.client.node {
		args, binary = append([]string{binary}, args...), "node"
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = project, emptied
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with what it started
	for _, e := range r.client.env {
		cmd.Env = append(cmd.Env, fill(e))
	}
	for _, step := range r.client.plugin {
		if !r.asPlugin {
			break
		}
		first := r.client.args[:0:0]
		if r.client.node {
			first = []string{r.client.binary}
		}
		for _, word := range step {
			first = append(first, fill(word))
		}
		do := exec.CommandContext(ctx, binary, first...)
		do.Dir, do.Env = project, cmd.Env
		if out, err := do.CombinedOutput(); err != nil {
			r.Fatalf("%v: %v\n%s", step, err, tail(out))
		}
	}
	return cmd.CombinedOutput()
}

// fill fills in what the settings and the environment of the client leave open.
func (r *run) fill(home string) *strings.Replacer {
	return strings.NewReplacer("{model}", r.model.URL, "{home}", home, "{plugin}", filepath.Join(home, cmp.Or(r.pluginAt, "weir-plugin")))
}

func emptied(home string) []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home} }

// settle puts the settings of the client into the home, and weir's hooks beside them.
func (r *run) settle(home, url string, closed bool, plugin string) {
	r.Helper()
	for path, text := range r.client.files {
		for old, with := range r.client.pluginFile {
			if r.asPlugin {
				text = strings.Replace(text, old, with, 1)
			}
		}
		r.write(filepath.Join(home, path), r.fill(home).Replace(text))
	}
	if r.client.name == "opencode" {
		if err := os.CopyFS(filepath.Join(home, ".config/opencode"), os.DirFS(r.client.dir+"-plugin")); err != nil {
			r.Fatal(err)
		}
	}
	as := []string{"--install", "--yes"}
	if r.asPlugin {
		as = []string{"--plugin", plugin}
	}
	install := exec.Command(r.weir, append([]string{"check", "--hook-config", r.client.name, "--server", url, "--closed=" + strconv.FormatBool(closed)}, as...)...)
	install.Env = emptied(home)
	if out, err := install.CombinedOutput(); err != nil {
		r.Fatalf("install the hooks: %v\n%s", err, out)
	}
}

// marked makes commands leave a line behind in the project when they run. They stay the
// same when they were.
func marked(commands []string) (list []string) {
	for _, c := range commands {
		list = append(list, c+" && echo "+strings.ReplaceAll(c, " ", "-")+" >> ran")
	}
	return list
}

func (r *run) write(path, text string) {
	r.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r *run) lines(path string) int {
	text, _ := os.ReadFile(path) // is not there when nothing ran
	return bytes.Count(text, []byte("\n"))
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }

// decision is how long a hook takes as the client waits for it, with the start of its
// process: half of them take no longer.
func (r *run) decision(url string) string {
	if r.client.hook == "" {
		return "no process"
	}
	var times []time.Duration
	for i := range 60 {
		cmd := exec.Command("/bin/sh", "-c", r.weir+"-hook --server "+url)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.Stdin = strings.NewReader(fmt.Sprintf(r.client.hook, i))
		begun := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			r.Errorf("a hook: %v, %s", err, out)
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	return fmt.Sprintf("%.1f ms", float64(times[len(times)/2].Microseconds())/1000)
}

// installed is the version that is tested.
func (c *client) installed(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "node_modules", c.version, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Version string }
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p.Version
}

// startWeir runs weir with the limits that it has without any settings, or with more.
func startWeir(t *testing.T, weir string, more ...string) (url string) {
	t.Helper()
	return weirtest.RunWith(t, weirtest.Options{Binary: weir}, append([]string{"--in-memory"}, more...)...).URL
}

// table sets the rows in columns.
func table(rows []row) string {
	cells := func(r row) []string {
		saw := strings.Join(strings.Fields(r.saw), " ")
		return []string{r.client, r.version, r.honest, r.loop, r.open, r.closed, r.hangs, r.p50, saw[:min(len(saw), 160)]}
	}
	widths := make([]int, len(cells(row{})))
	for _, r := range rows {
		for i, c := range cells(r) {
			widths[i] = max(widths[i], len(c))
		}
	}
	var out strings.Builder
	for _, r := range rows {
		for i, c := range cells(r) {
			fmt.Fprintf(&out, "%-*s  ", widths[i], c)
		}
		out.WriteString("\n")
	}
	return out.String()
}
