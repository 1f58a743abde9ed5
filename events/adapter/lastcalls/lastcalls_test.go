package lastcalls_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/events"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/lastcalls"
)

// TestRead reads the ends of transcripts as the agents write them.
func TestRead(t *testing.T) {
	used := func(in, out, read, written, reasoning int64) events.Usage {
		return events.Usage{Known: true, Input: in, Output: out, CacheRead: read, CacheCreation: written, Reasoning: reasoning}
	}
	const claude = `{"type":"assistant","uuid":"u-%d","isSidechain":%t,"message":{"model":"claude-x","id":"%s","content":[{"type":"text","text":"tokens"}],` +
		`"usage":{"input_tokens":3,"cache_creation_input_tokens":40,"cache_read_input_tokens":500,"output_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":40}}}}` + "\n"
	for name, x := range map[string]struct {
		tail string
		own  bool
		want []lastcalls.Call
	}{
		"Claude Code, whose answer has a line for each of its parts": {
			`okens":1}}}` + "\n" + fmt.Sprintf(claude, 1, false, "msg_1", 7) + `{"type":"user","message":{"content":"tokens"}}` + "\n" + fmt.Sprintf(claude, 2, false, "msg_2", 1) + fmt.Sprintf(claude, 3, false, "msg_2", 9), true,
			[]lastcalls.Call{{"msg_1", "claude-x", "anthropic", used(3, 7, 500, 40, 0)}, {"msg_2", "claude-x", "anthropic", used(3, 9, 500, 40, 0)}}},
		"Claude Code with a subagent in the transcript of its caller": {
			fmt.Sprintf(claude, 1, true, "msg_1", 7) + fmt.Sprintf(claude, 2, false, "msg_2", 1), true,
			[]lastcalls.Call{{"msg_2", "claude-x", "anthropic", used(3, 1, 500, 40, 0)}}},
		"the transcript of a subagent": {
			fmt.Sprintf(claude, 1, true, "msg_1", 7), false,
			[]lastcalls.Call{{"msg_1", "claude-x", "anthropic", used(3, 7, 500, 40, 0)}}},
		"Codex, which repeats its figures": {
			strings.Repeat(`{"timestamp":"2026-11-22T12:20:45.813Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":900,"output_tokens":50,"total_tokens":950},`+
				`"last_token_usage":{"input_tokens":500,"cached_input_tokens":400,"output_tokens":20,"reasoning_output_tokens":5,"total_tokens":520}}}}`+"\n", 2), true,
			[]lastcalls.Call{{"950", "", "openai", used(500, 20, 400, 0, 5)}}},
		"Qwen Code": {
			`{"uuid":"q-1","sessionId":"s","type":"assistant","model":"qwen-x","message":{"role":"model","parts":[{"text":"hi"}]},"usageMetadata":{"promptTokenCount":90,"candidatesTokenCount":8,"cachedContentTokenCount":70,"thoughtsTokenCount":2,"totalTokenCount":98}}` + "\n", true,
			[]lastcalls.Call{{"q-1", "qwen-x", "", used(90, 8, 70, 0, 2)}}},
		"Gemini CLI": {
			`{"id":"g-1","timestamp":"2026-11-22T12:20:45.813Z","type":"gemini","content":"hi","tokens":{"input":90,"output":8,"cached":70,"thoughts":2,"tool":0,"total":100},"model":"gemini-x"}` + "\n", true,
			[]lastcalls.Call{{"g-1", "gemini-x", "google", used(90, 8, 70, 0, 2)}}},
		"what is no transcript": {"tokens\n{\"tokens\":1}\n[\"usage tokens\"]\n\x00tokens", true, nil},
		"a line that is not whole yet": {
			fmt.Sprintf(claude, 1, false, "msg_1", 7) + strings.TrimSuffix(fmt.Sprintf(claude, 2, false, "msg_2", 1), "}\n"), true,
			[]lastcalls.Call{{"msg_1", "claude-x", "anthropic", used(3, 7, 500, 40, 0)}}},
	} {
		got := lastcalls.Read([]byte(x.tail), x.own)
		if len(got)+len(x.want) > 0 && !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
		again := lastcalls.Decode(jsonwalk.New(lastcalls.Encode(got)))
		if len(got) > 0 && !reflect.DeepEqual(again, got) {
			t.Errorf("%s: as the member of an input %+v, want %+v", name, again, got)
		}
	}
}

// TestMost holds that an input has the newest calls, and no more than it may have.
func TestMost(t *testing.T) {
	var tail strings.Builder
	for i := range 3 * lastcalls.Most {
		fmt.Fprintf(&tail, `{"message":{"id":"msg_%d","usage":{"input_tokens":1}}}`+"\n", i)
	}
	got := lastcalls.Read([]byte(tail.String()), true)
	if len(got) != lastcalls.Most || got[len(got)-1].ID != fmt.Sprint("msg_", 3*lastcalls.Most-1) {
		t.Errorf("%d calls up to %+v", len(got), got[len(got)-1])
	}
	if again := lastcalls.Decode(jsonwalk.New(lastcalls.Encode(append(got, got...)))); len(again) != lastcalls.Most {
		t.Errorf("%d calls are read", len(again))
	}
	for _, text := range []string{`null`, `{}`, `[1,"x",null,{}]`, `[{"id":"a"}]`, `[{"input_tokens":5}]`} {
		if got := lastcalls.Decode(jsonwalk.New([]byte(text))); len(got) > 0 {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
