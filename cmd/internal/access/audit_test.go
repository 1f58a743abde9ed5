package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAuditRemovedWhileInUse holds that an order is told where somebody can read it, also
// after the file was removed, and that one that was renamed is written on.
func TestAuditRemovedWhileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	tell := func(flow string) {
		t.Helper()
		if err := a.Write(Record{Time: time.Unix(0, 0).UTC(), Stage: Asked, Principal: "ann", Flow: flow}); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(path string, want ...string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || strings.Count(string(got), "\n") != len(want) {
			t.Fatalf("%s has %q, %v; want %d lines", path, got, err, len(want))
		}
		for _, w := range want {
			if !strings.Contains(string(got), w) {
				t.Errorf("%s has %q, not %s", path, got, w)
			}
		}
	}
	tell("one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	tell("two")
	holds(path, `"stage":"begun"`, `"flow":"two"`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	tell("three")
	holds(path+".1", `"stage":"begun"`, `"flow":"two"`, `"flow":"three"`)
}
