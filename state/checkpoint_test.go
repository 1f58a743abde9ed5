package state_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/events"
	"weir/state"
)

// due returns the due index of a partition as text.
func due(t testing.TB, s *state.Store, partition uint16) (out []string) {
	t.Helper()
	for _, sub := range []state.Subject{state.AgentSubject, state.FlowSubject} {
		must(t, s.Due(partition, sub, 0, "", func(at events.Stamp, key string) bool {
			out = append(out, fmt.Sprintf("%v %d %s", sub, at, key))
			return true
		}))
	}
	return out
}

func records(t testing.TB, s *state.Store, partition uint16, sub state.Subject) (out []string) {
	t.Helper()
	must(t, s.Records(partition, sub, func(key string, value []byte) error {
		out = append(out, key+"="+string(value))
		return nil
	}))
	return out
}

func flow(key, value string, at, old events.Stamp) state.Record {
	r := state.Record{Subject: state.FlowSubject, Key: key, Due: at, OldDue: old}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

func TestCheckpoint(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		if _, ok, err := s.Meta(1); ok || err != nil {
			t.Fatalf("meta of an empty store: %v, %v", ok, err)
		}
		if _, _, ok, err := s.Load(1, state.FlowSubject, "a"); ok || err != nil {
			t.Fatalf("record of an empty store: %v, %v", ok, err)
		}
		agent := state.Record{Subject: state.AgentSubject, Key: "a", Value: []byte("agent"), Due: 7}
		must(t, s.Commit(&state.Checkpoint{Partition: 1, Next: 10, Published: 3, State: []byte("state"), Records: []state.Record{
			flow("b", "1", 20, 0), flow("a", "1", 100, 0), agent, flow("c", "1", -5, 0), flow("d", "1", 0, 0), flow("", "no key", 0, 0),
		}}))
		must(t, s.Commit(&state.Checkpoint{Partition: 258, Next: -1, Records: []state.Record{flow("b", "other", 1, 0)}}))

		m, ok, err := s.Meta(1)
		if err != nil || !ok || m.Next != 10 || m.Published != 3 || string(m.State) != "state" {
			t.Fatalf("%+v, %v, %v", m, ok, err)
		}
		if m, ok, err := s.Meta(258); err != nil || !ok || m.Next != -1 || len(m.State) != 0 {
			t.Fatalf("%+v, %v, %v", m, ok, err)
		}
		partitions, err := s.Partitions()
		must(t, err)
		equal(t, "partitions", partitions, []uint16{1, 258})
		equal(t, "records", records(t, s, 1, state.FlowSubject), []string{"=no key", "a=1", "b=1", "c=1", "d=1"})
		equal(t, "agents", records(t, s, 1, state.AgentSubject), []string{"a=agent"})
		equal(t, "others", records(t, s, 258, state.FlowSubject), []string{"b=other"})
		equal(t, "due", due(t, s, 1), []string{"agent 7 a", "flow -5 c", "flow 20 b", "flow 100 a"})
		equal(t, "other due", due(t, s, 258), []string{"flow 1 b"})

		// b moves, a stays, c loses its deadline, d gains one and is written twice, the agent goes.
		agent.Value, agent.OldDue = nil, agent.Due
		must(t, s.Commit(&state.Checkpoint{Partition: 1, Next: 20, Published: 4, Records: []state.Record{
			flow("b", "2", 21, 20), flow("a", "2", 100, 100), flow("c", "2", 0, -5), agent, flow("d", "2", 50, 0), flow("d", "3", 60, 50),
		}}))
		equal(t, "records", records(t, s, 1, state.FlowSubject), []string{"=no key", "a=2", "b=2", "c=2", "d=3"})
		equal(t, "agents", records(t, s, 1, state.AgentSubject), nil)
		equal(t, "due", due(t, s, 1), []string{"flow 21 b", "flow 60 d", "flow 100 a"})
		if m, _, _ := s.Meta(1); m.Next != 20 || m.Published != 4 || len(m.State) != 0 {
			t.Fatalf("%+v", m)
		}
		v, _, ok, err := s.Load(1, state.FlowSubject, "b")
		if err != nil || !ok || string(v) != "2" {
			t.Fatalf("%s, %v, %v", v, ok, err)
		}
		if _, _, ok, err := s.Load(1, state.AgentSubject, "a"); ok || err != nil {
			t.Fatalf("removed record: %v, %v", ok, err)
		}
	})
}

// A record may be empty, which is not the same as removed.
func TestEmptyRecord(t *testing.T) {
	s := open(t, "", small())
	must(t, s.Commit(&state.Checkpoint{Records: []state.Record{{Subject: state.FlowSubject, Key: "k", Value: []byte{}}}}))
	if v, _, ok, err := s.Load(0, state.FlowSubject, "k"); !ok || err != nil || len(v) != 0 {
		t.Fatalf("%q, %v, %v", v, ok, err)
	}
}

func TestStampOrder(t *testing.T) {
	s := open(t, "", small())
	stamps := []events.Stamp{math.MinInt64, -1 << 40, -256, -255, -1, 1, 255, 256, 1 << 40, math.MaxInt64}
	c := &state.Checkpoint{}
	for i := range stamps {
		at := stamps[(i*7+3)%len(stamps)]
		c.Records = append(c.Records, flow(fmt.Sprint("key of ", at), "v", at, 0))
	}
	must(t, s.Commit(c))
	var got []events.Stamp
	must(t, s.Due(0, state.FlowSubject, 0, "", func(at events.Stamp, _ string) bool {
		got = append(got, at)
		return true
	}))
	equal(t, "order", got, stamps)
	got = nil
	must(t, s.Due(0, state.FlowSubject, stamps[1], fmt.Sprint("key of ", stamps[1]), func(at events.Stamp, _ string) bool {
		got = append(got, at)
		return len(got) < 2
	}))
	equal(t, "two from the third on", got, stamps[2:4])
}

func TestCommitLimits(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		must(t, s.Commit(&state.Checkpoint{Next: 1}))
		maxBytes, maxCount := s.MaxCheckpoint()
		refused := func(c *state.Checkpoint) {
			t.Helper()
			before := state.Transactions(s)
			c.Next = 2
			if err := s.Commit(c); !errors.Is(err, state.ErrTooLarge) {
				t.Fatal(err)
			}
			if m, _, err := s.Meta(0); err != nil || m.Next != 1 || state.Transactions(s) != before {
				t.Fatalf("%+v, %v", m, err)
			}
		}
		fill := func(value []byte, fits func(bytes int64, writes int) bool) *state.Checkpoint {
			c := &state.Checkpoint{Next: 1}
			bytes, writes := c.Size()
			for i := 0; ; i++ {
				r := state.Record{Subject: state.FlowSubject, Key: fmt.Sprint(i), Value: value, Due: 1, OldDue: 2}
				b, w := r.Size()
				if !fits(bytes+b, writes+w) {
					return c
				}
				bytes, writes = bytes+b, writes+w
				c.Records = append(c.Records, r)
			}
		}
		fits := func(bytes int64, writes int) bool { return bytes <= maxBytes && writes <= maxCount }
		for _, value := range [][]byte{{}, make([]byte, 10<<10), make([]byte, s.MaxValue())} {
			c := fill(value, fits)
			must(t, s.Commit(c)) // what just fits
		}
		refused(fill(make([]byte, 1<<10), func(bytes int64, _ int) bool { return bytes <= 2*maxBytes }))
		refused(fill([]byte{}, func(_ int64, writes int) bool { return writes <= 2*maxCount }))
		refused(&state.Checkpoint{State: make([]byte, s.MaxValue()+1)})
		refused(&state.Checkpoint{Records: []state.Record{flow("k", strings.Repeat("v", s.MaxValue()+1), 0, 0)}})
		refused(&state.Checkpoint{Records: []state.Record{flow(strings.Repeat("k", state.MaxKey+1), "v", 0, 0)}})
		must(t, s.Commit(&state.Checkpoint{Next: 1, Records: []state.Record{flow(strings.Repeat("k", state.MaxKey), "v", 1, 2)}}))
		if err := s.Commit(&state.Checkpoint{Records: []state.Record{{Key: "k"}}}); err == nil {
			t.Fatal("a record without a subject was taken")
		}
	})
}

// An iteration sees one moment, whatever is committed meanwhile.
func TestRecordsAreASnapshot(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		const n = 500
		commit := func(value string) {
			t.Helper()
			c := &state.Checkpoint{}
			for i := range n {
				c.Records = append(c.Records, flow(fmt.Sprintf("%04d", i), value, 0, 0))
			}
			must(t, s.Commit(c))
		}
		commit("old")
		seen := 0
		must(t, s.Records(0, state.FlowSubject, func(key string, value []byte) error {
			if seen == 0 {
				commit("new") // from within: reading must not block writing
			}
			seen++
			if string(value) != "old" {
				return fmt.Errorf("%s is %s", key, value)
			}
			return nil
		}))
		if seen != n {
			t.Fatalf("%d records", seen)
		}
		stop := errors.New("enough")
		seen = 0
		err := s.Records(0, state.FlowSubject, func(_ string, value []byte) error {
			if seen++; string(value) != "new" {
				return errors.New("not new")
			}
			return stop
		})
		if err != stop || seen != 1 {
			t.Fatalf("%v after %d", err, seen)
		}
	})
}
