package pump

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"weir/analyzer/record"
	"weir/events"
)

// TestSourcesTake plays senders of several source partitions against one target. Each
// partition has one sequence of records, which every sender of it repeats; a new sender
// begins at or before the last record that was sent, and old ones may go on. Whatever
// comes of that, each record is taken once and in order.
func TestSourcesTake(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		const partitions = 3
		var sequences [partitions][]Position
		for p := range sequences {
			offset, part := int64(0), 0
			for range 60 {
				if rnd.IntN(2) == 0 {
					part++
				} else {
					offset, part = offset+1+rnd.Int64N(5), 0
				}
				sequences[p] = append(sequences[p], Position{p, offset, part})
			}
		}
		type sender struct{ partition, next int }
		var senders []sender
		var sent, taken [partitions]int // how far
		s := newSources(partitions)
		for {
			var ready []int // senders that have something left
			for i, x := range senders {
				if x.next < len(sequences[x.partition]) {
					ready = append(ready, i)
				}
			}
			if len(ready) == 0 || len(senders) < 12 && rnd.IntN(20) == 0 {
				p := rnd.IntN(partitions)
				if len(ready) == 0 {
					for p = 0; p < partitions && sent[p] == len(sequences[p]); p++ {
					}
					if p == partitions {
						break
					}
				}
				senders = append(senders, sender{p, rnd.IntN(sent[p] + 1)})
				continue
			}
			if rnd.IntN(30) == 0 { // the reader goes on from what it has kept
				again := newSources(partitions)
				d := record.NewReader(s.appendBinary(nil))
				if again.read(&d); d.Bad() || len(d.Rest()) > 0 {
					t.Fatal(d.Bad(), d.Rest())
				}
				s = again
			}
			x := &senders[ready[rnd.IntN(len(ready))]]
			position := sequences[x.partition][x.next]
			isNew := x.next == taken[x.partition]
			if s.take(position) != isNew {
				t.Fatalf("seed %d: record %+v: taken is %v", seed, position, !isNew)
			}
			if isNew {
				taken[x.partition]++
			}
			x.next++
			sent[x.partition] = max(sent[x.partition], x.next)
		}
		for p := range taken {
			if taken[p] != len(sequences[p]) {
				t.Fatalf("seed %d: %d of %d records taken", seed, taken[p], len(sequences[p]))
			}
		}
	}
}

// TestLowWatermark shows that the low watermark is 0 before every source has reported something, and
// then covers what all have reported.
func TestLowWatermark(t *testing.T) {
	s := newSources(3)
	at := int64(0)
	f := func(source int, told, want events.Stamp) {
		t.Helper()
		at++
		s.take(Position{Source: source, Offset: at})
		s.raise(source, told)
		d := record.NewReader(s.appendBinary(nil))
		again := newSources(3)
		again.read(&d)
		if got := s.lowWatermark(); got != want || again.lowWatermark() != want || d.Bad() {
			t.Errorf("told is %d, and %d when it was kept, want %d", got, again.lowWatermark(), want)
		}
	}
	f(2, 50, 0)
	f(0, 40, 0)
	f(0, 60, 0)
	f(1, 30, 30)
	f(1, 20, 30) // limits with later reports of flows do not revoke what was reported
	f(1, 90, 50)
}

func TestSourcesBinary(t *testing.T) {
	s := newSources(1)
	s.take(Position{9, math.MaxInt64 - 1, math.MaxInt32})
	s.take(Position{0, 0, 0})
	s.raise(0, 1_795_000_000_000)
	first := s.appendBinary([]byte("before"))
	if !bytes.HasPrefix(first, []byte("before")) {
		t.Fatalf("%q", first)
	}
	good := first[len("before"):]
	again := newSources(1)
	d := record.NewReader(append(bytes.Clone(good), "rest"...))
	if again.read(&d); d.Bad() || string(d.Rest()) != "rest" {
		t.Fatal(d.Bad(), d.Rest())
	}
	if second := again.appendBinary(nil); !bytes.Equal(second, good) {
		t.Errorf("%x became %x", good, second)
	}
	if again.take(Position{9, math.MaxInt64 - 1, math.MaxInt32}) || again.take(Position{}) || !again.take(Position{1, 0, 0}) {
		t.Error("what was seen is not what was kept")
	}
	for n := range good {
		d := record.NewReader(good[:n])
		if new(sources).read(&d); !d.Bad() {
			t.Errorf("the first %d bytes of %d are accepted", n, len(good))
		}
	}
	f := func(b ...byte) {
		t.Helper()
		d := record.NewReader(b)
		if new(sources).read(&d); !d.Bad() {
			t.Errorf("%x is accepted", b)
		}
	}
	f(1, 0xff, 0xff, 0xff, 0xff, 1)                                     // cut
	f(0xff, 0xff, 0xff, 0xff, 7)                                        // more sources than there may be
	f(1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2) // a part beyond all bounds
}

func FuzzSourcesBinary(f *testing.F) {
	f.Add([]byte{2, 1, 0, 2, 0, 6, 7, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again sources
		d := record.NewReader(b)
		if s.read(&d); d.Bad() {
			return
		}
		first := s.appendBinary(nil)
		d = record.NewReader(first)
		if again.read(&d); d.Bad() || len(d.Rest()) > 0 {
			t.Fatal(d.Bad(), d.Rest())
		}
		if second := again.appendBinary(nil); !bytes.Equal(first, second) {
			t.Fatalf("%x became %x", first, second)
		}
	})
}
