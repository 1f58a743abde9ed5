package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HookPlugin is the hooks of a program in the form in which its users install and remove
// what is not theirs.
// Nothing is written here: the caller writes the files.
type HookPlugin struct {
	Files map[string][]byte // by their paths below the folder of the plugin, with slashes
	Note  string            // how to install it; %s is the folder
}

// pluginVersion is that of the form, not of weir: what is in it runs the weir that is there.
const pluginVersion = "1.0.0"

// It is shown where people choose plugins.
const pluginAbout = "Asks weir before each use of a tool, and refuses those of runs that run away"

// HookPluginPrograms are the programs that HookPluginFor knows.
func HookPluginPrograms() []string { return []string{claudeCode, cline, gemini, openCode} }

// HookPluginFor returns the plugin or extension of a program; the arguments are those of
// HookConfigFor.
func HookPluginFor(program, command, url string, closed bool) (p HookPlugin, err error) {
	if !slices.Contains(HookPluginPrograms(), program) {
		return p, fmt.Errorf("%q takes no plugins with hooks; want one of %s", program, strings.Join(HookPluginPrograms(), ", "))
	}
	// It has no settings for hooks, only files that it runs by their names.
	if program == cline {
		// exec, so that the exit code and signals are those of weir.
		script := []byte("#!/bin/sh\nexec " + command + "\n")
		p.Files = map[string][]byte{"PreToolUse": script, "PostToolUse": script, "UserPromptSubmit": script}
		p.Note = "the files of %s belong into .cline/hooks of your home folder. Cline ends a run of which a call is refused."
		return p, nil
	}
	// What the hooks do is the same as in settings; only where it stands differs.
	config, err := HookConfigFor(program, command, url, closed)
	if err != nil {
		return p, err
	}
	// All manifests share these three members.
	about := func(more map[string]any) []byte {
		all := map[string]any{"name": "weir", "version": pluginVersion, "description": pluginAbout}
		maps.Copy(all, more)
		text, _ := json.MarshalIndent(all, "", "  ") // of texts: no error
		return append(text, '\n')
	}
	hooks := append(config.Text, '\n')
	switch program {
	// The folder is a marketplace of one plugin, since that is what can be installed from a
	// folder.
	case claudeCode:
		author := map[string]string{"name": "weir"}
		p.Files = map[string][]byte{
			".claude-plugin/marketplace.json": about(map[string]any{"owner": author,
				"plugins": []any{map[string]any{"name": "weir", "source": "./weir", "description": pluginAbout}}}),
			"weir/.claude-plugin/plugin.json": about(map[string]any{"author": author}),
			"weir/hooks/hooks.json":           hooks,
		}
		p.Note = "claude plugin marketplace add %s && claude plugin install weir@weir"
	case gemini:
		p.Files = map[string][]byte{"gemini-extension.json": about(nil), "hooks/hooks.json": hooks}
		p.Note = "gemini extensions install %s"
	case openCode:
		p.Files = map[string][]byte{"package.json": about(map[string]any{"type": "module", "main": "weir.js"}), "weir.js": config.Text}
		p.Note = `in opencode.json: "plugin": ["file://%s/weir.js"]`
	}
	return p, nil
}
