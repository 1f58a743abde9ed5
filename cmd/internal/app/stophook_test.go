package app

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestStopHookThatBlocks has turns that hooks of another program do not let end, in the inputs of
// the programs. An agent that only answers is ended. An agent that works in between is not, and
// neither is one that a hook asks two things more.
func TestStopHookThatBlocks(t *testing.T) {
	r := begin(t, Options{})
	n := 0
	hook := func(session, event, more string) string {
		n++
		r.fake.Advance(2 * time.Second)
		got := r.do("POST", "/v1/hook", fmt.Sprintf(`{"session_id":%q,"transcript_path":"/t","cwd":"/w","hook_event_name":%q%s}`, session, event, more))
		r.want(got, 200)
		return strings.TrimSpace(got.body)
	}
	// rounds returns how many ends were reported until one was answered, or all of them.
	rounds := func(session, event, more string, most int, between func(i int)) int {
		t.Helper()
		for i := range most {
			between(i)
			said := hook(session, event, fmt.Sprintf(`%s,"stop_hook_active":%v`, strings.ReplaceAll(more, "{i}", fmt.Sprint(i)), i > 0))
			if said != "{}" {
				if !strings.Contains(said, `"continue":false`) || !strings.Contains(said, `"stopReason":"weir `) || strings.Contains(said, "decision") {
					t.Errorf("%s: %s", session, said)
				}
				return i + 1
			}
		}
		return most
	}
	is := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d ends, want %d", what, got, want)
		}
	}
	nothing := func(int) {}
	const claude = `,"prompt_id":"p","permission_mode":"default"`
	is("one answer", rounds("same", "Stop", claude+`,"last_assistant_message":"Finished."`, 20, nothing), 7)
	is("other answers", rounds("other", "Stop", `,"prompt_id":"o","last_assistant_message":"Nothing left to do, {i}."`, 20, nothing), 13)
	is("asked twice", rounds("twice", "Stop", `,"prompt_id":"t","last_assistant_message":"Done, {i}."`, 3, nothing), 3)
	use := func(i int) {
		tool := fmt.Sprintf(`,"prompt_id":"w","tool_name":"Bash","tool_input":{"command":"go test ./... -run %d"},"tool_use_id":"u%d"`, i, i)
		if said := hook("works", "PreToolUse", tool); said != "{}" {
			t.Errorf("an honest use of a tool: %s", said)
		}
		hook("works", "PostToolUse", tool+fmt.Sprintf(`,"tool_response":{"stdout":"%d of 20 pass"}`, i))
	}
	is("works in between", rounds("works", "Stop", `,"prompt_id":"w","last_assistant_message":"Done."`, 15, use), 15)
	// Gemini CLI hands what the hook said over as a prompt, and all answers as one.
	prompt := func(i int) {
		hook("gemini", "BeforeAgent", fmt.Sprintf(`,"timestamp":"2026-11-23T00:57:30.263Z","prompt":%q`, []string{"say hi", "Not done yet."}[min(i, 1)]))
	}
	is("Gemini CLI", rounds("gemini", "AfterAgent", `,"timestamp":"2026-11-23T00:57:30.544Z","prompt":"say hi","prompt_response":"Finished.{i}"`, 20, prompt), 13)
	// Qwen Code says of each end that a hook brought it about: of a person's prompts, too.
	for range 15 {
		hook("qwen", "UserPromptSubmit", `,"timestamp":"2026-11-23T00:58:08.413Z","prompt":"and now?"`)
		if said := hook("qwen", "Stop", `,"timestamp":"2026-11-23T00:58:08.978Z","stop_hook_active":true,"last_assistant_message":"Finished."`); said != "{}" {
			t.Errorf("an honest chat with Qwen Code: %s", said)
		}
	}
}
