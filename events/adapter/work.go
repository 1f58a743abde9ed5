package adapter

import "weir/events"

// Work remembers which agents of a flow worked since their last hop. It is for sources that report
// all that agents do: an agent without a report did nothing (decision 4). It is bounded, and
// forgets the agent that was not looked up for the longest. From then on the work of agents that it
// does not have is unknown. A wrong No would be evidence against an agent that worked.
//
// It is for one goroutine.
type Work struct {
	agents *Recent[events.Tri]
	forgot bool // one that worked, or may have
}

// NewWork returns a memory of at most most agents.
func NewWork(most int) Work { return Work{agents: NewRecent[events.Tri](most)} }

// Note notes that an agent worked, or may have. Yes goes before Unknown, and that before No.
func (w *Work) Note(agent string, worked events.Tri) {
	if before, _ := w.agents.Get(agent); before != events.Yes {
		w.put(agent, worked)
	}
}

// Set sets on an event whether an agent worked since its last hop. Where that is unknown the event
// gets a source of its own: in a source that reports tools, silence would mean no work.
func (w *Work) Set(e *events.Event, agent string) {
	if e.HadWork = w.Of(agent); e.HadWork == events.Unknown {
		e.Source = Word([]byte(e.Source+"/unseen"), events.MaxID)
	}
}

// Of reports whether an agent worked since its last hop.
func (w *Work) Of(agent string) events.Tri {
	worked, known := w.agents.Get(agent)
	if !known && !w.forgot {
		return events.No
	}
	return worked
}

// Spend notes a hop of an agent: the next one is judged by what comes behind it.
func (w *Work) Spend(agent string) {
	if !w.forgot {
		w.agents.Delete(agent)
		return
	}
	// Who is not known is none that did nothing any more, so that is written down.
	w.put(agent, events.No)
}

// Len is how many agents are remembered.
func (w *Work) Len() int { return w.agents.Len() }

func (w *Work) put(agent string, worked events.Tri) {
	if lost, full := w.agents.Put(agent, worked); full && lost != events.No {
		w.forgot = true
	}
}
