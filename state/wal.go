package state

import (
	"errors"
	"fmt"
	"path/filepath"

	"weir/state/mark"
	"weir/state/wal"
)

// journalWAL is the write-ahead log of the embedded journal. A database transaction per awaited
// event takes as much processor time as all else that is done for it. A few events are therefore made
// durable here and enter the database with the next transaction, as derived entries do (see along).
// A nil one is that of a store in memory.
type journalWAL struct {
	log  *wal.Log
	of   *Log       // the journal
	mark *mark.Mark // where what is durable of the journal ends, as synced is of the database
	// Where the file is, and which one it was when it was first looked for.
	here *place
	file fileID
}

const (
	// walPartition is that of the only journal of the embedded form.
	walPartition = 0
	// The files are beside the database.
	walFile     = "journal.wal"
	walMarkFile = "journal.wal.synced"
)

// openWAL takes in what the process before has written ahead and not yet into the database.
func (s *Store) openWAL(dir string) (err error) {
	a := &journalWAL{of: s.Journal(walPartition), here: newPlace(filepath.Join(dir, walFile))}
	var groups []wal.Group
	if a.log, groups, err = wal.Open(a.here.path); err != nil {
		return err
	}
	s.wal = a
	for _, g := range groups {
		if err := s.showAhead(g); err != nil {
			return damaged(a.here.path, err)
		}
	}
	var synced mark.Range
	if a.mark, synced, err = mark.Open(filepath.Join(dir, walMarkFile)); err != nil {
		return damaged(walMarkFile, err)
	}
	if end := uint64(a.of.end); end < synced.To {
		return damaged(a.here.path, fmt.Errorf("entries %d to %d of the journal were synced and are not there", end, synced.To-1))
	}
	a.written()
	return nil
}

// showAhead lets readers have a group of the write-ahead log, but for what the database has.
func (s *Store) showAhead(g wal.Group) error {
	l := s.wal.of
	if g.First > l.end {
		return fmt.Errorf("it begins at entry %d of the journal, which ends at %d", g.First, l.end)
	}
	had := min(l.end-g.First, int64(len(g.Values)))
	entries := make([]Entry, 0, len(g.Values))
	for _, v := range g.Values[had:] {
		e, err := decodeEntry(v)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if len(entries) > 0 {
		s.writer.along.add(l.batch(entries))
	}
	return nil
}

// written starts the write-ahead log again when the database has all of it, and reports whether it
// has.
func (a *journalWAL) written() bool {
	if a == nil || a.of.durable() != a.of.End() {
		return false
	}
	if !a.log.Empty() {
		a.log.Reset()
	}
	return true
}

// write makes a group durable, if what it was written to is still there, and so is the database.
func (a *journalWAL) write(g wal.Group, database *presence) error {
	if err := a.log.Append(g); err != nil {
		return err
	}
	if err := a.there(database); err != nil {
		return err
	}
	return a.mark.Set(mark.Range{To: uint64(g.First) + uint64(len(g.Values))})
}

// there says what is wrong with the file that was just written to, or with the database.
func (a *journalWAL) there(database *presence) error {
	now, err := a.here.file()
	if err != nil {
		return damaged(a.here.path, err)
	}
	if a.file == (fileID{}) {
		a.file = now
	}
	if now != a.file {
		return damaged(a.here.path, errRemoved)
	}
	return database.written(unsynced)
}

// close closes the files.
func (a *journalWAL) close() error {
	if a == nil {
		return nil
	}
	return errors.Join(a.log.Close(), a.mark.Close())
}

// writeAhead makes batches durable in the write-ahead log and notifies each, if they are of
// the journal and fit. Otherwise they must go into the database, and it returns false. Large
// batches are better there at once, because they end there anyway. Without a caller that waits for
// the disk it leaves the sync for later.
func (w *writer) writeAhead(batches []*batch) bool {
	s, bytes := w.store, int64(0)
	// An older weir would not read this file, so the format must keep it out first.
	if s.wal == nil || s.older || len(batches) == 0 || s.failure() != nil {
		return false
	}
	l, synced := s.wal.of, false
	g := wal.Group{First: l.End(), Values: w.values[:0]}
	for _, b := range batches {
		synced = synced || !b.unsynced
		if b.log != l || len(b.kept) < len(b.ops) { // there is more to it than entries
			return false
		}
		bytes += b.size()
		for i := range b.ops {
			g.Values = append(g.Values, b.ops[i].entry.Value[sealBytes:])
		}
	}
	w.values = g.Values
	w.mu.Lock()
	behind, late := w.unsynced, w.late
	w.mu.Unlock()
	if bytes > wal.MostBytes || late || synced && behind { // which may be lost with all that comes after it
		return false
	}
	// With as much room as if it went into the database now, where it will. Of those that do not wait
	// for the disk the first alone asks for that, and whether the files are there, for all that go
	// into the database together.
	if !behind && s.disk.admit(bytes, s.floor()) != nil {
		return false
	}
	var err error
	if synced {
		err = s.wal.write(g, s.presence)
	} else if err = s.wal.log.AppendUnsynced(g); err == nil && !behind {
		err = s.wal.there(s.presence)
	}
	clear(w.values)
	if errors.Is(err, wal.ErrFull) {
		return false
	}
	if err != nil {
		s.fail(err)
		for _, b := range batches {
			b.notify(s.failure())
		}
		return true
	}
	w.mu.Lock()
	if !synced && !behind {
		w.syncSoon()
	}
	for _, b := range batches {
		// The caller may reuse b once it is notified.
		later := &batch{log: l, ops: b.ops, kept: b.kept}
		w.along.add(later)
		b.first = later.first
		b.notify(nil)
	}
	w.mu.Unlock()
	return true
}
