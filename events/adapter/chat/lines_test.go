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

// TestTextsGrow holds that texts are added to a message without a copy of it for each, and that none is written over.
func TestTextsGrow(t *testing.T) {
	const many = 1000
	all := []byte(strings.Repeat("x", many))
	allocs := testing.AllocsPerRun(1, func() {
		var n node
		for i := range all {
			n.add(all[i : i+1])
		}
		if len(n.text) != 2*many-1 || strings.Trim(string(n.text), "x\n") != "" {
			t.Errorf("%d bytes: %.20s", len(n.text), n.text)
		}
	})
	if allocs > many/10 {
		t.Errorf("%v allocations for %d texts", allocs, many)
	}
	if strings.Trim(string(all), "x") != "" {
		t.Error("what was added is written over")
	}
}
