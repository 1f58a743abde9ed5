package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// presence looks whether the files of an open database are still in its directory. Who
// removes them takes nothing from the process that has them open: it would write on, and
// acknowledge what is gone when it ends.
// A nil presence is that of a store in memory.
type presence struct {
	dir string

	mu sync.Mutex
	// It is kept open only to be synced and compared. number is -1 before the first one is
	// found.
	log    *os.File // the write-ahead log with the highest number, which is written to
	number int
	file   fileID // of log
	// Where log is, and where the next one will be.
	here, next *place
}

// fileID identifies a file.
type fileID struct{ device, inode uint64 }

// statFile says which file is at a path.
func statFile(path string) (fileID, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileOf(&st), nil
}

func fileOf(st *syscall.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} }

// presenceEvery is how often those files are looked for that a write does not need.
const presenceEvery = time.Second

// The next process to open the database finds damage, so this is reported as damage.
var errRemoved = errors.New("the file was removed while it was in use")

// newPresence looks at the files of a database that was just opened.
func newPresence(dir string) (*presence, error) {
	p := &presence{dir: dir}
	p.expect(-1)
	return p, p.follow()
}

// written says what is wrong with the write-ahead log that was just written to, and syncs it
// when it is asked to. Badger begins logs with numbers one higher each, and removes those
// that it needs no more but never the highest.
func (p *presence) written(sync func(log *os.File) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.follow(); err != nil {
		return err
	}
	if err := sync(p.log); err != nil {
		return fmt.Errorf("sync %s: %w", p.log.Name(), err)
	}
	return nil
}

// follow opens the log that is written to when Badger has begun another one.
// One look is enough, most of the time: that the open file is still the one at its path, and that
// no log with the next number is there.
func (p *presence) follow() error {
	now, err := p.here.file()
	if err == nil && p.log != nil {
		// Another file has the name now. What Badger writes goes to the one without a
		// name.
		if now != p.file {
			return damaged(p.here.path, errRemoved)
		}
		if _, err := p.next.file(); err != nil {
			return nil
		}
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return damaged(p.dir, err)
	}
	highest := -1
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".mem")
		if n, err := strconv.Atoi(name); ok && err == nil {
			highest = max(highest, n)
		}
	}
	if highest <= p.number {
		return damaged(p.here.path, errRemoved)
	}
	if err := p.close(); err != nil {
		return err
	}
	p.expect(highest)
	if p.log, err = os.Open(p.here.path); err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(p.log.Fd()), &st); err != nil {
		return err
	}
	p.file = fileOf(&st)
	return nil
}

// expect makes the log with a number the one that is looked for.
func (p *presence) expect(number int) {
	p.number, p.here, p.next = number, newPlace(p.path(number)), newPlace(p.path(number+1))
}

// path is where Badger keeps the log with a number.
func (p *presence) path(number int) string {
	return filepath.Join(p.dir, fmt.Sprintf("%05d.mem", number))
}

// close closes the log, which stays where it is.
func (p *presence) close() error {
	if p == nil || p.log == nil {
		return nil
	}
	return p.log.Close()
}

// unsynced leaves a log as it is.
func unsynced(*os.File) error { return nil }

// manifest says what is wrong with the list of the tables.
func (p *presence) manifest() error {
	path := filepath.Join(p.dir, badger.ManifestFilename)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // Badger replaces it at times, by renaming
		return damaged(path, errRemoved)
	}
	return nil
}

// all says what is wrong with any of the files.
// The tables are listed before and after, because Badger removes those that it has merged into
// others.
func (p *presence) all(db *badger.DB) error {
	if err := errors.Join(p.manifest(), p.written(unsynced)); err != nil {
		return err
	}
	for _, t := range db.Tables() {
		path := table.NewFilename(t.ID, p.dir)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if slices.ContainsFunc(db.Tables(), func(now badger.TableInfo) bool { return now.ID == t.ID }) { // else it was merged meanwhile
			return damaged(path, errRemoved)
		}
	}
	return nil
}

// watch looks for the files until the store is closed.
func (s *Store) watch() {
	defer close(s.watched)
	s.measure()
	every, often := time.NewTicker(presenceEvery), time.NewTicker(reserveEvery)
	defer every.Stop()
	defer often.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-every.C:
			s.look()
			s.measure()
		case <-often.C:
			s.needReserve()
		}
	}
}

// look lets the store fail when one of its files is gone.
// Also damage that a look itself meets, such as a folder that cannot be read, ends all writing:
// what cannot be looked at cannot be promised.
func (s *Store) look() {
	if err := s.presence.all(s.db); err != nil {
		s.fail(err)
	}
}

// fail notes why nothing can be written any more, the first time, and says so.
func (s *Store) fail(err error) {
	// Only the first reason counts; what fails after it follows from it.
	if s.fault.CompareAndSwap(nil, &err) {
		s.options.Failed(fmt.Errorf("write state: %w: %w; %s", ErrFailed, err, advice))
	}
}

// failure is why nothing can be written any more; nil as long as it can.
func (s *Store) failure() error {
	if err := s.fault.Load(); err != nil {
		return fmt.Errorf("write state: %w: %w", ErrFailed, *err)
	}
	return nil
}
