package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/events"
)

// TestAhead reads many files by one, by two and by seven at a time: events, their order and
// what could not be read are the same.
func TestAhead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 40 {
		var claude, codex strings.Builder
		// Every other file goes on with the session of the one before, and with its tools.
		session := n / 2
		for i := range 30 {
			at := fmt.Sprintf("2026-11-20T14:%02d:%02dZ", n, i)
			use := fmt.Sprintf("toolu_%d_%d", session, i)
			fmt.Fprintf(&claude, `{"type":"assistant","sessionId":"s%d","uuid":"a%d-%d","parentUuid":null,"timestamp":%q,"message":{"id":"m%d-%d","model":"m","content":[{"type":"tool_use","id":%q,"name":"Bash","input":{"command":"ls %d"}}],"usage":{"input_tokens":7}}}`+"\n", session, n, i, at, n, i, use, i)
			if i%7 == 3 {
				fmt.Fprintf(&claude, `{"type":"user","sessionId":"%d-%d`+"\n", n, i)
			}
			use = fmt.Sprintf("toolu_%d_%d", session, 29-i)
			fmt.Fprintf(&claude, `{"type":"user","sessionId":"s%d","uuid":"u%d-%d","parentUuid":"a","timestamp":%q,"message":{"content":[{"type":"tool_result","tool_use_id":%q,"content":"file %d %s"}]}}`+"\n", session, n, i, at, use, i, strings.Repeat("x", 500*n))
			if i == 0 {
				fmt.Fprintf(&codex, `{"timestamp":%q,"type":"session_meta","payload":{"id":"c%d"}}`+"\n", at, n)
			}
			fmt.Fprintf(&codex, `{"timestamp":%q,"type":"response_item","payload":{"type":"function_call","name":"shell","call_id":"c%d-%d","arguments":"{}"}}`+"\n", at, n, i)
		}
		write(fmt.Sprintf("%02d-claude.jsonl", n), claude.String())
		write(fmt.Sprintf("%02d-codex.jsonl", n), codex.String())
		// As published sessions are, with one word for many ids.
		write(fmt.Sprintf("%02d-opencode.jsonl", n), fmt.Sprintf(`{"info":{"id":"ses_%d","slug":"a","projectID":"p","directory":"d"},"messages":[{"info":{"id":"m%d","role":"assistant","time":{"created":1772820000000}},"parts":[{"type":"tool","callID":"REDACTED","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"x","time":{"start":1772820000000,"end":1772820000001}}}]}]}`+"\n", n, n))
		write(fmt.Sprintf("%02d-own.jsonl", n), fmt.Sprintf(`{"id":"o%d","time":"2026-11-20T14:00:00Z","kind":"flow.start","correlation_id":"f"}`+"\n", n))
	}
	read := func(workers int) (out []string) {
		files, err := Expand([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		var inputs []*Input
		for _, f := range files {
			inputs = append(inputs, rested(t, f.Path))
		}
		r := &Reader{Inputs: inputs, Workers: workers, Window: 300, Tick: func(int64, float64) {},
			Event: func(ev *events.Event) error { out = append(out, string(ev.AppendJSON(nil))); return nil },
			Bad: func(b BadRecord) {
				out = append(out, fmt.Sprint(filepath.Base(b.Source), b.Line, b.Reason, string(b.Raw)))
			}}
		if err := r.Read(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := read(1)
	if len(want) < 3000 {
		t.Fatalf("only %d events and faults", len(want))
	}
	for _, workers := range []int{2, 7} {
		got := read(workers)
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("%d workers: the %d. is\n%s\nwant\n%s", workers, i, got[i], want[i])
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d workers: %d events and faults, want %d", workers, len(got), len(want))
		}
	}
}

// TestAheadStops ends with the error of who takes the events, however much is left to read.
func TestAheadStops(t *testing.T) {
	dir := t.TempDir()
	var inputs []*Input
	for n := range 100 {
		name := filepath.Join(dir, fmt.Sprint(n))
		text := fmt.Sprintf(`{"timestamp":"2026-11-20T14:00:00Z","type":"session_meta","payload":{"id":"c%d"}}`+"\n", n)
		for i := range 50 {
			text += fmt.Sprintf(`{"timestamp":"2026-11-20T14:00:00Z","type":"response_item","payload":{"type":"function_call","name":"shell","call_id":"c%d-%d","arguments":"{}"}}`+"\n", n, i)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, rested(t, name))
	}
	enough := fmt.Errorf("enough")
	r := &Reader{Inputs: inputs, Workers: 3, Window: 10, Bad: func(BadRecord) {}, Event: func(*events.Event) error { return enough }}
	if err := r.Read(); err != enough {
		t.Fatalf("the error is %v, want %v", err, enough)
	}
}

// rested is an input whose format is known, and that waits for its turn.
func rested(t *testing.T, path string) *Input {
	t.Helper()
	in, err := Open(path)
	if err == nil {
		err = in.Recognize("")
	}
	if err != nil {
		t.Fatal(err)
	}
	in.Rest()
	return in
}
