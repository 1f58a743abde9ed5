package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFileTakenAway holds that nothing is acknowledged once the file that is written to is gone. The
// spool goes on with another one, and reports the loss.
func TestFileTakenAway(t *testing.T) {
	for what, take := range map[string]func(dir string) error{
		"folder":  os.RemoveAll,
		"file":    func(dir string) error { return os.Remove(files(t, dir)[0]) },
		"renamed": func(dir string) error { return os.Rename(dir, dir+".away") },
		"replaced": func(dir string) error {
			name := files(t, dir)[0]
			return errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spool")
			s, _, _ := opened(t, dir, Options{})
			add(t, s, 0, 3)
			if err := take(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append([]byte("r3")); err == nil || !strings.Contains(err.Error(), "was removed") {
				t.Errorf("a record that nobody will find is taken: %v", err)
			}
			add(t, s, 3, 5)
			if _, got, damaged := opened(t, dir, Options{}); !slices.Equal(got, records(3, 5)) || damaged == nil || !strings.Contains(damaged.Error(), "3 records that were acknowledged are missing or damaged, the first is 0") {
				t.Errorf("found %q, told %v", got, damaged)
			}
		})
	}
}

// opened opens a spool and returns what is in it, as place=record.
func opened(t *testing.T, dir string, o Options) (*Spool, []string, error) {
	t.Helper()
	var got []string
	s, damaged, err := Open(dir, o, func(place int64, record []byte) { got = append(got, fmt.Sprintf("%d=%s", place, record)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, got, damaged
}

func add(t *testing.T, s *Spool, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if place, err := s.Append(fmt.Append(nil, "r", i)); err != nil || place != int64(i) {
			t.Fatalf("record %d at place %d: %v", i, place, err)
		}
	}
}

func records(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%d=r%d", i, i))
	}
	return out
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestSpool(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	small := Options{Segment: 30} // three records a file
	s, got, _ := opened(t, dir, small)
	if len(got) > 0 {
		t.Errorf("a new spool has %q", got)
	}
	add(t, s, 0, 10)
	s, got, damaged := opened(t, dir, small) // without a Close, as after a crash
	if !slices.Equal(got, records(0, 10)) || damaged != nil {
		t.Errorf("got %q, %v", got, damaged)
	}
	add(t, s, 10, 12)
	if err := s.Forget(7); err != nil {
		t.Fatal(err)
	}
	s, got, _ = opened(t, dir, small)
	if len(got) > 7 || !slices.Equal(got, records(12-len(got), 12)) || len(got) < 5 {
		t.Errorf("after forgetting: %q", got)
	}
	if err := s.Forget(s.Next()); err != nil || len(files(t, dir)) > 0 {
		t.Errorf("files %q are left, %v", files(t, dir), err)
	}
	// Places go on, though no remaining record shows them.
	if s.Next() != 12 {
		t.Errorf("next place %d", s.Next())
	}
	add(t, s, 12, 13)
	if _, got, _ = opened(t, dir, small); !slices.Equal(got, records(12, 13)) {
		t.Errorf("got %q", got)
	}
}

// A crash cuts off the record that was being written, which was not acknowledged.
func TestCutOff(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := opened(t, dir, Options{Segment: 30})
	add(t, s, 0, 4)
	synced, err := os.ReadFile(dir + markSuffix)
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, 4, 5)
	last := files(t, dir)[1]
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 10; cut < len(whole); cut++ {
		if err := errors.Join(os.WriteFile(last, whole[:cut], 0o600), os.WriteFile(dir+markSuffix, synced, 0o600)); err != nil {
			t.Fatal(err)
		}
		again, got, damaged := opened(t, dir, Options{})
		if !slices.Equal(got, records(0, 4)) || damaged != nil {
			t.Fatalf("cut at %d: %q, %v", cut, got, damaged)
		}
		add(t, again, 4, 5)
		if _, got, damaged = opened(t, dir, Options{}); !slices.Equal(got, records(0, 5)) || damaged != nil {
			t.Fatalf("cut at %d and written on: %q, %v", cut, got, damaged)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range files(t, dir)[2:] {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Any damage to acknowledged records is reported: a bit that is flipped in any file, a file that is
// cut or removed, a missing folder, and damage to the mark itself.
func TestEveryDamageIsTold(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "spool")
	s, _, _ := opened(t, dir, Options{Segment: 30})
	add(t, s, 0, 8)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names := append(files(t, dir), dir+markSuffix)
	kept := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		kept[name] = b
	}
	told := func(what string, harm func() error) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
		for name, b := range kept {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		s, _, damaged := opened(t, dir, Options{})
		if damaged == nil {
			t.Errorf("%s is not told", what)
		}
		if next := s.Next(); next < 8 && !strings.HasPrefix(what, "mark") {
			t.Errorf("%s: place %d is given again", what, next)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range names {
		what := fmt.Sprint("file ", i)
		if i == len(names)-1 {
			what = "mark"
		}
		for bit := 0; bit < 8*len(kept[name]); bit += 9 { // one in each byte, each in its turn
			told(fmt.Sprint(what, ", bit ", bit), func() error {
				b := slices.Clone(kept[name])
				b[bit/8] ^= 1 << (bit % 8)
				return os.WriteFile(name, b, 0o600)
			})
		}
		if what == "mark" {
			break
		}
		for cut := range kept[name] {
			told(fmt.Sprint(what, " cut at ", cut), func() error { return os.WriteFile(name, kept[name][:cut], 0o600) })
		}
		told(what+" removed", func() error { return os.Remove(name) })
	}
	told("folder removed", func() error { return os.RemoveAll(dir) })
}

func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := opened(t, dir, Options{Segment: 30})
	add(t, s, 0, 5)
	first := files(t, dir)[0]
	b, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b[19] ^= 1 // in the second record
	if err := os.WriteFile(first, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, got, damaged := opened(t, dir, Options{})
	if want := append(records(0, 1), records(3, 5)...); !slices.Equal(got, want) || damaged == nil || !strings.Contains(damaged.Error(), first) {
		t.Errorf("got %q, %v", got, damaged)
	}
}

func TestBounded(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := opened(t, dir, Options{Segment: 30, Most: 100})
	add(t, s, 0, 1000)
	var size int64
	for _, name := range files(t, dir) {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > 150 {
		t.Errorf("%d bytes are kept", size)
	}
	if _, err := s.Append(make([]byte, MaxRecord+1)); err == nil {
		t.Error("a record that is too long was taken")
	}
}

func TestNowhere(t *testing.T) {
	s, _, _ := opened(t, "", Options{})
	add(t, s, 0, 3)
	if err := errors.Join(s.Forget(2), s.Forget(3), s.Close()); err != nil {
		t.Error(err)
	}
}
