package intake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"weir/cmd/internal/gate"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
	"weir/events/jsonl"
	"weir/state"
)

// follower reads one file or pipe into the journal. Its place is stored after the
// journal has the events, so that none is lost by a crash; those that are appended
// twice are dropped by their ids.
type follower struct {
	in     *Intake
	path   string
	format adapter.Format
	known  bool     // the format
	folder *fileSet // that the file is in; nil for a file of its own

	tail        *jsonl.Tail
	adapter     adapter.Adapter
	entries     []state.Entry
	bytes       int
	deadLetters []state.DeadLetter
	place       jsonl.Position
	quiet       bool // events are of records whose events the journal has
	held        bool // the adapter may hold events back
	idle        time.Time

	mu     sync.Mutex
	status Status
}

// Status is how the following of a file goes.
type Status struct {
	Path    string `json:"path"`
	Format  string `json:"format,omitempty"`
	Records int64  `json:"records"` // read since the start
	Bad     int64  `json:"bad"`     // that became dead letters
	Ended   bool   `json:"ended"`   // a pipe that was closed
	Error   string `json:"error,omitempty"`

	Parked bool `json:"parked,omitempty"` // closed until it changes, for all of it was read
	Files  int  `json:"files,omitempty"`  // of a folder, of which only some are told
}

// The sizes of what is appended at one time, and how long a file has to be quiet
// before an adapter is asked for what it holds back.
const (
	followEntries = 512
	followBytes   = 1 << 20
	flushAfter    = 30 * time.Second
	detectBytes   = 64 << 10
)

// canonicalName is the format of weir itself, whose adapter keeps nothing from one
// record to the next.
const canonicalName = "canonical"

// followCursor is what is stored about a file.
type followCursor struct {
	Format   string         `json:"format"`
	Position jsonl.Position `json:"position"`
}

func (f *follower) cursorName() string { return "follow:" + f.path }

// newFollower looks at the file, when it is there, so that a format that is not known
// is told at the start. Files of a folder share their adapters.
func newFollower(in *Intake, spec Follow, folder *fileSet) (*follower, error) {
	f := &follower{in: in, path: spec.Path, folder: folder, status: Status{Path: spec.Path}}
	within := ""
	if folder != nil {
		within = jsonl.Folder(folder.spec.Path)
	}
	wrap := func(err error) error { return fmt.Errorf("follow %s: %w", spec.Path, err) }
	var from followCursor
	if spec.Path != "-" {
		b, ok, err := in.o.Store.Cursor(f.cursorName())
		if err == nil && ok {
			err = json.Unmarshal(b, &from)
		}
		if err != nil {
			return nil, wrap(err)
		}
	}
	var head []byte
	var err error
	if from.Format == "" {
		head, err = headOf(spec.Path, within)
	}
	switch name := cmp.Or(spec.Format, from.Format); {
	case err != nil:
	case adapter.Compressed(head):
		err = errors.New("it is compressed, and only files that grow are followed; weir replay and weir backtest read it")
	case name != "":
		f.format, err = registry.Lookup(name)
	case len(head) > 0:
		f.format, err = registry.Detect(head)
	}
	if err != nil {
		return nil, wrap(err)
	}
	// An adapter that pairs records has to see those again whose partners may come;
	// it is told the file from its beginning, and what it says of the old is dropped.
	rewind := from.Format != "" && from.Format != canonicalName
	f.tail = jsonl.Follow(spec.Path, jsonl.Options{From: from.Position, Within: within, Rewind: rewind, MaxRecord: adapter.MaxRecord, After: in.o.Clock.After})
	if f.format.New != nil {
		f.use(f.format)
	}
	return f, nil
}

// headOf returns the beginning of a regular file; nothing when it is not there yet.
func headOf(path, within string) ([]byte, error) {
	if within != "" {
		file, err := jsonl.OpenWithin(within, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return readHead(file)
	}
	st, err := os.Stat(path)
	if path == "-" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && st.IsDir() {
		err = errors.New("it is a directory; name the files in it")
	}
	if err != nil || !st.Mode().IsRegular() {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readHead(file)
}

func readHead(file *os.File) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(file, detectBytes))
	return head, errors.Join(err, file.Close())
}

func (f *follower) use(format adapter.Format) {
	f.format, f.known = format, true
	f.tail.Documents(format.Framing == adapter.Documents)
	// The source is no part of where a record is read, or the same record read elsewhere
	// would count again.
	if f.folder != nil {
		f.adapter = f.folder.shared.of(f.in, format)
	} else {
		f.adapter = f.in.adapter(format)
	}
	f.note(func(s *Status) { s.Format = format.Name })
}

func (f *follower) note(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

func (f *follower) state() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// run reads until the stage ends, the pipe does, or the file of a folder is parked. What
// is wrong with the file is told and tried again; an error is one of the store.
func (f *follower) run(ctx context.Context) error {
	wait := time.Second
	if f.idle.IsZero() {
		f.idle = f.in.o.Clock.Now()
	}
	for {
		if err := f.take(ctx); err != nil {
			return err
		}
		if f.folder != nil && f.known && f.tail.AtEnd() {
			if err := f.rest(ctx); err != nil || f.folder.parks(f) {
				return err
			}
		}
		err := f.tail.Fill(ctx)
		switch {
		case err == nil:
			wait = time.Second
			if err := f.rest(ctx); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return f.finish(ctx)
		default:
			f.complain(err)
			if err := retry.Pause(ctx, f.in.o.Clock, wait); err != nil {
				return err
			}
			wait = min(2*wait, time.Minute)
			continue
		}
		if !f.known && !f.detect() {
			return nil
		}
	}
}

func (f *follower) complain(err error) {
	f.note(func(s *Status) {
		if s.Error != err.Error() {
			f.in.o.Logger.Error("a file cannot be followed", "path", f.path, "error", err)
		}
		s.Error = err.Error()
	})
}

// detect finds out the format by what was read. It reports whether to go on.
func (f *follower) detect() bool {
	head := f.tail.Peek()
	if len(head) == 0 {
		return true
	}
	format, err := registry.Detect(head)
	if err == nil {
		f.use(format)
		return true
	}
	if len(head) < detectBytes && !bytes.Contains(head, []byte("\n")) {
		return true
	}
	f.complain(fmt.Errorf("follow %s: %w; it is not followed any more", f.path, err))
	return false
}

// take passes on the records that were read.
func (f *follower) take(ctx context.Context) error {
	if !f.known {
		return nil
	}
	for {
		r, ok := f.tail.Next()
		if !ok {
			return f.append(ctx)
		}
		f.idle = f.in.o.Clock.Now()
		f.quiet = r.Old
		f.held = f.format.Name != canonicalName
		f.record(&r)
		f.place = r.Next
		if len(f.entries) >= followEntries || f.bytes >= followBytes || len(f.deadLetters) >= followEntries {
			if err := f.append(ctx); err != nil {
				return err
			}
		}
	}
}

func (f *follower) record(r *jsonl.Record) {
	f.note(func(s *Status) { s.Records++ })
	if r.Cut {
		f.bad(r, events.CodeTooLong, fmt.Sprintf("the record is longer than %d bytes", adapter.MaxRecord))
		return
	}
	err := f.adapter.Decode(r.Bytes, func(ev *events.Event) { f.event(ev, r) })
	if err == nil {
		return
	}
	f.bad(r, adapter.CodeOf(err), err.Error())
}

// event takes an event over; r is nil when the adapter was only asked for the rest.
func (f *follower) event(ev *events.Event, r *jsonl.Record) {
	if f.quiet {
		return
	}
	f.in.o.Trust.Weigh(gate.File, ev)
	line, err := ev.Canonical()
	if refused := gate.File.Admit(ev); refused != nil {
		err = refused
	}
	if err != nil {
		at := &jsonl.Record{Bytes: line}
		if r != nil {
			at.At = r.At
		}
		f.bad(at, err.(*events.DecodeError).Code, "of the event that was made of it: "+err.Error())
		return
	}
	f.entries = append(f.entries, state.Entry{Value: line})
	f.bytes += len(line)
}

func (f *follower) bad(r *jsonl.Record, code events.Code, reason string) {
	if f.quiet {
		return
	}
	f.note(func(s *Status) { s.Bad++ })
	if f.in.o.DeadLetters.Keep(&f.in.o.DeadLetters.Files, code, len(r.Bytes)) {
		d := f.in.o.DeadLetters.New(f.path, r.At, code, reason, bytes.Clone(r.Bytes[:min(len(r.Bytes), state.MaxRaw)]))
		d.Size = int64(len(r.Bytes))
		f.deadLetters = append(f.deadLetters, d)
	}
}

// append puts what was gathered into the journal, and then stores the place.
func (f *follower) append(ctx context.Context) error {
	in := f.in
	if f.place == (jsonl.Position{}) && len(f.entries)+len(f.deadLetters) == 0 {
		return nil
	}
	if err := retry.WhileDiskLow(ctx, in.o.Clock, func() error { return in.o.Store.DeadLetter(f.deadLetters...) }); err != nil {
		return err
	}
	f.deadLetters = f.deadLetters[:0]
	if err := retry.WhileDiskLow(ctx, in.o.Clock, func() error { return in.o.Log.Append(ctx, f.entries) }); err != nil {
		return err
	}
	clear(f.entries)
	f.entries, f.bytes = f.entries[:0], 0
	if f.place.Hashed == 0 || f.quiet { // a pipe, which has no place to go back to
		f.place = jsonl.Position{}
		return nil
	}
	cursor, err := json.Marshal(followCursor{f.format.Name, f.place})
	if err != nil {
		return err
	}
	if err := retry.WhileDiskLow(ctx, in.o.Clock, func() error { return in.o.Store.SetCursor(f.cursorName(), cursor) }); err != nil {
		return err
	}
	f.place = jsonl.Position{}
	f.note(func(s *Status) { s.Error = "" })
	return nil
}

// rest asks the adapter for what it holds back when nothing has come for a while.
func (f *follower) rest(ctx context.Context) error {
	if !f.held || f.in.o.Clock.Now().Sub(f.idle) < flushAfter {
		return nil
	}
	return f.flush(ctx)
}

func (f *follower) flush(ctx context.Context) error {
	f.held, f.quiet = false, false
	if err := f.adapter.Flush(func(ev *events.Event) { f.event(ev, nil) }); err != nil {
		f.bad(&jsonl.Record{}, adapter.CodeFormat, err.Error())
	}
	return f.append(ctx)
}

// finish takes what is left at the end of a pipe.
func (f *follower) finish(ctx context.Context) error {
	if err := f.take(ctx); err != nil {
		return err
	}
	f.note(func(s *Status) { s.Ended = true })
	f.in.o.Logger.Info("the end of a pipe was reached", "path", f.path)
	if !f.known {
		return nil
	}
	return f.flush(ctx)
}
