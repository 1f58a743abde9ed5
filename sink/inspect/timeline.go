package inspect

import (
	"weir/analyzer"
	"weir/events"
)

// Timeline is what happened, event by event, and what weir said to it.
type Timeline struct {
	Steps []Step `json:"steps"`
	Said  []Said `json:"said"`
	// Counted is how many of the events the fold counted, repeats left out; the
	// ordinals in the evidence of verdicts go by it.
	Counted int64 `json:"counted"`
}

// Step is one event as a picture needs it.
// Empty fields are left out of the JSON.
type Step struct {
	N       int            `json:"n"` // from 1
	Ordinal int64          `json:"ordinal"`
	Time    events.RFC3339 `json:"time"`
	Kind    string         `json:"kind"`
	Flow    string         `json:"flow"`
	From    string         `json:"from,omitempty"`
	To      string         `json:"to,omitempty"`
	Tool    string         `json:"tool,omitempty"`
	Status  string         `json:"status,omitempty"`
	Error   string         `json:"error,omitempty"`
	Note    string         `json:"note,omitempty"` // what else names it: a turn, a task, a reason
	Work    string         `json:"work,omitempty"` // yes or no; empty when it is not known
	Ask     bool           `json:"ask,omitempty"`
	Refused bool           `json:"refused,omitempty"` // an ask that was answered with no
	Repeat  bool           `json:"repeat,omitempty"`  // dropped, because it was folded before
}

// Said is a verdict and the step at which it was given; the step after the last one
// when time alone brought it about at the end.
type Said struct {
	Step    int            `json:"step"`
	Ask     bool           `json:"ask,omitempty"` // an answer to an ask, which is no order
	Verdict events.Verdict `json:"verdict"`
}

// Fold folds the events in their order. Time goes on to until at the end, where that is
// later than the last event.
// Each call folds with an engine of its own, so nothing is shared with what runs.
func Fold(l analyzer.Limits, evs []events.Event, until events.Stamp) Timeline {
	t := newFolding(l)
	for i := range evs {
		t.step(&evs[i])
	}
	t.pass(until)
	return t.timeline
}

// ViewAt returns a flow as it stood after the first at of the events; false when none of
// them is of the flow. The load of other flows is not known here, so limits that shrink
// with it are not shrunk.
// at counts events, not steps of this flow. A negative one is not expected.
func ViewAt(l analyzer.Limits, evs []events.Event, flow string, at int) (analyzer.View, bool) {
	t := newFolding(l)
	for i := range evs[:min(at, len(evs))] {
		t.step(&evs[i])
	}
	f := t.flows[flow]
	if f == nil {
		return analyzer.View{}, false
	}
	return t.engine.View(f), true
}

// folding folds and takes notes.
// It is the fold of the program without log and clock, for a few events.
type folding struct {
	engine    *analyzer.Engine
	partition analyzer.Partition
	fx        analyzer.Effects
	flows     map[string]*analyzer.Flow
	// The flows in the order in which they began, since a map has none.
	keys []string
	// By flow, what counts as ordinal.
	counted  map[string]int64
	refusing map[string]string // by flow, the last verdict that refuses calls
	timeline Timeline
}

// newFolding is a fold that has seen nothing. Lists are made, because the page wants [] and not
// null.
func newFolding(l analyzer.Limits) *folding {
	return &folding{engine: analyzer.New(l), flows: make(map[string]*analyzer.Flow), counted: make(map[string]int64),
		refusing: make(map[string]string), timeline: Timeline{Steps: []Step{}, Said: []Said{}}}
}

// step folds one event and notes it, with what was said at it.
func (t *folding) step(ev *events.Event) {
	key := ev.FlowKey()
	// Flows are kept decoded: a case or a page has few.
	f := t.flows[key]
	if f == nil {
		f = new(analyzer.Flow)
		t.flows[key], t.keys = f, append(t.keys, key)
	}
	// Cases cannot know the ids of verdicts, so an acknowledgement is of the last order.
	if ev.Ack != nil && ev.Ack.VerdictID == "" { // as cases are written
		// The caller's event stays as it is.
		ack := *ev.Ack
		ack.VerdictID = t.refusing[key]
		copied := *ev
		copied.Ack, ev = &ack, &copied
	}
	t.fx.Reset()
	t.engine.Step(&t.partition, f, ev, &t.fx)
	// A repeat has the ordinal of the last event that counted.
	t.counted[key] += t.fx.Counts.Events
	t.timeline.Counted += t.fx.Counts.Events
	// What was dropped is a step all the same: people look for every event of theirs.
	s := stepOf(ev)
	s.N, s.Flow, s.Ordinal = len(t.timeline.Steps)+1, key, t.counted[key]
	s.Repeat = t.fx.Counts.Duplicates+t.fx.Counts.TooLate > 0
	if a := t.fx.Answer; a != nil {
		s.Refused = a.Action != events.Allow && a.Action != events.Warn
	}
	t.timeline.Steps = append(t.timeline.Steps, s)
	t.note(s.N)
	// After the verdicts of the step, since the answer follows from them. What was allowed says
	// nothing.
	if t.fx.Answer != nil && s.Refused {
		t.timeline.Said = append(t.timeline.Said, Said{Step: s.N, Ask: true, Verdict: *t.fx.Answer})
	}
}

// note takes down the verdicts of a step. They are values of their own and outlive the effects.
func (t *folding) note(step int) {
	for i := range t.fx.Verdicts {
		v := t.fx.Verdicts[i]
		// Only an order has a time at which it takes effect.
		if v.Effective != "" && v.Mode != events.ModeShadow {
			t.refusing[v.CorrelationID] = v.ID
		}
		t.timeline.Said = append(t.timeline.Said, Said{Step: step, Verdict: v})
	}
}

// pass lets time go on in all flows.
// They are taken one after the other: time alone does nothing across flows here.
func (t *folding) pass(until events.Stamp) {
	for _, key := range t.keys {
		t.fx.Reset()
		t.engine.Advance(&t.partition, t.flows[key], until, &t.fx)
		t.note(len(t.timeline.Steps) + 1)
	}
}

// stepOf is the event as the page shows it, without its place and without its outcome.
func stepOf(ev *events.Event) Step {
	s := Step{Time: events.RFC3339(ev.Time), Kind: ev.Kind.String(), From: ev.From.ID(), To: ev.To.ID(), Tool: ev.Tool.Name,
		Error: ev.ErrorType, Ask: ev.Ask}
	if ev.Status != events.StatusUnset {
		s.Status = ev.Status.String()
	}
	switch ev.HadWork {
	case events.Yes:
		s.Work = "yes"
	case events.No:
		s.Work = "no"
	}
	switch {
	case ev.Operator != nil:
		s.Note = ev.Operator.Reason
	case ev.Override != nil:
		s.Note = ev.Override.Rule
	case ev.Kind == events.TurnStart:
		s.Note = ev.TurnID
	case ev.Kind == events.TaskLoop, ev.Kind == events.TaskReflect:
		s.Note = ev.TaskID
	}
	return s
}
