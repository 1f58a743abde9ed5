package adapter

import "weir/events"

// Work remembers which agents of a flow worked since their last hop, for sources that tell all
// that agents do: whoever is not heard of did nothing (decision 4). It is bounded, and forgets
// the agent that was not asked for the longest. From then on nothing is known of those that it
// does not have, for a wrong No would be evidence against an agent that worked.
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

// Set says of an event whether an agent worked since its last hop. Where that is not known the
// event has a source of its own: of a source that tells of tools silence would mean no work.
func (w *Work) Set(e *events.Event, agent string) {
	if e.HadWork = w.Of(agent); e.HadWork == events.Unknown {
		e.Source = Word([]byte(e.Source+"/unseen"), events.MaxID)
	}
}

// Of tells whether an agent worked since its last hop.
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
