package agents

import (
	"fmt"
	"slices"
	"strings"

	"weir/analyzer/activity"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// View is an agent for people and programs.
// Its fields are a promise to programs. Of a project or a tree most of them are empty.
type View struct {
	Agent       string              `json:"agent"`             // id, without the kind before the colon
	Kind        events.ScopeKind    `json:"kind"`              // agent, project or tree
	State       string              `json:"state"`             // active, in_tool, waiting, silent, potentially_stuck, stuck, archived, unwatched
	Waiting     string              `json:"waiting,omitempty"` // for what: user, approval, child, backoff; work when nothing is expected of it
	Events      int64               `json:"events"`
	Reports     int64               `json:"reports"`
	Last        events.RFC3339      `json:"last,omitzero"` // when it did something last
	SilentS     float64             `json:"silent_s"`      // up to the watermark; 0 when silence does not count
	Status      string              `json:"status,omitempty"`
	Margin      string              `json:"margin,omitempty"`
	Health      string              `json:"health,omitempty"`
	Coherence   *float64            `json:"coherence,omitempty"`
	Risk        *float64            `json:"risk,omitempty"`
	VoidActive  bool                `json:"void_active,omitempty"`
	MeanGapS    float64             `json:"mean_gap_s,omitempty"`
	Due         events.RFC3339      `json:"due,omitzero"`          // next deadline
	Reason      events.Reason       `json:"reason_code,omitempty"` // why it is stuck
	Since       events.RFC3339      `json:"since,omitzero"`        // when that was found
	Step        events.Action       `json:"step,omitempty"`        // of the ladder: resume, review, archive, notify
	StepDue     events.RFC3339      `json:"step_due,omitzero"`
	Reviewer    string              `json:"reviewer,omitempty"`
	RequestedBy string              `json:"requested_by,omitempty"`
	Counters    []rules.CounterView `json:"counters,omitempty"`
	Grants      []rules.GrantView   `json:"grants,omitempty"` // of a tree: what a person has granted it
	Orders      []events.Verdict    `json:"orders,omitempty"`
	Notes       []NoteView          `json:"notes,omitempty"`     // newest first
	Exempt      []string            `json:"exempt,omitempty"`    // rules that say less of it because of its tags
	Budget      *budgets.View       `json:"budget,omitempty"`    // of the account of a budget
	Children    int64               `json:"children,omitempty"`  // of a tree: flows below the root that are at work
	Flows       int                 `json:"flows"`               // in which it was at work lately
	FlowKeys    []string            `json:"flow_keys,omitempty"` // of those: xxhash64 of their ids, as exemplars of metrics carry it
}

// NoteView is a note for people and programs.
type NoteView struct {
	Agent   string         `json:"agent"` // the agent that it is about
	Author  string         `json:"author,omitempty"`
	Time    events.RFC3339 `json:"time"`
	Tags    []string       `json:"tags,omitempty"`
	Summary string         `json:"summary,omitempty"`
}

// View returns the agent as it stands at the watermark of its partition. Its strings
// are its own.
// Only the goroutine that owns the agent may call it; what it returns may go anywhere.
func (e *orderWriter) View(p *Partition, a *Agent) View {
	clone := strings.Clone
	// Everything that an agent reports of itself is copied; a kind of its own is set below.
	v := View{Agent: clone(a.name()), Kind: events.ScopeAgent, Events: a.Events(), Reports: int64(a.reports),
		Last: events.RFC3339(a.last), Status: clone(a.status), Margin: clone(a.margin), Health: clone(a.health),
		VoidActive: a.figures&hasVoid != 0, MeanGapS: a.meanGap(), Due: events.RFC3339(e.Due(a)), Flows: len(a.works)}
	if a.isProject() {
		v.Kind = events.ScopeProject
	}
	if b := e.budgetOf(a); a.isBudget() {
		v.Kind, v.Last = events.ScopeBudget, events.RFC3339(a.budget.Last)
		if b != nil {
			_, value, _ := budgets.Split(a.key)
			account := a.budget.View(b, clone(value), p.Watermark)
			v.Budget = &account
		}
	}
	if a.isWake() {
		id := v.Agent
		if _, v.Agent = activity.OfWake(id); a.ofFlows() {
			v.Agent = a.flowsOf()
		}
		v.Status, v.Margin, v.Health = "", "", "" // see woken
	}
	if a.isTree() {
		v.Kind, v.Children, v.Last = events.ScopeTree, a.tree.Living(), events.RFC3339(a.tree.Last)
	}
	if a.figures&hasCoherence != 0 {
		// A pointer to a copy, since 0 is a figure and nil means not reported.
		v.Coherence = &[]float64{a.coherence}[0]
	}
	if a.figures&hasRisk != 0 {
		v.Risk = &[]float64{a.risk}[0]
	}
	// By what was reported: after the watermark it is unknown whether it was silent.
	state, waiting, since := e.condition(a, p.Watermark)
	v.State, v.Waiting = state, waiting
	if since != 0 {
		v.SilentS = max(0, p.Watermark.Sub(since).Seconds())
	}
	if s := &a.stuck; s.since != 0 {
		v.Reason, v.Since = Rules[s.rule].Reason, events.RFC3339(s.since)
		v.Step, v.StepDue = s.step.action(), events.RFC3339(s.due)
		v.Reviewer, v.RequestedBy = clone(s.reviewer), clone(s.requestedBy)
	}
	for r := range RuleCount {
		if e.mode(r, a, a.clock) != e.limits.Rules[r].Mode {
			v.Exempt = append(v.Exempt, Rules[r].Name)
		}
	}
	for i := range a.works {
		// By their hashes: an agent keeps no ids of flows.
		v.FlowKeys = append(v.FlowKeys, fmt.Sprintf("%016x", a.works[i].flow))
	}
	v.Counters, v.Grants = e.counters(p, a), e.grantViews(a, max(p.Watermark, a.clock))
	// The orders are shown as a deadline at the agent's clock would publish them, without an
	// event.
	m := deadlineOf(a.clock)
	for i := range a.orders {
		o := &a.orders[i]
		v.Orders = append(v.Orders, e.verdict(a, &m, o.finding()))
	}
	v.Notes = a.Notes("")
	return v
}

// counters measures what is counted of the agent in the windows that end at the
// watermark, or at its clock when that is ahead.
// The depth of a tree is of one flow, so there is nothing to show of it.
func (e *settings) counters(p *Partition, a *Agent) (out []rules.CounterView) {
	look := *a // the window of a cap may have to be put into other buckets
	for r := range RuleCount {
		counts := Rules[r].Counts
		if counts == CountedNothing || a.isProject() != (counts == CountedProject) || a.isTree() != counts.OfTree() || a.isBudget() || a.isWake() != (counts == CountedWakes) || !e.on(r) || counts == CountedTreeDepth {
			continue
		}
		set := e.setting(r, a, max(p.Watermark, a.clock))
		t := e.tallyAt(r, &look, max(p.Watermark, a.clock))
		unit := rules.InUnit(Rules[r].Unit)
		// In the unit that people write, dollars for money.
		c := rules.CounterView{Rule: Rules[r].Name, Unit: Rules[r].Unit, Observed: float64(t.n) / unit}
		if set.Warn != rules.Off {
			c.Warn = float64(set.Warn) / unit
			// A threshold of 0 would make it infinite.
			c.Near = float64(t.n) / max(1, float64(set.Warn))
		}
		if set.Stop != rules.Off {
			c.Limit, c.Max = float64(set.Limit())/unit, set.Max
			c.Near = float64(t.n) / max(1, float64(set.Limit()))
		}
		if counts.OfTree() && Rules[r].Tells && set.Mode == rules.ModeEnforce && set.Stop != rules.Off {
			in := float64(leftOf(&Rules[r], &set, t.n)) / unit
			c.Left = &in
		}
		out = append(out, c)
	}
	return out
}

// grantViews are the grants of a tree that are in force.
func (e *settings) grantViews(a *Agent, at events.Stamp) (out []rules.GrantView) {
	for _, g := range a.grants {
		if at >= g.expires {
			continue
		}
		v := rules.GrantView{Rule: Rules[g.rule].Name, Unit: Rules[g.rule].Unit, Until: events.RFC3339(g.expires), More: true}
		if s := e.setting(g.rule, a, at); s.Stop != rules.Off {
			v.Limit = float64(s.Limit()) / rules.InUnit(v.Unit)
		}
		out = append(out, v)
	}
	return out
}

// action returns what the step orders; unset for none.
func (s recoveryStep) action() events.Action {
	switch s {
	case stepResume:
		return events.Resume
	case stepReview:
		return events.ReviewAgent
	case stepArchived:
		return events.Archive
	case stepNotified:
		return events.Notify
	}
	return events.ActionUnset
}

// Explain returns the canonical text of an agent, which golden tests, the command
// line and bug reports share: one line of state, one for the step that a stuck agent has
// come to, then one line per order and per note that weir left.
// Text of others is left out but for names, which are made printable: it would make golden
// files depend on what agents write.
func (e *orderWriter) Explain(p *Partition, a *Agent) string {
	v := e.View(p, a)
	var b strings.Builder
	fmt.Fprintf(&b, "%s=%s state=%s", v.Kind, standing.Printable(v.Agent), v.State)
	// Only what is known is written, so a line contains no more than the agent has reported.
	field := func(name, value string) { writeField(&b, name, value) }
	field("waiting", v.Waiting)
	if v.SilentS > 0 {
		fmt.Fprintf(&b, " silent=%ss", standing.Number(v.SilentS))
	}
	fmt.Fprintf(&b, " events=%d", v.Events)
	if v.Reports > 0 {
		fmt.Fprintf(&b, " reports=%d", v.Reports)
	}
	if v.Flows > 0 {
		fmt.Fprintf(&b, " flows=%d", v.Flows)
	}
	field("status", v.Status)
	field("margin", v.Margin)
	field("health", v.Health)
	for i := range v.Counters {
		if c := &v.Counters[i]; c.Observed > 0 {
			fmt.Fprintf(&b, " %s=%s", c.Rule, standing.Number(c.Observed))
		}
	}
	if v.Budget != nil {
		explainBudget(&b, v.Budget)
	}
	b.WriteByte('\n')
	if s := &a.stuck; s.since != 0 {
		fmt.Fprintf(&b, "  %s %s since=%s", v.State, v.Reason, v.Since)
		field("step", string(v.Step))
		if !v.StepDue.IsZero() {
			fmt.Fprintf(&b, " due=%s", v.StepDue)
		}
		field("reviewer", v.Reviewer)
		field("requested_by", v.RequestedBy)
		b.WriteByte('\n')
	}
	for i := range v.Orders {
		o := &v.Orders[i]
		fmt.Fprintf(&b, "  %s %s", o.Action, o.RuleID)
		field("effective", o.Effective)
		// Enforce is what an order is that says nothing.
		if o.Mode != events.ModeEnforce {
			field("mode", string(o.Mode))
		}
		fmt.Fprintf(&b, " observed=%s limit=%s until=%s\n", standing.Number(*o.Observed), standing.Number(*o.Limit), o.ExpiresAt)
	}
	for _, n := range slices.Backward(v.Notes) {
		if n.Author == activity.NoteAuthor { // what others write is text of events
			fmt.Fprintf(&b, "  note %q %s\n", n.Summary, strings.Join(n.Tags, ","))
		}
	}
	return b.String()
}

// writeField writes a name and its value, if there is one.
func writeField(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, " %s=%s", name, standing.Printable(value))
	}
}

// explainBudget writes what the account of a budget holds.
func explainBudget(b *strings.Builder, x *budgets.View) {
	fmt.Fprintf(b, " spent=%s", standing.Number(x.Spent))
	if x.Reserved > 0 {
		fmt.Fprintf(b, " reserved=%s", standing.Number(x.Reserved))
	}
	if x.Limit != nil {
		fmt.Fprintf(b, " limit=%s left=%s", standing.Number(*x.Limit), standing.Number(*x.Left))
	}
	writeField(b, "window", x.Window)
	if x.State != "ok" {
		writeField(b, "is", x.State)
	}
	if x.Before != nil {
		fmt.Fprintf(b, " before=%s", standing.Number(x.Before.Spent))
	}
}
