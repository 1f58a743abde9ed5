package mark_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"weir/state/mark"
)

func TestMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "synced")
	m, r, err := mark.Open(path)
	if err != nil || r != (mark.Range{}) {
		t.Fatal("a new mark says", r, err)
	}
	for _, want := range []mark.Range{{0, 3}, {2, 300}, {7, 1 << 62}} {
		if err := m.Set(want); err != nil {
			t.Fatal(err)
		}
		other, r, err := mark.Open(path)
		if err != nil || r != want {
			t.Error("read", r, err, "want", want)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// Any flipped bit and any truncation of a mark is reported.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "synced")
	m, _, err := mark.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Set(mark.Range{From: 5, To: 77}); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	told := func(b []byte) bool {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		m, _, told := mark.Open(path)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		return errors.Is(told, mark.ErrDamaged)
	}
	for bit := range 8 * len(whole) {
		b := append([]byte(nil), whole...)
		b[bit/8] ^= 1 << (bit % 8)
		if !told(b) {
			t.Errorf("bit %d flipped is not told", bit)
		}
	}
	for n := 1; n < len(whole); n++ {
		if !told(whole[:n]) {
			t.Errorf("cut at %d is not told", n)
		}
	}
}
