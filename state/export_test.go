package state

import (
	"encoding/binary"
	"os"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// WithFree returns o with another way to ask for free space.
func WithFree(o Options, free func(path string) (int64, error)) Options {
	o.free = free
	return o
}

// WithSync returns o with another way to sync a write-ahead log.
func WithSync(o Options, sync func(log *os.File) error) Options {
	o.sync = sync
	return o
}

// WithSyncWithin returns o with another SyncWithin.
func WithSyncWithin(o Options, within time.Duration) Options {
	o.syncWithin = within
	return o
}

// WithClock returns o with another wall clock, which must not change while a store is open, and
// segments of that many bytes.
func WithClock(o Options, now func() time.Time, segmentBytes int64) Options {
	begun := now()
	return WithSetClock(o, now, func() time.Duration { return now().Sub(begun) }, segmentBytes)
}

// WithSetClock is WithClock of a clock that may be set; uptime is how long it has run.
func WithSetClock(o Options, now func() time.Time, uptime func() time.Duration, segmentBytes int64) Options {
	o.now, o.uptime, o.segmentBytes = now, uptime, segmentBytes
	return o
}

// InMemory reports whether nothing of a store outlives it.
func InMemory(s *Store) bool { return s.inMemory() }

// SegmentsStored returns the numbers of the segments that have entries.
func SegmentsStored(s *Store) (out []uint32) {
	if s.inMemory() { // the logs hold their entries
		for _, l := range s.byID {
			for _, start := range l.starts {
				if !slices.Contains(out, start.segment) {
					out = append(out, start.segment)
				}
			}
		}
		slices.Sort(out)
		return out
	}
	err := iterate(s.db, []byte{entryPrefix}, func(item *badger.Item) error {
		if n := binary.BigEndian.Uint32(item.Key()[1:]); !slices.Contains(out, n) {
			out = append(out, n)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return out
}

// Queued returns how many writes wait for the writer.
func Queued(s *Store) int {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.queue)
}

// Transactions returns how many transactions there have ever been.
func Transactions(s *Store) uint64 {
	s.snapshot.RLock()
	defer s.snapshot.RUnlock()
	return s.committed
}

// Stored is a key as it is in the database.
type Stored struct {
	Key, Value []byte
	Expires    uint64
}

// AllStored returns all keys that begin so, but not the chain.
func AllStored(s *Store, prefix string) (out []Stored) {
	err := iterate(s.db, []byte(prefix), func(item *badger.Item) error {
		v, err := item.ValueCopy(nil)
		if item.Key()[0] != chainPrefix {
			out = append(out, Stored{item.KeyCopy(nil), v, item.ExpiresAt()})
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return out
}

// Store writes a key as it is, or removes it when the value is nil.
func (kv Stored) Store(s *Store) error {
	b := &batch{}
	if kv.Value == nil {
		b.remove(kv.Key)
	} else {
		b.set(kv.Key, kv.Value, kv.Expires)
	}
	err := s.writer.write(b)
	for _, l := range s.byID { // what is read is what is stored, as after a restart
		l.dropRecent(len(l.recent))
	}
	return err
}

// Break closes the database behind the back of the store, so that writes fail.
func Break(s *Store) error { return s.db.Close() }

// BreakWAL closes the write-ahead log behind the back of the store.
func BreakWAL(s *Store) error { return s.wal.log.Close() }

// inWriter calls fn in the writer's goroutine during its next transaction.
func inWriter(s *Store, fn func()) {
	free := s.disk.free
	s.disk.free = func(path string) (int64, error) {
		s.disk.free = free
		fn()
		return free(path)
	}
}

// FailOnce makes the writer believe that a write has failed.
func FailOnce(s *Store, err error) error {
	inWriter(s, func() { s.fail(err) })
	return s.SetCursor("fail", nil)
}

// HoldWriter stops the writer in a transaction until release is called.
func HoldWriter(s *Store) (release func()) {
	held, wait := make(chan struct{}), make(chan struct{})
	inWriter(s, func() {
		close(held)
		<-wait
	})
	go s.SetCursor("hold", nil)
	<-held
	return func() { close(wait) }
}

// SkipTransaction leaves a hole in the chain, as a lost table would.
func SkipTransaction(s *Store) { s.advance(s.committed + 1) }

// CheckChain checks the chain as Open does.
func CheckChain(s *Store) error {
	_, err := checkChain(s.db)
	return err
}

// The keys that tests need.
const (
	EntryPrefix  = string(rune(entryPrefix))
	FormatKey    = string(rune(formatPrefix))
	MetaPrefix   = string(rune(metaPrefix))
	DuePrefix    = string(rune(duePrefix))
	EndPrefix    = string(rune(endPrefix))
	StartPrefix  = string(rune(startPrefix))
	CursorPrefix = string(rune(cursorPrefix))
	ChainLength  = chainLength
)

// The checks of files before Badger opens them.
var (
	VerifyTable = verifyTable
	VerifyLog   = verifyLog
)

// DecodeAll decodes a content in every way there is.
func DecodeAll(content []byte) (errs []error) {
	_, meta := decodeMeta(content)
	_, letter := decodeDeadLetter(&Entry{Value: content})
	_, unsealed := unseal(content, content)
	_, _, _, due := parseDueKey(content)
	return []error{meta, letter, unsealed, due}
}

// Look looks for the files at once, as the store does each second.
func Look(s *Store) { s.look() }

// SameFile reports whether the looks of a commit and of the system say of a path that the same
// file is there.
func SameFile(path string) (bool, error) {
	looked, err := newPlace(path).file()
	if err != nil {
		return false, err
	}
	stat, err := statFile(path)
	return looked == stat, err
}

// Datasync returns what syncs logs when nothing else is asked for.
func Datasync() func(log *os.File) error { return datasync }
