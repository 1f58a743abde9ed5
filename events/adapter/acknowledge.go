package adapter

import "weir/events"

// acknowledging are tools of coding agents that answer every change in the same words, such as
// "The file has been updated": the answer says that the call was made and nothing of what it
// changed. So do those that ask a person.
// Names in capitals are those of Claude Code.
var acknowledging = map[string]bool{
	"Edit": true, "MultiEdit": true, "Write": true, "NotebookEdit": true, "TodoWrite": true, "TaskCreate": true, "TaskUpdate": true,
	"EnterPlanMode": true, "ExitPlanMode": true, "SendMessage": true,
	"apply_patch": true, "edit": true, "write": true, "multiedit": true, "patch": true, "todowrite": true, "edit_file": true, "write_file": true,
	"create_file": true, "insert_edit_into_file": true, "replace": true, "replace_in_file": true, "search_replace": true, "str_replace": true,
	"write_to_file": true, "write_todos": true, "update_plan": true, "update_todo_list": true, "report_intent": true, "save_memory": true,
	// What a person answers: that it is yes once more is no sign of a loop.
	"AskUserQuestion": true, "ask_user": true, "ask_followup_question": true, "request_user_input": true,
}

// Acknowledge takes from a tool.result what it says, when its tool only acknowledges calls: that
// two such results are the same is no evidence that the calls were. Errors are left as they are.
func Acknowledge(e *events.Event) {
	if e.Status == events.StatusOK && acknowledging[e.Tool.Name] {
		e.Content, e.Sim = events.Hash{}, events.Fingerprint{}
	}
}
