package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/dgraph-io/badger/v4"

	"weir/state/mark"
)

// Store is an open state. Its methods may be called by any number of goroutines.
type Store struct {
	tables
	logTable
	capacity

	options   Options
	directory *directory // nil in memory
	disk      disk
	reserve   *reserve
	mark      *mark.Mark // how far transactions are synced; nil in memory
	wal       *journalWAL
	presence  *presence // nil in memory
	writer    *writer
	fault     atomic.Pointer[error] // why nothing can be written any more

	// Both are made by open; watched is closed at once where there is nothing to look for.
	closing, watched chan struct{} // closed when the look for files shall end, and when it has

	older bool // the format is yet to be written, see formatOp; of the writer after open
}

// capacity follows from the memtable that Badger was opened with, and does not change.
type capacity struct {
	maxBytes int64 // of one transaction, for its entries
	maxCount int
	maxValue int
}

// Open opens the state in dir and creates it when there is none; "" keeps it in
// memory, for tests and demonstrations. One process at a time may have it open: Open
// waits a while for another one to end and then returns ErrLocked.
//
// Open verifies the checksums of all files, which takes about half a second for a
// gigabyte. State that is damaged is ErrDamaged and left as it is; whether it may be
// thrown away is for a person to say, who knows where the log is.
func Open(dir string, o Options) (*Store, error) {
	s, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	return s, nil
}

// open is Open without the words that its errors begin with.
func open(dir string, o Options) (_ *Store, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{options: o, closing: make(chan struct{}), watched: make(chan struct{})}
	s.logTable = logTable{store: s, byID: make(map[string]*Log)}
	path := ""
	if dir == "" {
		s.disk.free, s.reserve = boundless, new(reserve)
	} else {
		// The lock comes first: nothing may be looked at while another process writes.
		if s.directory, err = openDirectory(dir, o.LockWait, o.Logger); err != nil {
			return nil, err
		}
		path = s.directory.path
		s.disk.path, s.disk.floor, s.disk.free = path, o.MinFree, o.free
		if s.reserve, err = openReserve(filepath.Join(dir, reserveName)); err != nil {
			return nil, errors.Join(err, s.directory.close())
		}
	}
	// From here on whatever was opened is closed again before an error is returned, the lock
	// last.
	if err := s.openDatabase(path); err != nil {
		return nil, errors.Join(err, s.directory.close())
	}
	s.writer = newWriter(s)
	fresh, err := s.load(dir)
	if err != nil {
		return nil, errors.Join(err, s.wal.close(), s.mark.Close(), s.presence.close(), s.db.Close(), s.directory.close())
	}
	if s.presence == nil {
		close(s.watched)
	} else {
		go s.watch()
	}
	// State of an older format on a full disk is opened as it is, and given its format with the
	// first transaction that has room; an empty one would have none, and is not opened.
	if fresh {
		err := s.writer.write(&batch{ops: []op{*formatOp()}})
		if err != nil && (s.committed == 0 || !errors.Is(err, ErrDiskLow)) {
			return nil, errors.Join(err, s.Close())
		}
		s.older = err != nil
	}
	return s, nil
}

// openDatabase looks at the files, and opens them if nothing is wrong with them.
func (s *Store) openDatabase(path string) error {
	options := s.options.badger(path)
	if path != "" {
		// Opening itself writes what was in memory when the last process ended. Half
		// the floor is enough for that, so that a process which had stopped writing at
		// the floor can be started again.
		if err := s.admitHalf(); err != nil {
			return err
		}
		if err := s.directory.tidy(); err != nil {
			return err
		}
		memTable, err := s.directory.verify(options)
		if err != nil {
			return fmt.Errorf("%w; %s", err, advice)
		}
		options.MemTableSize = max(options.MemTableSize, memTable)
	}
	db, err := openBadger(options)
	if err != nil {
		return err
	}
	s.db = db
	// A group adds entries of its own to what callers write, see group.commit.
	s.maxBytes = db.MaxBatchSize() - groupOverhead
	s.maxCount = int(db.MaxBatchCount()) - groupEntries
	s.maxValue = int(min(valueThreshold, s.maxBytes)) - entryHead
	return nil
}

// inMemory reports whether nothing of the store outlives it.
func (s *Store) inMemory() bool { return s.directory == nil }

// advice is what a person needs who finds the state damaged.
const advice = "if the events come from Kafka, the state is only a cache of them: move the directory away and start again; " +
	"in the embedded form the directory holds the journal itself: keep it, and make a new one of a backup: weir restore BACKUP --state NEW"

// openBadger opens the database. An error is the system's, which may heal, or ErrDamaged. Reporting
// damage for a full disk or a missing right would make an operator discard a good state.
func openBadger(o badger.Options) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil { // some damage makes Badger panic
			err = fmt.Errorf("%w; %s", damaged(o.Dir, fmt.Errorf("badger: %v", r)), advice)
		}
	}()
	db, err = badger.OpenManaged(o)
	if err == nil {
		return db, nil
	}
	// Badger does not wrap errors, so system errors are recognised by their text.
	for _, e := range []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EIO} {
		if strings.Contains(err.Error(), e.Error()) {
			return nil, fmt.Errorf("badger: %w", err)
		}
	}
	return nil, fmt.Errorf("%w; %s", damaged(o.Dir, fmt.Errorf("badger: %w", err)), advice)
}

// load checks what the database holds and takes from it what is kept in memory. It
// reports whether it has yet to be given the format of this weir.
func (s *Store) load(dir string) (fresh bool, err error) {
	if fresh, err = s.checkFormat(); err != nil {
		return false, err
	}
	// First whether anything is missing in the middle, then by the mark whether the end is.
	last, err := checkChain(s.db)
	if err == nil && s.directory != nil {
		err = s.compare(filepath.Join(dir, markFile), last)
	}
	if err != nil {
		return false, fmt.Errorf("%w; %s", err, advice)
	}
	s.advance(last)
	if err := s.loadLogs(); err != nil || s.directory == nil {
		return fresh, err
	}
	if err := s.openWAL(dir); err != nil {
		return false, fmt.Errorf("%w; %s", err, advice)
	}
	return fresh, nil
}

// markFile records, beside the database, which transactions are synced. The chain cannot show
// that its end is missing: cut off, replaced by an older one, or removed with the database.
const markFile = "synced"

// compare opens the mark and compares it with the last transaction that is there.
func (s *Store) compare(path string, last uint64) (err error) {
	var synced mark.Range
	if s.mark, synced, err = mark.Open(path); err != nil {
		return damaged(path, err)
	}
	// More than the mark says may be there: the mark itself is not waited for, see mark.Set.
	if last+1 < synced.To {
		return damaged(s.directory.path, fmt.Errorf("transactions %d to %d were synced and are not there", last+1, synced.To-1))
	}
	if s.presence, err = newPresence(s.directory.path); err != nil {
		return err
	}
	return nil
}

// safe syncs a transaction, if the file that it was written to is still present, and
// records it.
// It runs before a write is acknowledged.
func (s *Store) safe(version uint64) error {
	if s.presence == nil {
		return nil
	}
	if err := s.presence.written(s.options.sync); err != nil {
		return err
	}
	return s.mark.Set(mark.Range{From: 1, To: version + 1})
}

// formatMagic begins the value of the format key, outside of the versioned values, so
// that every weir can read it.
const formatMagic = "weir"

// Format is the number of the format that this weir writes. It reads all formats up to it. It grows when an older
// weir could not read what is written, or would read it wrong.
const Format = 5

// checkFormat reports whether the database has yet to be given the format of this weir, being
// empty or older, or refuses a format that it does not know.
func (s *Store) checkFormat() (fresh bool, err error) {
	v, err := getValue(s.db, []byte{formatPrefix})
	if errors.Is(err, badger.ErrKeyNotFound) {
		fresh = true
		// The format is written with the first transaction of all, so without it there can be
		// nothing.
		err = iterate(s.db, nil, func(item *badger.Item) error {
			return damaged("format", fmt.Errorf("it is missing, but there is %s; %s", describe(item.Key()), advice))
		})
		return fresh, err
	}
	if err != nil {
		return false, err
	}
	number, ok := bytes.CutPrefix(v, []byte(formatMagic))
	if !ok || len(number) != 4 {
		return false, damaged("format", fmt.Errorf("%q is not one; %s", v, advice))
	}
	n := binary.BigEndian.Uint32(number)
	if n > Format {
		return false, fmt.Errorf("%w: %d, this weir knows formats up to %d; run the newer weir again, or one with a directory of its own",
			ErrNewer, n, Format)
	}
	return n < Format, nil
}

// formatOp gives the database the format of this weir. Its value has no seal, see formatMagic.
func formatOp() *op {
	return &op{entry: badger.Entry{Key: []byte{formatPrefix}, Value: binary.BigEndian.AppendUint32([]byte(formatMagic), Format)}}
}

// Close waits for the calls under way, wakes those who wait for a log to grow, and
// closes the database. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, l := range s.byID {
		l.close()
	}
	s.mu.Unlock()
	// Running calls finish; later ones get ErrClosed.
	s.users.Wait()
	if s.failure() == nil {
		_ = s.writer.flush() // else it is made again
	}
	close(s.closing)
	<-s.watched
	// A database that cannot be closed in order is left as a crash would leave it, which Open
	// copes with.
	closing := s.db.Close
	if s.presence != nil && s.presence.manifest() != nil {
		// Badger would try for ever to write what is in memory.
		closing = func() error { return nil }
	} else if s.disk.path != "" && s.admitHalf() != nil {
		// To close Badger is to write what is in memory into a table, by a memory map: on a
		// full disk that ends the process. All of it is in the logs that are synced with each
		// write, and the next open, which asks for the same room, makes the table of them.
		s.options.Logger.Warn("the disk is too full to close the state in order; nothing is lost, the next start takes a little longer", "path", s.disk.path)
		closing = s.db.Sync
	}
	if err := errors.Join(closing(), s.wal.close(), s.presence.close(), s.mark.Close(), s.directory.close()); err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return nil
}

// admitHalf admits what Badger writes when it is opened and closed, for which half the floor is
// enough, and the reserve where there is less.
func (s *Store) admitHalf() error {
	err := s.disk.admit(0, s.disk.floor/2)
	if errors.Is(err, ErrDiskLow) {
		s.reserve.release()
		err = s.disk.admit(0, s.disk.floor/2)
	}
	return err
}

// Free returns the free bytes of the disk and the floor below which nothing is
// written, which is higher while the reserve is given back. Free bytes that cannot
// be asked for are 0. In memory there is no floor.
func (s *Store) Free() (free, floor int64) {
	free, err := s.disk.free(s.disk.path)
	if err != nil {
		free = 0
	}
	return free, s.floor()
}

// floor is what must stay free of the disk, and what was given back of the reserve beside it.
func (s *Store) floor() int64 { return s.disk.least() + s.reserve.owes() }

// Size returns the bytes that the files take on disk: tables with their logs, and the value
// log. It is 0 in memory, and for what cannot be read.
func (s *Store) Size() (tables, values int64) {
	if s.disk.path == "" {
		return 0, 0
	}
	files, err := os.ReadDir(s.disk.path)
	if err != nil {
		return 0, 0
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil { // it has just gone
			continue
		}
		size := info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size = st.Blocks * 512 // some files are long and mostly empty
		}
		switch filepath.Ext(f.Name()) {
		case ".sst", ".mem":
			tables += size
		case ".vlog":
			values += size
		}
	}
	return tables, values
}
