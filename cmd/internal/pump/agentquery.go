package pump

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/events"
)

// AgentSummary is one agent, or one project, in a list.
// Times are those of the log, not of a clock; seconds are rounded to milliseconds.
type AgentSummary struct {
	Agent     string           `json:"agent"`
	Kind      events.ScopeKind `json:"kind"` // agent, project or tree
	State     string           `json:"state"`
	Waiting   string           `json:"waiting,omitempty"`
	Reason    events.Reason    `json:"reason_code,omitempty"`
	Certainty string           `json:"certainty,omitempty"` // stuck or potentially_stuck
	AgeS      float64          `json:"age_s"`               // since its last activity, up to the low watermark
	SilentS   float64          `json:"silent_s"`            // as far as it counts
	Last      events.RFC3339   `json:"last,omitzero"`
	Since     events.RFC3339   `json:"since,omitzero"`
	Step      events.Action    `json:"step,omitempty"`
	StepDue   events.RFC3339   `json:"step_due,omitzero"`
	Reviewer  string           `json:"reviewer,omitempty"`
	Status    string           `json:"status,omitempty"` // as the agent reports it
	Events    int64            `json:"events"`
	Orders    int              `json:"orders"`
	Notes     int              `json:"notes"`
	Flows     int              `json:"flows"`
}

// AgentList is an answer to a question for agents.
type AgentList struct {
	// Agents has those that are stuck first, the longest silent before all, then the
	// others, those that did something last first.
	Agents []AgentSummary `json:"agents"`
	// Stuck is how many of those that were looked at are stuck, or may be, or were
	// archived for it.
	Stuck int `json:"stuck"`
	// LowWatermark is that of the agent stage: everything before it is known, silence after it is not judged.
	LowWatermark events.RFC3339 `json:"told,omitzero"`
	// Scanned is how many agents were looked at. When Truncated is set there are more,
	// of which nothing was heard for longer.
	Scanned   int  `json:"scanned"`
	Truncated bool `json:"truncated"`
}

// AgentQuery says which agents are wanted.
// The zero Limit wants none.
type AgentQuery struct {
	Kind  events.ScopeKind // agent, project or tree; "" is agent
	Stuck bool             // only those that are stuck, or may be, or were archived for it
	Limit int
}

// NoteList is an answer to a question for notes, the newest first.
type NoteList struct {
	Notes []agents.NoteView `json:"notes"`
	// Scanned is how many agents were looked at. When Truncated is set there are more.
	Scanned   int  `json:"scanned"`
	Truncated bool `json:"truncated"`
}

// NoteQuery says which notes are wanted: those about an agent that have all the tags.
type NoteQuery struct {
	Agent string // "" is every agent
	Tags  []string
	Limit int
}

// AgentKeyOf returns the key under which an agent, a project or a tree of flows is folded.
// A kind that is neither is taken for an agent.
func AgentKeyOf(kind events.ScopeKind, id string) string {
	switch kind {
	case events.ScopeProject:
		return activity.ProjectKey(id)
	case events.ScopeTree:
		return activity.TreeKey(id)
	}
	return activity.AgentKey(events.Party{Agent: id})
}

// The states that make an agent stuck.
const (
	// They are words of agents.View, which people and programs read.
	stateStuck       = "stuck"
	statePotentially = "potentially_stuck"
)

// agentScan is what was looked at for a list.
// lowWatermark is that of the pump: up to then silence was judged.
type agentScan struct {
	lowWatermark events.Stamp
	scanned      int
	truncated    bool
}

// agentViews calls fn for each agent that a pump of the agent stage knows, those used
// last first, at most MaxScanned. Of those that are not stuck none is looked at if stuck.
func (vs *Views) agentViews(stuck bool, fn func(v *agents.View, lowWatermark events.Stamp)) (s agentScan, err error) {
	all, err := vs.agentPartition()
	if err != nil {
		return s, err
	}
	var want func([]byte) bool
	// MayBeStuck looks at one byte of the record, so healthy agents are not decoded.
	if stuck {
		want = agents.MayBeStuck
	}
	records, engine, truncated, err := vs.snapshot(want)
	if err != nil {
		return s, err
	}
	var a agents.Agent
	for _, r := range records {
		if err := a.UnmarshalBinary(r.key, r.record); err != nil {
			return s, fmt.Errorf("%q: %w", r.key, err)
		}
		view := engine.Agents().View(all, &a)
		fn(&view, all.Watermark)
	}
	return agentScan{all.Watermark, len(records), truncated}, nil
}

// AgentView returns an agent for people and programs; false when nothing is known of
// it. The key is that of activity.AgentKey or ProjectKey. It is for pumps of the agent
// stage; any goroutine may call it.
func (vs *Views) AgentView(key string) (agents.View, bool, error) {
	all, err := vs.agentPartition()
	if err != nil {
		return agents.View{}, false, err
	}
	record, engine, err := vs.lookUp(key)
	if err != nil || len(record) == 0 {
		return agents.View{}, false, err
	}
	var a agents.Agent
	if err := a.UnmarshalBinary(key, record); err != nil {
		return agents.View{}, false, fmt.Errorf("%q: %w", key, err)
	}
	return engine.Agents().View(all, &a), true, nil
}

// TreeAbove returns the root of the tree that a tree of flows passes on to; "" for none, and
// where nothing is known of it. It is for pumps of the agent stage; any goroutine may call it.
func (vs *Views) TreeAbove(root string) (string, error) {
	key := activity.TreeKey(root)
	record, _, err := vs.lookUp(key)
	if err != nil || len(record) == 0 {
		return "", err
	}
	var a agents.Agent
	if err := a.UnmarshalBinary(key, record); err != nil {
		return "", fmt.Errorf("%q: %w", key, err)
	}
	return a.TreeAbove(), nil
}

// AgentsOf returns the agents that pumps of the agent stage know.
func AgentsOf(pumps []*Pump, q AgentQuery) (AgentList, error) {
	list := AgentList{Agents: []AgentSummary{}}
	kind := cmp.Or(q.Kind, events.ScopeAgent)
	for i, p := range pumps {
		scan, err := p.agentViews(q.Stuck, func(v *agents.View, lowWatermark events.Stamp) {
			if v.Kind != kind {
				return
			}
			s := agentSummary(v, lowWatermark)
			if s.stuck() {
				list.Stuck++
			} else if q.Stuck {
				return
			}
			list.Agents = append(list.Agents, s)
		})
		if err != nil {
			return AgentList{}, err
		}
		// The list is as old as the partition with the lowest watermark.
		if lowWatermark := events.RFC3339(scan.lowWatermark); i == 0 || lowWatermark < list.LowWatermark {
			list.LowWatermark = lowWatermark
		}
		list.Scanned += scan.scanned
		list.Truncated = list.Truncated || scan.truncated
	}
	slices.SortFunc(list.Agents, func(a, b AgentSummary) int {
		// Stuck agents come first by the longest silence, because a person has waited longest for
		// them. The others are sorted by their last activity, as in a list of flows.
		if ra, rb := a.rank(), b.rank(); ra != rb || ra < calm {
			return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(b.AgeS, a.AgeS), cmp.Compare(a.Agent, b.Agent))
		}
		return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.Agent, b.Agent))
	})
	list.Agents = list.Agents[:min(q.Limit, len(list.Agents))]
	return list, nil
}

// agentSummary is the agent in a list; its age is reckoned up to the low watermark.
func agentSummary(v *agents.View, lowWatermark events.Stamp) AgentSummary {
	s := AgentSummary{Agent: v.Agent, Kind: v.Kind, State: v.State, Waiting: v.Waiting, Reason: v.Reason, SilentS: v.SilentS, Last: v.Last, Since: v.Since,
		Step: v.Step, StepDue: v.StepDue, Reviewer: v.Reviewer, Status: v.Status, Events: v.Events, Orders: len(v.Orders), Notes: len(v.Notes), Flows: v.Flows}
	if v.State == stateStuck || v.State == statePotentially {
		s.Certainty = v.State
	}
	if last := events.Stamp(v.Last); last != 0 && lowWatermark > last {
		s.AgeS = lowWatermark.Sub(last).Round(time.Millisecond).Seconds()
	}
	return s
}

// stuck reports whether an operator has to look after the agent.
func (s *AgentSummary) stuck() bool { return s.rank() < calm }

// calm is the rank of agents that need no operator.
const calm = 3

// rank is how urgently an agent needs an operator; 0 is the most urgent.
func (s *AgentSummary) rank() int {
	switch {
	case s.State == stateStuck:
		return 0
	case s.State == statePotentially:
		return 1
	case s.Step != "": // archived by the ladder, and not heard of since
		return 2
	}
	return calm
}

// NotesOf returns the notes about agents that pumps of the agent stage keep.
func NotesOf(pumps []*Pump, q NoteQuery) (NoteList, error) {
	list := NoteList{Notes: []agents.NoteView{}}
	for _, p := range pumps {
		scan, err := p.agentViews(false, func(v *agents.View, _ events.Stamp) { list.take(v, q) })
		if err != nil {
			return NoteList{}, err
		}
		list.Scanned += scan.scanned
		list.Truncated = list.Truncated || scan.truncated
	}
	list.cut(q)
	return list, nil
}

// NotesAbout returns the notes about one agent. The key is that of activity.AgentKey. It is
// for pumps of the agent stage; any goroutine may call it.
func (vs *Views) NotesAbout(key string, q NoteQuery) (NoteList, error) {
	list := NoteList{Notes: []agents.NoteView{}}
	view, known, err := vs.AgentView(key)
	if known {
		list.Scanned = 1
		list.take(&view, q)
		list.cut(q)
	}
	return list, err
}

// take adds the notes about an agent that are wanted.
func (l *NoteList) take(v *agents.View, q NoteQuery) {
	if q.Agent != "" && v.Agent != q.Agent {
		return
	}
	for _, n := range v.Notes {
		if !slices.ContainsFunc(q.Tags, func(tag string) bool { return !slices.Contains(n.Tags, tag) }) {
			l.Notes = append(l.Notes, n)
		}
	}
}

// cut sorts the notes and leaves as many as are wanted. Notes of one time and agent stay in the
// order in which the agent keeps them.
func (l *NoteList) cut(q NoteQuery) {
	slices.SortStableFunc(l.Notes, func(a, b agents.NoteView) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Agent, b.Agent))
	})
	l.Notes = l.Notes[:min(q.Limit, len(l.Notes))]
}

// AgentGauge returns how many agents an agent stage has; false when the pump folds flows. Any
// goroutine may call it.
// It looks at no agent: each step keeps the counts (decision 49).
func (vs *Views) AgentGauge() (agents.Gauge, bool) {
	vs.folded.mu.Lock()
	defer vs.folded.mu.Unlock()
	if vs.agents == nil {
		return agents.Gauge{}, false
	}
	return vs.agents.partition.Gauge(), true
}

// agentPartition copies what an agent stage has folded over all its agents.
func (vs *Views) agentPartition() (*agents.Partition, error) {
	vs.folded.mu.Lock()
	defer vs.folded.mu.Unlock()
	if vs.agents == nil {
		return nil, errors.New("this pump folds flows")
	}
	// Encoded and read: a copy of the struct would share what the next step changes.
	b, err := vs.agents.partition.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	out := new(agents.Partition)
	return out, out.UnmarshalBinary(b)
}
