package pump

import (
	"fmt"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

// TestSilentFlowsLeaveMemory keeps of the flows that have fallen silent nothing in memory, finds
// them again when they speak, and asks the store for no flow that is new.
func TestSilentFlowsLeaveMemory(t *testing.T) {
	store, fake := &countingStore{Store: pumptest.OpenState(t)}, clock.NewFake()
	p := newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Clock: fake})
	offset := int64(0)
	send := func(after time.Duration, flow string) {
		t.Helper()
		ev := pumptest.Call(flow, 0, "a", "b")
		ev.ID, ev.Time = fmt.Sprint(offset), pumptest.Start.Add(after)
		fake.Advance(seldom * DefaultCheckpointEvery)
		if err := p.Batch(t.Context(), []Record{{Offset: offset, Appended: ev.Time, Value: ev.AppendJSON(nil)}}); err != nil {
			t.Fatal(err)
		}
		if err := p.checkpoints.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		offset++
	}
	inMemory := func(want int) {
		t.Helper()
		if n := len(p.memory.cache.byKey); n != want {
			t.Errorf("%d flows in memory after %d events, want %d", n, offset, want)
		}
	}
	for i := range 5 {
		send(time.Duration(i)*time.Second, fmt.Sprint(i))
	}
	inMemory(5)
	idle := p.fold.engine.Limits().Flow.Idle
	send(idle+2*time.Second, "new")
	inMemory(2 + 1) // 0, 1 and 2 are silent for as long
	if store.loads != 0 {
		t.Errorf("the store was asked %d times for flows that it cannot have", store.loads)
	}
	send(idle+3*time.Second, "0")
	if v, ok, err := p.View("0"); err != nil || !ok || v.Events != 2 || store.loads != 1 {
		t.Errorf("the flow that speaks again: %+v, %v, %v after %d questions to the store", v, ok, err, store.loads)
	}
	if list, err := p.Flows(FlowQuery{Limit: 10}); err != nil || len(list.Flows) != 6 {
		t.Errorf("%d flows in the list, %v", len(list.Flows), err)
	}
}

// TestMemoryHasABudget keeps of flows that are all live no more than the budget, beside what no
// checkpoint holds yet.
func TestMemoryHasABudget(t *testing.T) {
	const budget = 16 << 10
	store, fake := pumptest.OpenState(t), clock.NewFake()
	p := newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Clock: fake, Memory: budget})
	largest := int64(0)
	for i := range 200 {
		ev := pumptest.Call(fmt.Sprint(i), 0, "a", "b")
		ev.ID, ev.Time = fmt.Sprint(i), pumptest.Start.Add(time.Duration(i)*time.Second)
		fake.Advance(seldom * DefaultCheckpointEvery)
		if err := p.Batch(t.Context(), []Record{{Offset: int64(i), Appended: ev.Time, Value: ev.AppendJSON(nil)}}); err != nil {
			t.Fatal(err)
		}
		if err := p.checkpoints.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, p.memory.cache.get(fmt.Sprint(i)).size())
		if p.memory.cache.bytes > budget+largest {
			t.Fatalf("%d bytes of %d flows, all but the newest on disk; the budget is %d", p.memory.cache.bytes, len(p.memory.cache.byKey), budget)
		}
	}
	if n := len(p.memory.cache.byKey); n == 200 || n < 2 {
		t.Errorf("%d flows in memory: the budget was not met", n)
	}
}

// TestNewFlowsAmongManySent asks the store for every flow that is not in memory once there are too
// many outside to know each of them.
func TestNewFlowsAmongManySent(t *testing.T) {
	s := newRecordCache()
	x := newRecord("x").hash
	if s.mayBeOutside(x) {
		t.Error("nothing has left memory")
	}
	for i := range mostSent + 1 {
		r := newRecord(fmt.Sprint(i))
		s.add(r)
		s.send(r)
		if i < mostSent && s.mayBeOutside(x) {
			t.Fatalf("x was never folded, and %d others were", i+1)
		}
		if !s.mayBeOutside(r.hash) {
			t.Fatalf("the store has %s", r.key)
		}
	}
	if !s.mayBeOutside(x) {
		t.Error("x may be one of those that are known no more")
	}
}

// countingStore counts the records that are loaded.
type countingStore struct {
	Store
	loads int
}

func (s *countingStore) Load(partition uint16, sub state.Subject, key string) ([]byte, events.Stamp, bool, error) {
	s.loads++
	return s.Store.Load(partition, sub, key)
}
