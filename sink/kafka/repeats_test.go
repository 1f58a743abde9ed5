package kafka

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestRepeats plays senders of several source partitions against one target. Each
// partition has one sequence of records, which every sender of it repeats; a new sender
// begins at or before the last record that was sent, and old ones may go on. Whatever
// comes of that, each record is taken once and in order.
func TestRepeats(t *testing.T) {
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
		var repeats Repeats
		for {
			var ready []int // senders that have something left
			for i, s := range senders {
				if s.next < len(sequences[s.partition]) {
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
				kept, err := repeats.AppendBinary(nil)
				if err != nil {
					t.Fatal(err)
				}
				var again Repeats
				if err := again.UnmarshalBinary(kept); err != nil {
					t.Fatal(err)
				}
				repeats = again
			}
			s := &senders[ready[rnd.IntN(len(ready))]]
			position := sequences[s.partition][s.next]
			isNew := s.next == taken[s.partition]
			if repeats.Take(position) != isNew {
				t.Fatalf("seed %d: record %+v: taken is %v", seed, position, !isNew)
			}
			if isNew {
				taken[s.partition]++
			}
			s.next++
			sent[s.partition] = max(sent[s.partition], s.next)
		}
		for p := range taken {
			if taken[p] != len(sequences[p]) {
				t.Fatalf("seed %d: %d of %d records taken", seed, taken[p], len(sequences[p]))
			}
		}
	}
}

func TestRepeatsBinary(t *testing.T) {
	var r Repeats
	r.Take(Position{9, math.MaxInt64, math.MaxInt32})
	r.Take(Position{0, 0, 0})
	first, err := r.AppendBinary([]byte("before"))
	if err != nil || !bytes.HasPrefix(first, []byte("before")) {
		t.Fatal(first, err)
	}
	good := first[len("before"):]
	var again Repeats
	if err := again.UnmarshalBinary(good); err != nil {
		t.Fatal(err)
	}
	if second, _ := again.AppendBinary(nil); !bytes.Equal(second, good) {
		t.Errorf("%x became %x", good, second)
	}
	if again.Take(Position{9, math.MaxInt64, math.MaxInt32}) || again.Take(Position{}) || !again.Take(Position{1, 0, 0}) {
		t.Error("what was seen is not what was kept")
	}
	for n := range good {
		if err := new(Repeats).UnmarshalBinary(good[:n]); err == nil {
			t.Errorf("the first %d bytes of %d are accepted", n, len(good))
		}
	}
	f := func(b ...byte) {
		t.Helper()
		if err := new(Repeats).UnmarshalBinary(b); err == nil {
			t.Errorf("%x is accepted", b)
		}
	}
	f(append(good, 0)...)
	f(2, 0)
	f(1, 2, 1, 0, 0, 1, 0, 0)          // a partition twice
	f(1, 1, 0xff, 0xff, 0xff, 0xff, 1) // cut
	f(1, 0xff, 0xff, 0xff, 0xff, 7)    // more entries than bytes
}

func FuzzRepeatsBinary(f *testing.F) {
	f.Add([]byte{1, 2, 0, 1, 0, 5, 7, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Repeats
		if r.UnmarshalBinary(b) != nil {
			return
		}
		first, _ := r.AppendBinary(nil)
		var again Repeats
		if err := again.UnmarshalBinary(first); err != nil {
			t.Fatal(err)
		}
		if second, _ := again.AppendBinary(nil); !bytes.Equal(first, second) {
			t.Fatalf("%x became %x", first, second)
		}
	})
}

func TestPositionOf(t *testing.T) {
	want := Position{3, 1 << 40, 2}
	got, err := PositionOf(append([]kafkago.Header{{Key: "other", Value: []byte("x")}}, want.headers()...))
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	f := func(h ...kafkago.Header) {
		t.Helper()
		if p, err := PositionOf(h); err == nil {
			t.Errorf("%v is read as %+v", h, p)
		}
	}
	h := want.headers()
	f()
	f(h[0], h[1])
	f(h[0], h[1], decimal(fromPartHeader, -1))
	f(h[0], h[1], decimal(fromPartHeader, 1<<31))
	f(h[0], h[2], kafkago.Header{Key: fromOffsetHeader, Value: []byte("1x")})
}
