package backtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"weir/events"
)

// Prices are what a million tokens of a model cost, in millionths of a US dollar, by the name of
// the model as logs have it.
type Prices map[string]Price

// Price is that of one model.
type Price struct{ Input, Output int64 }

// ReadPrices reads a price file in the form that LiteLLM publishes: an object with a member for
// each model, whose input_cost_per_token and output_cost_per_token are US dollars. Models without
// both are left out.
func ReadPrices(name string) (Prices, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := Prices{}
	for model, raw := range file {
		var x struct {
			In  *float64 `json:"input_cost_per_token"`
			Out *float64 `json:"output_cost_per_token"`
		}
		if json.Unmarshal(raw, &x) != nil || x.In == nil || x.Out == nil { // models of images and sounds are priced otherwise
			continue
		}
		if !(*x.In >= 0 && *x.In <= 1 && *x.Out >= 0 && *x.Out <= 1) {
			return nil, fmt.Errorf("%s: %s: a token costs between 0 and 1 US dollar, not %v and %v", name, model, *x.In, *x.Out)
		}
		p[model] = Price{int64(*x.In*1e12 + 0.5), int64(*x.Out*1e12 + 0.5)}
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("%s: no model has input_cost_per_token and output_cost_per_token, in US dollars", name)
	}
	return p, nil
}

// of returns what the tokens of a model cost, in millionths of a dollar; false when that is not known.
func (p Prices) of(provider, model string, in, out int64) (int64, bool) {
	price, ok := p[model]
	if !ok {
		price, ok = p[provider+"/"+model]
	}
	if !ok || model == "" {
		return 0, false
	}
	return int64((float64(in)*float64(price.Input) + float64(out)*float64(price.Output)) / 1e6), true
}

// Spent is what events have spent, with where its price comes from. Money is in millionths of a
// US dollar.
type Spent struct {
	Calls    int64 `json:"calls"` // of agents and tools
	Tokens   int64 `json:"tokens"`
	Reported int64 `json:"reported_micro_usd"` // as the log says
	Priced   int64 `json:"priced_micro_usd"`   // where the log does not, by the price file
	Unpriced int64 `json:"unpriced_tokens"`    // tokens whose price is not known
}

// Cost is what is known of the money.
func (s *Spent) Cost() int64 { return s.Reported + s.Priced }

func (s *Spent) add(o Spent) {
	s.Calls, s.Tokens, s.Reported, s.Priced, s.Unpriced = s.Calls+o.Calls, s.Tokens+o.Tokens, s.Reported+o.Reported, s.Priced+o.Priced, s.Unpriced+o.Unpriced
}

// Line is what somebody or something has spent, and how much of it after a flow was warned first
// and not yet stopped, and after it was stopped first.
type Line struct {
	Name         string `json:"name"`
	All          Spent  `json:"all"`
	AfterWarning Spent  `json:"after_warning"`
	AfterStop    Spent  `json:"after_stop"`
}

// Costs is the ledger of waste. The lists begin with who spent most after a stop. A name of ""
// is what the log says nothing of, and Others what came when a list was full.
type Costs struct {
	Total    Line   `json:"total"`
	Services []Line `json:"services"`
	Agents   []Line `json:"agents"`
	Tools    []Line `json:"tools"`
	Tenants  []Line `json:"tenants"`
	Rules    []Line `json:"rules"` // which warned or stopped the flow first; nothing of flows that none spoke of
}

// Others is the name of the line for those that a list has no room for.
const Others = "(others)"

// mostLines is how many names one list keeps.
const mostLines = 10_000

// The lists of the ledger.
const (
	byService = iota
	byAgent
	byTool
	byTenant
	byRule
	listCount
)

type ledger struct {
	from  events.Stamp // what was before is not noted
	price Prices
	total Line
	lists [listCount]map[string]*Line
}

// Count has the ledger note events from a time on only, and price tokens by p where the log does
// not say what they cost. It is called before Fold.
func (t *Trial) Count(from events.Stamp, p Prices) { t.ledger.from, t.ledger.price = from, p }

// note enters the event that was folded into the flow, which was as before says until then.
func (t *Trial) note(ev *events.Event, f, before *Flow) {
	l := &t.ledger
	if ev.Time < l.from {
		return
	}
	warned, stopped := before.Warned, before.Stopped
	s := Spent{Tokens: f.Tokens - before.Tokens, Reported: f.Cost - before.Cost}
	if ev.Refusable() {
		s.Calls = 1
	}
	if s.Reported == 0 && s.Tokens > 0 {
		// What a cumulative figure grew by is taken to be input and output as all of it is.
		in := s.Tokens
		if both := ev.Usage.Input + ev.Usage.Output; both > 0 {
			in = int64(float64(s.Tokens) * float64(ev.Usage.Input) / float64(both))
		}
		if cost, known := l.price.of(ev.Provider, ev.Model, in, s.Tokens-in); known {
			s.Priced = cost
		} else {
			s.Unpriced = s.Tokens
		}
	}
	if s == (Spent{}) {
		return
	}
	enter := func(line *Line) {
		line.All.add(s)
		switch {
		case stopped != nil:
			line.AfterStop.add(s)
		case warned != nil:
			line.AfterWarning.add(s)
		}
	}
	enter(&l.total)
	for list, name := range [...]string{byService: ev.Source, byAgent: cmp.Or(ev.From.Agent, ev.From.Session), byTool: ev.Tool.Name, byTenant: ev.TenantID} {
		enter(l.line(list, name))
	}
	if m := cmp.Or(stopped, warned); m != nil {
		enter(l.line(byRule, m.Rule))
	}
}

func (l *ledger) line(list int, name string) *Line {
	if l.lists[list] == nil {
		l.lists[list] = map[string]*Line{}
	}
	have := l.lists[list]
	line := have[name]
	if line == nil && len(have) >= mostLines {
		name = Others
		line = have[name]
	}
	if line == nil {
		line = &Line{Name: string([]byte(name))} // it may alias what is read
		have[line.Name] = line
	}
	return line
}

// Costs returns the ledger of what was folded.
func (t *Trial) Costs() *Costs {
	c := &Costs{Total: t.ledger.total}
	for list, to := range [...]*[]Line{byService: &c.Services, byAgent: &c.Agents, byTool: &c.Tools, byTenant: &c.Tenants, byRule: &c.Rules} {
		*to = []Line{}
		for _, line := range t.ledger.lists[list] {
			*to = append(*to, *line)
		}
		slices.SortFunc(*to, func(a, b Line) int {
			return cmp.Or(cmp.Compare(b.AfterStop.Cost(), a.AfterStop.Cost()), cmp.Compare(b.AfterStop.Tokens, a.AfterStop.Tokens),
				cmp.Compare(b.AfterWarning.Tokens, a.AfterWarning.Tokens), cmp.Compare(b.All.Tokens, a.All.Tokens), cmp.Compare(b.All.Calls, a.All.Calls), cmp.Compare(a.Name, b.Name))
		})
	}
	return c
}

// listed is how many lines of each list a report has.
const listed = 50

// most keeps the first lines of each list.
func (c *Costs) most(n int) *Costs {
	for _, list := range [...]*[]Line{&c.Services, &c.Agents, &c.Tools, &c.Tenants, &c.Rules} {
		*list = (*list)[:min(n, len(*list))]
	}
	return c
}

// SavedAssumption is what an estimate of savings rests on, for beside it.
const SavedAssumption = "if no call had been made after the first stop of each flow, and nothing else had been done instead; what refused calls would have cost is not known and not counted"

// CostText says what was spent, and of its price where it is from.
func CostText(s Spent) string {
	if s.Tokens == 0 && s.Cost() == 0 {
		return "-"
	}
	text := ""
	switch usd := fmt.Sprintf("$%.3f", float64(s.Cost())/1e6); {
	case s.Reported > 0 && s.Priced > 0:
		text = usd + " (reported, price file)"
	case s.Priced > 0:
		text = usd + " (price file)"
	case s.Reported > 0:
		text = usd + " (reported)"
	}
	if s.Tokens > 0 {
		text = strings.TrimSpace(text + " " + strconv.FormatInt(s.Tokens, 10) + " tokens")
	}
	switch {
	case s.Unpriced == 0:
	case s.Unpriced == s.Tokens:
		text += " (price unknown)"
	default:
		text += " (price of " + strconv.FormatInt(s.Unpriced, 10) + " unknown)"
	}
	return text
}
