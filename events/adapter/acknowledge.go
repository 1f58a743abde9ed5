package adapter

import (
	"bytes"
	"slices"

	"weir/events"
)

// acknowledging are tools of coding agents that answer every change in the same words, such as
// "The file has been updated": the answer says that the call was made and nothing of what it
// changed.
// Names in capitals are those of Claude Code.
var acknowledging = map[string]bool{
	"Edit": true, "MultiEdit": true, "Write": true, "NotebookEdit": true, "TodoWrite": true, "TaskCreate": true, "TaskUpdate": true,
	"EnterPlanMode": true, "SendMessage": true,
	"apply_patch": true, "edit": true, "write": true, "multiedit": true, "patch": true, "todowrite": true, "edit_file": true, "write_file": true,
	"create_file": true, "insert_edit_into_file": true, "replace": true, "replace_in_file": true, "search_replace": true, "str_replace": true,
	"write_to_file": true, "write_todos": true, "update_plan": true, "update_todo_list": true, "report_intent": true, "save_memory": true,
}

// asking are tools that ask a person. The same answer once more is no sign of a loop.
var asking = map[string]bool{"AskUserQuestion": true, "ask_user": true, "ask_followup_question": true, "request_user_input": true, "ExitPlanMode": true}

// shortAcknowledgement is the most bytes of a result that only acknowledges a call.
const shortAcknowledgement = 200

// rejecting are words of results that report a success and mean that nothing was changed.
var rejecting = [][]byte{[]byte("no replacement"), []byte("not found"), []byte("no match"), []byte("did not "), []byte("could not"), []byte("cannot"),
	[]byte("fail"), []byte("error"), []byte("invalid"), []byte("reject"), []byte("unchanged"), []byte("no changes"), []byte("already exists"), []byte("not been")}

// Rejects reports whether a result says that a call changed nothing.
func Rejects(result []byte) bool {
	result = bytes.ToLower(result[:min(len(result), 512)])
	return slices.ContainsFunc(rejecting, func(words []byte) bool { return bytes.Contains(result, words) })
}

// Acknowledge takes from a tool.result what the tool returned when it only acknowledges calls:
// two such results are alike whatever was done, so only equal calls are evidence of a loop.
// Errors stay as they are, and so do results that rejected the call.
func Acknowledge(e *events.Event, rejected bool) {
	switch {
	case e.Status != events.StatusOK:
	case asking[e.Tool.Name]:
		e.Content, e.Sim = events.Hash{}, events.Fingerprint{}
	case !rejected && (acknowledging[e.Tool.Name] || e.Tool.ResultSize <= shortAcknowledgement && events.NamedEffect(e.Tool.Name) == events.EffectChanged):
		e.Content, e.Sim = events.DoneContent, events.Fingerprint{}
	}
}
