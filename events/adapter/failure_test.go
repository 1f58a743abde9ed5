package adapter_test

import (
	"bytes"
	"testing"

	"weir/events/adapter"
)

// TestFailed holds which results say of themselves that a call failed.
func TestFailed(t *testing.T) {
	for result, want := range map[string]string{
		`{"status": "error", "error_message": "403 Forbidden"}`:              "403 Forbidden", // as ADK's documentation asks for
		`{"success": false, "error": "no such order"}`:                       "no such order",
		`{"ok": false, "data": {"a": [1]}, "message": "try later"}`:          "try later",
		`{"error_message": "", "error": "no such order", "status":"failed"}`: "no such order",
		// A status is that of what the tool looked at, unless it says what went wrong.
		`{"status": "error"}`:                              "",
		`{"status": "failed", "build": 77}`:                "",
		`{"status": "success", "message": "deployed"}`:     "",
		`{"success": true, "error": "none"}`:               "",
		`{"error": "the text of a page about errors"}`:     "",
		`{"result": {"status": "error", "error": "deep"}}`: "",
		`[{"status": "error", "error": "one of many"}]`:    "",
		`{"status": "error", "error": "cut o`:              "",
		`status: error, message: no`:                       "",
		``:                                                 "",
	} {
		why, failed := adapter.Failed([]byte(result))
		if string(why) != want || failed != (want != "") {
			t.Errorf("%s: %q, %t; want %q", result, why, failed, want)
		}
	}
}

// TestToolSaysError reads a run of Google ADK in which a tool answers a model with
// {"status": "error", ...}, as ADK's documentation asks for, each time for other arguments.
func TestToolSaysError(t *testing.T) {
	got := hear(t, bytes.NewReader(unpacked(t, "../errors/google_adk.events.jsonl")), adapter.Options{})
	if order, _ := strictest(got.events); order != "deny repeated_error" || len(got.tools) != 14 {
		t.Errorf("%d calls, %q", len(got.tools), order)
	}
}
