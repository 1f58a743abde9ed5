package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/wire"
)

// The programs whose hooks are understood.
const (
	claudeCode = "claude-code"
	cline      = "cline"
	codex      = "codex"
	copilot    = "copilot-cli"
	gemini     = "gemini-cli"
	openCode   = "opencode"
	openHands  = "openhands"
	qwen       = "qwen-code"
)

// Each has a reader of its own, named PROGRAM-hooks as source of its events.
var hookPrograms = []string{claudeCode, cline, codex, copilot, gemini, openCode, openHands, qwen}

// hookInput is what a program handed to a hook, under the names of Claude Code.
// The names of Claude Code are kept beside the program's own, which do no harm.
type hookInput struct {
	program string
	event   string // "" when it is unknown
	camel   bool   // Copilot CLI with a hook that is registered as preToolUse, which has an answer of its own
	spawns  bool   // a check of it asks to start an agent
	// Members whose value is null are left out, so nil means missing.
	fields map[string]json.RawMessage
}

// hookNames are the names that programs have for what Claude Code calls otherwise.
var hookNames = map[string]string{
	"event_type": "hook_event_name", "message": "prompt", "tool_output": "tool_response", // OpenHands
	"turn_id":   "prompt_id",                                                                                    // Codex
	"sessionId": "session_id", "toolName": "tool_name", "toolArgs": "tool_input", "toolResult": "tool_response", // Copilot CLI
	"tool_result": "tool_response", "prompt_response": "last_assistant_message", // Gemini CLI
}

// again is the name of what says that a hook did not let the last turn end.
const again = "stop_hook_active"

// hookMoments are the same for the moments at which hooks run.
var hookMoments = map[string]string{"BeforeTool": "PreToolUse", "AfterTool": "PostToolUse", "BeforeAgent": "UserPromptSubmit", "AfterAgent": "Stop"}

// readHook reads the input of a hook. If the input is broken or cut it returns what came
// before that, so that the kind of input can still be recognized.
// The program is recognized by its members, since none of them gives its name. The order
// of the cases matters: the first that fits counts.
func readHook(body []byte) (*hookInput, error) {
	in := &hookInput{program: claudeCode, fields: make(map[string]json.RawMessage)}
	// The error is returned at the end: the kind of an input that was cut can still be recognized.
	err := in.readFields(body)
	has := func(name string) bool { return in.fields[name] != nil }
	in.event = in.text("hook_event_name")
	named := hookMoments[in.event]
	switch {
	case in.event == "" && has("hookName"):
		in.cline()
	case in.event == "" && has("event_type"):
		in.program, in.event = openHands, in.text("event_type")
	case in.event == "" && has("sessionId"):
		in.program, in.camel = copilot, true
		switch {
		case has("toolResult"):
			in.event = "PostToolUse"
		case has("toolName"):
			in.event = "PreToolUse"
		case has("prompt"):
			in.event = "UserPromptSubmit"
		case has("stopReason"):
			in.event = "Stop"
		default:
			in.event = "other" // of a session, which is of no use here
		}
	case named != "":
		in.program, in.event = gemini, named
	case in.text("program") == openCode: // its plugin is weir's
		in.program = openCode
	case has("turn_id"):
		in.program = codex
	case has("timestamp") && (!has("transcript_path") || strings.Contains(in.text("transcript_path"), "/.copilot/")):
		in.program = copilot
	case has("timestamp"):
		in.program = qwen
	}
	// A name that is there in both forms keeps that of Claude Code.
	for from, to := range hookNames {
		if has(from) && !has(to) {
			in.fields[to] = in.fields[from]
		}
	}
	if in.event == "UserPromptSubmit" && string(in.fields["prompt"]) == `""` {
		in.event = "other" // the person wrote nothing: Qwen Code hands over the result of a tool so
	}
	if in.ends() {
		delete(in.fields, "prompt") // Gemini CLI says it again, beside the answer
	}
	if in.program == qwen {
		// Taken at its word, every end of a turn would be one that a hook had refused.
		delete(in.fields, again) // which says so at every end
	}
	if response := in.fields["tool_response"]; response != nil {
		// Counters in results that differ each time would hide that nothing changes.
		in.fields["tool_response"] = adapter.WithoutSerials(response)
	}
	if in.event != "" {
		in.fields["hook_event_name"] = quoted(in.event)
	}
	return in, err
}

// cline reads the input of a hook of Cline, whose members are of one moment each.
func (in *hookInput) cline() {
	moments := map[string]string{"tool_call": "PreToolUse", "tool_result": "PostToolUse", "prompt_submit": "UserPromptSubmit", "agent_end": "Stop"}
	name := in.text("hookName")
	in.program, in.event = cline, cmp.Or(moments[name], "other")
	var use struct{ ID, Name, Input, Output json.RawMessage }
	var context struct{ RootSessionID json.RawMessage }
	var said struct{ Prompt json.RawMessage }
	// What has another form is not there, and is found missing as with any other program.
	// Its names are found in any case by encoding/json.
	_ = json.Unmarshal(in.fields[name], &use)
	_ = json.Unmarshal(in.fields["sessionContext"], &context)
	_ = json.Unmarshal(in.fields["userPromptSubmit"], &said)
	if context.RootSessionID == nil {
		context.RootSessionID = in.fields["taskId"]
	}
	for name, value := range map[string]json.RawMessage{"session_id": context.RootSessionID, "prompt": said.Prompt,
		"tool_name": use.Name, "tool_use_id": use.ID, "tool_input": use.Input, "tool_response": use.Output} {
		if value != nil {
			in.fields[name] = value
		}
	}
}

// maxMembers is how many members the input of a hook may have: each takes many times its
// room once it is read.
const maxMembers = 1000

// readFields reads the members of the object that have a value.
// By hand and not into a map at once: of a broken object what came before stays, and members
// are counted as they come.
func (in *hookInput) readFields(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if name, ok := name.(string); ok && !bytes.Equal(value, []byte("null")) {
			in.fields[name] = value
		}
		if len(in.fields) > maxMembers {
			return fmt.Errorf("it has more than %d members", maxMembers)
		}
	}
	_, err := d.Token()
	return err
}

// text is "" for what is missing.
func (in *hookInput) text(name string) (s string) {
	_ = json.Unmarshal(in.fields[name], &s) // what is no text is none
	return s
}

// openedBy sets the flow that opened the session. weir-hook makes the headers from the
// environment: W3C baggage, else a traceparent. The trace of a traceparent is the flow where no
// other name is given. A session cannot open itself.
func (in *hookInput) openedBy(h http.Header) {
	flow := wire.Baggage([]byte(h.Get("Baggage")))
	parent := cmp.Or(flow.ID, flow.Parent, flow.Root, wire.Traceparent([]byte(h.Get("Traceparent"))).ID)
	if parent == "" || parent == in.text("session_id") {
		return
	}
	in.fields["parent_correlation_id"] = quoted(parent)
	if flow.Root != "" {
		in.fields["root_correlation_id"] = quoted(flow.Root)
	}
}

// ends reports whether a turn is about to end. A run that another program's Stop hook keeps alive
// can be ended there.
func (in *hookInput) ends() bool { return in.event == "Stop" }

// ending ends the run, whatever other hooks want.
func (in *hookInput) ending(reason string) (a HookAnswer) {
	goOn := false
	a.Continue, a.StopReason = &goOn, reason
	return a
}

// asks reports whether a tool is about to be used. An unknown event may be such a use, too:
// an input that cannot be read is refused with closed=1.
func (in *hookInput) asks() bool { return in.event == "PreToolUse" || in.event == "" }

// named gives the main agent the name of its program.
func (in *hookInput) named(p events.Party) events.Party {
	if p.Agent == claudeCode {
		p.Agent = in.program
	}
	return p
}

// HookAnswer is the answer to a hook. Each program takes a part of it. Some refuse nothing when
// they find a part that they do not know. So weir sends only what the program is known to
// take (package clients).
// The zero HookAnswer is {}, which lets every program go on.
type HookAnswer struct {
	Decision   string      `json:"decision,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Output     *HookOutput `json:"hookSpecificOutput,omitempty"`
	Continue   *bool       `json:"continue,omitempty"` // false ends the whole run
	StopReason string      `json:"stopReason,omitempty"`

	// Of Cline, which ends the run with it: it has no refusal of a single call.
	Cancel       bool   `json:"cancel,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`

	// Of Copilot CLI, for a hook that is registered as preToolUse.
	Permission       string `json:"permissionDecision,omitempty"`
	PermissionReason string `json:"permissionDecisionReason,omitempty"`
}

// HookOutput is the part of an answer that is about one use of a tool.
type HookOutput struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision,omitempty"`
	Reason   string `json:"permissionDecisionReason,omitempty"` // the model reads it
	Context  string `json:"additionalContext,omitempty"`        // and this, beside what the tool brings
}

// Refuses reports whether the answer refuses the use of a tool.
// Continue alone refuses no use.
func (a *HookAnswer) Refuses() bool { return a.Decision != "" || a.Permission != "" || a.Cancel }

// Empty reports whether the answer has nothing for the program.
func (a *HookAnswer) Empty() bool { return !a.Refuses() && a.Output == nil && a.Continue == nil }

// ByCode returns the reason of a refusal to a program that goes by the exit code 2 of
// its hook; "" where the program reads the answer, and wants the exit code 0.
// OpenHands is the one, whose word is deny where the others take block.
func (a *HookAnswer) ByCode() string {
	if a.Decision == "deny" {
		return a.Reason
	}
	return ""
}

// RefuseHook returns the answer to the input of a hook that weir does not answer in time.
// It refuses the use of a tool for this reason, and nothing else: never what a person
// says, and never the end of a turn.
// It runs in the process of the hook, where weir may be away.
func RefuseHook(body []byte, reason string) (answer HookAnswer) {
	if in, _ := readHook(body); in.asks() {
		return in.refusal(events.Deny, reason)
	}
	return answer
}

// saying are the programs that were seen to hand what a hook says before the use of a
// tool to the model (package clients).
var saying = []string{claudeCode, codex, copilot}

// note lets the tool be used, and adds a text for the model, where the program has
// a way for it.
func (in *hookInput) note(text string) (a HookAnswer) {
	if text != "" && !in.camel && slices.Contains(saying, in.program) {
		a.Output = &HookOutput{Event: "PreToolUse", Context: text}
	}
	return a
}

// refusedPrompt refuses a prompt, in the form that the program reads.
func (in *hookInput) refusedPrompt(reason string) (a HookAnswer) {
	switch in.program {
	case openHands:
		a.Decision, a.Reason = "deny", reason
	case cline:
		a.Cancel, a.ErrorMessage = true, reason
	default:
		a.Decision, a.Reason = "block", reason
	}
	return a
}

// endsRun is the action of a refusal: a call that waits by itself ends no run, which may go on without it.
func endsRun(v *events.Verdict) events.Action {
	if v.Action == events.Hold && (v.Scope.Kind == events.ScopeSession || v.Match != nil && v.Match.Kind != "") {
		return events.Deny
	}
	return v.Action
}

// refusal refuses the use of a tool, in the form that the program reads.
func (in *hookInput) refusal(action events.Action, reason string) (a HookAnswer) {
	switch {
	case in.program == openHands, in.program == cline:
		return in.refusedPrompt(reason)
	case in.camel:
		a.Permission, a.PermissionReason = "deny", reason
		return a
	}
	// Claude Code, Codex and Qwen Code take either of these, Gemini CLI the first and
	// Copilot CLI the second.
	a = in.refusedPrompt(reason)
	a.Output = &HookOutput{Event: "PreToolUse", Decision: "deny", Reason: reason}
	// Of these two programs it ends the run; the others get the refusal alone.
	if (action == events.Halt || action == events.Hold) && (in.program == claudeCode || in.program == gemini) {
		goOn := false
		a.Continue, a.StopReason = &goOn, reason
	}
	return a
}
