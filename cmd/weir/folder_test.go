package main

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
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
	small, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	write("small.jsonl.zst", string(small.EncodeAll([]byte(event("z")), nil)))
	for name, to := range map[string]string{"gone.jsonl": "nowhere", "around": "."} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}

	code, out, told := weir(t, "", "events", "convert", dir)
	if code != 0 || !strings.Contains(out, `"id":"a"`) || !strings.Contains(out, `"id":"b"`) || !strings.Contains(out, `"id":"z"`) || strings.Contains(out, `"id":"c"`) {
		t.Errorf("exit code %d\n%s%s", code, out, told)
	}
	for _, part := range []string{"notes.txt is skipped", "gone.jsonl is skipped: a link to nothing", "around is skipped: a link to a folder", "deep/er/b.jsonl as canonical (detected)", "wrapped.jsonl as claudecode in CloudEvents (structured) (detected)"} {
		if !strings.Contains(told, part) {
			t.Errorf("no %q in\n%s", part, told)
		}
	}
	_, want, _ := weir(t, string(plain), "events", "convert", "-")
	_, got, told := weir(t, "", "events", "convert", filepath.Join(dir, "wrapped.jsonl"))
	if got != want || !json.Valid([]byte(strings.SplitN(got, "\n", 2)[0])) {
		t.Errorf("from envelopes\n%s%s\nwant\n%s", got, told, want)
	}
	linked := t.TempDir() // a folder of links to files
	if err := os.Symlink(filepath.Join(dir, "a.jsonl"), filepath.Join(linked, "link.jsonl")); err != nil {
		t.Fatal(err)
	}
	if code, out, told = weir(t, "", "events", "convert", linked); code != 0 || !strings.Contains(out, `"id":"a"`) {
		t.Errorf("a link to a file: exit code %d\n%s%s", code, out, told)
	}
	empty := t.TempDir()
	if code, _, told = weir(t, "", "replay", empty); code == 0 || !strings.Contains(told, "no file in") {
		t.Errorf("an empty folder: exit code %d, %s", code, told)
	}
}

// TestUnreadable holds that one file that cannot be read does not end a batch: it is named, the
// others are read, and the exit code says so.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	event := func(id string) string {
		return `{"id":"` + id + `","kind":"agent.call","time":"2026-11-20T14:00:00.000Z","correlation_id":"f","to":{"agent":"b"}}` + "\n"
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 20000 {
		_, _ = z.Write([]byte(event(rand.Text())))
	}
	_ = z.Close()
	a, b := write("a.jsonl", event("a")), write("z.jsonl", event("z"))
	cut := write("cut.jsonl.gz", packed.String()[:packed.Len()/2])
	broken := write("broken.gz", "\x1f\x8bxxxxxxxxxxxx")
	empty := write("empty.jsonl", "\n")
	f := func(files []string, exit int, parts ...string) {
		t.Helper()
		code, out, told := weir(t, "", append([]string{"events", "convert"}, files...)...)
		if code != exit || exit == 3 && (!strings.Contains(out, `"id":"a"`) || !strings.Contains(out, `"id":"z"`)) {
			t.Errorf("%v: exit code %d\n%.400s", files, code, told)
		}
		for _, part := range parts {
			if !strings.Contains(told, part) {
				t.Errorf("%v: no %q in\n%.400s", files, part, told)
			}
		}
	}
	f([]string{a, cut, b}, 3, cut, "1 file could not be read")
	f([]string{a, broken, b}, 3, broken, "1 file could not be read")
	f([]string{a, filepath.Join(dir, "away.jsonl"), b}, 3, "away.jsonl", "1 file could not be read")
	f([]string{dir}, 3, cut, broken, "2 files could not be read", empty+" is empty")
	f([]string{cut}, 1, cut)
	f([]string{broken}, 1, broken)
	f([]string{empty}, 1, "is empty")
	f([]string{a, b}, 0)

	for i := range 12 {
		write(fmt.Sprintf("note%02d.txt", i), "nothing of note")
	}
	f([]string{dir}, 3, "12 files are skipped: unknown format: "+filepath.Join(dir, "note00.txt"), " and 9 more")
}

// TestMisnamed warns of a name that is ignored and was probably meant.
func TestMisnamed(t *testing.T) {
	in := `{"id":"1","kind":"agent.call","time":"2026-11-20T14:00:00.000Z","correlation_id":"f","form":{"agent":"a"},"to":{"agent":"b"}}` + "\n"
	wrapped := `{"specversion":"1.0","id":"1","source":"/bus","type":"weir.agent.call.v1","time":"2026-11-20T14:00:00.000Z","data":{"correlation_id":"f","form":{"agent":"a"},"to":{"agent":"b"}}}` + "\n"
	for _, in := range []string{in, wrapped} {
		for _, command := range [][]string{{"events", "validate"}, {"events", "convert"}, {"replay"}} {
			code, _, told := weir(t, in, append(command, "-")...)
			if code != 0 || !strings.Contains(told, "-:1: form is not a known name and is ignored; is from meant?") {
				t.Errorf("%v: exit code %d, %s", command, code, told)
			}
		}
	}
	whole := `{"id":"1","kind":"tool.call","time":"2026-11-20T14:00:00.000Z","correlation_id":"f","from":{"agent":"a"},"tool":{"name":"x","args_hash":"xxh64:0123456789abcdef"},"sesion_id":"s"}` + "\n"
	if _, _, told := weir(t, whole, "replay", "-"); strings.Contains(told, "known name") {
		t.Errorf("of an event that lacks nothing: %s", told)
	}
}
