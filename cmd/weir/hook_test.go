package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// hookInput is what the programs hand to a hook before a tool is used.
func hookInput(program, command string) string {
	if program == "openhands" {
		return fmt.Sprintf(`{"event_type":"PreToolUse","tool_name":"terminal","tool_input":{"command":%q},"tool_output":null,"message":null,"session_id":"oh","working_dir":"/w","metadata":{}}`, command)
	}
	return fmt.Sprintf(`{"session_id":"cc","transcript_path":"/t","cwd":"/w","permission_mode":"default","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Bash","tool_input":{"command":%q},"tool_use_id":"toolu_%s"}`, command, command)
}

func TestHook(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: gateway\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRun(t, "--in-memory", "--limits", limits)
	f := func(program, command string, code int, outPart, errPart string, args ...string) {
		t.Helper()
		got, out, errs := weir(t, hookInput(program, command), append([]string{"check", "--hook"}, args...)...)
		if got != code || !strings.Contains(out, outPart) || !strings.Contains(errs, errPart) || outPart == "" && out != "" || errPart == "" && errs != "" {
			t.Errorf("%s %s: exit code %d, %q, %q; want %d, %q, %q", program, command, got, out, errs, code, outPart, errPart)
		}
	}
	defer r.end(syscall.SIGTERM)
	for _, program := range []string{"claude-code", "openhands"} {
		for i := range 4 {
			f(program, fmt.Sprint(i), 0, "", "", "--server", r.url)
		}
		f(program, "4", 2, `{"decision":"deny","reason":"weir max_chain_depth_exceeded: `, "weir max_chain_depth_exceeded: The call was refused", "--server", r.url)
	}
	const nowhere = "http://127.0.0.1:1"
	f("claude-code", "5", 0, "", "goes on without it: no weir answers at http://127.0.0.1:1", "--server", nowhere)
	f("claude-code", "5", 2, `"decision":"deny"`, "The flow guard does not answer", "--server", nowhere, "--closed")
	if code, out, errs := weir(t, "no JSON", "check", "--hook", "--server", r.url); code != 0 || out+errs != "" {
		t.Errorf("what is no input: exit code %d, %q, %q", code, out, errs)
	}
}

func TestHookConfig(t *testing.T) {
	f := func(program string, moments int, parts ...string) {
		t.Helper()
		code, out, errs := weir(t, "", "check", "--hook-config", program, "--server", "http://h:1", "--closed")
		var file struct {
			Hooks map[string][]struct {
				Hooks []struct{ Type string }
			}
		}
		if err := json.Unmarshal([]byte(out), &file); code != 0 || err != nil || len(file.Hooks) != moments || len(file.Hooks["PreToolUse"][0].Hooks) != 1 {
			t.Errorf("%s: exit code %d, %v\n%s%s", program, code, err, out, errs)
		}
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s: %s is not in\n%s", program, part, out)
			}
		}
	}
	f("claude-code", 6, `"command": "weir check --hook --server http://h:1 --closed"`, `"matcher": "*"`)
	f("claude-code-http", 6, `"url": "http://h:1/v1/hook"`)
	f("openhands", 4, `"command": "weir check --hook --server http://h:1 --closed"`)
	if code, _, errs := weir(t, "", "check", "--hook-config", "emacs"); code != 2 || !strings.Contains(errs, "want claude-code") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
