package agents

import (
	"time"
	"weir/analyzer/rules"
)

// Limits is what agents and projects are judged by, over all flows.
type Limits struct {
	Rules      [RuleCount]rules.Setting
	HTTPStatus [RuleCount]int16 // of a refusal; 0 is the row's own
	Texts      [RuleCount]string
	// Report is how soon a flow reports what its parties did. It reports each party once in
	// this time, and once more when the party falls silent, from the first report of any agent on.
	// 0 turns it off: then silence is judged by the agents' own reports. No threshold of
	// silence may be below twice as much.
	Report time.Duration
	// Patience is how long an agent is believed to be in a tool or to wait.
	Patience time.Duration
	// WatchAll judges the silence of agents that never reported, too.
	WatchAll bool
	// BelieveNotes takes an agent's own note that it is stuck for proof that it is.
	BelieveNotes bool
	// Recover has weir give orders about stuck agents: resume, review, archive. Without
	// it they are only reported.
	Recover      bool
	ResumeWithin time.Duration // after an order to resume, for the agent to report again
	ReviewWithin time.Duration // for the reviewer
	// SafeCoherence and SafeRisk, in hundredths: an agent above the one and below the
	// other may be resumed without a review.
	SafeCoherence, SafeRisk int64
}

// Balanced returns the default limits.
// Recovery is off in it: stuck agents are reported to people and nothing is ordered.
func Balanced() Limits {
	l := Limits{Report: time.Minute, Patience: 2 * time.Hour, ResumeWithin: 10 * time.Minute, ReviewWithin: 10 * time.Minute,
		SafeCoherence: 40, SafeRisk: 60}
	for i := range l.Rules {
		l.Rules[i] = Rules[i].Default
	}
	return l
}

// Wants lists the kinds of activity that the rows that are on need. Other kinds are
// not reported.
// The stage of flows reads it with each event, so it is computed once for each set of limits.
type Wants struct {
	Escaped  bool // calls without a correlation id of their own
	Calls    bool // all calls between agents
	Opened   bool // calls that open a flow
	Projects bool // calls in projects
	Wakes    bool // flows that agents open in a conversation
	// Calls against orders, by number: at these numbers of one flow they are reported at once,
	// because the rows may trigger at them. It is nil if none are wanted.
	Attempts []int64
	Silence  bool // what parties do
	Unasked  bool // also before any agent has reported
	Trees    bool // what flows spend that name a parent or a root
}

// WantsOf returns what the rows want that are on by the limits.
// A row in shadow mode wants as much as one that gives orders; one that is off, or has no
// threshold, wants nothing.
func WantsOf(l *Limits) (w Wants) {
	w.Unasked = l.WatchAll
	for r := range RuleCount {
		set := &l.Rules[r]
		if set.Mute() {
			continue
		}
		switch Rules[r].Counts {
		case CountedEscaped:
			w.Escaped = true
			w.Calls = w.Calls || set.All
		case CountedMessages:
			w.Calls = true
		case CountedProject:
			w.Projects = true
		case CountedOpened:
			w.Opened = true
		case CountedWakes:
			w.Wakes = true
		case CountedRefused:
			w.Attempts = append(w.Attempts, set.Warn, set.Stop)
		}
		w.Trees = w.Trees || Rules[r].Counts.OfTree()
		w.Silence = w.Silence || Rules[r].Silence && l.Report > 0
	}
	return w
}
