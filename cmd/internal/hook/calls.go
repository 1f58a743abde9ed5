package hook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/events/adapter/lastcalls"
	"weir/sink/check"
)

// tailBytes is how much of the end of a transcript is read.
const tailBytes = 256 << 10

// input is what the input of a hook says of transcripts.
type input struct {
	Event   string          `json:"hook_event_name"`
	Path    string          `json:"transcript_path"`
	Agent   string          `json:"agent_id"`              // of a subagent
	OfAgent string          `json:"agent_transcript_path"` // where a subagent ends
	Calls   json.RawMessage `json:"model_calls"`
}

// withCalls adds the last model calls of the agent to the input of its hook: the end of its transcript has them.
// The input stays as it is if there are none, if it has them already, or if the agent sends them by telemetry.
// Whatever is wrong with a transcript, the question is asked without it. unread is why a transcript that is named, and
// should be there by now, cannot be read: one of the reasons of check.Unread, "" for none.
func withCalls(body []byte, environ []string) (with []byte, unread string) {
	var in input
	text := bytes.TrimRight(body, " \t\r\n")
	if json.Unmarshal(text, &in) != nil || in.Calls != nil || len(text) < 3 || sendsCalls(environ) {
		return body, ""
	}
	for _, path := range in.transcripts() {
		tail, err := readTail(path)
		if err != nil {
			unread = cmp.Or(unread, reasonOf(err))
			continue
		}
		calls := lastcalls.Read(tail, in.Agent == "")
		if len(calls) == 0 {
			return body, ""
		}
		out := append(slices.Clone(text[:len(text)-1]), `,"`+lastcalls.Member+`":`...)
		return append(append(out, lastcalls.Encode(calls)...), '}'), ""
	}
	if !slices.Contains(afterModel, in.Event) {
		unread = ""
	}
	return body, unread
}

// afterModel are the moments at which a model has answered, so that an agent that keeps a transcript has begun it.
var afterModel = []string{"PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop", "BeforeTool", "AfterTool", "AfterAgent"}

// reasonOf is why a file could not be read, in words that name no file.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return check.UnreadMissing
	case errors.Is(err, fs.ErrPermission):
		return check.UnreadDenied
	}
	return check.UnreadOther
}

// transcripts are the files that may have the calls of the agent, the likeliest first. Claude Code writes a
// subagent's transcript into a folder beside that of the session; older versions wrote it into the same folder.
func (in *input) transcripts() []string {
	switch {
	case in.Agent == "" && in.Path == "":
		return nil
	case in.Agent == "":
		return []string{in.Path}
	case in.OfAgent != "":
		return []string{in.OfAgent}
	// The id becomes a part of a path.
	case in.Path == "" || strings.ContainsFunc(in.Agent, func(r rune) bool { return r == '/' || r == '\\' || r == '.' }):
		return nil
	}
	name := "agent-" + in.Agent + ".jsonl"
	return []string{filepath.Join(strings.TrimSuffix(in.Path, ".jsonl"), "subagents", name), filepath.Join(filepath.Dir(in.Path), name)}
}

// readTail reads the end of a file. It opens regular files alone: others may block.
func readTail(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailBytes), tailBytes))
}

// sendsCalls reports whether the environment has Claude Code send its model calls by OpenTelemetry. They may
// go to the same weir, where tokens would count twice.
func sendsCalls(environ []string) bool {
	value := func(name string) string {
		for _, variable := range environ {
			if value, ok := strings.CutPrefix(variable, name+"="); ok {
				return value
			}
		}
		return ""
	}
	on := value("CLAUDE_CODE_ENABLE_TELEMETRY")
	return on != "" && on != "0" && on != "false" && strings.Contains(value("OTEL_LOGS_EXPORTER"), "otlp")
}
