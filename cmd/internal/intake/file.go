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
// It is for the goroutine of run; only status is looked at by others. Between its reading
// and the next a file of a folder has none.
type follower struct {
	in     *Intake
	path   string
	format adapter.Format
	// format is that of the setting, else the one that was stored with the place, else the
	// one that the first records show. Until it is known nothing is read as a record.
	known  bool     // the format
	folder *fileSet // that the file is in; nil for a file of its own
	turn   *turn    // of a file in a folder, while it is read

	tail    *jsonl.Tail
	adapter adapter.Adapter
	// What was made of records and is not in the journal yet.
	entries     []state.Entry
	bytes       int
	deadLetters []state.DeadLetter
	// place is behind the last record that was passed on; zero when there is nothing to
	// store.
	place jsonl.Position
	// quiet is for records that are read again after a start, only so that the adapter
	// knows them.
	quiet bool // events are of records whose events the journal has
	held  bool // the adapter may hold events back
	// idle is when the last record came.
	idle time.Time

	mu     sync.Mutex
	status Status
}

// Status is the state of a followed file. /readyz reports it.
type Status struct {
	Path    string `json:"path"`
	Format  string `json:"format,omitempty"`
	Records int64  `json:"records"` // read since the start
	Bad     int64  `json:"bad"`     // that became dead letters
	Ended   bool   `json:"ended"`   // a pipe that was closed
	// Error is why the file cannot be read at this moment; it is tried again, and goes away
	// with the next place that is stored.
	Error string `json:"error,omitempty"`

	Parked bool `json:"parked,omitempty"` // closed until it changes, for all of it was read
	Files  int  `json:"files,omitempty"`  // of a folder, of which only some are listed
}

// The sizes of what is appended at one time, and how long a file has to be quiet
// before an adapter is asked for what it holds back.
const (
	// What is gathered goes out at these bounds, or when there is nothing more to read for
	// now, so that an event of a quiet file is in the journal at once.
	followEntries = 512
	followBytes   = 1 << 20
	flushAfter    = 30 * time.Second
	// A beginning that is longer and fits no format will not fit one later.
	detectBytes = 64 << 10
)

// canonicalName is the format of weir itself, whose adapter keeps nothing from one
// record to the next.
const canonicalName = "canonical"

// followCursor is what is stored about a file.
// With the format a file is not looked at anew at each start. A name that is not known any
// more is an error then.
type followCursor struct {
	Format   string         `json:"format"`
	Position jsonl.Position `json:"position"`
}

// cursorName is what the place is stored by. A file that is followed under another path is
// another one, and read from its beginning; repeats are dropped as far back as ids are
// known.
func (f *follower) cursorName() string { return "follow:" + f.path }

// newFollower looks at the file, if it exists, so that an unknown format is reported at the start.
// Files of a folder share their adapters. A file that does not exist yet is no error, and is read when
// it comes. A compressed file, or one in an unknown format, ends the start. In a folder it is skipped.
func newFollower(in *Intake, spec Follow, folder *fileSet) (*follower, error) {
	f := &follower{in: in, path: spec.Path, folder: folder, status: Status{Path: spec.Path}}
	// What links in a followed folder lead to has to lie in that folder as well, see
	// jsonl.Options.
	within, room := "", jsonl.Room(nil)
	if folder != nil {
		within, room = jsonl.Folder(folder.spec.Path), folder.room
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
	if err == nil {
		head = behindHole(head)
		err = adapter.CheckText(head)
	}
	switch name := cmp.Or(spec.Format, from.Format); {
	case err != nil:
	case adapter.Compressed(head):
		err = errors.New("it is compressed, and only files that grow are followed; weir replay and weir backtest read it")
	case len(head) > 0 && head[0] < '\t': // no text begins so
		err = errors.New("it is binary, and only text that grows is followed: let the Collector's file exporter write format: json, or send OTLP to weir; weir replay and weir backtest read its protobuf")
	case name != "":
		f.format, err = registry.Lookup(name)
	case len(head) > 0:
		f.format, err = registry.Detect(head)
	}
	if err != nil {
		return nil, wrap(err)
	}
	// A name that is misspelt looks like a file that is late.
	if _, err := os.Stat(spec.Path); folder == nil && spec.Path != "-" && errors.Is(err, fs.ErrNotExist) {
		in.o.Logger.Warn("a file that is followed is not there yet; it is read when it comes", "file", spec.Path)
	}
	// An adapter that pairs records has to see those again whose partners may come. It gets the file
	// from its beginning, and its events from old records are dropped.
	rewind := from.Format != "" && from.Format != canonicalName
	f.tail = jsonl.Follow(spec.Path, jsonl.Options{From: from.Position, Within: within, Rewind: rewind, MaxRecord: adapter.MaxRecord, Room: room, After: in.o.Clock.After})
	if f.format.New != nil {
		f.use(f.format)
	}
	return f, nil
}

// holeZeros is with how many zeros a hole begins. Fewer may be the length of a binary record.
const holeZeros = 4

// behindHole leaves out the hole at the beginning of a file that was cut short under a writer that
// keeps its offset, or that was allocated before it was written to.
func behindHole(head []byte) []byte {
	if text := bytes.TrimLeft(head, "\x00"); len(head)-len(text) >= holeZeros {
		return text
	}
	return head
}

// headOf returns the beginning of a regular file; nothing when it is not there yet.
// Pipes are not read for it: what is read of a pipe is gone.
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

// readHead reads what shows the format, and closes the file.
func readHead(file *os.File) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(file, detectBytes))
	return head, errors.Join(err, file.Close())
}

// use begins with a format. The adapter is kept for as long as the file is followed: what
// it remembers of earlier records decides what later ones mean.
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

// note changes the status that others look at.
func (f *follower) note(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

// state is a copy of the status. Any goroutine may call it.
func (f *follower) state() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// run reads until the stage ends, the pipe does, or the file of a folder is parked. Faults of the file
// are reported and retried; an error is one of the store.
//
// Nil means that there is nothing more to do: the pipe has ended, the file is parked, or its format is
// unknown and will stay so.
func (f *follower) run(ctx context.Context) error {
	// What cannot be read is tried again after a second, then after twice as long, up to a
	// minute.
	wait := time.Second
	if f.idle.IsZero() {
		f.idle = f.in.o.Clock.Now()
	}
	for {
		if err := f.take(ctx); err != nil {
			return err
		}
		// A large file lets others have their turn in between.
		if f.turn != nil && f.turn.bytes >= f.folder.turnBytes && f.tail.Yield() {
			if err := f.turn.again(ctx); err != nil {
				return err
			}
		}
		// A file of its own stays open; of a folder there may be thousands.
		// One whose format is not known yet waits for more like others, and keeps no turn.
		if f.folder != nil && f.tail.AtEnd() {
			if err := f.rest(ctx); err != nil || f.folder.parks(f) {
				return err
			}
		}
		// It waits a while when nothing has come, so this loop turns and looks at what is
		// held back.
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

// complain logs a fault once, however often it comes again, and keeps it in the status.
func (f *follower) complain(err error) {
	f.note(func(s *Status) {
		if s.Error != err.Error() {
			f.in.o.Logger.Error("a file cannot be followed", "path", f.path, "error", err)
		}
		s.Error = err.Error()
	})
}

// detect finds out the format by what was read. It reports whether to go on.
// It is given up when there is a whole line, or enough of one, that fits no format. The
// fault stays in the status.
func (f *follower) detect() bool {
	f.tail.PassZeros()
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
// It passes on all that is in the buffer, since Fill wants all of it taken.
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
		// The journal has the events of old records; f.place does not go back for them, see append.
		f.quiet = r.Old
		if f.turn != nil {
			f.turn.bytes += len(r.Bytes)
		}
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

// record reads one record. What is wrong with it is a dead letter and stops nothing.
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
// The adapter owns ev and uses it again; what is kept of it is its line.
func (f *follower) event(ev *events.Event, r *jsonl.Record) {
	if f.quiet {
		return
	}
	// A file is believed that a user has spoken when the setting says so (see decision 59).
	f.in.o.Trust.Weigh(gate.File, ev)
	ev.Principal = "" // the writer of a file has no name here
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

// bad counts a record that cannot be read and keeps it, within the bound. Old records were counted
// when they were new.
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
// The order is what makes it safe: dead letters, events, place. A crash in between reads
// the records after the old place again; events that come twice by that have the same ids.
// A disk without room is waited for; any other error is one that weir cannot go on from.
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
	// Nor does an old record move the place back to where it was.
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
// After that long the partners of a record do not come any more, or come too late for what
// is judged by now.
func (f *follower) rest(ctx context.Context) error {
	if !f.held || f.in.o.Clock.Now().Sub(f.idle) < flushAfter {
		return nil
	}
	return f.flush(ctx)
}

// flush takes the events that the adapter holds back. They have no record of their own, so a fault in
// one has no offset.
func (f *follower) flush(ctx context.Context) error {
	f.held, f.quiet = false, false
	if err := f.adapter.Flush(func(ev *events.Event) { f.event(ev, nil) }); err != nil {
		f.bad(&jsonl.Record{}, adapter.CodeFormat, err.Error())
	}
	return f.append(ctx)
}

// finish takes the remaining events at the end of a pipe.
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
