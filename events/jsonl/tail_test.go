package jsonl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// atOnce makes no waiting: every wait is over when it begins.
func atOnce(time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Time{}
	return c
}

type reading struct {
	t    *testing.T
	tail *Tail
	got  []string
	last Position
}

func follow(t *testing.T, path string, o Options) *reading {
	t.Helper()
	o.After = atOnce
	r := &reading{t: t, tail: Follow(path, o), last: o.From}
	t.Cleanup(func() {
		if err := r.tail.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// read takes what there is, looking so often that a rotation is noticed.
func (r *reading) read() {
	r.t.Helper()
	for range 20 {
		for {
			rec, ok := r.tail.Next()
			if !ok {
				break
			}
			text := string(rec.Bytes)
			if rec.Cut {
				text = fmt.Sprintf("cut:%d", len(rec.Bytes))
			}
			r.got = append(r.got, text)
			r.last = rec.Next
		}
		if err := r.tail.Fill(context.Background()); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *reading) want(lines ...string) {
	r.t.Helper()
	r.read()
	if !slices.Equal(r.got, lines) {
		r.t.Fatalf("got  %q\nwant %q", r.got, lines)
	}
	r.got = nil
}

func write(t *testing.T, path string, flag int, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	write(t, path, os.O_APPEND, text)
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestGrowing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	r := follow(t, path, Options{})
	r.want()
	appendTo(t, path, "\xef\xbb\xbf{\"a\":1}\r\n\n  \n{\"b\"")
	r.want(`{"a":1}`)
	appendTo(t, path, ":2}\n{}\n")
	r.want(`{"b":2}`, `{}`)
}

func TestRenamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.jsonl")
	appendTo(t, path, "1\n2\n")
	r := follow(t, path, Options{})
	r.want("1", "2")
	appendTo(t, path, "3\n")
	rename(t, path, path+".1")
	appendTo(t, path+".1", "4\nhalf")
	r.want("3", "4")
	appendTo(t, path, "5\n")
	r.want("half", "5")
}

func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.jsonl")
	appendTo(t, path, "first line 1\n2\n")
	r := follow(t, path, Options{})
	r.want("first line 1", "2")
	// A rotation by copy: lines that came between the last look and the copy are in the copy alone.
	appendTo(t, path, "3\n")
	copyFile(t, path, path+".1")
	write(t, path, os.O_TRUNC, "4\n")
	r.want("3", "4")
	// Cut short and grown past the place before anyone looks.
	write(t, path, os.O_TRUNC, "another first line\n5\n6\n")
	r.want("another first line", "5", "6")
	// Cut short without a copy, in the middle of a line.
	appendTo(t, path, "half a line")
	r.want()
	write(t, path, os.O_TRUNC, "7\n")
	r.want("half a line", "7")
	// A writer that keeps its offset leaves a hole.
	write(t, path, os.O_TRUNC, "\x00\x00\x00\x00\x008\n")
	r.want("8")
}

func TestResume(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.jsonl")
	appendTo(t, path, "1\n2\n3\n")
	r := follow(t, path, Options{})
	r.want("1", "2", "3")
	place := r.last
	resumed := func(want ...string) {
		t.Helper()
		stored, err := json.Marshal(place)
		if err != nil {
			t.Fatal(err)
		}
		var from Position
		if err := json.Unmarshal(stored, &from); err != nil {
			t.Fatal(err)
		}
		r := follow(t, path, Options{From: from})
		r.want(want...)
		place = r.last
	}
	resumed()
	appendTo(t, path, "4\n")
	resumed("4")
	rewound := follow(t, path, Options{From: place, Rewind: true})
	appendTo(t, path, "new\n")
	if err := rewound.tail.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Record{{Bytes: []byte("1"), Old: true}, {Bytes: []byte("2"), Old: true}, {Bytes: []byte("3"), Old: true},
		{Bytes: []byte("4"), Old: true}, {Bytes: []byte("new")}} {
		if r, ok := rewound.tail.Next(); !ok || string(r.Bytes) != string(want.Bytes) || r.Old != want.Old {
			t.Fatalf("got %q old %v, want %q old %v", r.Bytes, r.Old, want.Bytes, want.Old)
		}
	}
	resumed("new")
	// Renamed while it was not followed.
	appendTo(t, path, "5\n")
	rename(t, path, filepath.Join(dir, "a-2026-11-20.jsonl"))
	appendTo(t, path, "6\n")
	resumed("5", "6")
	// Copied and cut short while it was not followed.
	appendTo(t, path, "7\n")
	copyFile(t, path, path+".1")
	write(t, path, os.O_TRUNC, "8\n")
	resumed("7", "8")
	// Another file altogether.
	write(t, path, os.O_TRUNC, "x\ny\nz\n")
	resumed("x", "y", "z")
}

// TestResumeAnywhere stops and starts at random while the file is written and
// rotated, once at most between two looks.
func TestResumeAnywhere(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		path := filepath.Join(t.TempDir(), "a.jsonl")
		var want, got []string
		var from Position
		look := func() {
			reader := follow(t, path, Options{From: from})
			reader.read()
			got, from = append(got, reader.got...), reader.last
		}
		rotated := true // not before the first look
		for i := range 100 {
			line := fmt.Sprintf(`{"n":%d,"pad":"%s"}`, i, strings.Repeat("x", r.IntN(300)))
			want = append(want, line)
			appendTo(t, path, line+"\n")
			switch x := r.IntN(10); {
			case x == 0 && !rotated:
				rename(t, path, fmt.Sprintf("%s.%d", path, i))
				appendTo(t, path, "")
				rotated = true
			case x == 1 && !rotated:
				copyFile(t, path, fmt.Sprintf("%s.%d", path, i))
				write(t, path, os.O_TRUNC, "")
				rotated = true
			case x < 5:
				look()
				rotated = false
			}
		}
		look()
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d records of %d, or others", seed, len(got), len(want))
		}
	}
}

func TestDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	appendTo(t, path, "{\"one\": 1}\n{\n  \"two\": \"}]\\\"\",\n  \"list\": [\n    1\n  ]\n}\n{\"half\":\n")
	r := follow(t, path, Options{Documents: true})
	r.want(`{"one": 1}`, "{\n  \"two\": \"}]\\\"\",\n  \"list\": [\n    1\n  ]\n}")
	appendTo(t, path, "  3}\n{ broken [\n{\"next\": 4}\n")
	r.want("{\"half\":\n  3}", "{ broken [", `{"next": 4}`)
}

func TestTooLong(t *testing.T) {
	f := func(documents bool) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "a.jsonl")
		r := follow(t, path, Options{MaxRecord: 1 << 20, Documents: documents})
		appendTo(t, path, "1\n"+strings.Repeat("x", 1<<20+10)+"\n2\n")
		r.want("1", "cut:65536", "2")
		appendTo(t, path, strings.Repeat("x", 3<<20))
		r.want("cut:65536")
		appendTo(t, path, strings.Repeat("x", 1<<20)+"\n3\n")
		r.want("3")
	}
	f(false)
	f(true)
}

func TestPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	tail := Follow(fmt.Sprintf("/dev/fd/%d", reader.Fd()), Options{})
	if _, err := io.WriteString(writer, "1\n2\nlast"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		for {
			r, ok := tail.Next()
			if !ok {
				break
			}
			got = append(got, string(r.Bytes))
		}
		if err := tail.Fill(t.Context()); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"1", "2", "last"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := tail.Fill(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// TestNamedPipe is opened before there is a writer, and again after each.
func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	tail := Follow(path, Options{})
	var got []string
	for i := range 3 {
		wrote := make(chan error, 1)
		go func() { wrote <- os.WriteFile(path, fmt.Appendf(nil, "%d\nhalf %d", i, i), 0) }()
		for len(got) < 2*(i+1) {
			if err := tail.Fill(t.Context()); err != nil {
				t.Fatal(err)
			}
			for r, ok := tail.Next(); ok; r, ok = tail.Next() {
				got = append(got, string(r.Bytes))
			}
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"0", "half 0", "1", "half 1", "2", "half 2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := tail.Close(); err != nil {
		t.Error(err)
	}
}

func TestDirectoryIsRefused(t *testing.T) {
	err := Follow(t.TempDir(), Options{}).Fill(t.Context())
	if err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("got %v", err)
	}
}

func TestWaitIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	never := func(time.Duration) <-chan time.Time { return nil }
	if err := Follow(filepath.Join(t.TempDir(), "none"), Options{After: never}).Fill(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// places is room for one file at a time.
type places struct{ taken, most int64 }

func (p *places) Acquire(_ context.Context, n int64) error {
	p.taken += n
	p.most = max(p.most, p.taken)
	return nil
}

func (p *places) Release(n int64) { p.taken -= n }

// TestHalfRecordsAreNotKept follows files that end in the middle of long records, as many logs of
// one folder may. They take no memory, and are read once they are complete.
func TestHalfRecordsAreNotKept(t *testing.T) {
	room := new(places)
	var tails []*Tail
	fill := func(f *Tail) (records []string) {
		for range 40 {
			if err := f.Fill(t.Context()); err != nil {
				t.Fatal(err)
			}
			for r, ok := f.Next(); ok; r, ok = f.Next() {
				records = append(records, string(r.Bytes))
			}
		}
		return records
	}
	long := strings.Repeat("x", 1<<20)
	paths := make([]string, 3)
	for i := range paths {
		paths[i] = filepath.Join(t.TempDir(), "log")
		appendTo(t, paths[i], "first\n"+long)
		f := Follow(paths[i], Options{Room: room, After: atOnce})
		defer f.Close()
		if got := fill(f); !slices.Equal(got, []string{"first"}) {
			t.Errorf("%d records", len(got))
		}
		tails = append(tails, f)
		if cap(f.mem) > 2*keptBytes || !f.AtEnd() {
			t.Errorf("%d bytes are held of a record that is half there", cap(f.mem))
		}
	}
	if room.taken != 0 || room.most > 4<<20 {
		t.Errorf("%d bytes of room are held, at most %d", room.taken, room.most)
	}
	for i, f := range tails {
		appendTo(t, paths[i], "more")
		if got := fill(f); len(got) != 0 || !f.AtEnd() {
			t.Errorf("%d records without an end", len(got))
		}
		appendTo(t, paths[i], "end\nlast")
		if got := fill(f); len(got) != 1 || got[0] != long+"moreend" {
			t.Errorf("%d records, the first of %d bytes", len(got), len(strings.Join(got, "")))
		}
		// The rest of a renamed file is its last record.
		if err := os.Rename(paths[i], paths[i]+".1"); err != nil {
			t.Fatal(err)
		}
		appendTo(t, paths[i], "other\n")
		if got := fill(f); !slices.Equal(got, []string{"last", "other"}) {
			t.Errorf("after a rename: %q", got)
		}
	}
	// The same of a long one.
	appendTo(t, paths[0], long)
	_ = fill(tails[0])
	if err := os.Rename(paths[0], paths[0]+".2"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, paths[0], "other\n")
	if got := fill(tails[0]); len(got) != 2 || got[0] != long || got[1] != "other" {
		t.Errorf("after a rename: %d records", len(got))
	}
}

// TestHoles follows a sparse file: what is not there is not read.
func TestHoles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("holes are read here")
	}
	path := filepath.Join(t.TempDir(), "log")
	for _, before := range []string{"first\n", "first\nhalf a record"} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, before)
		if err := os.Truncate(path, 1<<40); err != nil {
			t.Skip("no sparse files here: ", err)
		}
		appendTo(t, path, "\nlast\n")
		f := Follow(path, Options{MaxRecord: 1 << 20})
		defer f.Close()
		var got []string
		for range 100 {
			if err := f.Fill(t.Context()); err != nil {
				t.Fatal(err)
			}
			for r, ok := f.Next(); ok; r, ok = f.Next() {
				if !r.Cut {
					got = append(got, string(r.Bytes))
				}
			}
			if len(got) == 2 {
				break
			}
		}
		if !slices.Equal(got, []string{"first", "last"}) {
			t.Errorf("after %q: %.100q", before, got)
		}
	}
}
