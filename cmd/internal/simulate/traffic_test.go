package simulate

import (
	"fmt"
	"time"

	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// traffic is what the agents of the simulation do: they loop, flood each other, report and
// fall silent. Some of their events come twice, and some cannot be read.
type traffic struct {
	flows int
	// Numbers the events, and moves the agents and flows that are busy slowly on.
	made  int
	calls []events.Event // the last that were made
	// For sending again later, as producers do that have lost an answer.
	last  []sent
	acked map[string]bool // ids of what a broker has said that it keeps
}

// sent is a record as a producer would send it again.
type sent struct {
	partition int
	value     string
}

// produce lets producers send some events.
// Whatever is taken is acknowledged at once; that an answer is lost is the fault Late.
func (w *world) produce() {
	t, r := &w.traffic, w.rand
	if t.acked == nil {
		t.acked = make(map[string]bool)
	}
	// A handful at a time, up to nearly a second late, out of order.
	for n := 1 + r.IntN(8); n > 0; n-- {
		at := events.StampOf(w.clock.Now()).Add(-time.Duration(r.IntN(900)) * time.Millisecond)
		switch x := r.IntN(100); {
		// What cannot be read has to become a dead letter, and everything behind it has to be folded.
		case x < 2:
			bad := []string{"{", `{"id":1}`, "nonsense"}[r.IntN(3)]
			w.append(w.events[r.IntN(len(w.events))], entry{value: bad})
			continue
		// A producer that sends a while later what it has sent before.
		case x < 5 && len(t.last) > 0:
			again := t.last[len(t.last)-1-r.IntN(min(len(t.last), 12))]
			w.append(w.events[again.partition], entry{value: again.value})
			continue
		}
		ev := w.event(at)
		s := sent{w.place(ev.FlowKey(), len(w.events)), string(ev.AppendJSON(nil))}
		w.append(w.events[s.partition], entry{value: s.value})
		// The same bytes right behind: the fold has to count them once (decision 6).
		if w.fault(Late, 20) {
			w.append(w.events[s.partition], entry{value: s.value})
		}
		w.stats.Events++
		t.last = append(t.last, s)
		// What is remembered is cut now and then, so a long run takes no more memory than a
		// short one.
		if len(t.last) > 100 {
			t.last = t.last[50:]
		}
		t.calls = append(t.calls, *ev)
		if len(t.calls) > 100 {
			t.calls = t.calls[50:]
		}
		// It is held against the logs at the end, see checkOnce.
		t.acked[ev.ID] = true
		w.pass0(time.Duration(r.IntN(300)) * time.Millisecond)
	}
	w.settle()
}

// pass0 lets a moment pass.
// It is not noted: it would fill the trace.
func (w *world) pass0(d time.Duration) { w.clock.Advance(d); w.settle() }

// inTree says who opened the flow of an event: two flows of three belong to a tree, and of them
// every second names the root, too.
// By threes the trees go several levels deep, and some flows know only their parent.
func inTree(ev *events.Event) {
	var n int
	if _, err := fmt.Sscanf(ev.CorrelationID, "flow-%d", &n); err != nil || n%3 == 2 {
		return
	}
	if n > 0 {
		ev.ParentCorrelationID = fmt.Sprint("flow-", n/9*3)
	}
	if n%2 == 0 {
		ev.RootCorrelationID = "flow-0"
	}
}

// event makes up one. The shares follow what has found faults: status and calls of few agents
// that move on slowly, so that some fall silent and are found stuck, and asks in trees.
func (w *world) event(at events.Stamp) *events.Event {
	t, r := &w.traffic, w.rand
	t.made++
	agent := func() events.Party { return events.Party{Agent: fmt.Sprint("worker-", r.IntN(9))} }
	ev := &events.Event{ID: fmt.Sprint("s", t.made), Source: "simulation", Time: at, From: agent()}
	switch x := r.IntN(100); {
	case x < 18:
		// One of three that change every hundred events: who was one before falls silent.
		ev.From.Agent = fmt.Sprint("worker-", (t.made/100+r.IntN(3))%9)
		ev.Kind, ev.AgentState = events.AgentStatus, &events.AgentState{Status: []string{"active", "active", "waiting_user", "completed"}[r.IntN(4)]}
		if r.IntN(2) == 0 {
			ev.AgentState.Margin = []string{"comfortable", "tight", "critical"}[r.IntN(3)]
		}
	case x < 21:
		ev.Kind, ev.To, ev.Rescue = events.RescueRequest, agent(), &events.Rescue{}
	case x < 24:
		ev.Kind, ev.To, ev.Note = events.NoteAdded, agent(), &events.Note{Tags: []string{"stuck", "help"}, Summary: "does not answer"}
	case x < 34:
		ev.Kind, ev.To = events.AgentCall, events.Party{Agent: fmt.Sprint("worker-", t.made/40%9)}
	case x < 36:
		ev.Kind, ev.From, ev.To, ev.CorrelationID = events.AgentCall, events.Party{}, agent(), fmt.Sprint("flow-", r.IntN(t.flows)) // a user
	case x < 46:
		// Flows that ask before each call, so that their tree spends what it allows and nothing else.
		ev.Kind, ev.Ask, ev.Tool = events.ToolCall, true, events.Tool{Name: "search", ArgsHash: events.Hash{Algorithm: events.XXH64, Value: uint64(t.made) + 1}}
		ev.CorrelationID, ev.RootCorrelationID = fmt.Sprint("asking-", r.IntN(4)), "asking-0"
	// Work of all kinds, as the tests of the pump make it, in flows that move on slowly.
	default:
		work := pumptest.RandomEvent(r, at, t.made)
		work.ID, work.Source, work.From, work.CorrelationID = ev.ID, ev.Source, agent(), fmt.Sprint("flow-", r.IntN(t.flows)+t.made/300)
		if work.Kind == events.AgentCall {
			work.To = agent()
		}
		ev = work
	}
	inTree(ev)
	return ev
}
