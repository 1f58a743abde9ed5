package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFolder converts all that is in a folder, and what is wrapped in CloudEvents.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	event := func(id string) string {
		return `{"id":"` + id + `","kind":"agent.call","time":"2026-11-20T14:00:00.000Z","correlation_id":"f","to":{"agent":"b"}}` + "\n"
	}
	write("a.jsonl", event("a"))
	write("deep/er/b.jsonl", event("b"))
	write("notes.txt", "nothing of note\n")
	write(".hidden/c.jsonl", event("c"))
	plain, err := os.ReadFile(filepath.Join("..", "..", "events", "adapter", "testdata", "golden", "claudecode", "mixed.in"))
	if err != nil {
		t.Fatal(err)
	}
	var wrapped []byte
	for line := range bytes.Lines(plain) {
		wrapped = append(append(append(wrapped, `{"specversion":"1.0","id":"1","source":"/x","type":"com.example.line","data":`...), bytes.TrimSpace(line)...), "}\n"...)
	}
	write("wrapped.jsonl", string(wrapped))

	code, out, told := weir(t, "", "events", "convert", dir)
	if code != 0 || !strings.Contains(out, `"id":"a"`) || !strings.Contains(out, `"id":"b"`) || strings.Contains(out, `"id":"c"`) {
		t.Errorf("exit code %d\n%s%s", code, out, told)
	}
	for _, part := range []string{"notes.txt is passed over", "deep/er/b.jsonl as canonical (detected)", "wrapped.jsonl as claudecode in CloudEvents (structured) (detected)"} {
		if !strings.Contains(told, part) {
			t.Errorf("no %q in\n%s", part, told)
		}
	}
	_, want, _ := weir(t, string(plain), "events", "convert", "-")
	_, got, told := weir(t, "", "events", "convert", filepath.Join(dir, "wrapped.jsonl"))
	if got != want || !json.Valid([]byte(strings.SplitN(got, "\n", 2)[0])) {
		t.Errorf("from envelopes\n%s%s\nwant\n%s", got, told, want)
	}
	empty := t.TempDir()
	if code, _, told = weir(t, "", "replay", empty); code == 0 || !strings.Contains(told, "no file in") {
		t.Errorf("an empty folder: exit code %d, %s", code, told)
	}
}
