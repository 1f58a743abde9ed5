package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// served is how an assistant is given weir's MCP server: by a command of its own, or by a file
// below the home that replaces the one of its client. {weir} and {url} are filled in.
type served struct {
	client  string
	command []string
	file    [2]string // its path, and what is replaced in it; "" for a file of its own
	text    string
}

// assistants are those that MCP.md names.
var assistants = []served{
	{client: "claude-code", command: []string{"mcp", "add", "--scope", "user", "weir", "--", "{weir}", "mcp", "--server", "{url}"}},
	{client: "codex", command: []string{"mcp", "add", "weir", "--", "{weir}", "mcp", "--server", "{url}"}},
	{client: "gemini-cli", command: []string{"mcp", "add", "--scope", "user", "--trust", "weir", "{weir}", "mcp", "--server={url}"}},
	{client: "qwen-code", command: []string{"mcp", "add", "--scope", "user", "--trust", "weir", "{weir}", "mcp", "--server={url}"}},
	{client: "copilot-cli", file: [2]string{".copilot/mcp-config.json"}, text: `{"mcpServers": {"weir": {"type": "local", "command": "{weir}", "args": ["mcp", "--server", "{url}"], "tools": ["*"]}}}`},
	{client: "opencode", file: [2]string{".config/opencode/opencode.json", `"autoupdate": false`}, text: `"autoupdate": false, "mcp": {"weir": {"type": "local", "command": ["{weir}", "mcp", "--server", "{url}"]}}`},
}

// TestAssistantsAskByMCP adds weir mcp to each assistant as MCP.md says, and has its model call
// detect_stuck_agents, whose answer has to come back to the model.
func TestAssistantsAskByMCP(t *testing.T) {
	dir, weir := begin(t)
	url := startWeir(t, weir)
	for _, s := range assistants {
		t.Run(s.client, func(t *testing.T) {
			for _, c := range all {
				if c.name != s.client {
					continue
				}
				c.find(t, dir)
				r := run{T: t, client: c, weir: weir, model: newEndpoint(t, "first", "second")}
				r.model.mcp = "detect_stuck_agents"
				out, err := r.byMCP(s, url)
				asked, results := r.model.told()
				if err != nil || asked != 2 || !strings.Contains(strings.Join(results, " "), "0 stuck, 0 escalated") {
					t.Fatalf("%v: %d calls came back with %.600q\n%s", err, asked, results, tail(out))
				}
				t.Logf("%s %s: %d calls, the model read %.160q", c.name, c.installed(t), asked, results[1])
			}
		})
	}
}

// byMCP runs the client with weir mcp and without hooks.
func (r *run) byMCP(s served, url string) ([]byte, error) {
	home := r.TempDir()
	fill := func(text string) string {
		return strings.NewReplacer("{weir}", r.weir, "{url}", url).Replace(r.fill(home).Replace(text))
	}
	for path, text := range r.client.files {
		if strings.Contains(path, "hook") || strings.Contains(path, "plugin") {
			continue
		}
		if i := strings.Index(text, `"hooks":`); i > 0 { // the last member
			text = strings.TrimRight(strings.TrimSpace(text[:i]), ",") + "}"
		}
		if path == s.file[0] && s.file[1] != "" {
			text = strings.Replace(text, s.file[1], s.text, 1)
		}
		r.write(filepath.Join(home, path), fill(text))
	}
	if s.file[0] != "" && s.file[1] == "" {
		r.write(filepath.Join(home, s.file[0]), fill(s.text))
	}
	if r.client.name == "opencode" {
		if err := os.CopyFS(filepath.Join(home, ".config/opencode"), os.DirFS(r.client.dir+"-plugin")); err != nil {
			r.Fatal(err)
		}
	}
	project := filepath.Join(home, "project")
	if err := os.MkdirAll(project, 0o755); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Minute)
	defer cancel()
	start := func(args []string) *exec.Cmd {
		binary := r.client.binary
		if r.client.node {
			args, binary = append([]string{binary}, args...), "node"
		}
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Dir, cmd.Env = project, emptied(home)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with what it started
		for _, e := range r.client.env {
			cmd.Env = append(cmd.Env, fill(e))
		}
		return cmd
	}
	if s.command != nil {
		var words []string
		for _, word := range s.command {
			words = append(words, fill(word))
		}
		if out, err := start(words).CombinedOutput(); err != nil {
			return out, fmt.Errorf("add the server: %w", err)
		}
	}
	return start(r.client.args).CombinedOutput()
}
