package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"weir/state/wal"
)

func open(t *testing.T, path string) (*wal.Log, []wal.Group) {
	t.Helper()
	l, groups, err := wal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, groups
}

func group(first int64, values ...string) wal.Group {
	g := wal.Group{First: first}
	for _, v := range values {
		g.Values = append(g.Values, []byte(v))
	}
	return g
}

func add(t *testing.T, l *wal.Log, g wal.Group) {
	t.Helper()
	if err := l.Append(g); err != nil {
		t.Fatal(err)
	}
}

// What was appended is there after an open, and is gone on with; a Reset begins anew, and what the
// round before has left behind the new groups is none.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, groups := open(t, path)
	if len(groups) > 0 || !l.Empty() {
		t.Error("a new log has", groups)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a file before anything was appended")
	}
	var want []wal.Group
	is := func(when string) {
		t.Helper()
		var got []wal.Group
		if l, got = open(t, path); !reflect.DeepEqual(got, want) || l.Empty() != (len(want) == 0) {
			t.Errorf("%s there are %v, want %v", when, got, want)
		}
	}
	for i := range int64(20) {
		g := group(3*i, "a", "", fmt.Sprint(i, string(bytes.Repeat([]byte{'x'}, int(997*i)))))
		add(t, l, g)
		want = append(want, g)
		if i%5 == 0 {
			is("in the middle")
		}
	}
	is("at the end")
	l.Reset()
	// As long as the first one was, so that the second one of before stands right behind it.
	g := group(0, "b", "", "0")
	add(t, l, g)
	want = []wal.Group{g}
	is("after a reset")
	add(t, l, group(3, "c"))
	want = append(want, group(3, "c"))
	is("later")
	if info, err := os.Stat(path); err != nil || info.Size() != wal.Size {
		t.Error(info, err)
	}
}

// What does not wait for the disk stands in one row with what does, in whatever order they come, and
// writes over what the round before has left as that does.
func TestUnsynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := open(t, path)
	for round := range int64(3) {
		var want []wal.Group
		for i := range int64(12) {
			g := group(i, fmt.Sprint(round, i, string(bytes.Repeat([]byte{'x'}, int(i%4*3000)))))
			add := l.Append
			if (i+round)%3 > 0 {
				add = l.AppendUnsynced
			}
			if err := add(g); err != nil {
				t.Fatal(err)
			}
			want = append(want, g)
			if again, groups := open(t, path); !reflect.DeepEqual(groups, want) {
				t.Fatalf("in round %d there are %v, want %v", round, groups, want)
			} else if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
		l.Reset()
	}
}

// A file that was cut while it was in use is an error of the next group, and not the end of the
// process.
func TestCutInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := open(t, path)
	if err := l.AppendUnsynced(group(0, "one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.AppendUnsynced(group(1, "two")); err == nil || errors.Is(err, wal.ErrFull) {
		t.Error("of a file that was cut it says", err)
	}
}

// What does not fit is refused before anything of it is written.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := open(t, path)
	if err := l.Append(group(0, string(make([]byte, wal.MostBytes)))); !errors.Is(err, wal.ErrFull) {
		t.Error("of a group that is too large it says", err)
	}
	n := int64(0)
	for err := error(nil); err == nil; n++ {
		if err = l.Append(group(n, "x")); err != nil && !errors.Is(err, wal.ErrFull) {
			t.Fatal(err)
		}
	}
	if _, groups := open(t, path); int64(len(groups)) != n-1 || n < 100 {
		t.Errorf("there are %d groups of %d", len(groups), n-1)
	}
	l.Reset()
	add(t, l, group(n, "y"))
	if _, groups := open(t, path); !reflect.DeepEqual(groups, []wal.Group{group(n, "y")}) {
		t.Error("after a reset there are", groups)
	}
}

// Where no file can be made nothing is lost: what is appended goes elsewhere, and here once it can.
func TestNoRoom(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	l, _ := open(t, filepath.Join(dir, "log"))
	for _, add := range []func(wal.Group) error{l.Append, l.AppendUnsynced, l.Append} {
		if err := add(group(0, "one")); !errors.Is(err, wal.ErrFull) {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	add(t, l, group(0, "one"))
	if _, groups := open(t, filepath.Join(dir, "log")); !reflect.DeepEqual(groups, []wal.Group{group(0, "one")}) {
		t.Error("there are", groups)
	}
}

// Wherever a write was torn, what was appended before is there, and nothing that never was.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, _ := open(t, path)
	add(t, l, group(0, "old", "older"))
	add(t, l, group(2, "oldest"))
	l.Reset()
	add(t, l, group(7, "one"))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := []wal.Group{group(7, "one"), group(8, "two", string(bytes.Repeat([]byte{'y'}, 9000)))}
	add(t, l, all[1])
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = 4 << 10, 16 << 10
	for at := from; at < to; at += 61 {
		torn := append(append([]byte(nil), whole[:at]...), before[at:]...)
		other := append(append([]byte(nil), before[:at]...), whole[at:]...)
		for _, b := range [][]byte{torn, other, whole[:at]} {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			again, groups := open(t, path)
			if len(groups) == 0 || !reflect.DeepEqual(groups, all[:min(len(groups), len(all))]) || len(groups) == 2 && len(b) < to {
				t.Fatalf("torn at %d there are %v", at, groups)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A value that looks like groups is none, wherever it lies.
func TestForged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "forger")
	forger, _ := open(t, path)
	add(t, forger, group(1, "forged"))
	forged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "log")
	l, _ := open(t, path)
	// The value begins behind a head of 32 bytes and its length of two.
	add(t, l, group(0, string(make([]byte, 4<<10-34))+string(forged[:4<<10])))
	l.Reset()
	add(t, l, group(0, "true"))
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b[4<<10:8<<10], forged[:4<<10]) {
		t.Fatal("the forged group lies elsewhere", err)
	}
	if _, groups := open(t, path); !reflect.DeepEqual(groups, []wal.Group{group(0, "true")}) {
		t.Error("there are", groups)
	}
}
