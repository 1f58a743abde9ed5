package standing

import "testing"

// TestFillOfOne holds that a text counts one thing in the singular, and leaves other numbers and words as they are.
func TestFillOfOne(t *testing.T) {
	for _, x := range [][3]string{
		{"1", "{n} tool calls in the flow", "1 tool call in the flow"},
		{"2", "{n} tool calls in the flow", "2 tool calls in the flow"},
		{"1", "{n} calls between agents in a row", "1 call between agents in a row"},
		{"1", "{n} agents or sessions in the flow", "1 agent or session in the flow"},
		{"1", "{n} flows of the tree are at work", "1 flow of the tree is at work"},
		{"1", "{n} turns", "1 turn"},
		{"1", "made {n} times in {n} callsigns", "made 1 time in 1 callsigns"},
		{"1", "{n} s old, and 20 calls", "1 s old, and 20 calls"},
		{"1", "{n} points for 2 calls", "1 point for 2 calls"},
		{"1", "limit {limit} calls", "limit 1 calls"},
	} {
		if got := Fill(x[1], func(string) string { return x[0] }); got != x[2] {
			t.Errorf("%q with %s: %q, want %q", x[1], x[0], got, x[2])
		}
	}
}
