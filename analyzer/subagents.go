package analyzer

import (
	"encoding/binary"
	"strings"

	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// Subagents: parties that an agent called. A job is what such a party was called for. It ends with its
// return, and the next call begins another one. Jobs and spawns are kept only where a rule counts them.

// job is what a subagent has used since it was called.
type job struct {
	since  events.Stamp // when it was called; 0 for a party that no agent called
	calls  uint32       // of agents and tools
	tokens int64
	cost   int64 // millionths of a US dollar
}

// encode writes the job. Its time is relative to the clock of the flow.
func (j *job) encode(b []byte, clock events.Stamp) []byte {
	b = binary.AppendVarint(b, int64(j.since-clock))
	b = binary.AppendUvarint(b, uint64(j.calls))
	b = binary.AppendUvarint(b, uint64(j.tokens))
	return binary.AppendUvarint(b, uint64(j.cost))
}

// decode reads what encode has written.
func (j *job) decode(d *record.Reader, clock events.Stamp) {
	j.since = d.Stamp(clock)
	j.calls = uint32(d.Count(1<<32 - 1))
	j.tokens, j.cost = d.Count(mostSpent), d.Count(mostSpent)
}

// mostSpent keeps sums of sums from overflowing.
const mostSpent = 1 << 60

// KindLimits is how much each subagent of some kinds may use.
type KindLimits struct {
	Kind string // agents that are called so; * stands for any text
	// Most are calls, tokens, seconds and millionths of a US dollar, the highest allowed value each; Off for
	// no limit. What is not set is as the rule says.
	Most [jobRows]events.Optional
	Hold bool // beyond them the subagent waits for a person
}

// ofJob reports whether the row is about the job of a subagent.
func (r RuleID) ofJob() bool { return r >= ruleOfJobCalls && r <= ruleOfJobCost }

// kindLimits returns what the limits say of a figure for subagents of a kind; nil for nothing. The first
// entry that fits and has the figure counts.
func (l *Limits) kindLimits(r RuleID, kind string) *KindLimits {
	for i := range l.Subagents {
		if k := &l.Subagents[i]; k.Most[r-ruleOfJobCalls].Set && fits(k.Kind, kind) {
			return k
		}
	}
	return nil
}

// HeldKinds lists the kinds of subagents whose own limit of what the row counts holds calls.
func (l *Limits) HeldKinds(r *Row) (kinds []string) {
	id, ok := r.Flow()
	if !ok || !id.ofJob() {
		return nil
	}
	for i := range l.Subagents {
		if k := &l.Subagents[i]; k.Hold && k.Most[id-ruleOfJobCalls].Set {
			kinds = append(kinds, k.Kind)
		}
	}
	return kinds
}

// say reports whether the limits say anything by a row: its own setting, or that of a kind of subagents.
func (l *Limits) say(r RuleID) bool {
	s := &l.Rules[r]
	return !s.Mute() || r.ofJob() && s.Mode != rules.ModeOff && l.limitsJobs(r)
}

// limitsJobs reports whether some kind of subagents has a limit of what the row counts.
func (l *Limits) limitsJobs(r RuleID) bool {
	for i := range l.Subagents {
		if n := l.Subagents[i].Most[r-ruleOfJobCalls]; n.Set && n.Value != rules.Off {
			return true
		}
	}
	return false
}

// fits reports whether the text is one that the pattern describes. A star stands for any text.
func fits(pattern, text string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], more
	}
}

// kind is what limits call the party by: its agent, which the event at hand names where there was no room
// to keep it.
func (p *party) kind(m *moment) string {
	if p.agent == "" && m.ev != nil && m.ev.From.Agent != "" && m.ev.From.Session == p.name {
		return m.ev.From.Agent
	}
	return p.agentID()
}

// jobSetting is the setting of a row about jobs for the party: that of its kind, else of the rule. Off
// for a party that is no subagent.
func (l *Limits) jobSetting(r RuleID, p *party, m *moment) rules.Setting {
	s := l.Rules[r]
	if p.job.since == 0 {
		s.Warn, s.Stop = rules.Off, rules.Off
		return s
	}
	if k := l.kindLimits(r, p.kind(m)); k != nil {
		most := k.Most[r-ruleOfJobCalls].Value
		s.Stop, s.Max, s.Hold = most, true, k.Hold
		if most != rules.Off {
			s.Stop++
		}
		if s.Warn > most {
			s.Warn = rules.Off // the rule's warning was meant for its own limit
		}
	}
	return s
}

// value is what the row counts of the job.
func (j *job) value(r RuleID, at events.Stamp) int64 {
	switch {
	case j.since == 0:
		return 0
	case r == ruleOfJobCalls:
		return int64(j.calls)
	case r == ruleOfJobTokens:
		return j.tokens
	case r == ruleOfJobCost:
		return j.cost
	}
	return max(0, int64(at.Sub(j.since).Seconds()))
}

// jobValue measures the job of the party that acts.
func jobValue(r RuleID) func(*Flow, *moment, *rules.Setting) int64 {
	return func(f *Flow, m *moment, _ *rules.Setting) int64 {
		if m.from == none {
			return 0
		}
		return f.parties[m.from].job.value(r, m.at)
	}
}

// longestJob is the greatest value among the subagents, for people.
func longestJob(r RuleID) func(*Flow, *rules.Setting) int64 {
	return func(f *Flow, _ *rules.Setting) (most int64) {
		for i := range f.parties {
			most = max(most, f.parties[i].job.value(r, f.clock))
		}
		return most
	}
}

// keepsSpawns reports whether a rule counts subagents, or what they use.
func (e *settings) keepsSpawns() bool {
	for r := ruleOfSpawnCount; r <= ruleOfJobCost; r++ {
		if e.mayFire(r) {
			return true
		}
	}
	return false
}

// spawns reports whether a call between the two starts a subagent. A call back to the one that control
// came through does not, nor does one to a subagent that is at work, or to a party that a person called.
func (f *callStack) spawns(from, to uint8) bool {
	if from == none || from == to {
		return false
	}
	if to == none {
		return true
	}
	p := &f.parties[to]
	if p.flags&partyPlaced != 0 && p.parent == none || f.cameThrough(from, to) {
		return false
	}
	return p.job.since == 0 || p.flags&partyHanded != 0
}

// beginJob counts a call that starts a subagent.
func (f *Flow) beginJob(m *moment) {
	m.spawned = true
	f.know(m.to, &m.ev.To)
	f.parties[m.to].job = job{since: m.at}
	if f.spawned < rules.MaxCount {
		f.spawned++
	}
	if m.ev.Background && f.behind < rules.MaxCount {
		f.behind++
	}
}

// countJob counts a call of the party that acts.
func (f *cast) countJob(m *moment) {
	if m.from != none && f.parties[m.from].job.since != 0 && f.parties[m.from].job.calls < 1<<32-1 {
		f.parties[m.from].job.calls++
	}
}

// spend adds what an event reports of the party. An aggregate repeats what was reported before.
func (j *job) spend(scope events.UsageScope, tokens, cost int64) {
	switch {
	case j.since == 0:
	case scope == events.UsageAggregate:
		j.tokens, j.cost = max(j.tokens, tokens), max(j.cost, cost)
	default:
		j.tokens, j.cost = min(mostSpent, j.tokens+max(0, tokens)), min(mostSpent, j.cost+max(0, cost))
	}
}

// endJobs lifts the orders about what the subagent used the last time: it begins anew.
func (e *verdictWriter) endJobs(f *Flow, m *moment, fx *Effects) {
	for i := len(f.orders) - 1; i >= 0; i-- {
		if o := &f.orders[i]; o.rule.ofJob() && o.a == m.to {
			e.clear(f, o, m, fx)
		}
	}
}

// ifSpawn is the value where the event starts a subagent, else 0.
func (m *moment) ifSpawn(v uint16) int64 {
	if !m.spawned {
		return 0
	}
	return int64(v)
}

// spawnedSoFar is how many subagents the flow has started.
func spawnedSoFar(f *Flow, m *moment, _ *rules.Setting) int64 { return m.ifSpawn(f.spawned) }

// behindSoFar is how many of them run in the background, at one more.
func behindSoFar(f *Flow, m *moment, _ *rules.Setting) int64 {
	if !m.ev.Background {
		return 0
	}
	return m.ifSpawn(f.behind)
}

// matchSpawn refuses calls that start a subagent.
func matchSpawn(_ *Flow, _ *moment, o *order) { o.kind, o.picks = events.AgentCall, selectSpawn }

// matchBackground refuses those that start one in the background.
func matchBackground(_ *Flow, _ *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectBackground
}

// working are the parties that a call starts no subagent with, of those known, without one.
func (f *callStack) working(but uint8) (names []string) {
	for i := range f.parties {
		if p := &f.parties[i]; uint8(i) != but && p.flags&partyPlaced != 0 && (p.parent == none || p.job.since != 0 && p.flags&partyHanded == 0) {
			names = append(names, strings.Clone(p.name))
		}
	}
	return names
}

// jobGranted is the limit and the use that a grant of a row about jobs adds to: of the subagents that
// have reached their limit, else of those that have one.
func (e *settings) jobGranted(r RuleID, f *Flow, m *moment) (limit rules.Setting, used int64) {
	limit = e.settingOf(r, f, m, none)
	if limit.Stop == rules.Off {
		limit.Stop, limit.Max = 1, true
	}
	reached := false
	for i := range f.parties {
		s := e.settingOf(r, f, m, uint8(i))
		if s.Stop == rules.Off {
			continue
		}
		n := f.parties[i].job.value(r, m.at)
		switch full := n >= s.Limit(); {
		case full && !reached:
			reached, limit, used = true, s, n
		case full == reached:
			limit.Stop, limit.Max, used = max(limit.Stop, s.Stop), limit.Max || s.Max, max(used, n)
		}
	}
	return limit, used
}

// settingOf is the setting of a row for a party, none for the flow alone.
func (e *settings) settingOf(r RuleID, f *Flow, m *moment, party uint8) rules.Setting {
	acts := m.from
	m.from = party
	s := e.setting(r, f, m)
	m.from = acts
	return s
}

// JobView is what a subagent has used since it was called, and its limits. A limit of 0 is off.
type JobView struct {
	Kind       string         `json:"kind"`
	Since      events.RFC3339 `json:"since"`
	Calls      int64          `json:"calls"`
	MaxCalls   int64          `json:"max_calls,omitempty"`
	Tokens     int64          `json:"tokens"`
	MaxTokens  int64          `json:"max_tokens,omitempty"`
	Seconds    int64          `json:"seconds"`
	MaxSeconds int64          `json:"max_seconds,omitempty"`
	CostUSD    float64        `json:"cost_usd"`
	MaxCostUSD float64        `json:"max_cost_usd,omitempty"`
}

// jobView returns the job of a party; nil for one that is no subagent.
func (e *settings) jobView(f *Flow, i int, at events.Stamp) *JobView {
	p := &f.parties[i]
	if p.job.since == 0 {
		return nil
	}
	var m moment
	m.begin(at)
	most := func(r RuleID) int64 {
		s := e.settingOf(r, f, &m, uint8(i))
		if s.Stop == rules.Off || s.Mode == rules.ModeOff {
			return 0
		}
		return s.Limit()
	}
	j := &p.job
	return &JobView{Kind: strings.Clone(p.agentID()), Since: events.RFC3339(j.since), Calls: int64(j.calls), MaxCalls: most(ruleOfJobCalls),
		Tokens: j.tokens, MaxTokens: most(ruleOfJobTokens), Seconds: j.value(ruleOfJobTime, at), MaxSeconds: most(ruleOfJobTime),
		CostUSD: float64(j.cost) / 1e6, MaxCostUSD: float64(most(ruleOfJobCost)) / 1e6}
}

// waits reports whether the order has calls wait for a person, and others go on.
func (o *order) waits() bool {
	return o.Action == events.Hold && o.Phase == standing.Stop && !o.Shadow && !o.haltsFlow()
}
