package pump

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

// TestManyDeadlines folds many more flows than there is room for deadlines, with restarts in
// between: they fire as if there were room for all, and what is held stays bounded.
func TestManyDeadlines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	at := pumptest.Start
	var records []Record
	add := func(value []byte) {
		records = append(records, Record{Offset: int64(len(records)), Appended: at, Value: value})
	}
	for i := range 6000 {
		at = at.Add(time.Duration(r.IntN(300)) * time.Millisecond)
		switch {
		case i%500 == 499:
			at = at.Add(time.Duration(r.IntN(900)) * time.Second)
			add(pumptest.Tick(at))
			continue
		case i%1000 == 250:
			add(limitsSet(at, []string{"strict", "balanced"}[r.IntN(2)]))
			continue
		}
		ev := events.Event{ID: fmt.Sprint("e", i), Source: "test", Time: at, Kind: events.AgentCall, CorrelationID: fmt.Sprint("f", i%2000), From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
		if i%3 == 0 {
			ev.CorrelationID = fmt.Sprint("loop", r.IntN(150))
			ev.To.Agent = "a"
		}
		add(ev.AppendJSON(nil))
	}
	for _, older := range []bool{false, true} {
		manyDeadlines(t, records, older)
	}
}

// olderStore has records of a format that does not say their deadlines, until they are written.
type olderStore struct {
	Store
	mu      sync.Mutex
	written map[string]bool
}

func (s *olderStore) Commit(c *state.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range c.Records {
		s.written[c.Records[i].Key] = true
	}
	return s.Store.Commit(c)
}

func (s *olderStore) Load(partition uint16, sub state.Subject, key string) (record []byte, due events.Stamp, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if record, due, ok, err = s.Store.Load(partition, sub, key); !s.written[key] {
		due = state.DueUnknown
	}
	return record, due, ok, err
}

func manyDeadlines(t *testing.T, records []Record, older bool) {
	want, all := undisturbed(t, records), pumptest.OpenState(t)
	p := newTestPump(t, Options{Store: all, Sink: &memoryLog{}})
	most := 0
	for part := range slices.Chunk(records, 20) {
		if err := p.Batch(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(p.memory.deadlines.heap))
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, store, held := &memoryLog{}, pumptest.OpenState(t), 0
	for from := 0; from < len(records); from += 700 {
		o := Options{Store: store, Sink: got, Memory: 1, CheckpointEvery: time.Nanosecond}
		if older {
			o.Store = &olderStore{Store: store, written: make(map[string]bool)}
		}
		p := newTestPump(t, o)
		for part := range slices.Chunk(records[from:min(from+700, len(records))], 20) {
			if err := p.Batch(t.Context(), part); err != nil {
				t.Fatal(err)
			}
			held = max(held, len(p.memory.deadlines.heap))
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sameLog(t, got, want)
	if one, other := stored(t, all), stored(t, store); !slices.Equal(one, other) {
		t.Errorf("%d records and deadlines are kept, and %d with little memory", len(one), len(other))
	}
	if held > leastDeadlines || most < 10*leastDeadlines {
		t.Errorf("%d deadlines were held, of %d", held, most)
	}
}

// stored is what a store has of flows.
func stored(t *testing.T, s *state.Store) (out []string) {
	t.Helper()
	err := s.Records(0, state.FlowSubject, func(key string, record []byte) error {
		out = append(out, fmt.Sprintf("%s %x", key, record))
		return nil
	})
	if err == nil {
		err = s.Due(0, state.FlowSubject, 0, "", func(due events.Stamp, key string) bool {
			out = append(out, fmt.Sprint(due, " ", key))
			return true
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// narrowStore takes small checkpoints only.
type narrowStore struct{ Store }

func (narrowStore) MaxCheckpoint() (bytes int64, writes int) { return 1 << 20, 20 }

// TestToldAfterDeadlines lets checkpoints pass amid the deadlines of many flows: a time is reported to
// agents when all that was due before it has been passed on, and not earlier.
func TestToldAfterDeadlines(t *testing.T) {
	var sent passedOn
	limits := pumptest.Limits()
	limits.Agents.Rules[agents.RuleAttempts].Mode = rules.ModeEnforce // tries are reported to agents
	p, err := New(t.Context(), Options{Limits: limits, Parse: parseTestLimits, Store: narrowStore{pumptest.OpenState(t)}, Sink: &memoryLog{}, Activity: &sent})
	if err != nil {
		t.Fatal(err)
	}
	at := pumptest.Start
	batch := func(value []byte) {
		t.Helper()
		if err := p.Batch(t.Context(), []Record{{Offset: p.Next(), Appended: at, Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 4 { // a stop, and when nothing is in flight any more tries against it
		for flow := range 60 {
			at = at.Add(time.Millisecond)
			ev := events.Event{ID: fmt.Sprint(flow, "-", n), Source: "test", Time: at, Kind: events.AgentCall, CorrelationID: fmt.Sprint("f", flow),
				From: events.Party{Agent: fmt.Sprint("a", flow)}, To: events.Party{Agent: fmt.Sprint("a", flow)}, TransferMode: events.ReturnToCaller}
			batch(ev.AppendJSON(nil))
		}
		if n == 0 {
			at = at.Add(2 * time.Second)
		}
	}
	for range 4 {
		at = at.Add(10 * time.Minute)
		batch(pumptest.Tick(at))
		for p.fold.ripe() {
			if err := p.Batch(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	told, late, tries := events.Stamp(0), 0, 0
	for _, r := range sent {
		if IsReports(r.Value) {
			if err := EachReport(r.Value, func(r *activity.Report) {
				if max(r.Did, r.Tried) < told {
					late++
				}
				tries += int(r.Tries)
			}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var ev events.Event
		if err := events.Decode(r.Value, &ev); err != nil {
			t.Fatal(err)
		}
		if r.Key == "" {
			told = max(told, ev.Time)
		} else if ev.Time < told {
			late++
		}
	}
	if late > 0 || told == 0 || tries != 180 {
		t.Errorf("%d of what agents are told comes after a later time; of %d tries they are told, want 180; told up to %d", late, tries, told)
	}
}
