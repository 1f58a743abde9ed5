package state_test

import (
	"fmt"
	"testing"

	"weir/events"
	"weir/state"
)

func TestForget(t *testing.T) {
	inBoth(t, func(t *testing.T, s *state.Store) {
		_, most := s.MaxCheckpoint()
		for from := 0; from < most; from += most / 4 { // more than one transaction holds
			c := state.Checkpoint{Partition: 1, Next: int64(from)}
			for i := range most / 10 {
				c.Records = append(c.Records, flow(fmt.Sprint("f", from+i), "1", events.Stamp(i+1), 0))
			}
			must(t, s.Commit(&c))
		}
		agent := state.Record{Subject: state.AgentSubject, Key: "a", Value: []byte("agent"), Due: 7}
		must(t, s.Commit(&state.Checkpoint{Partition: 1, Next: 10, Records: []state.Record{agent}}))
		must(t, s.Commit(&state.Checkpoint{Partition: 2, Next: 20, Records: []state.Record{agent, flow("f", "1", 5, 0)}}))
		must(t, s.Forget(1))
		must(t, s.Forget(1))
		if _, ok, err := s.Meta(1); ok || err != nil {
			t.Fatalf("meta after forgetting: %v, %v", ok, err)
		}
		equal(t, "flows", records(t, s, 1, state.FlowSubject), nil)
		equal(t, "agents", records(t, s, 1, state.AgentSubject), nil)
		equal(t, "deadlines", due(t, s, 1), nil)
		if m, ok, err := s.Meta(2); !ok || err != nil || m.Next != 20 {
			t.Fatalf("meta of another partition: %+v, %v, %v", m, ok, err)
		}
		equal(t, "other deadlines", due(t, s, 2), []string{"agent 7 a", "flow 5 f"})
		must(t, s.Commit(&state.Checkpoint{Partition: 1, Next: 1, Records: []state.Record{flow("f1", "new", 1, 0)}}))
		equal(t, "flows", records(t, s, 1, state.FlowSubject), []string{"f1=new"})
	})
}
