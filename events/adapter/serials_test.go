package adapter_test

import (
	"bytes"
	"testing"

	"weir/events/adapter"
)

// TestWithoutSerials takes numbers of processes and shells from results, and nothing else.
func TestWithoutSerials(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		in := []byte(text)
		if got := string(adapter.WithoutSerials(in)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if string(in) != text {
			t.Errorf("%q was changed to %q", text, in)
		}
	}
	f("", "")
	f("Output: hi\nProcess Group PGID: 17676", "Output: hi\nProcess Group PGID: ")
	f("Output: hi\nProcess Group PGID: 17676\n</x>", "Output: hi\nProcess Group PGID: \n</x>")
	f("hi\n<shellId: 12 completed with exit code 0>", "hi\n<shellId: completed with exit code 0>")
	f("Background PIDs: 1, 22, 333\nExit Code: 7", "Background PIDs: \nExit Code: 7")
	f("<shellId: a1>", "<shellId: a1>")
	f("<shellId: 1 x> <shellId: 2 x>", "<shellId: x> <shellId: x>")
	f("PGID: 17676", "PGID: 17676")
}

// TestManySerials holds that a text is not copied for each number that is taken out.
func TestManySerials(t *testing.T) {
	const many = 1000
	text := bytes.Repeat([]byte("<shellId: 1 x>\n"), many)
	allocs := testing.AllocsPerRun(1, func() {
		if got := adapter.WithoutSerials(text); len(got) != len(text)-2*many {
			t.Errorf("%d bytes of %d", len(got), len(text))
		}
	})
	if allocs > many/10 {
		t.Errorf("%v allocations for %d numbers", allocs, many)
	}
}
