package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"weir/state"
)

// backedUp is a backup of a store while others append, and how many entries were acknowledged when it
// began.
func backedUp(t *testing.T, s *state.Store) (backup []byte, acknowledged int64) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer end()
	for n := range 3 {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := s.Journal(0).Append([]state.Entry{{Value: fmt.Appendf(nil, "%d-%d", n, i)}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for s.Journal(0).End() < 500 {
		<-s.Journal(0).Ready(s.Journal(0).End())
	}
	acknowledged = s.Journal(0).End()
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), acknowledged
}

// A backup that is made under load has all that was acknowledged before it, including what is written
// ahead only, and is restored as a state that opens and goes on.
func TestBackup(t *testing.T) {
	t.Parallel()
	s, err := state.Open(t.TempDir(), state.Options{MemTableSize: 8 << 20, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetCursor("reader", []byte("here")); err != nil {
		t.Fatal(err)
	}
	backup, acknowledged := backedUp(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := state.Restore(t.Context(), dir, bytes.NewReader(backup), state.Options{MinFree: 1}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a restart finds it as the restore left it
		r, err := state.Open(dir, state.Options{MinFree: 1})
		if err != nil {
			t.Fatal(err)
		}
		end := r.Journal(0).End()
		if end < acknowledged {
			t.Errorf("%d entries are left of %d", end, acknowledged)
		}
		for at := int64(0); at < end; {
			entries, err := r.Journal(0).Read(at, 1000, nil)
			if err != nil || len(entries) == 0 || entries[0].Offset != at {
				t.Fatalf("at %d of %d: %d entries, %v", at, end, len(entries), err)
			}
			at += int64(len(entries))
		}
		if b, ok, err := r.Cursor("reader"); string(b) != "here" || !ok || err != nil {
			t.Errorf("the cursor is %q %v %v", b, ok, err)
		}
		if first, err := r.Journal(0).Append([]state.Entry{{Value: []byte("more")}}); err != nil || first != end {
			t.Errorf("it goes on at %d instead of %d: %v", first, end, err)
		}
		acknowledged = end + 1
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := state.Restore(t.Context(), dir, bytes.NewReader(backup), state.Options{MinFree: 1}); err == nil {
		t.Error("a state that is there is overwritten")
	}
}

// A backup that was cut off or changed anywhere is refused, and leaves nothing.
func TestBackupDamaged(t *testing.T) {
	t.Parallel()
	s, err := state.Open(t.TempDir(), state.Options{MemTableSize: 8 << 20, MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("one")}, {Value: []byte("two")}}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, bad []byte) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "restored")
		if _, err := state.Restore(t.Context(), dir, bytes.NewReader(bad), state.Options{MemTableSize: 8 << 20, MinFree: 1}); !errors.Is(err, state.ErrNoBackup) {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 {
			t.Errorf("%s leaves %v", what, left)
		}
	}
	for n := 0; n < b.Len(); n += 1 + b.Len()/20 {
		refused(fmt.Sprintf("cut at %d", n), b.Bytes()[:n])
		changed := bytes.Clone(b.Bytes())
		changed[n] ^= 1
		refused(fmt.Sprintf("changed at %d", n), changed)
	}
	refused("cut by its last byte", b.Bytes()[:b.Len()-1])
}

// A backup is checked without being restored.
func TestCheckBackup(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), small())
	if _, err := s.Journal(0).Append([]state.Entry{{Value: []byte("one")}}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	keys, err := s.Backup(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := state.CheckBackup(t.Context(), bytes.NewReader(b.Bytes())); n != keys || err != nil {
		t.Errorf("%d keys of %d: %v", n, keys, err)
	}
	for _, cut := range []int{0, b.Len() / 2, b.Len() - 1} {
		if _, err := state.CheckBackup(t.Context(), bytes.NewReader(b.Bytes()[:cut])); !errors.Is(err, state.ErrNoBackup) {
			t.Errorf("of %d bytes: %v", cut, err)
		}
	}
	m := open(t, "", small())
	if _, err := m.Backup(t.Context(), &b); !errors.Is(err, state.ErrInMemory) {
		t.Errorf("in memory: %v", err)
	}
}
