package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// All logs are written into segments: an entry's key begins with the number of the
// segment that was open when it was appended. So what is written together lies
// together, below all other keys, and what is old is never touched again. With the
// log first in the key, every table that holds the ends of two logs would span all of
// the second one, and each time Badger moves such a table down a level it rewrites
// the whole log: gigabytes at a time, which no floor of free space covers.
//
// For the same reason entries do not have a time to live of Badger's, which gives
// space back only when tables are rewritten. Segments are dropped whole.
const (
	segmentBytes   = 128 << 20 // a new segment is begun after so much
	segmentsPerTTL = 8         // and after this part of the time that entries are kept
)

// segment is a stretch of time in which all logs were appended to. Numbers grow and are never
// given twice.
type segment struct {
	number  uint32
	started int64 // wall clock, Unix ms
}

// logStart says which is the first entry of a log in a segment.
// A log that had no entry while a segment was open has no start there.
type logStart struct {
	segment uint32
	first   int64
}

// tape is the sequence of segments. Once the store is open it belongs to the writer.
type tape struct {
	segments []segment // oldest first, the open one last
	bytes    int64     // in the open one, since the store was opened
}

// current returns the open segment, having begun a new one when it is time.
func (t *tape) current(now time.Time, o *Options) segment {
	next := segment{number: 1, started: now.UnixMilli()}
	if n := len(t.segments); n > 0 {
		last := t.segments[n-1]
		// A clock that is behind for a while must not make what is new look old. One
		// that is ahead makes entries stay for longer, which does no harm but to the
		// free space.
		next.started = max(next.started, last.started)
		old := o.JournalTTL > 0 && next.started-last.started >= o.JournalTTL.Milliseconds()/segmentsPerTTL
		if t.bytes < o.segmentBytes && !old {
			return last
		}
		next.number = last.number + 1
	}
	// It is on disk with the first entry that is put into it, by startOp.
	t.segments = append(t.segments, next)
	t.bytes = 0
	return next
}

// expired returns the segments that may go: all that are followed by one that was
// begun longer ago than entries are kept.
// The open one never is. No clock but that of the process is asked, see Options.
func (t *tape) expired(now time.Time, ttl time.Duration) []segment {
	n := 0
	for i := range t.segments {
		// Whatever is in a segment was appended before the next one was begun.
		if ttl > 0 && i > n && now.UnixMilli()-t.segments[i].started >= ttl.Milliseconds() {
			n = i
		}
	}
	return t.segments[:n]
}

// add registers a segment that was found in the database.
// Each log with entries in it refers to it, so most are registered already.
func (t *tape) add(g segment) {
	i, found := slices.BinarySearchFunc(t.segments, g.number, func(s segment, number uint32) int { return int(s.number) - int(number) })
	if !found {
		t.segments = slices.Insert(t.segments, i, g)
	}
}

// segmentPrefix begins the keys of all entries of a segment, whatever log they are of.
func segmentPrefix(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{entryPrefix}, number)
}

// startOp keeps where a log begins in a segment.
func startOp(g segment, l *Log, first int64) *op {
	key := append(startKeyPrefix(g.number), l.id...)
	v := newValue(2 * binary.MaxVarintLen64)
	v = binary.AppendVarint(v, first)
	// Each start repeats when the segment was begun; so no entry is needed for the segment
	// itself.
	v = binary.AppendVarint(v, g.started)
	seal(v, key)
	return &op{entry: badger.Entry{Key: key, Value: v}}
}

// startCost is what startOp takes of a transaction, at most.
const startCost = 1 + 4 + maxLogID + sealBytes + 2*binary.MaxVarintLen64 + entryOverhead

// startKeyPrefix begins the keys of the starts in a segment.
func startKeyPrefix(number uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{startPrefix}, number)
}

// trim drops the segments that have expired. First their starts go, by which readers
// find entries, then the entries; what a crash in between leaves goes at the next open.
func (w *writer) trim() {
	s := w.store
	if s.inMemory() {
		w.held.Lock()
		defer w.held.Unlock()
		w.trimHeld()
		return
	}
	// It is called before each write. Mostly nothing has expired, and memory is enough to know that.
	old := w.tape.expired(s.options.now(), s.options.JournalTTL)
	if len(old) == 0 || s.fault.Load() != nil {
		return
	}
	// One transaction for each, the oldest first, so that a crash leaves the starts in order.
	for _, g := range old {
		if err := w.removeStarts(g.number); err != nil {
			if !errors.Is(err, ErrDiskLow) { // which the writes report
				s.options.Logger.Warn("expired entries of logs are not removed yet", "err", err)
			}
			return
		}
	}
	// Readers get the gap before the entries are gone.
	w.forget(old)
	// No error is lost: what stays is dropped with the next segment that expires, or at the next
	// open.
	if err := sweep(s.db, w.tape.segments[0].number); err != nil {
		s.options.Logger.Warn("expired entries of logs are not removed yet", "err", err)
	}
}

// trimHeld is trim in memory, where the entries of logs are held by the logs alone. The caller
// holds held.
func (w *writer) trimHeld() {
	o := &w.store.options
	if old := w.tape.expired(o.now(), o.JournalTTL); len(old) > 0 {
		w.forget(old)
	}
}

// forget takes segments that have expired out of memory.
func (w *writer) forget(old []segment) {
	s := w.store
	s.mu.Lock()
	for _, l := range s.byID {
		l.forget(old[len(old)-1].number)
	}
	s.mu.Unlock()
	w.tape.segments = slices.Delete(w.tape.segments, 0, len(old))
}

// removeStarts removes the starts of all logs in a segment; nil when that is durable.
func (w *writer) removeStarts(number uint32) error {
	b := &batch{}
	err := iterate(w.store.db, startKeyPrefix(number), func(item *badger.Item) error {
		b.remove(item.KeyCopy(nil))
		return nil
	})
	if err != nil {
		return err
	}
	g := w.newGroup()
	g.floor = w.store.disk.floor / 2 // or nothing would ever make room
	for i := range b.ops {
		g.add(&b.ops[i])
	}
	return g.commit()
}

// sweep drops the entries of all segments before oldest, all at once, because Badger
// stops everything for some 100 ms however many they are.
func sweep(db *badger.DB, oldest uint32) error {
	var prefixes [][]byte
	for number := uint32(0); number < oldest; number++ {
		found := oldest
		err := iterateFrom(db, []byte{entryPrefix}, segmentPrefix(number), func(item *badger.Item) error {
			if key := item.Key(); len(key) >= 5 {
				found = binary.BigEndian.Uint32(key[1:])
			}
			return errStop
		})
		if err != nil {
			return err
		}
		if number = found; number < oldest {
			prefixes = append(prefixes, segmentPrefix(number))
		}
	}
	if len(prefixes) == 0 {
		return nil
	}
	if err := db.DropPrefix(prefixes...); err != nil {
		return fmt.Errorf("drop %d segments before %d: %w", len(prefixes), oldest, err)
	}
	return nil
}

// loadLogs finds the logs and segments that the database holds.
//
// Keys are ordered by segment and then by log, so the starts of each log come in their order.
func (s *Store) loadLogs() error {
	err := s.eachLog(endPrefix, 1, func(l *Log, _ []byte, d *decoder) error {
		l.end = d.int("end")
		// An end is written with the first entry, never without one.
		if d.err == nil && l.end <= 0 {
			return fmt.Errorf("the end is %d", l.end)
		}
		l.written = l.end
		return d.err
	})
	if err != nil {
		return err
	}
	t := &s.writer.tape
	err = s.eachLog(startPrefix, 5, func(l *Log, head []byte, d *decoder) error {
		number := binary.BigEndian.Uint32(head[1:])
		first, started := d.int("first offset"), d.int("start time")
		if d.err != nil {
			return d.err
		}
		// What is out of order was not written by this package, or was damaged where a checksum
		// does not see it.
		if n := len(l.starts); first < 0 || first >= l.end || n > 0 && first <= l.starts[n-1].first {
			return errors.New("the segments of the log are not in order")
		}
		l.starts = append(l.starts, logStart{segment: number, first: first})
		t.add(segment{number: number, started: started})
		return nil
	})
	if err != nil || len(t.segments) == 0 {
		return err
	}
	// What a crash has left of segments whose starts were removed.
	return sweep(s.db, t.segments[0].number)
}

// eachLog calls fn for each sealed key of a prefix, whose head is followed by the id of a log.
// Any key or value that does not fit is ErrDamaged.
func (s *Store) eachLog(prefix byte, headBytes int, fn func(l *Log, head []byte, d *decoder) error) error {
	return iterate(s.db, []byte{prefix}, func(item *badger.Item) error {
		key := item.Key()
		err := item.Value(func(v []byte) error {
			if len(key) <= headBytes || len(key) > headBytes+maxLogID {
				return errors.New("the key has a wrong length")
			}
			content, err := unseal(v, key)
			if err != nil {
				return err
			}
			return fn(s.log(slices.Clone(key[headBytes:])), key[:headBytes], &decoder{rest: content})
		})
		if err != nil {
			return damaged(fmt.Sprintf("key %q", key), err)
		}
		return nil
	})
}
