package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/dgraph-io/badger/v4"
)

// endOfTime as the version to read at finds the newest version of a key.
const endOfTime = math.MaxUint64

// errStop ends an iteration without an error.
var errStop = errors.New("stop")

// tables reads what transactions have written.
type tables struct {
	calls
	db *badger.DB

	// snapshot guards committed, and the moment in which an iterator is made, see eachFrom.
	snapshot  sync.RWMutex
	committed uint64 // version of the last transaction; written by the writer only
}

// get returns the content of the newest version of a key; false when there is none.
func (r *tables) get(key []byte) ([]byte, bool, error) {
	v, err := r.value(key)
	if v == nil || err != nil {
		return nil, false, err
	}
	content, err := unseal(v, key)
	if err != nil {
		return nil, false, damaged(describe(key), err)
	}
	return content, true, nil
}

// value returns the newest version of a key as it is stored; nil when there is none.
func (r *tables) value(key []byte) ([]byte, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	v, err := getValue(r.db, key)
	switch {
	case errors.Is(err, badger.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", describe(key), err)
	}
	return v, nil
}

// getValue is value before the store is open to others. Badger says that there is none by its
// own error.
func getValue(db *badger.DB, key []byte) ([]byte, error) {
	txn := db.NewTransactionAt(endOfTime, false)
	defer txn.Discard()
	item, err := txn.Get(key)
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

// each calls fn for all keys of a prefix as of the last transaction.
func (r *tables) each(prefix []byte, fn func(*badger.Item) error) error {
	return r.eachFrom(prefix, prefix, fn)
}

// eachFrom is each from a key on.
//
// What differs from iterate is the moment: each sees synced transactions only. iterate sees
// whatever is there, which is enough before the store is open, for the writer, and for entries
// that never change.
func (r *tables) eachFrom(prefix, start []byte, fn func(*badger.Item) error) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	// An iterator keeps the tables that it was made from, so only the moment of its
	// making has to be shielded from a compaction that drops what is newer by then.
	r.snapshot.RLock()
	// The writer moves committed when a transaction is synced, so nothing is seen that a crash
	// could take back.
	txn := r.db.NewTransactionAt(r.committed, false)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	r.snapshot.RUnlock()
	return walk(txn, it, start, fn)
}

// iterate calls fn for all keys of a prefix.
func iterate(db *badger.DB, prefix []byte, fn func(*badger.Item) error) error {
	return iterateFrom(db, prefix, prefix, fn)
}

// iterateFrom is iterate from a key on.
func iterateFrom(db *badger.DB, prefix, start []byte, fn func(*badger.Item) error) error {
	txn := db.NewTransactionAt(endOfTime, false)
	return walk(txn, txn.NewIterator(badger.IteratorOptions{Prefix: prefix}), start, fn)
}

// walk calls fn from start on until it returns an error, of which errStop is none, and ends the
// iterator and its transaction.
func walk(txn *badger.Txn, it *badger.Iterator, start []byte, fn func(*badger.Item) error) error {
	defer txn.Discard()
	defer it.Close()
	for it.Seek(start); it.Valid(); it.Next() {
		if err := fn(it.Item()); err == errStop {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// describe names a key in messages.
func describe(key []byte) string {
	partition := func() uint16 {
		if len(key) < 1+partitionBytes {
			return 0
		}
		return binary.BigEndian.Uint16(key[1:])
	}
	switch first := key[0]; first {
	case byte(FlowSubject), byte(AgentSubject):
		return fmt.Sprintf("%s %q of partition %d", Subject(first), key[min(recordOverhead, len(key)):], partition())
	case metaPrefix:
		return fmt.Sprintf("checkpoint of partition %d", partition())
	case cursorPrefix:
		return fmt.Sprintf("cursor %q", key[1:])
	}
	return fmt.Sprintf("key %q", key)
}

// advance makes a transaction the one that iterations read, and lets compactions drop
// what it has replaced.
func (r *tables) advance(version uint64) {
	r.snapshot.Lock()
	defer r.snapshot.Unlock()
	// Both at one moment, or an iteration could read as of a version that a compaction has just
	// dropped.
	r.committed = version
	r.db.SetDiscardTs(version)
}
