package backtest

import (
	"cmp"
	"context"
	"math"
	"slices"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/rules"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/pump"
	"weir/events"
)

// Moment is the first verdict about a flow, and how far the flow had come.
//
// It is made when the verdict arrives, so Call counts the call at which it was given.
// Observed and Limit are 0 where a verdict reports none.
type Moment struct {
	Rule     string        `json:"rule"`
	Reason   events.Reason `json:"reason_code"`
	Message  string        `json:"message"`
	Observed float64       `json:"observed"`
	Limit    float64       `json:"limit"`
	Call     int64         `json:"call"` // calls made until then
	Tokens   int64         `json:"tokens,omitempty"`
	Cost     int64         `json:"cost_micro_usd,omitempty"`

	From string `json:"from,omitempty"` // who made that call, as far as the verdict names anybody
	To   string `json:"to,omitempty"`   // the called agent
	Tool string `json:"tool,omitempty"` // or a tool
}

// Who names the caller and the called agent or tool in a few words; "" where neither is named.
func (m *Moment) Who() string {
	if to := cmp.Or(m.To, m.Tool); to != "" {
		return m.From + " -> " + to
	}
	return m.From
}

// Flow is what one log and one set of limits say of one flow.
//
// Replay and evidence use it, too, for what is counted of flows there; the fields that are
// not exported are filled by a Trial alone.
type Flow struct {
	ID          string
	First, Last events.Stamp // times of its events
	Calls       int64        // of agents and tools
	Tokens      int64        // as the rules count them
	Cost        int64        // millionths of a US dollar
	Warned      *Moment      // first warning or stop that is enforced; nil for none
	Stopped     *Moment      // first order that refuses calls at once; nil for none
	Exempted    *Moment      // first stop that an exemption kept from being an order; nil for none
	Told        coverage.Flow
	incidents   []incident

	// most is the greatest value that each row measured.
	most [analyzer.RuleCount]int32
	// counted is what the rows about tokens and money measured, over all episodes; nil as
	// long as none of them measured anything.
	counted map[analyzer.RuleID]*sum
	// steps are all new greatest values of rows, in their order; only of trials that keep
	// them.
	steps []step
	// courses are the episodes; only of trials that follow them.
	courses []Course
	service string // that reports it; only of trials that follow courses
}

// sum adds up what a row measures that begins anew with each episode.
//
// all is over all episodes, last what the row measured last in the one that goes on.
type sum struct{ all, last int64 }

// to takes what the row measures now, and returns the sum over all episodes.
func (s *sum) to(value int64) int64 {
	if value < s.last { // a new episode counts from zero
		s.last = 0
	}
	s.all += value - s.last
	s.last = value
	return s.all
}

// sum returns the sums of a row, and creates them if needed. Most flows report no tokens, so the
// map is made late.
func (f *Flow) sum(row analyzer.RuleID) *sum {
	s := f.counted[row]
	if s == nil {
		if f.counted == nil {
			f.counted = map[analyzer.RuleID]*sum{}
		}
		s = new(sum)
		f.counted[row] = s
	}
	return s
}

// step is a new greatest value of a row, and how far the flow had come.
//
// value is as the row will have measured it when the episode is over, see Trial.lasts.
type step struct {
	row    analyzer.RuleID
	value  int32
	call   int32
	tokens int64
}

// Most returns the greatest value that the row measured in the flow, at most 2^31-1.
func (f *Flow) Most(row analyzer.RuleID) int64 { return int64(f.most[row]) }

// lasts returns by how much what the row measured at events grows in the silence after
// the last of them, before the episode is over: a row that no event sets off is judged at
// its deadline, also when nothing happens any more.
func (t *Trial) lasts(row analyzer.RuleID) int32 {
	if analyzer.Rules[row].On != 0 || analyzer.Rules[row].Unit != events.UnitSeconds {
		return 0
	}
	return int32(t.Limits.Flow.Idle.Seconds())
}

// Trial folds a log by one set of limits. It is for one goroutine. All flows stay in
// memory: their records and some 300 bytes each.
type Trial struct {
	Limits analyzer.Limits

	// Steps keeps, for each flow, when each row measured more than before; calibration
	// needs it.
	Steps bool

	// Follow keeps, for each episode of each flow, what it had spent at each call; forecasts need it.
	Follow bool

	// Trees, if not nil, adds up what is spent by flow, agent and tool.
	Trees *costs.Forest

	// The same fold as that of a running weir, with agents and trees.
	replay *pump.Replay
	flows  map[string]*Flow
	list   []*Flow // in the order of their first events
	at     *Flow   // whose event is being folded
	offset int64
	// What the budgets over flows would do.
	accounts *accounts
	seen     coverage.Coverage
	from     events.Stamp // what was spent before is not noted
	ledger   *costs.Ledger
	waits    costs.Waits
	unpriced *costs.Unpriced
}

// NewTrial returns a trial that has seen nothing.
//
// ctx is for as long as the trial is used.
func NewTrial(ctx context.Context, limits analyzer.Limits) (*Trial, error) {
	t := &Trial{Limits: limits, flows: map[string]*Flow{}, ledger: costs.NewLedger(mostLines), unpriced: costs.NewUnpriced(costs.MostUnpriced), accounts: newAccounts(limits.Budgets)}
	replay, err := pump.NewReplay(ctx, pump.Options{Limits: watched(limits), Observe: t.observe, Account: t.accounts.note})
	if err != nil {
		return nil, err
	}
	t.replay = replay
	return t, nil
}

// watched returns the limits with all exemptions in shadow mode, so that it is heard what they let
// through. No order comes of that, as none would without.
func watched(l analyzer.Limits) analyzer.Limits {
	l.Exempt = slices.Clone(l.Exempt)
	for i := range l.Exempt {
		if x := &l.Exempt[i]; x.Mode == rules.ModeOff {
			x.Mode = rules.ModeShadow
		}
	}
	return l
}

// Fold takes the next event of the log.
//
// The event may be changed or used again when it returns. Repeats are folded and not
// counted, as live; observe is called by the fold in the meantime, and finds the flow in t.at.
func (t *Trial) Fold(ev *events.Event) {
	t.at = t.flow(ev.FlowKey())
	f := t.at
	if f.First == 0 || ev.Time < f.First {
		f.First = ev.Time
	}
	f.Last = max(f.Last, ev.Time)
	counted := t.replay.Counted()
	// A copy, to see by how much the event has made the flow grow. Its maps and lists are
	// shared and not looked at.
	before := *f
	refusing := t.accounts.refusing(ev)
	given := t.replay.Fold(ev, t.offset)
	t.offset++
	if now := t.replay.Counted(); now.Repeats() == counted.Repeats() {
		t.seen.Add(ev, t.Limits.Prices)
		f.Told.Add(ev)
		if counted.Called(ev, now) {
			f.Calls++
		}
		t.waits.Note(t.Limits.Prices, ev, ev.Time >= t.from)
		t.note(ev, f, &before)
		t.accounts.count(refusing, f)
		if t.Follow {
			t.follow(f, ev)
		}
	}
	for i := range given {
		if v := &given[i]; v.CorrelationID != "" { // those about agents and projects bind all flows
			f := t.flow(v.CorrelationID)
			f.Hear(v)
			if v.Mode == events.ModeShadow && v.Stops() && v.Effective == events.EffectiveNow && f.Exempted == nil && t.exempts(v.RuleID) {
				f.Exempted = f.moment(v)
			}
		}
	}
}

// exempts reports whether a verdict of the row that is in shadow mode is so by an exemption.
func (t *Trial) exempts(rule string) bool {
	row, ok := analyzer.RowNamed(rule)
	return ok && row.Setting(&t.Limits).Mode == rules.ModeEnforce
}

// mostLines is how many names one list of the ledger keeps.
//
// The remaining agents or tools are summed up in one line.
const mostLines = 10_000

// Count has the ledger note events from a time on only. Call it before Fold.
func (t *Trial) Count(from events.Stamp) { t.from = from }

// Costs returns the ledger of what was folded.
func (t *Trial) Costs() *costs.Costs {
	c := t.ledger.Costs()
	c.Rewritten, c.Unpriced = t.waits.Sum(), t.unpriced.List()
	return c
}

// note enters the event that was folded into the flow, which was as before says until then.
func (t *Trial) note(ev *events.Event, f, before *Flow) {
	if ev.Time < t.from {
		if t.Trees != nil { // its place in the tree counts
			t.Trees.Note(t.Limits.Prices, ev, costs.Spent{})
		}
		return
	}
	spent := costs.By(t.Limits.Prices, ev, f.Calls-before.Calls, f.Tokens-before.Tokens, f.Cost-before.Cost)
	t.unpriced.Note(t.Limits.Prices, ev, spent)
	if t.Trees != nil {
		t.Trees.Note(t.Limits.Prices, ev, spent)
	}
	switch {
	case before.Stopped != nil:
		t.ledger.Note(ev, spent, costs.AfterStop, before.Stopped.Rule)
	case before.Warned != nil:
		t.ledger.Note(ev, spent, costs.AfterWarning, before.Warned.Rule)
	default:
		t.ledger.Note(ev, spent, costs.Unjudged, "")
	}
}

// flow returns what is kept of a flow, and begins with it at its first event.
func (t *Trial) flow(key string) *Flow {
	f := t.flows[key]
	if f == nil {
		f = &Flow{ID: string([]byte(key))} // key may alias what is read
		t.flows[f.ID] = f
		t.list = append(t.list, f)
	}
	return f
}

// observe takes down what a row measured at the event that is being folded.
//
// It is called by the fold for each row that was judged at the event, whether or not the
// row says anything. Values of 0 and less are the same as nothing measured.
func (t *Trial) observe(row analyzer.RuleID, value int64) {
	f := t.at
	if f == nil || value <= 0 {
		return
	}
	// Rows count the tokens of the flow in parts and in all: the one that counts most counts all of them. Rows
	// about one party count its context as well, again with each call.
	switch rule := &analyzer.Rules[row]; {
	case rule.Scope != events.ScopeFlow:
	case rule.Unit == events.UnitTokens:
		f.Tokens = max(f.Tokens, f.sum(row).to(value))
	case rule.Unit == events.UnitUSD:
		f.Cost = max(f.Cost, f.sum(row).to(value))
	}
	if v := int32(min(value, math.MaxInt32)); v > f.most[row] {
		f.most[row] = v
		if t.Steps {
			f.steps = append(f.steps, step{row, v + t.lasts(row), int32(min(f.Calls, math.MaxInt32)), f.Tokens})
		}
	}
}

// Hear takes down a verdict about the flow that is given now: the first that warns and the first
// that stops are kept.
//
// Verdicts in shadow mode count for nothing. A stop that is armed, for the next call,
// counts as a warning here: until that call nothing is refused.
func (f *Flow) Hear(v *events.Verdict) {
	if v.Mode != events.ModeEnforce {
		return
	}
	if !v.Stops() && v.Action != events.Warn {
		return
	}
	f.incident(v)
	m := f.moment(v)
	if f.Warned == nil {
		f.Warned = m
	}
	// A flow that is stopped without a warning counts as warned by the same moment.
	if v.Stops() && v.Effective == events.EffectiveNow && f.Stopped == nil {
		f.Stopped = m
	}
}

// incident is one of the flow, see events.Verdict.IncidentID.
type incident struct {
	id      string
	stopped bool
}

// incident notes the incident of a verdict. Those of a flow follow each other, so the verdict is
// of one of the last.
func (f *Flow) incident(v *events.Verdict) {
	i := len(f.incidents) - 1
	for i >= 0 && f.incidents[i].id != v.IncidentID {
		i--
	}
	if i < 0 {
		i = len(f.incidents)
		f.incidents = append(f.incidents, incident{id: v.IncidentID})
	}
	f.incidents[i].stopped = f.incidents[i].stopped || v.Stops() && v.Effective == events.EffectiveNow
}

// Incidents returns how many incidents the flow had, and in how many of them it was stopped.
func (f *Flow) Incidents() (all, stops int) {
	for i := range f.incidents {
		if f.incidents[i].stopped {
			stops++
		}
	}
	return len(f.incidents), stops
}

// moment is when the verdict is heard.
func (f *Flow) moment(v *events.Verdict) *Moment {
	m := &Moment{Rule: v.RuleID, Reason: v.Reason, Message: v.Message, Call: f.Calls, Tokens: f.Tokens, Cost: f.Cost,
		From: cmp.Or(v.From, v.Agent), To: v.To, Tool: v.Tool}
	if v.Observed != nil {
		m.Observed = *v.Observed
	}
	if v.Limit != nil {
		m.Limit = *v.Limit
	}
	return m
}

// Saved is the share of its calls that came after the first stop, which a dispatcher would have
// left undone.
func (f *Flow) Saved() float64 {
	if f.Stopped == nil || f.Calls == 0 {
		return 0
	}
	return float64(f.Calls-f.Stopped.Call) / float64(f.Calls)
}

// Events returns how many events were folded, and how many of them were repeats.
func (t *Trial) Events() (folded, repeats int64) {
	counted := t.replay.Counted()
	return counted.Events, counted.Repeats()
}

// Flow returns what is kept of a flow; nil for one that was not seen.
func (t *Trial) Flow(id string) *Flow { return t.flows[id] }

// Flows returns the flows in the order of their first events. The caller must not change
// them.
func (t *Trial) Flows() []*Flow { return t.list }
