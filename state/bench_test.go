package state_test

import (
	"fmt"
	"testing"

	"weir/events"
	"weir/state"
)

func benchStore(b *testing.B) *state.Store {
	b.Helper()
	return open(b, b.TempDir(), state.Options{})
}

func benchEntries(n int) []state.Entry {
	entries := make([]state.Entry, n)
	for i := range entries {
		entries[i] = state.Entry{Appended: 1_700_000_000_000, Value: make([]byte, 320)}
	}
	return entries
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			j := benchStore(b).Journal(0)
			entries := benchEntries(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := j.Append(entries); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// Many callers share transactions.
func BenchmarkAppendTogether(b *testing.B) {
	j := benchStore(b).Journal(0)
	entries := benchEntries(1)
	b.SetParallelism(100)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := j.Append(entries); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// A thousand of a hundred thousand records of 400 bytes, whose deadlines move.
func BenchmarkCommit1000(b *testing.B) {
	s := benchStore(b)
	const keys, changed = 100_000, 1000
	c := &state.Checkpoint{State: make([]byte, 100), Records: make([]state.Record, changed)}
	due := make([]events.Stamp, keys)
	value := make([]byte, 400)
	b.ReportAllocs()
	for b.Loop() {
		c.Next += changed
		for i := range c.Records {
			k := int(c.Next*7919+int64(i)*104729) % keys
			now := events.Stamp(c.Next)
			c.Records[i] = state.Record{Subject: state.FlowSubject, Key: fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", k), Value: value, Due: now, OldDue: due[k]}
			due[k] = now
		}
		if err := s.Commit(c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*changed)/b.Elapsed().Seconds(), "records/s")
}

// Records that do not exist, while something is always being written.
func BenchmarkLoadDuringAppend(b *testing.B) {
	s := benchStore(b)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		entries := benchEntries(100)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := s.Journal(0).Append(entries); err != nil {
					b.Error(err)
					return
				}
			}
		}
	}()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		if _, _, _, err := s.Load(0, state.FlowSubject, fmt.Sprint(n)); err != nil {
			b.Fatal(err)
		}
	}
	close(stop)
	<-done
}

func BenchmarkRead1000(b *testing.B) {
	j := benchStore(b).Journal(0)
	entries := benchEntries(1000)
	for range 100 {
		if _, err := j.Append(entries); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	from := int64(0)
	for b.Loop() {
		got, err := j.Read(from, 1000, entries[:0])
		if err != nil || len(got) != 1000 {
			b.Fatal(len(got), err)
		}
		from = (from + 1000) % 100_000
	}
	b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkFree(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		s.Free()
	}
}
