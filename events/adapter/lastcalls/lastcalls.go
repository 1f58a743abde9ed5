// Package lastcalls reads the last model calls at the end of a coding agent's transcript.
//
// The input of a hook reports no tokens, but it names the transcript. The process of the hook reads the end of
// that file and adds the calls to the input, as the member model_calls. Both sides of that member are here.
package lastcalls

import (
	"bytes"
	"encoding/json"
	"strconv"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/usage"
)

// Member is the name of the member of a hook's input that has the calls.
const Member = "model_calls"

// Most is the number of calls that one input has at most: those since the last hook of the same agent are few.
const Most = 16

// Call is a model call.
type Call struct {
	ID       string // of the model's answer; a later line of the same answer may report more tokens
	Model    string // may be empty
	Provider string
	Usage    events.Usage
}

// Read returns the last calls of a transcript, the oldest first, at most Most. tail is the end of the file; its
// first line may be cut. own leaves out what subagents wrote into the transcript of their caller.
//
// It knows the transcripts of Claude Code, Codex, Gemini CLI and Qwen Code by their members.
func Read(tail []byte, own bool) (calls []Call) {
	for line := range bytes.Lines(tail) {
		if !bytes.Contains(line, []byte("oken")) { // each form has it in the name of a count
			continue
		}
		c, ok := read(line, own)
		if !ok {
			continue
		}
		// Each line of an answer has the usage so far.
		if n := len(calls); n > 0 && calls[n-1].ID == c.ID {
			calls[n-1] = c
			continue
		}
		calls = append(calls, c)
	}
	return calls[max(0, len(calls)-Most):]
}

// read reads one line. It returns false for a line that reports no usage, or that is no whole object.
func read(line []byte, own bool) (c Call, ok bool) {
	walk := jsonwalk.New(line)
	side := false
	for walk.Object(); walk.Member(); {
		switch string(walk.Key()) {
		case "isSidechain": // Claude Code
			side = walk.Bool()
		case "uuid", "id": // Qwen Code and Gemini CLI
			c.ID = first(c.ID, adapter.ID(walk.Text()))
		case "model":
			c.Model = first(c.Model, adapter.Word(walk.Text(), events.MaxID))
		case "message":
			c.message(walk)
		case "payload":
			c.codex(walk)
		case "usageMetadata":
			c.Usage = usage.Gemini.Read(walk)
		case "tokens":
			c.Usage, c.Provider = usage.GeminiCLI.Read(walk), "google"
		}
	}
	walk.End()
	return c, walk.Err() == nil && c.ID != "" && c.Usage.Known && !(own && side)
}

// message reads the answer of the model in a line of Claude Code. Its id goes before that of the line.
func (c *Call) message(walk *jsonwalk.Cursor) {
	for walk.MaybeObject(); walk.Member(); {
		switch string(walk.Key()) {
		case "id":
			c.ID = adapter.ID(walk.Text())
		case "model":
			c.Model = adapter.Word(walk.Text(), events.MaxID)
		case "usage":
			c.Usage, c.Provider = usage.Anthropic.Read(walk), "anthropic"
		}
	}
}

// codex reads a token_count. Its sum since the session began is the id: it is repeated if nothing was used.
func (c *Call) codex(walk *jsonwalk.Cursor) {
	for walk.MaybeObject(); walk.Member(); {
		if string(walk.Key()) != "info" {
			continue
		}
		for walk.MaybeObject(); walk.Member(); {
			switch string(walk.Key()) {
			case "total_token_usage":
				if sum := usage.Codex.Read(walk).Total; sum > 0 {
					c.ID = strconv.FormatInt(sum, 10)
				}
			case "last_token_usage":
				c.Usage, c.Provider = usage.Codex.Read(walk), "openai"
				c.Usage.Total = 0 // input and output are those of the request
			}
		}
	}
}

// first returns the text that is there already, else the other.
func first(old, text string) string {
	if old != "" {
		return old
	}
	return text
}

// member is a call as the member of an input has it.
type member struct {
	ID            string `json:"id"`
	Model         string `json:"model,omitempty"`
	Provider      string `json:"provider,omitempty"`
	Input         int64  `json:"input_tokens,omitempty"`
	Output        int64  `json:"output_tokens,omitempty"`
	CacheRead     int64  `json:"cache_read_tokens,omitempty"`
	CacheCreation int64  `json:"cache_creation_tokens,omitempty"`
	CacheHour     int64  `json:"cache_creation_1h_tokens,omitempty"`
	Reasoning     int64  `json:"reasoning_tokens,omitempty"`
}

// Encode returns the value of the member.
func Encode(calls []Call) []byte {
	list := make([]member, len(calls))
	for i := range calls {
		c, u := &calls[i], &calls[i].Usage
		list[i] = member{c.ID, c.Model, c.Provider, u.Input, u.Output, u.CacheRead, u.CacheCreation, u.CacheHour, u.Reasoning}
	}
	text, _ := json.Marshal(list) // texts and numbers always have a form
	return text
}

// names are those of the member.
var names = usage.Names{"input_tokens": usage.Input, "output_tokens": usage.Output, "cache_read_tokens": usage.CacheRead, "cache_creation_tokens": usage.CacheCreation,
	"cache_creation_1h_tokens": usage.CacheHour,
	"reasoning_tokens":         usage.Reasoning}

// Decode reads the value of the member, at most Most calls of it. Calls without an id or a count are left out.
func Decode(walk *jsonwalk.Cursor) (calls []Call) {
	for walk.MaybeArray(); walk.Element(); {
		var c Call
		for walk.MaybeObject(); walk.Member(); {
			switch string(walk.Key()) {
			case "id":
				c.ID = adapter.Word(walk.Text(), events.MaxID/2-16) // room for what is put behind it
			case "model":
				c.Model = adapter.Word(walk.Text(), events.MaxID)
			case "provider":
				c.Provider = adapter.Word(walk.Text(), events.MaxID)
			default:
				if !names.Member(walk, &c.Usage) {
					walk.Skip()
				}
			}
		}
		if c.ID != "" && c.Usage.Known && len(calls) < Most {
			calls = append(calls, c)
		}
	}
	return calls
}
