package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/app"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/hook"
)

// hookInputs are what the programs hand to a hook before a tool is used, as they were
// seen to do. The verb is the command.
var hookInputs = map[string]string{
	"claude-code":            `{"session_id":"cc","transcript_path":"/h/.claude/projects/p/cc.jsonl","cwd":"/w","prompt_id":"p","permission_mode":"bypassPermissions","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":%[1]q},"tool_use_id":"toolu_%[1]s"}`,
	"codex":                  `{"session_id":"cx","turn_id":"t","transcript_path":"/h/.codex/sessions/r.jsonl","cwd":"/w","hook_event_name":"PreToolUse","model":"gpt-5","permission_mode":"bypassPermissions","tool_name":"Bash","tool_input":{"command":%[1]q},"tool_use_id":"call_%[1]s"}`,
	"gemini-cli":             `{"session_id":"gm","transcript_path":"/h/.gemini/tmp/p/chats/s.jsonl","cwd":"/w","hook_event_name":"BeforeTool","timestamp":"2026-11-22T12:24:14.039Z","tool_name":"run_shell_command","tool_input":{"command":%[1]q}}`,
	"qwen-code":              `{"session_id":"qw","transcript_path":"/h/.qwen/projects/p/chats/s.jsonl","cwd":"/w","hook_event_name":"PreToolUse","timestamp":"2026-11-22T12:24:24.346Z","permission_mode":"yolo","tool_name":"run_shell_command","tool_input":{"command":%[1]q},"tool_use_id":"toolu_%[1]s"}`,
	"copilot-cli":            `{"hook_event_name":"PreToolUse","session_id":"cp","timestamp":"2026-11-22T14:20:07.089Z","cwd":"/w","tool_name":"Bash","tool_input":{"command":%[1]q}}`,
	"copilot-cli preToolUse": `{"sessionId":"cq","timestamp":1795349661965,"cwd":"/w","toolName":"bash","toolArgs":{"command":%[1]q}}`,
	"openhands":              `{"event_type":"PreToolUse","tool_name":"terminal","tool_input":{"command":%[1]q},"tool_output":null,"message":null,"session_id":"oh","working_dir":"/w","metadata":{}}`,
}

// hookRefusal is the answer by which a program was seen to refuse a call, and the code
// with which the hook has to end. A key more, or another code, and some let it run.
func hookRefusal(program, reason string) (answer string, code int) {
	text, _ := json.Marshal(reason)
	switch program {
	case "openhands":
		return fmt.Sprintf(`{"decision":"deny","reason":%s}`, text), 2
	case "copilot-cli preToolUse":
		return fmt.Sprintf(`{"permissionDecision":"deny","permissionDecisionReason":%s}`, text), 0
	}
	return fmt.Sprintf(`{"decision":"block","reason":%[1]s,"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":%[1]s}}`, text), 0
}

func TestHook(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: gateway\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startRun(t, "--in-memory", "--limits", limits)
	defer r.end(syscall.SIGTERM)
	const nowhere = "http://127.0.0.1:1"
	for program, input := range hookInputs {
		ask := func(command string, args ...string) (int, string, string) {
			return weir(t, fmt.Sprintf(input, command), append([]string{"check", "--hook", "--no-tokens"}, args...)...) // there is no transcript
		}
		refused := func(command, reason string, args ...string) {
			t.Helper()
			code, out, errs := ask(command, args...)
			want, wantCode := hookRefusal(program, reason)
			wantErrs := ""
			if wantCode != 0 {
				wantErrs = reason + "\n"
			}
			if code != wantCode || out != want+"\n" || errs != wantErrs {
				t.Errorf("%s: exit code %d, %q, %q; want %d, %q, %q", program, code, out, errs, wantCode, want, wantErrs)
			}
		}
		for i := range 4 {
			if code, out, errs := ask(fmt.Sprint(i), "--server", r.url, "--closed"); code != 0 || out+errs != "" {
				t.Errorf("%s: exit code %d, %q, %q; want to go on without a word", program, code, out, errs)
			}
		}
		refused("4", "weir max_chain_depth_exceeded: The call was refused by the flow guard (max_chain_depth_exceeded, 5 of 4). Do not repeat it: it brings nothing new. Use what you already know, try another way, or report what blocks you.", "--server", r.url)
		refused("5", "The flow guard does not answer, and calls are refused until it does. Try again later.", "--server", nowhere, "--closed")
		if code, out, errs := ask("5", "--server", nowhere); code != 0 || out != "" || !strings.Contains(errs, "goes on without it: no weir answers at http://127.0.0.1:1") {
			t.Errorf("%s, away: exit code %d, %q, %q", program, code, out, errs)
		}
	}
	if code, out, errs := weir(t, "no JSON", "check", "--hook", "--server", r.url); code != 0 || out+errs != "" {
		t.Errorf("what is no input: exit code %d, %q, %q", code, out, errs)
	}
}

// TestHookRefusesUsesOfToolsAlone hands over what is no use of a tool while weir is
// away: what a person says has to get through, and who ends has to be let end.
func TestHookRefusesUsesOfToolsAlone(t *testing.T) {
	for _, input := range []string{
		`{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"go"}`,
		`{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"` + strings.Repeat("x", 9<<20) + `"}`, // more than is read
		`{"session_id":"s","hook_event_name":"BeforeAgent","timestamp":"2026-11-22T12:24:14.039Z","prompt":"go"}`,
		`{"event_type":"UserPromptSubmit","tool_name":null,"tool_input":null,"tool_output":null,"message":"go","session_id":"oh","working_dir":"/","metadata":{}}`,
		`{"sessionId":"s","timestamp":1795357207037,"cwd":"/w","prompt":"go"}`,
		`{"sessionId":"s","timestamp":1795357207276,"cwd":"/w","stopReason":"end_turn","stop_hook_active":false}`,
		`{"sessionId":"s","timestamp":1795357206929,"cwd":"/w","source":"new","initialPrompt":"go"}`,
		`{"sessionId":"s","timestamp":1795357207148,"cwd":"/w","toolName":"bash","toolArgs":{},"toolResult":{"resultType":"success"}}`,
		`{"session_id":"s","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{},"tool_response":""}`,
		`{"session_id":"s","hook_event_name":"AfterTool","tool_name":"Bash","tool_input":{},"tool_response":""}`,
		`{"session_id":"s","hook_event_name":"Stop"}`,
		`{"session_id":"s","hook_event_name":"SubagentStop"}`,
		`{"session_id":"s","hook_event_name":"PermissionRequest","tool_name":"Bash"}`,
		`{"session_id":"s","hook_event_name":"SessionEnd"}`,
	} {
		code, out, errs := weir(t, input, "check", "--hook", "--closed", "--server", "http://127.0.0.1:1")
		if code != 0 || out != "" || !strings.Contains(errs, "goes on without it") {
			t.Errorf("%.100s: exit code %d, %q, %q", input, code, out, errs)
		}
	}
}

// TestHookAnswersInTime asks a weir that takes the question and never answers, and gives
// a hook an input that does not end. The agent's own limit would let the call run.
func TestHookAnswersInTime(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // connections wait in its queue
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	hangs := "http://" + listener.Addr().String()
	f := func(name string, in io.Reader, server string, closed, refused bool) {
		t.Helper()
		var out, errs bytes.Buffer
		env := cli.Env{In: in, Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now}
		args := []string{"check", "--hook", "--server", server}
		if closed {
			args = append(args, "--closed")
		}
		if code := program().Main(t.Context(), env, args); code != 0 || strings.Contains(out.String(), `"permissionDecision":"deny"`) != refused {
			t.Errorf("%s, closed %v: exit code %d, %q, %q", name, closed, code, &out, &errs)
		}
	}
	const prompt = `{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"go"}`
	use := fmt.Sprintf(hookInputs["claude-code"], "ls")
	var all sync.WaitGroup
	for _, closed := range []bool{false, true} {
		all.Go(func() { f("hangs", strings.NewReader(use), hangs, closed, closed) })
		all.Go(func() { f("hangs, prompt", strings.NewReader(prompt), hangs, closed, false) })
		all.Go(func() { f("is left open", neverEnds(t, use), "http://127.0.0.1:1", closed, closed) })
		all.Go(func() { f("is cut", neverEnds(t, use[:len(use)-9]), hangs, closed, closed) })
		all.Go(func() { f("is cut, prompt", neverEnds(t, prompt[:len(prompt)-3]), hangs, closed, false) })
	}
	all.Wait()
}

// neverEnds is an input that stays open until the test ends.
func neverEnds(t *testing.T, text string) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return io.MultiReader(strings.NewReader(text), r)
}

// TestDefaultServer holds the two programs to one address.
func TestDefaultServer(t *testing.T) {
	if want := client.URLOf(app.DefaultListen); hook.DefaultServer != want {
		t.Errorf("a hook asks %s, want %s", hook.DefaultServer, want)
	}
}

func TestHookConfig(t *testing.T) {
	f := func(name string, moments int, parts ...string) {
		t.Helper()
		code, out, errs := weir(t, "", "check", "--hook-config", name, "--server", "http://h:1", "--closed")
		var file struct {
			Hooks map[string][]struct {
				Hooks []struct{ Type string }
			}
		}
		use := "PreToolUse"
		if name == "gemini-cli" {
			use = "BeforeTool"
		}
		if err := json.Unmarshal([]byte(out), &file); code != 0 || err != nil || len(file.Hooks) != moments || len(file.Hooks[use]) != 1 {
			t.Errorf("%s: exit code %d, %v\n%s%s", name, code, err, out, errs)
		}
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s: %s is not in\n%s", name, part, out)
			}
		}
	}
	const command = `"weir check --hook --server http://h:1 --closed"`
	f("claude-code", 6, `"command": `+command, `"matcher": "*"`, `"timeout": 10`)
	f("codex", 4, `"command": `+command, `"timeout": 10`)
	f("gemini-cli", 4, `"command": `+command, `"timeout": 10000`)
	f("qwen-code", 4, `"command": `+command, `"timeout": 10000`)
	f("copilot-cli", 4, `"bash": `+command, `"timeoutSec": 10`, `"version": 1`)
	f("openhands", 4, `"command": `+command, `"matcher": "*"`)
	if code, out, errs := weir(t, "", "check", "--hook-config", "claude-code-http", "--server", "http://h:1"); code != 0 || !strings.Contains(out, `"url": "http://h:1/v1/hook"`) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if code, out, errs := weir(t, "", "check", "--hook-config", "opencode", "--server", "http://h:1", "--closed"); code != 0 || !strings.Contains(out, `const weir = {"closed":true,"url":"http://h:1/v1/hook"}`) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	// A shell starts the hook.
	if code, out, errs := weir(t, "", "check", "--hook-config", "claude-code", "--server", "http://h:1/a;b"); code != 0 || !strings.Contains(out, `weir check --hook --server 'http://h:1/a;b'`) {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for name, want := range map[string]string{"emacs": "want one of claude-code", "codex-http": "no hooks for", "claude-code-http": "take claude-code for --closed"} {
		if code, _, errs := weir(t, "", "check", "--hook-config", name, "--closed"); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
}

// TestHookInstall puts hooks into existing settings, which are a link.
func TestHookInstall(t *testing.T) {
	home := t.TempDir()
	kept, link := filepath.Join(home, "dotfiles.json"), filepath.Join(home, ".claude", "settings.json")
	const before = "{\n  \"model\": \"m\"\n}\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o700), os.WriteFile(kept, []byte(before), 0o640), os.Symlink(kept, link)); err != nil {
		t.Fatal(err)
	}
	install := func(in string, args ...string) (int, string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		env := cli.Env{In: strings.NewReader(in), Out: &out, Err: &errs, Getenv: func(name string) string {
			return map[string]string{"HOME": home}[name]
		}, Now: time.Now}
		code := program().Main(t.Context(), env, append([]string{"check", "--hook-config"}, args...))
		return code, out.String(), errs.String()
	}
	file := func() string {
		text, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, in := range []string{"", "n\n", "\n"} {
		if code, out, errs := install(in, "claude-code", "--install"); code != 1 || out != "" || file() != before || !strings.Contains(errs, "nothing was written") || !strings.Contains(errs, "+      {\n") {
			t.Errorf("answer %q: exit code %d\n%s%s%s", in, code, out, errs, file())
		}
	}
	code, out, errs := install("y\n", "claude-code", "--install")
	after := file()
	if info, err := os.Stat(kept); code != 0 || out != "" || !strings.HasPrefix(after, "{\n  \"model\": \"m\",\n  \"hooks\": {\n") || err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("exit code %d\n%s%s%s%v", code, out, errs, after, err)
	}
	if !strings.Contains(errs, "(weir run)") || !strings.Contains(errs, "To remove the hooks, delete the entries") {
		t.Errorf("what to do next is missing:\n%s", errs)
	}
	if target, err := os.Readlink(link); err != nil || target != kept {
		t.Errorf("the link is %s (%v)", target, err)
	}
	if code, _, errs := install("", "claude-code", "--install"); code != 0 || file() != after || !strings.Contains(errs, "has the hooks of weir already") {
		t.Errorf("again: exit code %d\n%s%s", code, errs, file())
	}
	if code, out, _ := install("", "claude-code"); code != 0 || out != after {
		t.Errorf("printed: exit code %d\n%s", code, out)
	}
	if code, _, errs := install("", "claude-code", "--install", "--yes", "--closed"); code != 0 || strings.Count(file(), "check --hook --closed") != 6 || strings.Count(file(), "check --hook") != 6 {
		t.Errorf("closed: exit code %d\n%s%s", code, errs, file())
	}
	if code, _, errs := install("", "codex", "--install", "--yes"); code != 0 || !strings.Contains(errs, "/hooks") {
		t.Errorf("codex: exit code %d\n%s", code, errs)
	}
	broken := filepath.Join(home, "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := install("", "gemini-cli", "--install", "--yes", "--settings", broken); code != 1 || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("broken: exit code %d\n%s", code, errs)
	}
	if left, err := os.ReadDir(filepath.Join(home, ".codex")); err != nil || len(left) != 1 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
}

// TestHookNeverRefusesByMistake holds that a hook that is started in a wrong way does not end
// with the code that agents take for a refusal.
func TestHookNeverRefusesByMistake(t *testing.T) {
	for _, args := range [][]string{
		{"check", "--hook", "--loud"}, {"check", "--loud", "--hook"}, {"check", "--hook=true", "--closed=perhaps"}, {"check", "--hook", "more"},
		{"check", "--hook", "--server"}, {"check", "--hook", "--server", "::"}, {"chekc", "--hook"}, {"check", "--hook", "--token-file", "/none"}, {"--hook", "check"},
	} {
		code, out, errs := weir(t, fmt.Sprintf(hookInputs["claude-code"], "ls"), args...)
		if code != 1 || out != "" || errs == "" {
			t.Errorf("%v: code %d, %q, %q; want 1 and a reason", args, code, out, errs)
		}
	}
	if code, _, _ := weir(t, "", "check", "--loud"); code != 2 {
		t.Errorf("without a hook: code %d, want 2", code)
	}
}

// TestHookWithoutTranscript asks by a hook whose transcript is gone. The call is allowed, and it is said once in the
// session and once in the log, and as long as weir runs by doctor.
func TestHookWithoutTranscript(t *testing.T) {
	r := startRun(t, "--in-memory")
	defer r.end(syscall.SIGTERM)
	gone := filepath.Join(t.TempDir(), "gone.jsonl")
	ask := func(session, event string) string {
		t.Helper()
		in := fmt.Sprintf(`{"session_id":%q,"transcript_path":%q,"cwd":"/w","hook_event_name":%q,"tool_name":"Bash","tool_use_id":"u","tool_input":{"command":"ls"}}`, session, gone, event)
		code, out, errs := weirNow(t, in, "check", "--hook", "--server", r.url)
		if code != 0 || out != "" {
			t.Errorf("exit code %d: %s", code, out)
		}
		return errs
	}
	const said = "weir cannot read the transcript of this session, so the tokens of its model calls do not count: the file does not exist"
	if errs := ask("one", "UserPromptSubmit"); errs != "" {
		t.Errorf("before the transcript has to be there: %s", errs)
	}
	for i, want := range []bool{true, false} {
		if errs := ask("one", "PreToolUse"); strings.Contains(errs, said) != want {
			t.Errorf("call %d: %s", i+1, errs)
		}
	}
	if errs := ask("two", "PreToolUse"); !strings.Contains(errs, said) {
		t.Errorf("another session: %s", errs)
	}
	r.stderr.await(t, "a hook cannot read the transcript that its agent names", r.ended)
	if code, out, errs := weirNow(t, "", "doctor", "--in-memory", "--listen", strings.TrimPrefix(r.url, "http://")); code != 0 ||
		!strings.Contains(out, "warn sources    claude-code-hooks: sessions whose hook could not read their transcript, so that the tokens of their model calls do not count: 2 (the last one \""+gone+"\": the file does not exist)") {
		t.Errorf("doctor: exit code %d\n%s%s", code, out, errs)
	}
}
