package check

import (
	"encoding/json"
	"fmt"
	"strings"
)

// HookConfig returns a settings file that makes a program run weir before and after each
// use of a tool: of claude-code (settings.json), claude-code-http (the same without a
// process per hook) or openhands (.openhands/hooks.json). command is how weir is run, url
// where it listens.
func HookConfig(program, command, url string) ([]byte, error) {
	type hook struct {
		Type    string `json:"type"`
		Command string `json:"command,omitempty"`
		URL     string `json:"url,omitempty"`
		Timeout int    `json:"timeout"` // seconds
	}
	type matcher struct {
		Matcher string `json:"matcher,omitempty"`
		Hooks   []hook `json:"hooks"`
	}
	run := hook{Type: "command", Command: command, Timeout: 10}
	moments := []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStop", "Stop"}
	switch program {
	case claudeCode:
	case claudeCode + "-http":
		run = hook{Type: "http", URL: strings.TrimRight(url, "/") + HookPath, Timeout: 10}
	case openHands:
		moments = []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"}
	default:
		return nil, fmt.Errorf("there are no hooks for %q; want %s, %s-http or %s", program, claudeCode, claudeCode, openHands)
	}
	hooks := make(map[string][]matcher)
	for _, moment := range moments {
		m := matcher{Hooks: []hook{run}}
		if strings.Contains(moment, "Tool") {
			m.Matcher = "*"
		}
		hooks[moment] = []matcher{m}
	}
	return json.MarshalIndent(map[string]any{"hooks": hooks}, "", "  ")
}
