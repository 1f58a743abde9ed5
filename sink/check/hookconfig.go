package check

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HookConfig is what makes a program run weir before and after each use of a tool.
type HookConfig struct {
	File string // where the program looks for it, below the home of its user, with slashes
	Text []byte // settings in JSON, which are merged into those that are there
	Own  bool   // the file is weir's alone, and Text is all of it
	Note string // what else there is to do; may be empty
}

// hookLimit is how long a program may wait for a hook, in seconds. The hook itself
// answers long before that.
// It is so long because a program that gives up on a hook lets the call run.
const hookLimit = 10

// hookSettings is how the settings of a program declare hooks.
// The settings differ by program in where they are, in units, and in the names of moments.
type hookSettings struct {
	file    string
	note    string
	matcher string // of hooks about tools
	name    string // of the hook, where programs show one
	// 1 for seconds, 1000 for milliseconds.
	perUnit int // units of the limit in a second
	moments []string
}

// Moments are those of which weir makes something: prompts, uses and ends.
var hookFiles = map[string]hookSettings{
	claudeCode: {file: ".claude/settings.json", matcher: "*", perUnit: 1,
		moments: []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStop", "Stop"}},
	codex: {file: ".codex/hooks.json", perUnit: 1, moments: []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"},
		note: "Codex leaves out hooks that nobody has trusted, without a word: open codex and trust them with /hooks."},
	gemini:    {file: ".gemini/settings.json", matcher: "*", name: "weir", perUnit: 1000, moments: []string{"BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent"}},
	qwen:      {file: ".qwen/settings.json", matcher: "*", name: "weir", perUnit: 1000, moments: []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"}},
	openHands: {file: ".openhands/hooks.json", matcher: "*", perUnit: 1, moments: []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"}},
}

// Its first {} stands for the settings.
//
//go:embed opencode.js
var openCodePlugin string

// HookPrograms are the programs that HookConfigFor knows.
func HookPrograms() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(hookFiles)), claudeCode+"-http", copilot, openCode)))
}

// HookConfigFor returns the configuration of a program: one of HookPrograms, of which
// claude-code-http asks weir without a process per hook. command is how a shell runs the
// hook, url where weir listens; closed is for what asks without a process.
func HookConfigFor(program, command, url string, closed bool) (c HookConfig, err error) {
	url = strings.TrimRight(url, "/")
	switch program {
	case copilot:
		hooks := make(map[string][]any)
		for _, moment := range []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"} {
			hooks[moment] = []any{map[string]any{"type": "command", "bash": command, "timeoutSec": hookLimit}}
		}
		c.File = ".copilot/hooks/weir.json"
		c.Text, err = json.MarshalIndent(map[string]any{"version": 1, "hooks": hooks}, "", "  ")
		return c, err
	case openCode:
		settings, err := json.Marshal(map[string]any{"url": url + HookPath, "closed": closed})
		return HookConfig{File: ".config/opencode/plugin/weir.js", Own: true, Text: []byte(strings.Replace(openCodePlugin, "{}", string(settings), 1))}, err
	}
	name, byHTTP := strings.CutSuffix(program, "-http")
	s, ok := hookFiles[name]
	if !ok || byHTTP && name != claudeCode {
		return c, fmt.Errorf("there are no hooks for %q; want one of %s", program, strings.Join(HookPrograms(), ", "))
	}
	hook := map[string]any{"type": "command", "command": command, "timeout": hookLimit * s.perUnit}
	if byHTTP {
		// Its limit is always in seconds: only Claude Code has it.
		hook = map[string]any{"type": "http", "url": url + HookPath, "timeout": hookLimit}
		if closed {
			return c, fmt.Errorf("%s lets calls run when nobody answers; take %s for --closed", program, claudeCode)
		}
	}
	if s.name != "" {
		hook["name"] = s.name
	}
	hooks := make(map[string][]any)
	for _, moment := range s.moments {
		group := map[string]any{"hooks": []any{hook}}
		// A matcher is a pattern of names of tools, and only goes with moments of tools.
		if s.matcher != "" && strings.Contains(moment, "Tool") {
			group["matcher"] = s.matcher
		}
		hooks[moment] = []any{group}
	}
	c.File, c.Note = s.file, s.note
	c.Text, err = json.MarshalIndent(map[string]any{"hooks": hooks}, "", "  ")
	return c, err
}
