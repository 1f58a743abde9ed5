package state_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/state"
)

// file returns the content of the only file of a kind in a store's directory.
func file(t testing.TB, dir, pattern string) []byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "badger", pattern))
	must(t, err)
	if len(paths) != 1 {
		t.Fatalf("there are %d of %s", len(paths), pattern)
	}
	data, err := os.ReadFile(paths[0])
	must(t, err)
	return data
}

// Every flipped bit of a table and every truncation is reported.
func TestVerifyTable(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	for i := range 30 {
		appendTo(t, s.Journal(uint16(i%3)), strings.Repeat(fmt.Sprint(i), 200))
	}
	closeStore(t, s)
	data := file(t, dir, "*.sst")
	must(t, state.VerifyTable(data))
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if err := state.VerifyTable(data); err == nil {
			t.Errorf("bit %d of byte %d of %d is not told", bit%8, bit/8, len(data))
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	for n := range len(data) {
		if err := state.VerifyTable(data[:n]); err == nil {
			t.Errorf("a cut at %d of %d is not told", n, len(data))
		}
	}
}

// Every flipped bit of a write-ahead log is reported, and every truncation except between
// transactions. What a crash leaves at its end is no damage.
func TestVerifyLog(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	used := func(data []byte) int { return len(bytes.TrimRight(data, "\x00")) }
	var ends []int
	for i := range 12 {
		appendTo(t, s.Verdicts(0), fmt.Sprint("event ", i), strings.Repeat("x", 20*i))
		must(t, s.Commit(&state.Checkpoint{Next: int64(i), Records: []state.Record{flow("k", fmt.Sprint(i), 1, 0)}}))
		ends = append(ends, used(file(t, dir, "*.mem")))
	}
	data := file(t, dir, "*.mem")
	const head = 20
	n := len(ends)
	data = data[:ends[n-1]+1000]
	must(t, state.VerifyLog(data))

	// The last two of ends are two transactions apart, so that one is damaged that a
	// later one follows.
	for bit := 8 * head; bit < 8*ends[n-2]; bit++ {
		data[bit/8] ^= 1 << (bit % 8)
		if err := state.VerifyLog(data); err == nil {
			t.Errorf("bit %d of byte %d is not told", bit%8, bit/8)
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	for bit := 8 * ends[n-2]; bit < 8*len(data); bit++ { // may look like a crash; must not panic
		data[bit/8] ^= 1 << (bit % 8)
		_ = state.VerifyLog(data)
		data[bit/8] ^= 1 << (bit % 8)
	}
	untold := 0
	for cut := range ends[n-1] {
		if state.VerifyLog(data[:cut]) == nil {
			untold++
		}
	}
	if whole := 2*n + 1; untold != whole { // the format, and two for each round
		t.Errorf("%d cuts are not told, there are %d transactions", untold, whole)
	}
	for cut := ends[n-2] + 1; cut < ends[n-1]; cut++ { // a killed process: zeros from somewhere on
		torn := append(append([]byte(nil), data[:cut]...), make([]byte, 2000)...)
		if err := state.VerifyLog(torn); err != nil {
			t.Errorf("what is left of a crash at %d: %v", cut, err)
		}
	}
	for at := ends[n-2]; at < ends[n-1]-1; at++ { // a power cut: something in between did not get there
		for _, size := range []int{1, 7, 100} {
			torn := append([]byte(nil), data...)
			clear(torn[at:min(at+size, ends[n-1])])
			if err := state.VerifyLog(torn); err != nil && at > lastBegin(t, data, ends[n-1]) {
				t.Errorf("%d bytes missing at %d of the last transaction: %v", size, at, err)
			}
		}
	}
}

// lastBegin returns where the last transaction begins: after the end mark of the one before.
func lastBegin(t testing.TB, data []byte, end int) int {
	t.Helper()
	mark := []byte("!badger!txn")
	last := bytes.LastIndex(data[:end], mark)
	before := bytes.LastIndex(data[:last], mark)
	if before < 0 {
		t.Fatal("there is only one transaction")
	}
	return before + len(mark) + 8 + 2 + 4 // version, its number in text, checksum
}

// What is appended by an outsider and looks like an end mark does not count.
func TestVerifyLogForgedMark(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small())
	mark := append([]byte("!badger!txn"), binary.BigEndian.AppendUint64(nil, ^uint64(1<<40))...)
	mark = append(mark, fmt.Sprint(1<<40)...)
	appendTo(t, s.Journal(0), "a")
	before := len(bytes.TrimRight(file(t, dir, "*.mem"), "\x00"))
	appendTo(t, s.Journal(0), string(mark), "b")
	data := file(t, dir, "*.mem")
	data[before+30] ^= 1
	must(t, state.VerifyLog(data))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{1, 0, 0, 0, 0, 2, 4, 6})
	f.Add(bytes.Repeat([]byte{0x80}, 20))
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Add([]byte("\x02a\x04\x02b\x02c\x02\x02d"))
	f.Fuzz(func(t *testing.T, content []byte) {
		state.DecodeAll(content) // must not panic
	})
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(append(make([]byte, 20), "\xc0\x00\x0b\x01\x00!badger!txn"...))
	f.Add(append(make([]byte, 20), bytes.Repeat([]byte{0x80}, 30)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = state.VerifyLog(data) // must not panic
		_ = state.VerifyTable(data)
	})
}
