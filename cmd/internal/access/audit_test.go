package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAuditRemovedWhileInUse holds that a person can read each order in the audit log, also after the
// file was removed. A file that was renamed is still written.
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

// TestRefusalsAreBounded has strangers give orders for an hour: the file stays small, the refusals of
// others are still written, and a file after a rotation takes refusals again.
func TestRefusalsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	refuse := func(second int, principal string) int64 {
		t.Helper()
		r := Record{Time: time.Unix(int64(second), 0).UTC(), Stage: Refused, Principal: principal, Path: strings.Repeat("\u202e", longestText)}
		var many []Record
		for range refusals {
			many = append(many, r)
		}
		if err := a.Write(many...); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	const hour = 60 * 60
	full := int64(0)
	for second := range hour {
		full = refuse(1+second, "")
	}
	if full > refusedBytes+8<<10 {
		t.Errorf("the file has %d bytes after an hour, want about %d", full, refusedBytes)
	}
	if refuse(hour+1, "ann") == full {
		t.Error("a refusal of a known principal is left out with those of strangers")
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := a.Reopen(); err != nil {
		t.Fatal(err)
	}
	if refuse(hour+2, "") == 0 {
		t.Error("the file after a rotation takes no refusals")
	}
}

// TestAuditAtTheEpoch holds that a machine whose clock begins at 1970 writes refusals like others.
func TestAuditAtTheEpoch(t *testing.T) {
	a, err := OpenAudit(filepath.Join(t.TempDir(), "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Write(Record{Time: time.Unix(0, 0).UTC(), Stage: Refused, Principal: "ann"}); err != nil {
		t.Error(err)
	}
}

// TestAuditToAFullPipe holds that orders are refused while nothing is read from the pipe that they
// are written to, and that a reader gets whole lines after the one that broke off.
func TestAuditToAFullPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	order := Record{Time: time.Unix(1, 0).UTC(), Stage: Asked, Principal: "ann", Reason: strings.Repeat("x", 300)}
	written := 0
	for ; err == nil; written++ {
		if written > 1000 {
			t.Fatal("a pipe of 64 KiB took more than 300 KB")
		}
		err = a.Write(order)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := io.CopyN(io.Discard, reader, 60_000); err != nil {
		t.Fatal(err)
	}
	order.Flow = "after"
	if err := a.Write(order); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(rest), []byte("\n"))
	var last Record
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Flow != "after" {
		t.Errorf("the last line is %q: %v", lines[len(lines)-1], err)
	}
}
