package intake

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/events/adapter"
	"weir/events/jsonl"
)

// fileSet follows the files of a folder, or those that match a pattern, as they come and
// go. Files of one format share an adapter, for a run may be told in many: a session and
// its child agents.
type fileSet struct {
	in     *Intake
	spec   Follow
	mu     sync.Mutex
	files  map[string]*followed
	passed map[string]int64 // files of no known format, with their sizes
	shared sharedAdapters
	full   bool // it was said that there are too many files
	error  string
}

// followed is one file of a folder.
type followed struct {
	*follower
	cancel context.CancelFunc
	gone   int // looks since it was there
}

const (
	filesPoll = time.Second
	// maxFollowed is how many files of a folder are read at one time.
	maxFollowed = 4096
	// goneLooks is after how many looks a file is given up that is not there any more;
	// till then what was renamed is read to its end.
	goneLooks = 60
)

func newFileSet(in *Intake, spec Follow) *fileSet {
	return &fileSet{in: in, spec: spec, files: make(map[string]*followed), passed: make(map[string]int64),
		shared: sharedAdapters{clock: in.o.Clock, all: make(map[string]*sharedAdapter)}}
}

// run looks for files until the stage ends.
func (d *fileSet) run(ctx context.Context) error {
	var files sync.WaitGroup
	defer files.Wait()
	for {
		d.look(ctx, &files)
		if err := retry.Pause(ctx, d.in.o.Clock, filesPoll); err != nil {
			return err
		}
	}
}

func (d *fileSet) look(ctx context.Context, files *sync.WaitGroup) {
	paths, err := jsonl.Files(d.spec.Path)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if d.error != err.Error() {
			d.in.o.Logger.Error("a folder cannot be followed", "path", d.spec.Path, "error", err)
		}
		d.error = err.Error()
		return
	}
	d.error = ""
	for path, f := range d.files {
		if _, there := slices.BinarySearch(paths, path); there {
			f.gone = 0
		} else if f.gone++; f.gone > goneLooks {
			f.cancel()
			delete(d.files, path)
		}
	}
	for _, path := range paths {
		if d.files[path] == nil {
			d.begin(ctx, path, files)
		}
	}
}

// begin follows a file that is new.
func (d *fileSet) begin(ctx context.Context, path string, files *sync.WaitGroup) {
	if len(d.files) == maxFollowed {
		if !d.full {
			d.in.o.Logger.Error("more files than can be followed; the others wait until some are gone", "path", d.spec.Path, "followed", maxFollowed)
		}
		d.full = true
		return
	}
	st, err := os.Stat(path)
	if size, passed := d.passed[path]; err != nil || passed && (size == st.Size() || size >= detectBytes) {
		return // gone, or passed over and not longer than it was
	}
	f, err := newFollower(d.in, Follow{Path: path, Format: d.spec.Format}, d)
	if err != nil {
		if _, told := d.passed[path]; !told {
			d.in.o.Logger.Warn("a file is passed over", "error", err)
		}
		if len(d.passed) < maxFollowed {
			d.passed[path] = st.Size()
		}
		return
	}
	delete(d.passed, path)
	ctx, cancel := context.WithCancel(ctx)
	d.files[path] = &followed{follower: f, cancel: cancel}
	files.Go(func() {
		defer cancel()
		if err := f.run(ctx); err != nil && ctx.Err() == nil {
			d.in.o.Fail(fmt.Errorf("follow %s: %w", path, err))
		}
		if err := f.tail.Close(); err != nil {
			d.in.o.Logger.Warn("a followed file was not closed", "path", path, "error", err)
		}
	})
}

// states are those of the files that are followed now, in the order of their names.
func (d *fileSet) states() (out []Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.error != "" || len(d.files) == 0 {
		out = append(out, Status{Path: d.spec.Path, Error: d.error})
	}
	for _, f := range d.files {
		out = append(out, f.state())
	}
	slices.SortFunc(out, func(a, b Status) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	return out
}

// sharedAdapters are those of the files of one folder, by format.
type sharedAdapters struct {
	clock clock.Clock
	mu    sync.Mutex
	all   map[string]*sharedAdapter
}

// of returns the adapter of a format for one more file.
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
type sharedAdapter struct {
	clock clock.Clock
	mu    sync.Mutex
	inner adapter.Adapter
	last  time.Time
}

// fileAdapter is how one of the files is read with it.
type fileAdapter struct {
	*sharedAdapter
	file adapter.Adapter // inner, or a branch of it
}

func (f *fileAdapter) Decode(record []byte, emit func(*events.Event)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = f.clock.Now()
	return f.file.Decode(record, emit)
}

// Flush ends what the file has begun, and tells what is held back when all files have
// been silent; the last of them to fall silent does it for all.
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
