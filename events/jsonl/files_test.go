package jsonl

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.jsonl", "a.jsonl", "a.jsonl.1", "a.jsonl.2.gz", ".hidden", "sub/c.jsonl", "sub/.git/d.jsonl", "sub/deep/e.log", "f.2026", "g", "h~", "i.bak"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, "1\n")
	}
	f := func(pattern string, want ...string) {
		t.Helper()
		got, _, err := Files(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			want[i] = filepath.Join(dir, want[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
	f("", "a.jsonl", "b.jsonl", "g", "sub/c.jsonl", "sub/deep/e.log")
	f("*.jsonl*", "a.jsonl", "b.jsonl")
	f("s*", "sub/c.jsonl", "sub/deep/e.log")
	f("*/*.jsonl", "sub/c.jsonl")
	f("none*")
	_, rotated, err := Files(dir)
	for i := range rotated {
		rotated[i] = filepath.Base(rotated[i])
	}
	if want := []string{"a.jsonl.1", "a.jsonl.2.gz", "f.2026", "h~", "i.bak"}; err != nil || !slices.Equal(rotated, want) {
		t.Errorf("rotated are %q, %v, want %q", rotated, err, want)
	}
	if _, _, err := Files("[" + dir); err == nil {
		t.Error("a broken pattern was taken")
	}
	for path, want := range map[string]bool{"-": false, dir: true, filepath.Join(dir, "a.jsonl"): false, filepath.Join(dir, "*.log"): true, filepath.Join(dir, "later.jsonl"): false} {
		if got := IsPattern(path); got != want {
			t.Errorf("%s: pattern %v", path, got)
		}
	}
}
