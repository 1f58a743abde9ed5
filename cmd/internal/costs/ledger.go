package costs

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"weir/analyzer/prices"
	"weir/events"
)

// Spent is what events have spent, with where its price comes from. Money is in millionths of a
// US dollar.
//
// Reported and Priced never hold the same tokens: an event whose log says a price is not
// priced again. A price file that lacks a model leaves its tokens in Unpriced and nothing in
// the money.
type Spent struct {
	Calls    int64 `json:"calls"` // of agents and tools
	Tokens   int64 `json:"tokens"`
	Reported int64 `json:"reported_micro_usd"` // as the log says
	Priced   int64 `json:"priced_micro_usd"`   // where the log does not, by the table of prices
	OfFile   int64 `json:"priced_tokens"`      // tokens priced by that table
	Unpriced int64 `json:"unpriced_tokens"`    // tokens whose price is not known
}

// Cost is what is known of the money.
func (s *Spent) Cost() int64 { return s.Reported + s.Priced }

// Add adds o to s.
func (s *Spent) Add(o Spent) {
	s.Calls, s.Tokens, s.Reported = s.Calls+o.Calls, s.Tokens+o.Tokens, s.Reported+o.Reported
	s.Priced, s.OfFile, s.Unpriced = s.Priced+o.Priced, s.OfFile+o.OfFile, s.Unpriced+o.Unpriced
}

// By is what an event spent: the number of calls, and by how much a flow's tokens and money (millionths
// of a US dollar) grew. The fold has priced what the event does not: t is the
// table of the limits that it folds by.
func By(t prices.Table, ev *events.Event, calls, tokens, cost int64) Spent {
	s := Spent{Calls: calls, Tokens: tokens}
	if tokens == 0 && cost == 0 {
		return s // as for most events, which need not be looked at
	}
	// What a flow passes to its tree names the model only if the table priced it.
	passed := ev.Kind == events.AgentActivity
	switch {
	case passed && ev.Model != "":
		s.Priced, s.OfFile = cost, tokens
	// A cumulative figure of money that has not grown is a price, too.
	case ev.Usage.CostMicroUSD != 0 || tokens <= 0 && cost <= 0:
		s.Reported = cost
	default:
		if _, known := t.Find(ev.Provider, ev.Model); known {
			s.Priced, s.OfFile = cost, tokens
		} else {
			s.Reported, s.Unpriced = cost, tokens
		}
	}
	return s
}

// Phase says how far a flow was judged when it spent something.
type Phase int

// The phases.
const (
	// Neither warned nor stopped so far.
	Unjudged Phase = iota
	AfterWarning
	AfterStop
	PhaseCount
)

// Line is what one agent, tool or other name has spent. It also has the part spent between the flow's
// first warning and its stop, and the part spent after its first stop.
type Line struct {
	Name         string `json:"name"`
	All          Spent  `json:"all"`
	AfterWarning Spent  `json:"after_warning"`
	AfterStop    Spent  `json:"after_stop"`
}

// add adds to All in any case, so AfterWarning and AfterStop are parts of it that do not
// overlap.
func (l *Line) add(s Spent, when Phase) {
	l.All.Add(s)
	switch when {
	case AfterStop:
		l.AfterStop.Add(s)
	case AfterWarning:
		l.AfterWarning.Add(s)
	}
}

// Costs is what a ledger has come to. The lists begin with who spent most after a stop. A name of
// "" is what the log says nothing of, and Others what came when a list was full.
type Costs struct {
	Total    Line   `json:"total"`
	Services []Line `json:"services"`
	Agents   []Line `json:"agents"`
	Tools    []Line `json:"tools"`
	Tenants  []Line `json:"tenants"`
	// Rewritten is what was written to prompt caches again after waiting. A part of Total.
	Rewritten Rewritten `json:"rewritten_after_waiting"`
	// Unpriced are the models without a price. What they cost is missing in the money.
	Unpriced []UnpricedModel `json:"unpriced_models"`
	Rules    []Line          `json:"rules"` // which warned or stopped the flow first; nothing of flows that none spoke of
}

// Others is the name of the line for those that a list has no room for.
const Others = "(others)"

// The lists of a ledger.
const (
	byService = iota
	byAgent
	byTool
	byTenant
	byRule
	listCount
)

// Ledger adds up what is spent. It is for one goroutine.
//
// The same ledger serves the metrics of a running weir and weir costs, with other numbers
// of names; see decision 77.
type Ledger struct {
	most  int // names of one list
	total Line
	lists [listCount]map[string]*Line
}

// NewLedger returns an empty ledger. most is the maximum number of names in one list; it keeps those
// that came first.
func NewLedger(most int) *Ledger { return &Ledger{most: most} }

// Note enters what the event spent. The rule is the one that warned or stopped its flow first; ""
// for a flow that none spoke of.
func (l *Ledger) Note(ev *events.Event, s Spent, when Phase, rule string) {
	if s == (Spent{}) {
		return
	}
	l.total.add(s, when)
	for list, name := range [...]string{byService: ev.Source, byAgent: cmp.Or(ev.From.Agent, ev.From.Session), byTool: ev.Tool.Name, byTenant: ev.TenantID} {
		l.line(list, name).add(s, when)
	}
	l.NoteRule(s, when, rule)
}

// NoteRule enters under the rule alone what was noted under all other names already: a flow reports
// what it spends, and its tree may have been stopped as well.
func (l *Ledger) NoteRule(s Spent, when Phase, rule string) {
	if rule != "" && s != (Spent{}) {
		l.line(byRule, rule).add(s, when)
	}
}

// line returns the line of a name, or the one for all others when the list is full. Names that
// came first stay, because the lines are sums and none can be taken out again.
func (l *Ledger) line(list int, name string) *Line {
	if l.lists[list] == nil {
		l.lists[list] = map[string]*Line{}
	}
	have := l.lists[list]
	line := have[name]
	if line == nil && len(have) >= l.most {
		name = Others
		line = have[name]
	}
	if line == nil {
		line = &Line{Name: string([]byte(name))} // it may alias what is read
		have[line.Name] = line
	}
	return line
}

// Costs returns what the ledger has come to.
func (l *Ledger) Costs() *Costs {
	c := &Costs{Total: l.total}
	for list, to := range [...]*[]Line{byService: &c.Services, byAgent: &c.Agents, byTool: &c.Tools, byTenant: &c.Tenants, byRule: &c.Rules} {
		*to = []Line{}
		for _, line := range l.lists[list] {
			*to = append(*to, *line)
		}
		slices.SortFunc(*to, func(a, b Line) int {
			return cmp.Or(cmp.Compare(b.AfterStop.Cost(), a.AfterStop.Cost()), cmp.Compare(b.AfterStop.Tokens, a.AfterStop.Tokens),
				cmp.Compare(b.AfterWarning.Tokens, a.AfterWarning.Tokens), cmp.Compare(b.All.Tokens, a.All.Tokens), cmp.Compare(b.All.Calls, a.All.Calls), cmp.Compare(a.Name, b.Name))
		})
	}
	return c
}

// Most keeps the first lines of each list.
//
// It changes c. What is cut is still in the total.
func (c *Costs) Most(n int) *Costs {
	for _, list := range [...]*[]Line{&c.Services, &c.Agents, &c.Tools, &c.Tenants, &c.Rules} {
		*list = (*list)[:min(n, len(*list))]
	}
	c.Unpriced = c.Unpriced[:min(n, len(c.Unpriced))]
	return c
}

// Report is the costs with what stops saved. That stops saved is an estimate, never without what it rests on.
type Report struct {
	*Costs
	Saved      Spent  `json:"saved_estimate"`
	Assumption string `json:"saved_assumption"`
	Advice     string `json:"unpriced_advice,omitempty"` // with Unpriced: how they get a price
}

// NewReport estimates what stops saved of c.
func NewReport(c *Costs) *Report {
	r := &Report{Costs: c, Saved: c.Total.AfterStop, Assumption: SavedAssumption}
	if len(c.Unpriced) > 0 {
		r.Advice = Advice
	}
	return r
}

// SavedAssumption is what an estimate of savings rests on, for beside it.
const SavedAssumption = "if no call had been made after the first stop of each flow, and nothing else had been done instead; what refused calls would have cost is not known and not counted"

// Text says what was spent, and of its price where it is from.
func Text(s Spent) string {
	if s.Tokens == 0 && s.Cost() == 0 {
		return "-"
	}
	text := ""
	switch usd := Dollars(s.Cost(), 3); {
	case s.Reported > 0 && s.Priced > 0:
		text = usd + " (reported, list price)"
	case s.Priced > 0:
		text = usd + " (list price)"
	case s.Reported > 0:
		text = usd + " (reported)"
	}
	if s.Tokens > 0 {
		text = strings.TrimSpace(text + " " + humanize.Comma(s.Tokens) + " tokens")
	}
	switch {
	case s.Unpriced == 0:
	case s.Unpriced == s.Tokens:
		text += " (price unknown)"
	default:
		text += " (price of " + humanize.Comma(s.Unpriced) + " unknown)"
	}
	return text
}

// Dollars is an amount in millionths of a US dollar as people read it, with that number
// of digits after the point.
func Dollars(micro int64, digits int) string {
	return "$" + humanize.FormatFloat("#,###."+strings.Repeat("#", digits), float64(micro)/1e6)
}

// USD is an amount in US dollars as people read it, rounded to millionths first.
func USD(dollars float64, digits int) string {
	return Dollars(int64(math.Round(dollars*1e6)), digits)
}
