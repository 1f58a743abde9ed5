package intake

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// order is a log and a store that only remember in which order flows came.
type order struct {
	mu    sync.Mutex
	flows []string
	most  int
	done  context.CancelFunc // after this number
}

func (o *order) Append(_ context.Context, entries []state.Entry) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range entries {
		var ev events.Event
		if err := events.Decode(e.Value, &ev); err != nil {
			return err
		}
		o.flows = append(o.flows, ev.CorrelationID)
	}
	if len(o.flows) >= o.most {
		o.done()
	}
	return nil
}

func (o *order) Cursor(string) ([]byte, bool, error)  { return nil, false, nil }
func (o *order) SetCursor(string, []byte) error       { return nil }
func (o *order) DeadLetter(...state.DeadLetter) error { return nil }

// TestLargeFilesTakeTurns has one turn for three files that are large for it: each is read in
// parts, between those of the others, and each of its records once and in order.
func TestLargeFilesTakeTurns(t *testing.T) {
	const files, records, ofOne = 3, 3000, 20_000
	dir := t.TempDir()
	for file := range files {
		var text bytes.Buffer
		for n := range records {
			fmt.Fprintf(&text, `{"id":"%d-%d","kind":"agent.call","time":"2026-11-20T14:00:00Z","correlation_id":"%d","from":{"agent":"a"},"to":{"agent":"b"},"tool":{"name":%q}}`+"\n",
				file, n, file, strings.Repeat("x", 100))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.jsonl", file)), text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	log := &order{most: files * records, done: cancel}
	counts := &pump.Counts{}
	in := &Intake{o: Options{Log: log, Store: log, Counts: counts, Clock: clock.System{}, Logger: slog.New(slog.DiscardHandler), DeadLetters: &DeadLetters{Counts: counts, Clock: clock.System{}, Logger: slog.New(slog.DiscardHandler)},
		Limits: func() *analyzer.Limits { return nil }, Fail: func(err error) { t.Error(err); cancel() }}}
	d := newFileSet(in, Follow{Path: dir, Format: canonicalName})
	d.turns, d.turnBytes = make(chan struct{}, 1), ofOne
	_ = d.run(ctx) // which ends with ctx
	if len(log.flows) != files*records {
		t.Fatalf("%d records were read, want %d", len(log.flows), files*records)
	}
	stretches := 0
	for i, flow := range log.flows {
		if i == 0 || log.flows[i-1] != flow {
			stretches++
		}
	}
	if stretches < 2*files {
		t.Errorf("the files were read in %d stretches, each at one time", stretches)
	}
}

// takeFrom runs a folder with one turn until the given number of records of it were taken in.
func takeFrom(t *testing.T, dir string, records int, format string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	log := &order{most: records, done: cancel}
	counts := &pump.Counts{}
	discard := slog.New(slog.DiscardHandler)
	in := &Intake{o: Options{Log: log, Store: log, Counts: counts, Clock: clock.System{}, Logger: discard, DeadLetters: &DeadLetters{Counts: counts, Clock: clock.System{}, Logger: discard},
		Limits: func() *analyzer.Limits { return nil }, Fail: func(err error) { t.Error(err); cancel() }}}
	d := newFileSet(in, Follow{Path: dir, Format: format})
	d.turns = make(chan struct{}, 1)
	_ = d.run(ctx) // which ends with ctx
	return log.flows
}

func eventOf(flow string) string {
	return fmt.Sprintf(`{"id":%q,"kind":"agent.call","time":"2026-11-20T14:00:00Z","correlation_id":%q,"from":{"agent":"a"},"to":{"agent":"b"}}`+"\n", flow, flow)
}

// TestFilesThatBeginWithAHole follows files that begin with zeros, be they a hole or written, few
// or more than what shows a format, as copytruncate leaves them under a writer that keeps its
// offset, and one that is all zeros when it is first seen.
func TestFilesThatBeginWithAHole(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(f *os.File) error{
		"a long hole":  func(f *os.File) error { return f.Truncate(1 << 30) },
		"a short hole": func(f *os.File) error { return f.Truncate(100) },
		"zeros":        func(f *os.File) error { _, err := f.Write(make([]byte, 3*detectBytes)); return err },
		"few zeros":    func(f *os.File) error { _, err := f.Write(make([]byte, holeZeros)); return err },
	} {
		for _, format := range []string{"", canonicalName} {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				f, err := os.Create(filepath.Join(dir, "a.jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if err := write(f); err != nil {
					t.Fatal(err)
				}
				if _, err := f.Seek(0, io.SeekEnd); err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteString(eventOf("behind") + eventOf("next")); err != nil {
					t.Fatal(err)
				}
				if got := takeFrom(t, dir, 2, format); !slices.Equal(got, []string{"behind", "next"}) {
					t.Errorf("took %q", got)
				}
			})
		}
	}
}

// TestFilesWithoutAFormatKeepNoTurn has files of which nothing is known yet before a good one.
func TestFilesWithoutAFormatKeepNoTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.jsonl": "", "b.jsonl": "\n", "c.jsonl": eventOf("good"), "d.jsonl": strings.Repeat("\x00", 3*detectBytes), "e.jsonl": `{"half":`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := takeFrom(t, dir, 1, ""); !slices.Equal(got, []string{"good"}) {
		t.Errorf("took %q", got)
	}
}

// TestPassedOver holds that a file which could not be read, or not as it was, is looked at again
// when that may have changed, and one that only grows from a wrong beginning is not.
func TestPassedOver(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	look := func(path string) os.FileInfo {
		t.Helper()
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	write := func(path string, size int) os.FileInfo {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return look(path)
	}
	small := write(path, 10)
	if (passedOver{was: small}).again(look(path)) {
		t.Error("a file that has not changed is looked at again")
	}
	if !(passedOver{was: small, unread: "permission denied"}).again(look(path)) {
		t.Error("a file that could not be opened is not looked at again")
	}
	if !(passedOver{was: small}).again(write(path, 11)) {
		t.Error("a file that has grown is not looked at again")
	}
	large := write(path, detectBytes)
	if (passedOver{was: large}).again(write(path, detectBytes+1)) {
		t.Error("a long beginning of no format is looked at again")
	}
	if !(passedOver{was: large}).again(write(path, 20)) {
		t.Error("a file that was written anew is not looked at again")
	}
	if !(passedOver{was: large}).again(write(other, detectBytes)) {
		t.Error("another file that has taken its name is not looked at")
	}
}

// slowStore is a store that does not answer while a file is taken up.
type slowStore struct {
	order
	asked, answer chan struct{}
}

func (s *slowStore) Cursor(string) ([]byte, bool, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-s.answer
	return nil, false, nil
}

// TestStatesDoNotWaitForFiles asks for the states while a file is being taken up.
func TestStatesDoNotWaitForFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(eventOf("a")), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	store := &slowStore{order: order{most: 1, done: cancel}, asked: make(chan struct{}, 1), answer: make(chan struct{})}
	counts, discard := &pump.Counts{}, slog.New(slog.DiscardHandler)
	in := &Intake{o: Options{Log: store, Store: store, Counts: counts, Clock: clock.System{}, Logger: discard, DeadLetters: &DeadLetters{Counts: counts, Clock: clock.System{}, Logger: discard},
		Limits: func() *analyzer.Limits { return nil }, Fail: func(err error) { t.Error(err); cancel() }}}
	d := newFileSet(in, Follow{Path: dir, Format: canonicalName})
	ended := make(chan struct{})
	go func() { _ = d.run(ctx); close(ended) }()
	<-store.asked
	if got := d.states(); len(got) != 1 || got[0].Path != dir {
		t.Errorf("the states are %+v", got)
	}
	close(store.answer)
	<-ended
}

// TestFewFilesAreListed has as many files as are listed, and one more, both good ones and such that
// cannot be read. Those of many are put together once a second at most.
func TestFewFilesAreListed(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "no right to read it"} {
		d := newFileSet(&Intake{}, Follow{Path: "folder"})
		add := func(n int) {
			path := fmt.Sprintf("%03d.jsonl", n)
			if fault != "" {
				d.passed[path] = passedOver{unread: fault}
				d.files["good"] = &followed{follower: &follower{}}
				return
			}
			d.files[path] = &followed{follower: &follower{status: Status{Path: path, Records: 1}}}
		}
		for n := range maxShown - 1 {
			add(n)
		}
		if got := d.states(); len(got) > maxShown || got[len(got)-1].Path != "098.jsonl" {
			t.Errorf("few files, fault %q: %d states", fault, len(got))
		}
		add(maxShown)
		add(maxShown + 1)
		many := d.states()
		if len(many) != maxShown+1 || many[0].Path != "folder" || many[0].Files != len(d.files) {
			t.Errorf("many files, fault %q: %d states, the first %+v", fault, len(many), many[0])
		}
		add(maxShown + 2)
		if again := d.states(); &again[0] != &many[0] {
			t.Errorf("fault %q: the states are put together for each request", fault)
		}
		d.shown.at = d.shown.at.Add(-shownFor)
		if again := d.states(); &again[0] == &many[0] || again[0].Files != len(d.files) {
			t.Errorf("fault %q: the states stay as they were: %+v", fault, again[0])
		}
	}
}
