package state_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"weir/events"
	"weir/state"
)

// badgerSet changes a database while weir has it closed, at the version of the last
// transaction, so that the chain stays whole.
func badgerSet(t testing.TB, dir string, key, value []byte) {
	t.Helper()
	badgerSetAt(t, dir, key, value, 0)
}

// badgerSetAt writes at a version that many transactions later.
func badgerSetAt(t testing.TB, dir string, key, value []byte, later uint64) {
	t.Helper()
	db, err := badger.OpenManaged(badger.DefaultOptions(dir + "/badger").WithCompression(options.None).WithLogger(nil))
	must(t, err)
	txn := db.NewTransactionAt(db.MaxVersion(), true)
	must(t, txn.Set(key, value))
	must(t, txn.CommitAt(db.MaxVersion()+later, nil))
	must(t, db.Close())
}

// readAll reads everything in every way there is and returns the first error.
func readAll(s *state.Store) error {
	_, _, meta := s.Meta(1)
	_, _, _, load := s.Load(1, state.FlowSubject, "k")
	_, _, cursor := s.Cursor("c")
	_, journal := s.Journal(1).Read(0, 10, nil)
	_, verdicts := s.Verdicts(1).Read(0, 10, nil)
	_, deadLetters := s.DeadLetters(0, 10, nil)
	_, partitions := s.Partitions()
	for _, err := range []error{meta, load, cursor, journal, verdicts, deadLetters, partitions} {
		if err != nil {
			return err
		}
	}
	err := s.Records(1, state.FlowSubject, func(string, []byte) error { return nil })
	if err != nil {
		return err
	}
	return s.Due(1, state.FlowSubject, 0, "", func(events.Stamp, string) bool { return true })
}

func damageStore(t testing.TB) *state.Store {
	t.Helper()
	// On disk, because in memory logs do without the database; nothing is lost by a crash.
	s := open(t, t.TempDir(), state.WithSync(small(), func(*os.File) error { return nil }))
	must(t, s.Commit(&state.Checkpoint{Partition: 1, Next: 300, Published: -5, State: []byte("state"), Records: []state.Record{
		flow("k", "value", 9, 0), flow("packed", "\x01\x02\x00\x03"+strings.Repeat("\x00", 20), 0, 0)}}))
	must(t, s.SetCursor("c", []byte("cursor")))
	must(t, s.DeadLetter(state.DeadLetter{Source: "source", Position: 1000, Code: "code", Reason: "reason", Raw: []byte("raw")}))
	appendTo(t, s.Journal(1), "event")
	appendTo(t, s.Verdicts(1), "verdict")
	must(t, readAll(s))
	return s
}

// Every flipped bit and every truncation of every value is reported, and nothing panics.
func TestDamagedValues(t *testing.T) {
	s := damageStore(t)
	damages := 0
	for _, kv := range state.AllStored(s, "") {
		switch string(kv.Key[:1]) {
		case state.FormatKey, state.DuePrefix, state.EndPrefix, state.StartPrefix: // see the other tests
			continue
		}
		damage := func(value []byte, what string, at int) {
			t.Helper()
			must(t, state.Stored{Key: kv.Key, Value: value}.Store(s))
			if err := readAll(s); !errors.Is(err, state.ErrDamaged) {
				t.Fatalf("key %q, %s %d: %v", kv.Key, what, at, err)
			}
			damages++
		}
		for bit := range 8 * len(kv.Value) {
			flipped := append([]byte(nil), kv.Value...)
			flipped[bit/8] ^= 1 << (bit % 8)
			damage(flipped, "bit", bit)
		}
		for n := range kv.Value {
			damage(append([]byte{}, kv.Value[:n]...), "length", n)
		}
		damage(append(kv.Value[:len(kv.Value):len(kv.Value)], 0), "length", len(kv.Value)+1)
		must(t, kv.Store(s))
		must(t, readAll(s))
	}
	t.Logf("%d damages found", damages)
}

// A value at another key than its own is reported too.
func TestMisplacedValue(t *testing.T) {
	s := damageStore(t)
	must(t, s.Commit(&state.Checkpoint{Partition: 1, Records: []state.Record{flow("l", "value", 0, 0)}}))
	var k, l state.Stored
	for _, kv := range state.AllStored(s, "f") {
		if kv.Key[len(kv.Key)-1] == 'k' {
			k = kv
		} else {
			l = kv
		}
	}
	k.Value = l.Value
	must(t, k.Store(s))
	if _, _, _, err := s.Load(1, state.FlowSubject, "k"); !errors.Is(err, state.ErrDamaged) {
		t.Fatal(err)
	}
}

// Keys that are cut or of an unknown kind are reported where possible.
func TestDamagedKeys(t *testing.T) {
	f := func(key string) {
		t.Helper()
		s := damageStore(t)
		must(t, state.Stored{Key: []byte(key), Value: []byte{}}.Store(s))
		if err := readAll(s); !errors.Is(err, state.ErrDamaged) {
			t.Fatalf("key %q: %v", key, err)
		}
	}
	f("m\x00")
	f("m\x00\x01\x00")
	f("d\x00\x01")
	f("d\x00\x01f\x80\x00\x00\x00\x00\x00\x00")
	f("d\x00\x01q\x80\x00\x00\x00\x00\x00\x00\x00key")
	f("\x01\x00\x00\x00\x01j\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	f("f\x00\x01")
}

// The ends of logs and their places in segments are read when the store is opened.
func TestDamagedEnds(t *testing.T) {
	f := func(prefix string) {
		t.Helper()
		dir := t.TempDir()
		s := open(t, dir, small())
		appendTo(t, s.Journal(1), "event")
		good := state.AllStored(s, prefix)[0]
		closeStore(t, s)
		damage := func(key, value []byte) {
			t.Helper()
			badgerSet(t, dir, key, value)
			if _, err := state.Open(dir, small()); !errors.Is(err, state.ErrDamaged) {
				t.Fatalf("key %q, value %q: %v", key, value, err)
			}
		}
		for bit := 0; bit < 8*len(good.Value); bit += 13 { // each opens the store anew
			flipped := append([]byte(nil), good.Value...)
			flipped[bit/8] ^= 1 << (bit % 8)
			damage(good.Key, flipped)
		}
		badgerSet(t, dir, good.Key, good.Value)
		s = open(t, dir, small())
		equal(t, "journal", read(t, s.Journal(1), 0, 9), []string{"event"})
		closeStore(t, s)
		damage([]byte(prefix), good.Value)
	}
	f(state.EndPrefix)
	f(state.StartPrefix)
}
