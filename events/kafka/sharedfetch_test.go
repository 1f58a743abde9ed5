package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"
)

// seated returns a Reader with a seat, of a fetch that does not run, and the values of the records
// that it took ahead, see numbered.
func seated(ahead func(n int) (int, bool)) (r *Reader, s *seat, taken *[]string) {
	taken = new([]string)
	r = NewReader(new(Cluster), "t", 3, 0, ReaderOptions{Bytes: 20, Ahead: func(records []Record) (int, bool) {
		n, wait := ahead(len(records))
		*taken = append(*taken, values(records[:n])...)
		return n, wait
	}})
	s = &seat{reader: r, sat: time.Now(), fetch: new(sharedFetch)}
	s.fetch.seats = []*seat{s}
	r.seat = s
	return r, s, taken
}

func values(records []Record) (all []string) {
	for i := range records {
		all = append(all, string(records[i].Value))
	}
	return all
}

// numbered are n records from an offset on, the values of which are their offsets.
func numbered(from int64, n int) []Record {
	records := some(from, n, 0)
	for i := range records {
		records[i].Value = fmt.Append(nil, from+int64(i))
	}
	return records
}

// soon is a context that ends when a test hangs.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// locked calls fn while nothing else is done with the seat, once its Reader waits.
func locked(s *seat, fn func()) {
	for {
		s.mu.Lock()
		if s.woken != nil {
			fn()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		runtime.Gosched()
	}
}

// TestSeat gives a Reader batches while it waits, is awake or works on others, by chance, and has it take
// them ahead as far as it likes: it has each record once, in order.
func TestSeat(t *testing.T) {
	ctx := soon(t)
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0)) // for the holder of the seat
		r, s, taken := seated(func(n int) (int, bool) {
			if random.IntN(2) == 0 {
				return random.IntN(n + 1), false
			}
			return n, true
		})
		const all = 200
		next := int64(0)
		give := func() {
			for range 1 + random.IntN(3) {
				n := min(1+random.Int64N(10), all-next)
				var batches []byte
				for _, one := range numbered(next, int(n)) { // a batch each
					batches = append(batches, pack(t, one.Offset, []Record{one}, packing{codec: []int8{codecNone, codecSnappy}[random.IntN(2)]})...)
				}
				if next += n; n > 0 {
					s.giveLocked(&fetchedPart{high: next, batches: batches})
				}
			}
		}
		fetched := make(chan bool)
		go func() {
			defer close(fetched)
			var records []Record
			for r.Next() < all || len(r.rest) > 0 {
				var err error
				if records, err = r.Fetch(ctx, records); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					return
				}
				s.mu.Lock()
				if random.IntN(2) == 0 {
					give()
				}
				*taken = append(*taken, values(records)...)
				s.mu.Unlock()
			}
		}()
		for ended := false; !ended; {
			select {
			case <-fetched:
				ended = true
			default:
				s.mu.Lock()
				if s.woken != nil || random.IntN(50) == 0 {
					give()
				}
				if next == all {
					s.wake() // records taken ahead to the end wake no goroutine
				}
				s.mu.Unlock()
				runtime.Gosched()
			}
		}
		if !slices.Equal(*taken, values(numbered(0, all))) {
			t.Fatalf("seed %d: %s", seed, *taken)
		}
	}
}

// TestSeatEnds holds that a Reader whose seat ends has what had come, and asks on behind it. If it was
// too much for all to wait for, it takes longer until the Reader sits down again.
func TestSeatEnds(t *testing.T) {
	ctx := soon(t)
	batch := pack(t, 0, some(0, 3, 20), packing{})
	damaged := slices.Clone(batch)
	damaged[len(damaged)-1] ^= 1
	behind := pack(t, 3, some(3, 2, 20), packing{})
	for _, x := range []struct {
		name    string
		parts   []fetchedPart
		want    int64 // records
		settled time.Duration
	}{
		{"by an error", []fetchedPart{{high: 3, batches: batch}, {code: 6}}, 3, leastSettled},
		{"by a backlog", []fetchedPart{{high: 9, batches: batch}}, 3, 2 * leastSettled},
		{"by a batch that does not fit", []fetchedPart{{high: 3}}, 0, 2 * leastSettled},
		{"by less than a batch", []fetchedPart{{high: 3, batches: batch}, {high: 9, batches: behind[:30]}}, 3, 2 * leastSettled},
		{"by damage", []fetchedPart{{high: 3, batches: damaged}, {high: 5, batches: behind}}, 0, leastSettled},
		{"by too much", []fetchedPart{{high: 900, batches: pack(t, 0, some(0, 900, 200), packing{})}, {high: 903, batches: pack(t, 900, some(900, 3, 20), packing{})}}, 900, 2 * leastSettled},
	} {
		r, s, taken := seated(func(int) (int, bool) { return 0, false })
		done := make(chan []Record)
		go func() {
			records, _ := r.Fetch(ctx, nil)
			done <- records
		}()
		locked(s, func() {
			for i := range x.parts {
				s.giveLocked(&x.parts[i])
			}
		})
		*taken = append(*taken, values(<-done)...)
		for r.seat != nil || len(r.rest) > 0 {
			records, err := r.Fetch(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			*taken = append(*taken, values(records)...)
		}
		if int64(len(*taken)) != x.want || r.Next() != x.want || r.asked != x.want || r.settled != x.settled {
			t.Errorf("%s: %d records, next %d, asks from %d, sits down after %v; want %d and %v", x.name, len(*taken), r.Next(), r.asked, r.settled, x.want, x.settled)
		}
	}
}

// TestSeatContext holds that a Fetch ends with its context, and that its Reader leaves.
func TestSeatContext(t *testing.T) {
	r, s, _ := seated(func(n int) (int, bool) { return n, true })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.Fetch(ctx, nil)
		done <- err
	}()
	locked(s, cancel)
	if err := <-done; err != context.Canceled || r.seat != nil || len(s.fetch.seats) != 0 {
		t.Errorf("%v, %v, %d seats", err, r.seat, len(s.fetch.seats))
	}
}

// TestSeatUnreadable holds that what stands behind a batch that cannot be read is not lost with it.
func TestSeatUnreadable(t *testing.T) {
	ctx := soon(t)
	r, s, taken := seated(func(n int) (int, bool) { return n, true })
	type answer struct {
		records []string
		err     error
	}
	answers := make(chan answer)
	fetch := func() {
		records, err := r.Fetch(ctx, nil)
		answers <- answer{values(records), err}
	}
	go fetch()
	locked(s, func() {
		s.giveLocked(&fetchedPart{high: 5, batches: append(pack(t, 0, numbered(0, 3), packing{attributes: 7}), pack(t, 3, numbered(3, 2), packing{})...)})
		s.giveLocked(&fetchedPart{high: 7, batches: pack(t, 5, numbered(5, 2), packing{})})
	})
	a := <-answers
	bad, ok := errors.AsType[*BatchError](a.err)
	if !ok || bad.Offset != 0 || bad.Next != 3 || len(a.records) != 0 {
		t.Fatalf("%s, %v", a.records, a.err)
	}
	r.SkipTo(bad.Next)
	for r.Next() < 7 {
		go fetch()
		if a := <-answers; a.err != nil {
			t.Fatal(a.err)
		} else {
			*taken = append(*taken, a.records...)
		}
	}
	if !slices.Equal(*taken, values(numbered(3, 4))) {
		t.Fatal(*taken)
	}
}

// TestSeatsDiffer holds that a request asks for no partition twice, and for no more than it has seats.
func TestSeatsDiffer(t *testing.T) {
	f := &sharedFetch{link: new(link)}
	sit := func(topic string, partition int) bool {
		l := &link{socket: &socket{Conn: nowhere{}}}
		return f.sit(&seat{reader: NewReader(new(Cluster), topic, partition, 0, ReaderOptions{})}, l)
	}
	for i := range 2 * sharedSeats {
		if got, want := sit("t", i/2), i%2 == 0; got != want {
			t.Errorf("reader %d of partition %d is seated: %t", i%2, i/2, got)
		}
	}
	if sit("u", 0) {
		t.Error("there is a seat too many")
	}
}

// nowhere is a connection that can only be closed.
type nowhere struct{ net.Conn }

func (nowhere) Close() error { return nil }
