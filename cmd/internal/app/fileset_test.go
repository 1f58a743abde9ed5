package app

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/intake"
)

// readyFiles are the files that /readyz says are followed, with their formats.
func (r *running) readyFiles() (out []string) {
	for _, s := range r.reading.States() {
		out = append(out, filepath.Base(s.Path)+"="+s.Format)
	}
	return out
}

// until lets time pass until something is so.
func (r *running) until(so func() bool) {
	r.t.Helper()
	r.passTime(func() {
		for !so() {
			select {
			case <-r.Done():
				r.t.Fatal(r.Err())
			default:
				runtime.Gosched()
			}
		}
	})
}

func TestFollowFolder(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "logs")
	if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{StateDir: filepath.Join(dir, "state"), Follow: []intake.Follow{{Path: folder}}}
	a, b := filepath.Join(folder, "a.jsonl"), filepath.Join(folder, "sub", "b.jsonl")
	appendFile(t, a, lines(call("a", 0, "x", "y")))
	appendFile(t, filepath.Join(folder, "notes.txt"), "no log at all\n")
	r := begin(t, o)
	r.followed("a", 1)
	// A file that is new, one that is renamed while it is written, and one in its place.
	appendFile(t, b, lines(call("b", 0, "x", "y")))
	r.followed("b", 1)
	appendFile(t, a, lines(call("a", 1, "x", "y")))
	if err := os.Rename(a, a+".1"); err != nil {
		t.Fatal(err)
	}
	appendFile(t, a+".1", lines(call("a", 2, "x", "y")))
	appendFile(t, a, lines(call("a", 3, "x", "y")))
	if got := r.followed("a", 4); !slices.Equal(got, ids("a", 4)) {
		t.Errorf("the journal has %q", got)
	}
	if got, want := r.readyFiles(), []string{"a.jsonl=canonical", "b.jsonl=canonical"}; !slices.Equal(got, want) {
		t.Errorf("followed are %q, want %q", got, want)
	}
	r.stop()
	appendFile(t, b, lines(call("b", 1, "x", "y")))
	c := filepath.Join(folder, "c.jsonl")
	appendFile(t, c, lines(call("c", 0, "x", "y")))
	r = begin(t, o)
	r.followed("c", 1)
	if got := r.followed("b", 2); !slices.Equal(got, ids("b", 2)) {
		t.Errorf("the journal has %q", got)
	}
	if got := r.followed("a", 4); !slices.Equal(got, ids("a", 4)) {
		t.Errorf("after a restart the journal has %q", got)
	}
	// A file that is gone is given up in the end.
	if err := os.Remove(c); err != nil {
		t.Fatal(err)
	}
	r.until(func() bool { return !slices.Contains(r.readyFiles(), "c.jsonl=canonical") })
}

// TestFollowSession has the transcripts of a session and of its child in files of their
// own: the child is the one that the session called.
func TestFollowSession(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join("..", "..", "..", "events", "adapter", "testdata", "golden", "claudecode", "mixed.in")
	text, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	var main, child []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"isSidechain":true`) {
			child = append(child, line)
		} else {
			main = append(main, line)
		}
	}
	if len(main) == 0 || len(child) == 0 {
		t.Skipf("MISSING LINES: %s has %d lines of the session and %d of its children", in, len(main), len(child))
	}
	want := toldBy(t, "claudecode", append(slices.Clone(main), child...)...)
	if err := os.Mkdir(filepath.Join(dir, "agents"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := begin(t, Options{Follow: []intake.Follow{{Path: filepath.Join(dir, "*")}}})
	// The session calls before the child begins.
	appendFile(t, filepath.Join(dir, "s.jsonl"), strings.Join(main, ""))
	r.until(func() bool {
		files := r.reading.States()
		return len(files) == 1 && files[0].Records == int64(len(main))
	})
	appendFile(t, filepath.Join(dir, "agents", "agent-1.jsonl"), strings.Join(child, ""))
	r.until(func() bool { return len(r.received()) >= len(want) })
	for id, line := range r.received() {
		if want[id] == "" {
			t.Errorf("not in one reading of all: %s", line)
		}
	}
}

func TestFollowPattern(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		appendFile(t, filepath.Join(dir, fmt.Sprintf("%d.log", i)), lines(call("f", i, "x", "y")))
	}
	appendFile(t, filepath.Join(dir, "3.txt"), lines(call("f", 3, "x", "y")))
	r := begin(t, Options{Follow: []intake.Follow{{Path: filepath.Join(dir, "*.log"), Format: "canonical"}}})
	if got := r.followed("f", 3); len(got) != 3 {
		t.Errorf("the journal has %q", got)
	}
	if got, want := r.readyFiles(), []string{"0.log=canonical", "1.log=canonical", "2.log=canonical"}; !slices.Equal(got, want) {
		t.Errorf("followed are %q, want %q", got, want)
	}
}

// TestLinksOutOfFolders holds that a user with write access to a followed folder cannot have other
// files read: neither by a link that was there, nor by one that replaces a file or a folder.
func TestLinksOutOfFolders(t *testing.T) {
	const secret = "hunter2"
	for _, pattern := range []string{"", "*.jsonl", "*"} {
		t.Run("pattern "+pattern, func(t *testing.T) {
			dir := t.TempDir()
			folder, outside := filepath.Join(dir, "logs"), filepath.Join(dir, "outside")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(os.MkdirAll(filepath.Join(folder, "sub"), 0o700))
			must(os.Mkdir(outside, 0o700))
			appendFile(t, filepath.Join(outside, "s.jsonl"), strings.Repeat(secret+"\n", 3))
			must(os.Symlink(filepath.Join(outside, "s.jsonl"), filepath.Join(folder, "link.jsonl")))
			swapped := filepath.Join(folder, "swapped.jsonl")
			appendFile(t, swapped, lines(call("a", 0, "x", "y")))
			appendFile(t, filepath.Join(folder, "sub", "s.jsonl"), lines(call("b", 0, "x", "y")))
			r := begin(t, Options{StateDir: filepath.Join(dir, "state"), Follow: []intake.Follow{{Path: filepath.Join(folder, pattern), Format: "canonical"}}})
			r.followed("a", 1)
			must(os.Rename(swapped, filepath.Join(folder, "old")))
			must(os.Symlink(filepath.Join(outside, "s.jsonl"), swapped))
			must(os.Rename(filepath.Join(folder, "sub"), filepath.Join(dir, "sub")))
			must(os.Symlink(outside, filepath.Join(folder, "sub")))
			told := func() bool { // that it cannot be read, or that it is not followed any more
				return !slices.ContainsFunc(r.reading.States(), func(s intake.Status) bool { return s.Path == swapped && s.Error == "" })
			}
			r.until(told)
			// What comes after it shows that all was looked at.
			appendFile(t, filepath.Join(folder, "last.jsonl"), lines(call("c", 0, "x", "y")))
			r.followed("c", 1)
			if got := r.do("GET", "/v1/deadletters", ""); strings.Contains(got.body, secret) || r.store.DeadLetterCount() != 0 {
				t.Errorf("dead letters: %s", got.body)
			}
		})
	}
}

// TestFinishedFilesAreParked holds that files that are no longer written are closed, however many
// there are, and cost nothing. What comes later is read all the same: a line, the rest of one, and
// what was written under another name meanwhile.
func TestFinishedFilesAreParked(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "logs")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const many = 300
	name := func(i int) string { return filepath.Join(folder, fmt.Sprintf("f%03d.jsonl", i)) }
	long := time.Now().Add(-time.Hour)
	ahead := time.Now().Add(time.Hour) // by the clock of who wrote them
	finish := func(path string) {
		t.Helper()
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	half := lines(call("half", 1, "x", "y"))
	for i := range many {
		appendFile(t, name(i), lines(call("all", i, "x", fmt.Sprint("y", i))))
		if i == 7 {
			appendFile(t, name(i), half[:20])
		}
		finish(name(i))
		if i%10 == 0 {
			if err := os.Chtimes(name(i), ahead, ahead); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := begin(t, Options{StateDir: filepath.Join(dir, "state"), Follow: []intake.Follow{{Path: folder}}})
	r.followed("all", many)
	open := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("only Linux tells which files are open")
		}
		for _, fd := range fds {
			if path, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(path, folder+"/") {
				n++
			}
		}
		return n
	}
	r.until(func() bool { return open() == 0 })
	if all := r.reading.States()[0]; all.Files != many || all.Records != many {
		t.Errorf("told are %d files with %d records, want %d", all.Files, all.Records, many)
	}

	appendFile(t, name(3), lines(call("late", 0, "x", "y")))
	appendFile(t, name(7), half[20:])
	if err := os.Rename(name(9), name(9)+".1"); err != nil {
		t.Fatal(err)
	}
	appendFile(t, name(9)+".1", lines(call("late", 1, "x", "y")))
	appendFile(t, name(9), lines(call("late", 2, "x", "y")))
	r.followed("late", 3)
	r.followed("half", 1)
}

// TestPassedOverFilesComeBack has files that cannot be followed as they are, and are fixed
// under a running weir: one that could not be opened, and one of an unknown
// format. Both have the size that they had.
func TestPassedOverFilesComeBack(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "logs")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := func(flow string) string {
		return lines(call(flow, 0, "x", "y")) + strings.Repeat(" ", 70_000) + "\n"
	}
	closed, odd, outside := filepath.Join(folder, "closed.jsonl"), filepath.Join(folder, "odd.jsonl"), filepath.Join(dir, "outside.jsonl")
	// A link out of the folder is not opened, as a file that is not ours to read.
	appendFile(t, outside, text("closed"))
	if err := os.Symlink(outside, closed); err != nil {
		t.Fatal(err)
	}
	appendFile(t, odd, strings.Repeat("x", len(text("odd"))))
	appendFile(t, filepath.Join(folder, "good.jsonl"), lines(call("good", 0, "x", "y")))
	r := begin(t, Options{StateDir: filepath.Join(dir, "state"), Follow: []intake.Follow{{Path: filepath.Join(folder, "*.jsonl")}}})
	r.followed("good", 1)
	if !slices.ContainsFunc(r.reading.States(), func(s intake.Status) bool { return s.Path == closed && s.Error != "" }) {
		t.Errorf("nobody is told of the file that cannot be opened: %+v", r.reading.States())
	}
	for flow, path := range map[string]string{"closed": closed, "odd": odd} {
		mended := filepath.Join(dir, "mended")
		appendFile(t, mended, text(flow))
		if err := os.Rename(mended, path); err != nil {
			t.Fatal(err)
		}
	}
	r.followed("closed", 1)
	r.followed("odd", 1)
}
