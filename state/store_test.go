package state_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/events"
	"weir/state"
)

func TestDeadLetters(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		if got, err := s.DeadLetters(0, 10, nil); err != nil || len(got) != 0 {
			t.Fatalf("%v, %v", got, err)
		}
		long := strings.Repeat("x", state.MaxRaw+5)
		must(t, s.DeadLetter(state.DeadLetter{Source: "topic/3", Position: 77, Code: "bad_json", Reason: "line 1", Appended: 1234, Raw: []byte("{")}))
		must(t, s.DeadLetter(state.DeadLetter{Source: "file", Raw: []byte(long)}, state.DeadLetter{Size: 99, Raw: []byte("cut before")}))
		must(t, s.DeadLetter())
		got, err := s.DeadLetters(0, 10, nil)
		must(t, err)
		if len(got) != 3 || s.DeadLetterCount() != 3 {
			t.Fatalf("%d letters, count %d", len(got), s.DeadLetterCount())
		}
		first := fmt.Sprintf("%+v", got[0])
		if want := fmt.Sprintf("%+v", state.DeadLetter{Source: "topic/3", Position: 77, Code: "bad_json", Reason: "line 1", Appended: 1234, Raw: []byte("{"), Size: 1}); first != want {
			t.Errorf("got %s, want %s", first, want)
		}
		if l := got[1]; l.Sequence != 1 || l.Size != int64(len(long)) || string(l.Raw) != long[:state.MaxRaw] {
			t.Errorf("sequence %d, size %d, kept %d", l.Sequence, l.Size, len(l.Raw))
		}
		if l := got[2]; l.Sequence != 2 || l.Size != 99 || string(l.Raw) != "cut before" {
			t.Errorf("%+v", l)
		}
		if got, err := s.DeadLetters(1, 1, got[:1]); err != nil || len(got) != 2 || got[1].Sequence != 1 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestCursors(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		if _, ok, err := s.Cursor("a"); ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
		must(t, s.SetCursor("a", []byte("1")))
		must(t, s.SetCursor("", []byte("nameless")))
		must(t, s.SetCursor("a", []byte("2")))
		if v, ok, err := s.Cursor("a"); string(v) != "2" || !ok || err != nil {
			t.Fatalf("%s, %v, %v", v, ok, err)
		}
		if v, ok, err := s.Cursor(""); string(v) != "nameless" || !ok || err != nil {
			t.Fatalf("%s, %v, %v", v, ok, err)
		}
		if err := s.SetCursor(strings.Repeat("n", state.MaxKey+1), nil); !errors.Is(err, state.ErrTooLarge) {
			t.Fatal(err)
		}
	})
}

func TestReopenKeepsAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	s := open(t, dir, small())
	must(t, s.Commit(&state.Checkpoint{Partition: 2, Next: 5, Records: []state.Record{flow("k", "v", 9, 0)}}))
	must(t, s.SetCursor("c", []byte("position")))
	must(t, s.DeadLetter(state.DeadLetter{Source: "s"}))
	appendTo(t, s.Verdicts(2), "verdict")
	closeStore(t, s)
	must(t, s.Close()) // again
	if err := s.Commit(&state.Checkpoint{}); !errors.Is(err, state.ErrClosed) {
		t.Fatal(err)
	}
	if _, _, _, err := s.Load(2, state.FlowSubject, "k"); !errors.Is(err, state.ErrClosed) {
		t.Fatal(err)
	}
	if err := s.Due(2, state.FlowSubject, 0, "", func(events.Stamp, string) bool { return true }); !errors.Is(err, state.ErrClosed) {
		t.Fatal(err)
	}
	if err := s.SetCursor("c", nil); !errors.Is(err, state.ErrClosed) {
		t.Fatal(err)
	}

	s = open(t, dir, small())
	m, ok, err := s.Meta(2)
	if err != nil || !ok || m.Next != 5 {
		t.Fatalf("%+v, %v, %v", m, ok, err)
	}
	equal(t, "records", records(t, s, 2, state.FlowSubject), []string{"k=v"})
	equal(t, "due", due(t, s, 2), []string{"flow 9 k"})
	equal(t, "verdicts", read(t, s.Verdicts(2), 0, 9), []string{"verdict"})
	if v, _, err := s.Cursor("c"); string(v) != "position" || err != nil {
		t.Fatalf("%s, %v", v, err)
	}
	if s.DeadLetterCount() != 1 {
		t.Fatalf("%d dead letters", s.DeadLetterCount())
	}
	if info, err := os.Stat(filepath.Join(dir, "badger")); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
}

// Close waits for calls under way, also for those that call again meanwhile.
func TestCloseDuringCalls(t *testing.T) {
	s, err := state.Open(t.TempDir(), small())
	must(t, err)
	j := s.Journal(0)
	appendTo(t, j, "a")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				_, err := j.Append([]state.Entry{{Value: []byte("b")}})
				if err == nil {
					_, err = j.Read(0, 10, nil)
				}
				if err == nil {
					_, _, err = s.Cursor("c")
				}
				if errors.Is(err, state.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	<-j.Ready(20)
	for j.End() < 100 {
		<-j.Ready(j.End())
	}
	must(t, s.Close())
	wg.Wait()
}

// Close does not take the database from under a call.
func TestCloseWaits(t *testing.T) {
	s, err := state.Open(t.TempDir(), small())
	must(t, err)
	const n = 100
	c := &state.Checkpoint{}
	for i := range n {
		c.Records = append(c.Records, flow(fmt.Sprint(i), "v", 0, 0))
	}
	must(t, s.Commit(c))
	var seen atomic.Int64
	closed := make(chan int64)
	must(t, s.Records(0, state.FlowSubject, func(string, []byte) error {
		if seen.Add(1) == 1 {
			go func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				closed <- seen.Load()
			}()
			for ; err == nil; _, _, err = s.Cursor("c") { // until Close has begun
				runtime.Gosched()
			}
			for range 200_000 { // and would have ended if it did not wait
				runtime.Gosched()
			}
		}
		return nil
	}))
	if at := <-closed; at != n {
		t.Fatalf("Close came back after %d of %d records", at, n)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []state.Options{{MemTableSize: 1 << 20}, {MinFree: -1}, {RecordTTL: -1}, {JournalTTL: -1}} {
		if s, err := state.Open("", o); err == nil {
			closeStore(t, s)
			t.Errorf("%+v was taken", o)
		}
	}
	var text strings.Builder
	o := state.Options{Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s := open(t, "", o)
	if bytes, writes := s.MaxCheckpoint(); bytes < 4<<20 || writes < 40_000 || s.MaxValue() < 1_000_000 {
		t.Errorf("by default a checkpoint may have %d bytes in %d writes, a value %d bytes", bytes, writes, s.MaxValue())
	}
	if free, floor := s.Free(); free != math.MaxInt64 || floor != 0 {
		t.Errorf("in memory: free %d, floor %d", free, floor)
	}
	closeStore(t, s)
	if !strings.Contains(text.String(), "from=badger") || strings.Contains(text.String(), "level=INFO") {
		t.Errorf("log: %s", text.String())
	}

	s = open(t, t.TempDir(), state.Options{})
	free, floor := s.Free()
	if free <= 0 || floor != 512<<20 {
		t.Errorf("free %d, floor %d", free, floor)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	_, err := state.Open(dir, small())
	if !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(" by process ", os.Getpid(), ";")) {
		t.Fatal(err)
	}
	closeStore(t, s)
	closeStore(t, open(t, dir, small()))
}

// Another process holds the lock; when it is killed the waiting Open gets it.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, out := helper(t, "hold", dir)
	if line, err := out.ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v", line, err)
	}
	o := small()
	o.LockWait = 50 * time.Millisecond
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	_, err := state.Open(dir, o)
	if want := fmt.Sprint("the state is locked by process ", cmd.Process.Pid, ": weir waits"); strings.Count(log.String(), want) != 1 {
		t.Errorf("%q is not in the log once:\n%s", want, log.String())
	}
	if !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(" by process ", cmd.Process.Pid, ";")) {
		t.Fatal(err)
	}
	must(t, cmd.Process.Kill())
	o.LockWait = 0
	closeStore(t, open(t, dir, o))
	cmd.Wait() // says that it was killed
}

// holdLock holds the state open until it is killed, or its parent has gone.
func holdLock() error {
	s, err := state.Open(os.Getenv("DIR"), small())
	if err != nil {
		return err
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	return s.Close()
}

// helper starts the test binary as a helper, and returns what it prints. Its standard
// input ends when the test ends.
func helper(t testing.TB, name, dir string, env ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, helperVariable+"="+name, "DIR="+dir)...)
	if name != "check" { // Badger's panics are expected there
		cmd.Stderr = os.Stderr
	}
	if name == "fill" {
		withMounts(cmd)
	}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if err := cmd.Start(); err != nil && name == "fill" {
		t.Skip("THE DISK-FULL TEST NEEDS THE RIGHT TO MOUNT A TMPFS: ", err)
	} else {
		must(t, err)
	}
	t.Cleanup(func() { in.Close() })
	return cmd, bufio.NewReader(out)
}

func TestNewerFormat(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	stored := state.AllStored(s, state.FormatKey)
	if len(stored) != 1 {
		t.Fatalf("%d format keys", len(stored))
	}
	format := stored[0]
	f := func(value string, want error) {
		t.Helper()
		must(t, state.Stored{Key: format.Key, Value: []byte(value)}.Store(s))
		closeStore(t, s)
		_, err := state.Open(dir, small())
		if !errors.Is(err, want) {
			t.Fatal(err)
		}
		t.Log(err)
		badgerSet(t, dir, format.Key, format.Value)
		s = open(t, dir, small())
	}
	number := func(n uint32) string { return string(binary.BigEndian.AppendUint32([]byte("weir"), n)) }
	f(number(6), state.ErrNewer)
	f(number(math.MaxUint32), state.ErrNewer)
	f("weir", state.ErrDamaged)
	f("wier\x00\x00\x00\x01", state.ErrDamaged)
}

func TestMissingFormat(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	must(t, s.SetCursor("c", nil))
	must(t, state.Stored{Key: []byte(state.FormatKey)}.Store(s))
	closeStore(t, s)
	if _, err := state.Open(dir, small()); !errors.Is(err, state.ErrDamaged) {
		t.Fatal(err)
	}
}

// A hole in the transactions is found, wherever it is among the last ones.
func TestChain(t *testing.T) {
	f := func(before, after int, want error) {
		t.Helper()
		s := open(t, "", small())
		set := func(n int) {
			for range n {
				must(t, s.SetCursor("c", nil))
			}
		}
		set(before)
		state.SkipTransaction(s)
		set(after)
		if err := state.CheckChain(s); !errors.Is(err, want) {
			t.Fatalf("%d before, %d after: %v", before, after, err)
		}
	}
	f(1, 0, nil) // the end of what was written, as after a crash
	f(1, 1, state.ErrDamaged)
	f(30, 20, state.ErrDamaged)
	f(10, state.ChainLength-2, state.ErrDamaged)
	f(10, state.ChainLength-1, state.ErrDamaged)
	f(state.ChainLength+10, 20, state.ErrDamaged)
	f(10, state.ChainLength, nil) // too long ago
	f(10, state.ChainLength+20, nil)
}

func TestChainAtOpen(t *testing.T) {
	f := func(damage func(dir string), want string) {
		t.Helper()
		dir := t.TempDir()
		s := open(t, dir, small())
		must(t, s.SetCursor("c", nil))
		closeStore(t, s)
		damage(dir)
		if _, err := state.Open(dir, small()); !errors.Is(err, state.ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Fatal(err)
		}
	}
	f(func(dir string) {
		s := open(t, dir, small())
		state.SkipTransaction(s)
		must(t, s.SetCursor("c", nil))
		closeStore(t, s)
	}, "1 of the last 4 are missing")
	f(func(dir string) { badgerSetAt(t, dir, []byte("c"), []byte("v"), 1) }, "the last one known is 2, but there are keys of 3")
}

// What a killed process leaves behind is no obstacle.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir, small()))
	f := func(name string) {
		t.Helper()
		s := open(t, dir, small())
		appendTo(t, s.Journal(0), name)
		closeStore(t, s)
		must(t, os.WriteFile(filepath.Join(dir, "badger", name), nil, 0o600))
	}
	f("00001.mem")
	f("00099.mem")
	f("000099.vlog")
	f("KEYREGISTRY")
	f("LOCK")
	s := open(t, dir, small())
	equal(t, "journal", read(t, s.Journal(0), 0, 10), []string{"00001.mem", "00099.mem", "000099.vlog", "KEYREGISTRY", "LOCK"})
}

// Without its manifest Badger would begin anew and delete every table.
func TestManifest(t *testing.T) {
	f := func(damage func(path string) error) {
		t.Helper()
		dir := t.TempDir()
		s := open(t, dir, small())
		appendTo(t, s.Journal(0), "a")
		closeStore(t, s)
		path := filepath.Join(dir, "badger", "MANIFEST")
		good, err := os.ReadFile(path)
		must(t, err)
		must(t, damage(path))
		for range 2 {
			_, err = state.Open(dir, small())
			if !errors.Is(err, state.ErrDamaged) || !strings.Contains(err.Error(), "weir restore BACKUP --state NEW") {
				t.Fatal(err)
			}
		}
		must(t, os.WriteFile(path, good, 0o600))
		s = open(t, dir, small())
		equal(t, "journal", read(t, s.Journal(0), 0, 10), []string{"a"})
	}
	f(os.Remove)
	f(func(path string) error { return os.Truncate(path, 0) })
	f(func(path string) error { return os.Truncate(path, 5) })
	f(func(path string) error { return os.WriteFile(path, []byte("this is no manifest"), 0o600) })
}

// After a write that failed half way nothing more is written.
func TestFailedWrite(t *testing.T) {
	s := open(t, t.TempDir(), small())
	j := s.Journal(0)
	appendTo(t, j, "a")
	must(t, state.Break(s))
	for range 3 {
		if err := s.Commit(&state.Checkpoint{}); !errors.Is(err, state.ErrFailed) {
			t.Fatal(err)
		}
		if _, err := j.Append([]state.Entry{{Value: []byte("b")}}); !errors.Is(err, state.ErrFailed) {
			t.Fatal(err)
		}
	}
	if j.End() != 1 {
		t.Fatalf("end is %d", j.End())
	}
}

// One write that failed is enough, whatever the next ones would do.
func TestFailedOnce(t *testing.T) {
	s := open(t, t.TempDir(), small())
	appendTo(t, s.Journal(0), "a")
	must(t, state.FailOnce(s, errors.New("sync failed")))
	before := state.Transactions(s)
	if err := s.SetCursor("c", nil); !errors.Is(err, state.ErrFailed) || !strings.Contains(err.Error(), "sync failed") {
		t.Fatal(err)
	}
	if state.Transactions(s) != before {
		t.Fatal("something was written")
	}
}

// A smaller memtable than the one that a killed process had is no obstacle.
func TestSmallerMemTable(t *testing.T) {
	dir := t.TempDir()
	cmd, out := helper(t, "crash", dir, "TTL=0s", "MEMTABLE=67108864")
	acked := newAcked()
	for size := 0; size < 16<<20; {
		line, err := out.ReadString('\n')
		must(t, err)
		must(t, acked.take(line))
		if n := len(acked.Appends); strings.HasPrefix(line, "append") {
			size += int(acked.Appends[n-1].Count) * 1500
		}
	}
	must(t, cmd.Process.Kill())
	cmd.Wait() // says that it was killed
	must(t, acked.check(dir, small()))
	must(t, acked.check(dir, small()))
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Symlink(filepath.Join(dir, "nowhere"), link))
	for path, want := range map[string]string{
		file:                         "is no folder",
		filepath.Join(file, "below"): "not a directory",
		link:                         "is a link to what is not there",
	} {
		if _, err := state.Open(path, small()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open %s: %v, want %q", path, err, want)
		}
	}
}
