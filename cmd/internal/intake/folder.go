package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/filewatch"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/events/adapter"
	"weir/events/jsonl"
)

// fileSet follows the files of a folder, or those that match a pattern, as they come and go. Files of
// one format share an adapter, because a run may span several of them: a session and its child agents.
//
// A file without recent writes is parked: it is closed, and nothing runs for it until it has changed.
// So the number of files has no limit.
type fileSet struct {
	in    *Intake
	spec  Follow
	turns chan struct{} // of those that read what is new to them, see turn
	// turnBytes is how much a file reads in one turn, so that large files, however many, do
	// not keep small ones waiting.
	turnBytes int
	room      jsonl.Room // for what they have read of long records
	// mu guards what follows, and what a followed has beside its follower. It is not held while files
	// are looked at: there may be many, and requests for states wait for it. Only the goroutine of run
	// changes which files there are, so it looks them up without the lock.
	mu    sync.Mutex
	files map[string]*followed
	// Files that cannot be read, or not in any known format. The latter are looked at again
	// when they have changed, for their first record may have been half there.
	passed map[string]passedOver
	shared sharedAdapters
	shown  shownStates
	error  string
	// rotated is true when it was said that there are files which are not followed.
	rotated bool
}

// passedOver is a file that is not followed.
type passedOver struct {
	was    os.FileInfo // as it was then
	unread string      // why it could not be read; "" where its format is not known
}

// again reports whether the file is worth another look.
func (p passedOver) again(now os.FileInfo) bool {
	switch {
	// Rights and descriptors come and go without a change of the file.
	case p.unread != "" || !os.SameFile(now, p.was) || now.Size() < p.was.Size():
		return true
	case p.was.Size() >= detectBytes:
		return false // more of it will fit no format either
	}
	return now.Size() != p.was.Size() || !now.ModTime().Equal(p.was.ModTime())
}

// turn is the right of a file to read up to its end, or as far as turnBytes. It is for the
// goroutine of the file.
type turn struct {
	turns chan struct{}
	has   bool
	bytes int // that were read in it
}

// take waits for a turn; who waits longest gets the next one.
func (t *turn) take(ctx context.Context) error {
	select {
	case t.turns <- struct{}{}:
		t.has, t.bytes = true, 0
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// give gives the turn back, if there is one.
func (t *turn) give() {
	if t.has {
		t.has = false
		<-t.turns
	}
}

// again gives the turn to a waiting file, and takes the next. After its end a file has none, and needs
// none for occasional records; for more it needs one.
func (t *turn) again(ctx context.Context) error {
	t.give()
	return t.take(ctx)
}

// followed is one file of a folder. While runs is set, its follower belongs to the goroutine that
// reads it. Otherwise it belongs to the goroutine that holds the lock of the set.
type followed struct {
	*follower
	gone   int                // looks since it was there
	runs   bool               // a goroutine reads it
	cancel context.CancelFunc // ends that; nil before the first time
	parked os.FileInfo        // as it was when it was parked; nil before
}

const (
	// filesPoll is the least time between two scans of a folder, whatever the system reports. A file
	// with constant writes would otherwise cause constant scans.
	filesPoll = time.Second
	// restPoll is the extra time until the next scan if the system reports changes, because not every
	// file system does.
	restPoll = 9 * time.Second
	// parkAfter is the time without writes after which a file is parked.
	parkAfter = 10 * time.Second
	// filesAtOnce is how many files are read at one time up to their ends.
	// Behind its end a file needs no turn; it only waits for more.
	filesAtOnce = 32
	turnBytes   = 8 << 20 // see fileSet
	// roomBytes is what the files of a folder hold of records that are half there, together.
	roomBytes = 8 * (2*adapter.MaxRecord + 1<<20)
	// goneLooks is after how many looks a file is given up that is not there any more;
	// till then what was renamed is read to its end.
	goneLooks = 60
)

// newFileSet returns one that has not looked yet.
func newFileSet(in *Intake, spec Follow) *fileSet {
	return &fileSet{in: in, spec: spec, turns: make(chan struct{}, filesAtOnce), turnBytes: turnBytes, room: semaphore.NewWeighted(roomBytes), files: make(map[string]*followed), passed: make(map[string]passedOver),
		shared: sharedAdapters{clock: in.o.Clock, all: make(map[string]*sharedAdapter)}}
}

// run looks for files until the stage ends.
// An error is that of ctx. When it returns, no goroutine reads a file of it.
func (d *fileSet) run(ctx context.Context) error {
	var files sync.WaitGroup
	defer files.Wait()
	watch := filewatch.NewFolders(d.running)
	defer watch.Close()
	for {
		d.look(ctx, &files)
		// Only when all folders were watched before this look is it sure that nothing was
		// missed.
		rests := watch.Follow(d.folders()) && d.rests()
		if err := retry.Pause(ctx, d.in.o.Clock, filesPoll); err != nil {
			return err
		}
		if rests {
			select {
			case <-watch.Changed():
			case <-d.in.o.Clock.After(restPoll):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// running reports whether a file is being read: then what is written to it is seen.
func (d *fileSet) running(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[path]
	return f != nil && f.runs
}

// rests reports whether nothing has to be looked for until something changes.
// It is not so while a file may have gone, or holds something back that will be due by
// time.
func (d *fileSet) rests() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		if f.gone > 0 || !f.runs && f.held {
			return false
		}
	}
	return true
}

// folders are those in which a change may be one of the files.
// Each folder between a file and the root is among them, since another one may be made
// there.
func (d *fileSet) folders() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	root := jsonl.Folder(d.spec.Path)
	out := map[string]bool{root: true}
	for _, files := range []iter.Seq[string]{maps.Keys(d.files), maps.Keys(d.passed)} {
		for path := range files {
			for folder := filepath.Dir(path); !out[folder]; folder = filepath.Dir(folder) {
				out[folder] = true
			}
		}
	}
	return out
}

// look takes up files that are new, lets go of those that are gone, and lets those be read
// that have changed. Goroutines that read are counted in files.
func (d *fileSet) look(ctx context.Context, files *sync.WaitGroup) {
	paths, rotated, err := jsonl.Files(d.spec.Path)
	d.note(rotated, err)
	d.forget(paths)
	for _, path := range paths {
		f := d.files[path]
		if f == nil {
			if f = d.begin(path); f == nil {
				continue
			}
		}
		if d.changed(f) {
			d.read(ctx, f, files)
		}
	}
}

// note keeps what is wrong with the folder, and logs it once.
func (d *fileSet) note(rotated []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	told := ""
	if err != nil {
		if told = err.Error(); told != d.error {
			d.in.o.Logger.Error("a folder cannot be followed, or not all that is in it", "path", d.spec.Path, "error", err)
		}
	}
	d.error = told
	if len(rotated) > 0 && !d.rotated {
		d.rotated = true
		d.in.o.Logger.Info("packed and rotated files are not followed; weir replay reads them", "path", d.spec.Path, "files", len(rotated), "first", rotated[0])
	}
}

// forget lets go of files that are not among the sorted paths.
func (d *fileSet) forget(paths []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, f := range d.files {
		if _, there := slices.BinarySearch(paths, path); there {
			f.gone = 0
			// A file that is renamed keeps its follower for a while: what was written to it
			// before it was renamed is read there, under whatever name it has.
		} else if f.gone++; f.gone > goneLooks {
			if f.cancel != nil {
				f.cancel()
			}
			delete(d.files, path)
		}
	}
	maps.DeleteFunc(d.passed, func(path string, _ passedOver) bool {
		_, there := slices.BinarySearch(paths, path)
		return !there
	})
}

// changed reports whether a file that is not read may have something that was not read, or that was
// held back for long enough.
// A file that was replaced by one of the same size and time is another one (os.SameFile).
func (d *fileSet) changed(f *followed) bool {
	d.mu.Lock()
	runs, parked := f.runs, f.parked
	d.mu.Unlock()
	// The follower belongs to this goroutine now, unless another one reads it.
	if runs {
		return false
	}
	if parked == nil || f.held && d.in.o.Clock.Now().Sub(f.idle) >= flushAfter {
		return true
	}
	now, err := os.Stat(f.path)
	return err == nil && (now.Size() != parked.Size() || !now.ModTime().Equal(parked.ModTime()) || !os.SameFile(now, parked))
}

// parks parks a file that was read to its end, if it had no writes for a while. The goroutine of the
// file calls it at its end; true ends that goroutine.
func (d *fileSet) parks(f *follower) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.files[f.path]
	if of == nil || of.follower != f {
		return false // it is gone, and read to its end under another name
	}
	// It has read what there was. A file that waits for a turn may read now, even if this file is not
	// parked and still waits for more.
	f.turn.give()
	// First, so that what is written from now on is a change.
	st, err := os.Stat(f.path)
	if err != nil {
		return false
	}
	age := time.Since(st.ModTime())
	if age < 0 { // of a machine whose clock is ahead, or set by hand
		age = d.in.o.Clock.Now().Sub(f.idle)
	}
	if age < parkAfter {
		return false
	}
	parked, err := f.tail.Park()
	if err != nil {
		d.in.o.Logger.Warn("a followed file was not closed", "path", f.path, "error", err)
	}
	if parked {
		of.parked = st
	}
	return parked
}

// begin takes up a new file; nil when it is skipped. A fault of a file is logged once, until the
// file is taken up.
func (d *fileSet) begin(path string) *followed {
	st, err := os.Stat(path)
	if err != nil {
		return nil // gone
	}
	passed, was := d.passed[path]
	if was && !passed.again(st) {
		return nil
	}
	f, err := newFollower(d.in, Follow{Path: path, Format: d.spec.Format}, d)
	if err != nil {
		now := passedOver{was: st}
		if _, unread := errors.AsType[*fs.PathError](err); unread {
			now.unread = err.Error()
		}
		if !was || now.unread != passed.unread {
			d.in.o.Logger.Warn("a file is passed over", "error", err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.passed[path] = now
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.passed, path)
	d.files[path] = &followed{follower: f}
	return d.files[path]
}

// read reads a file until it is parked, in a goroutine of its own.
func (d *fileSet) read(ctx context.Context, f *followed, files *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ctx, f.cancel = context.WithCancel(ctx)
	f.runs, f.parked, f.turn = true, nil, &turn{turns: d.turns}
	cancel, turn := f.cancel, f.turn
	files.Go(func() {
		defer cancel()
		if turn.take(ctx) != nil {
			return
		}
		defer turn.give()
		// An error of run is one of the store: nothing can be taken in any more.
		if err := f.run(ctx); err != nil && ctx.Err() == nil {
			d.in.o.Fail(fmt.Errorf("follow %s: %w", f.path, err))
		}
		// A parked file is closed already, and closing it again does nothing.
		if err := f.tail.Close(); err != nil {
			d.in.o.Logger.Warn("a followed file was not closed", "path", f.path, "error", err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		f.runs = false
		if f.parked == nil { // its format is not known; it is tried again when it has changed
			f.parked, _ = os.Stat(f.path)
		}
	})
}

// maxShown is how many files of a folder are listed one by one, those with faults first.
const maxShown = 100

// shownStates are the states of a folder with many files, as they were last put together. To look at
// each file for each request would cost more than the request.
type shownStates struct {
	mu  sync.Mutex
	at  time.Time
	was []Status
}

// shownFor is how old the states of a folder with many files may be.
const shownFor = time.Second

// states returns the states of the followed files, see latest. Those of many files may be shownFor old.
func (d *fileSet) states() []Status {
	s := &d.shown
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.was) <= maxShown || time.Since(s.at) >= shownFor {
		s.was, s.at = d.latest(), time.Now()
	}
	return s.was
}

// latest returns the states of the followed files, in the order of their names. If there are more than
// maxShown, an entry of the folder gives their number. The folder also has an entry when it cannot be
// read or no file was found.
func (d *fileSet) latest() (out []Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		s := f.state()
		s.Parked = f.parked != nil
		out = append(out, s)
	}
	for path, p := range d.passed {
		if p.unread != "" {
			out = append(out, Status{Path: path, Error: p.unread})
		}
	}
	many := len(out) > maxShown
	rank := func(s *Status) int {
		switch {
		case !many || s.Error != "":
			return 0
		case !s.Parked:
			return 1
		}
		return 2
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Path, b.Path))
	})
	if d.error != "" || len(d.files) == 0 || many {
		all := Status{Path: d.spec.Path, Error: d.error, Files: len(d.files)}
		for i := range out {
			all.Records, all.Bad = all.Records+out[i].Records, all.Bad+out[i].Bad
		}
		out = append([]Status{all}, out[:min(maxShown, len(out))]...)
	}
	return out
}

// sharedAdapters are those of the files of one folder, by format.
// Silence is judged by the clock of the shell: it is that of writers and no time of the
// fold.
type sharedAdapters struct {
	clock clock.Clock
	mu    sync.Mutex
	all   map[string]*sharedAdapter
}

// of returns the adapter of a format for one more file.
// Formats that know it get a branch for the file: what is begun in one file is not gone on
// with in another, while what is known of the run is known in all.
func (s *sharedAdapters) of(in *Intake, format adapter.Format) adapter.Adapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.all[format.Name]
	if !ok {
		a = &sharedAdapter{clock: s.clock, inner: in.adapter(format)}
		s.all[format.Name] = a
	}
	return &fileAdapter{a, adapter.BranchOf(a.inner)}
}

// sharedAdapter is an adapter that several files are read with.
// An adapter is for one goroutine, and each file has its own: the lock takes their place.
type sharedAdapter struct {
	clock clock.Clock
	mu    sync.Mutex
	inner adapter.Adapter
	// last is when any of the files brought a record.
	last time.Time
}

// fileAdapter is how one of the files is read with it.
type fileAdapter struct {
	*sharedAdapter
	file adapter.Adapter // inner, or a branch of it
}

// Decode reads a record of this file. Emit is called with the lock held.
func (f *fileAdapter) Decode(record []byte, emit func(*events.Event)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = f.clock.Now()
	return f.file.Decode(record, emit)
}

// Flush ends what the file has begun. It emits what is held back when all files have been silent; the
// last of them to fall silent does it for all.
func (f *fileAdapter) Flush(emit func(*events.Event)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != f.inner {
		if err := f.file.Flush(emit); err != nil {
			return err
		}
	}
	if f.clock.Now().Sub(f.last) < flushAfter {
		return nil
	}
	return f.inner.Flush(emit)
}
