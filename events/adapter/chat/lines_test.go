package chat

import (
	"strings"
	"testing"
)

// TestTagCall holds that a call is found behind tags that end nowhere, in linear time.
func TestTagCall(t *testing.T) {
	const want = `{"path":"a"}`
	call := "<read_file><path>a</path></read_file>"
	for name, before := range map[string]string{
		"no tags":              "Now:\n",
		"tags that do not end": strings.Repeat("<", 4<<20),
		"calls without an end": strings.Repeat("<execute_command>", 1<<18),
	} {
		if tool, args := tagCall([]byte(before + call)); tool != "read_file" || string(args) != want {
			t.Errorf("%s: %s %s", name, tool, args)
		}
		if tool, _ := tagCall([]byte(before)); tool != "" {
			t.Errorf("%s: %s", name, tool)
		}
	}
}
