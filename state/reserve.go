package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// reserve is room on the disk that no other program can take. The floor keeps weir from filling the
// disk, but not other programs. If one takes the last bytes while Badger merges tables, the kernel
// kills the process. So a file holds as much as the tables have, up to the floor, and releases it
// when the disk runs low. A running merge then finds its room.
//
// Released room is owed. Until it is held again the floor is higher by as much; otherwise weir would
// write into the room for its merges.
//
// The zero value holds nothing.
type reserve struct {
	path string // of the file
	mu   sync.Mutex
	held int64
	owed int64
}

const (
	// reserveName is that of the file, beside the database: who opens that by other means does
	// not find strange files in it.
	reserveName = "reserve"
	// reserveStep is the least that the file grows by. A store that is smaller merges nothing
	// that does not fit below the floor.
	reserveStep = 64 << 20
	// reserveEvery is how often it is looked whether the room is needed. A merge writes some
	// hundreds of MiB a second.
	reserveEvery = 50 * time.Millisecond
)

// openReserve finds what a process before has left.
func openReserve(path string) (*reserve, error) {
	r := &reserve{path: path}
	info, err := os.Stat(path)
	switch {
	case err == nil:
		r.held = info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("look for the reserve: %w", err)
	}
	return r, nil
}

// release gives the room back, and reports whether there was any. That it could not be given
// back is no fault of the store, which goes on without it.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == 0 || os.Truncate(r.path, 0) != nil {
		return false
	}
	r.owed, r.held = r.held, 0
	return true
}

// holds reports whether there is room to give back.
func (r *reserve) holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held > 0
}

// owes is how much was given back and is not held again.
func (r *reserve) owes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owed
}

// hold makes the file at least so large, if as much as the floor stays free twice beside it. A
// file system that cannot set room aside has no reserve.
func (r *reserve) hold(want, free, floor int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	want -= want % reserveStep
	grow := want - r.held
	if grow <= 0 || free-grow < 2*floor {
		return
	}
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	if err := setAside(file, r.held, grow); err != nil {
		_ = file.Truncate(r.held) // what was set aside of it before it failed
		return
	}
	r.held, r.owed = want, 0
}

// needReserve gives the reserve back when the disk is nearly full.
func (s *Store) needReserve() {
	if !s.reserve.holds() {
		return
	}
	if free, err := s.disk.free(s.disk.path); err == nil && free < s.disk.least()/2 && s.reserve.release() {
		s.options.Logger.Warn("the disk is nearly full: the room that was held for merging the state is given back", "path", s.disk.path, "free_mib", free>>20)
	}
}

// measure makes the floor and the reserve follow the tables, whose sizes Badger has in memory.
func (s *Store) measure() {
	all, next := int64(0), int64(0)
	base := 0                         // the first level with tables below level 0
	for _, t := range s.db.Tables() { // by level
		all += int64(t.OnDiskSize)
		if base == 0 {
			base = t.Level
		}
		if t.Level <= base {
			next += int64(t.OnDiskSize)
		}
	}
	// Level 0 is merged with all of the next one, and both are there until that is done. Memtables
	// are flushed meanwhile.
	if next > 0 {
		next += memTablesFlushed * s.options.MemTableSize
	}
	s.disk.merge.Store(next)
	if all < reserveStep {
		return
	}
	if free, err := s.disk.free(s.disk.path); err == nil {
		s.reserve.hold(min(all, s.disk.least()), free, s.disk.least())
	}
}

// memTablesFlushed is how many memtables may be flushed while tables are merged: all that there
// are, and as many that begin then.
const memTablesFlushed = 6
