package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestQuoting(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		for cut := range len(in) + 1 { // however it is written
			var out bytes.Buffer
			v := quoting{out: &out}
			for _, p := range []string{in[:cut], in[cut:]} {
				if n, err := v.Write([]byte(p)); err != nil || n != len(p) {
					t.Fatalf("%q: %d, %v", p, n, err)
				}
			}
			v.end()
			if got := out.String(); got != want && cut == 0 {
				t.Errorf("%q is shown as %q, want %q", in, got, want)
			}
			if strings.ContainsAny(out.String(), "\x07\u009b\u202e\x7f") {
				t.Errorf("%q, cut at %d, is shown as %q", in, cut, out.String())
			}
		}
	}
	f("plain, Ümläute und 漢字\n\tmore", "plain, Ümläute und 漢字\n\tmore")
	f(own+"\x1b[32mgreen"+own+"\x1b[0m", "\x1b[32mgreen\x1b[0m")
	f("\x1b[32mgreen\x1b[0m", `\u001b[32mgreen\u001b[0m`)
	f("all is well\r\x1b[Kforged", `all is well\u000d\u001b[Kforged`)
	f("\x1b]0;title\x07", `\u001b]0;title\u0007`)
	f("\x1b[2Jgone", `\u001b[2Jgone`)
	f("\u009b31mred", `\u009b31mred`)
	f("\x9b31m", `\u009b31m`)
	f("a\x7fb\rc\x00", `a\u007fb\u000dc\u0000`)
	f("\u202egnp.exe", `\u202egnp.exe`)
	f("cut off \xe6\xbc", `cut off \u00e6\u00bc`)

	var out bytes.Buffer
	if err := json.NewEncoder(&quoting{out: &out}).Encode("\u009b\u202e\x7f"); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != "\u009b\u202e\x7f" {
		t.Errorf("as JSON %s means %q, %v", out.String(), back, err)
	}
	if got := quoted("a\x1b[31mb\nc"); got != `a\u001b[31mb\u000ac` {
		t.Errorf("a cell is shown as %q", got)
	}
}

// TestForgedLines prints texts of others in the ways in which commands print.
func TestForgedLines(t *testing.T) {
	const forged = "all is well\r\x1b[K\x1b[0m\x1b[31m\nFAKE LINE"
	var b bytes.Buffer
	out := &quoting{out: &b}
	env := Env{Out: out, Err: out, OutTerminal: true, Log: slog.New(slog.DiscardHandler)}
	type text string
	_, _ = Fprintf(out, "%s %v %q\n", text(forged), errors.New(forged), forged)
	_, _ = Fprintf(out, "%s\n", env.Painted(forged, Good))
	env.Notice("%s", forged)
	table := env.Table("NAME")
	if err := errors.Join(table.Row(Cell{Text: forged, Paint: Bad}), table.Flush()); err != nil {
		t.Fatal(err)
	}
	env.report("weir", Failure("read %s", forged).Advise("look at %s", forged))
	shown := b.String()
	// Only what Painted and Table have put there.
	for _, s := range []string{"\x1b[31m", "\x1b[32m", "\x1b[2m"} {
		if n := strings.Count(shown, s); n != 1 {
			t.Errorf("%q is there %d times, want once, in %q", s, n, shown)
		}
	}
	if strings.Contains(shown, "\nFAKE") || strings.Contains(shown, "\r") || strings.Contains(shown, own) {
		t.Errorf("a line is forged: %q", shown)
	}
}
