package record

import (
	"testing"

	"weir/events"
)

// TestRoundTrip reads what was written, and of every beginning of it that it is damaged.
func TestRoundTrip(t *testing.T) {
	const clock events.Stamp = 1_700_000_000_000
	runs := []uint16{0, 7, 0, 0, 9}
	b, part := Room(nil, 2)
	part[0], part[1] = 3, Bit(true, 5)
	b = AppendString(b, "name")
	b = AppendRuns(b, runs)
	times := []events.Stamp{0, clock, clock - 1, clock + 5}
	for _, at := range times {
		n := Ago(clock, at)
		b = append(b, byte(uint64(n)<<1^uint64(n>>63))) // as small as it is, one byte with a sign
	}
	read := func(b []byte) error {
		d := NewReader(b)
		if h := d.Take(2); !d.Bad() && (h[0] != 3 || h[1] != 1<<5) {
			t.Errorf("head %v", h)
		}
		if s := d.String(); !d.Bad() && s != "name" {
			t.Errorf("text %q", s)
		}
		var got [5]uint16
		if d.Runs(got[:]); !d.Bad() && got != [5]uint16(runs) {
			t.Errorf("runs %v", got)
		}
		for _, want := range times {
			if at := d.Ago(clock); !d.Bad() && at != want {
				t.Errorf("time %d, want %d", at, want)
			}
		}
		return d.End("record")
	}
	if err := read(b); err != nil {
		t.Error(err)
	}
	for n := range b {
		if read(b[:n]) == nil {
			t.Errorf("a record of %d bytes reads when %d are left", len(b), n)
		}
	}
	if read(append(b, 0)) == nil {
		t.Error("a record reads that goes on")
	}
}

// TestFaultSticks reads zeros from a record once something in it was not what it may be.
func TestFaultSticks(t *testing.T) {
	faults := map[string]func(*Reader) bool{
		"Most":  func(d *Reader) bool { return d.Most(d.Take(1)[0], 8) == 0 },
		"Index": func(d *Reader) bool { return d.Index(d.Take(1)[0], 9) == None },
		"Count": func(d *Reader) bool { return d.Count(8) == 0 },
		"Stamp": func(d *Reader) bool { return d.Stamp(2) == 0 },
		"Text":  func(d *Reader) bool { return d.Text(9) == "" },
	}
	for name, fault := range faults {
		d := NewReader([]byte{9, 1, 2, 3})
		if !fault(&d) || !d.Bad() || d.Uvarint() != 0 || d.Take(3)[2] != 0 || d.Text(1) != "" || d.End("record") == nil {
			t.Errorf("%s: the fault is forgotten", name)
		}
	}
}
