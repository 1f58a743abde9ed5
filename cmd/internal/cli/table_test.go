package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTablesFitTheTerminal prints rows that are wider than the terminal: long texts are cut first,
// then columns are left out, and numbers and heads stay whole. Without a terminal all of it is
// printed.
func TestTablesFitTheTerminal(t *testing.T) {
	rows := [][]Cell{
		{{Text: strings.Repeat("flow", 20)}, {Text: "deny"}, {Text: "max_total_calls_exceeded"}, {Text: "1,234,567", Right: true}, {Text: strings.Repeat("because ", 20)}},
		{{Text: "short"}, {Text: "warn"}, {Text: "self_call"}, {Text: "1", Right: true}, {Text: "why"}},
	}
	print := func(width int) []string {
		t.Helper()
		var b strings.Builder
		table := (&Env{Out: &b, Width: width}).Table("FLOW", "ACTION", "REASON", "COUNT", "MESSAGE").Secondary("REASON")
		for _, r := range rows {
			if err := table.Row(append([]Cell(nil), r...)...); err != nil {
				t.Fatal(err)
			}
		}
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	}
	for _, width := range []int{200, 120, 80, 60} {
		for _, line := range print(width) {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d characters for %d: %s", n, width, line)
			}
		}
	}
	wide, narrow := print(120), print(60)
	if !strings.Contains(wide[0], "REASON") || !strings.Contains(wide[1], "max_total_calls_exceeded") || !strings.Contains(wide[1], "…") {
		t.Errorf("at 120\n%s", strings.Join(wide, "\n"))
	}
	if strings.Contains(narrow[0], "REASON") || strings.Contains(narrow[1], "max_total") || !strings.Contains(narrow[1], "1,234,567") || !strings.Contains(narrow[0], "ACTION") {
		t.Errorf("at 60\n%s", strings.Join(narrow, "\n"))
	}
	if all := print(0); !strings.Contains(all[1], strings.Repeat("flow", 20)) || !strings.Contains(all[1], strings.Repeat("because ", 19)) {
		t.Errorf("without a terminal\n%s", strings.Join(all, "\n"))
	}
}
