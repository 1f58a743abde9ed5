package analyzer

import (
	"fmt"
	"strings"

	"weir/events"
)

// View is a flow as people and programs look at it: the state, each counter
// against its limit, and what stands.
type View struct {
	Flow       string           `json:"flow"`
	Episode    int              `json:"episode"`
	Start      events.RFC3339   `json:"start"`
	Last       events.RFC3339   `json:"last"`
	Events     int64            `json:"events"`
	Status     string           `json:"status"` // ok, warned, armed, stopped
	Incomplete bool             `json:"incomplete,omitempty"`
	Stack      []string         `json:"stack"`
	Parties    []PartyView      `json:"parties"`
	Hops       int64            `json:"hops"`
	ToolCalls  int64            `json:"tool_calls"`
	Turns      int64            `json:"turns,omitempty"`
	Tokens     int64            `json:"tokens,omitempty"`
	CostUSD    float64          `json:"cost_usd,omitempty"`
	Counters   []CounterView    `json:"counters"`
	Orders     []events.Verdict `json:"orders"`
	Offences   []OffenceView    `json:"offences,omitempty"`
	Released   events.RFC3339   `json:"released_until,omitzero"`
}

// PartyView is one party of a flow.
type PartyView struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	Calls  int    `json:"calls_compared"` // tool calls that rules compare
	Points int    `json:"circling_points,omitempty"`
}

// CounterView is one counter of the flow against its limit. A limit of 0 is off.
type CounterView struct {
	Rule     string      `json:"rule"`
	Unit     events.Unit `json:"unit"`
	Observed float64     `json:"observed"`
	Warn     float64     `json:"warn,omitempty"`
	Limit    float64     `json:"limit,omitempty"`
	Near     float64     `json:"near"` // observed / limit, 0 when off
}

// OffenceView is what the flow was stopped for before.
type OffenceView struct {
	Rule  string         `json:"rule"`
	Count int            `json:"count"`
	Last  events.RFC3339 `json:"last"`
}

// View returns the flow for people and programs. Its strings are its own.
func (e *Engine) View(f *Flow) View {
	v := View{Flow: strings.Clone(f.key), Episode: int(f.episode) + 1, Start: events.RFC3339(f.start), Last: events.RFC3339(f.last),
		Events: int64(f.events), Status: "ok", Incomplete: f.flags&flagIncomplete != 0, Stack: []string{}, Hops: int64(f.hops),
		ToolCalls: int64(f.toolCalls), Turns: int64(f.turns), Tokens: f.tokens[2], CostUSD: float64(f.cost) / 1e6,
		Released: events.RFC3339(f.released), Orders: []events.Verdict{}}
	for _, s := range f.Stack() {
		v.Stack = append(v.Stack, strings.Clone(s))
	}
	for i := range f.parties {
		p := &f.parties[i]
		if p.flags&partyActive != 0 {
			v.Parties = append(v.Parties, PartyView{strings.Clone(p.name), strings.Clone(f.nameOf(p.parent)), len(p.calls), int(p.points)})
		}
	}
	at := momentAt(f.clock)
	m := &at
	status := phase(0)
	for i := range f.orders {
		o := &f.orders[i]
		v.Orders = append(v.Orders, e.verdict(f, o, m, nil))
		status = max(status, o.phase)
	}
	v.Status = [...]string{"ok", "warned", "armed", "stopped"}[status]
	for i := range f.offences {
		o := &f.offences[i]
		v.Offences = append(v.Offences, OffenceView{Rules[o.rule].Name, int(o.count), events.RFC3339(o.last)})
	}
	v.Counters = e.counters(f, m)
	return v
}

// counters measures what a flow has used up of each budget and how far each
// pattern has come, whatever the last event was.
func (e *Engine) counters(f *Flow, m *moment) []CounterView {
	widest := func(value func(*party) int64) (most int64) {
		for i := range f.parties {
			most = max(most, value(&f.parties[i]))
		}
		return most
	}
	observed := func(r RuleID) int64 {
		switch r {
		case RuleStackDepth:
			return f.depth()
		case RuleDelegationDepth:
			return max(0, f.depth()-1)
		case RuleUniqueSessions:
			return int64(f.unique)
		case RuleFlowDuration:
			return int64(f.ageOf(f.last).Seconds())
		case RuleFlowRate:
			m.hop = true
			s := e.limits.Rules[r]
			return f.countRate(m, &s, none)
		case RuleTotalCalls, RuleConversation:
			return int64(f.hops)
		case RuleRevisits:
			return widest(func(p *party) int64 { return int64(p.revisits) })
		case RulePingPongSame:
			n, _ := rounds(f.sameRun[:], 2, maxRing)
			return n
		case RulePingPongOther:
			n, _ := rounds(f.pairRun[:], 2, maxRing)
			return n
		case RuleRepeatedDelegation:
			most := int64(0)
			for i := range f.delegations {
				most = max(most, int64(f.delegations[i].count))
			}
			return most
		case RuleNoWorkHops:
			return int64(f.streak)
		case RuleCircling:
			return widest(func(p *party) int64 { return int64(p.points) })
		case RuleToolCycle:
			return widest(func(p *party) int64 { n, _ := rounds(p.cycleRun[:], 2, 7); return n })
		case RuleToolCycleLong:
			return widest(func(p *party) int64 { n, _ := rounds(p.cycleRun[:], 8, maxPeriod); return n })
		case RuleRepeatedError, RuleNoProgress:
			return widest(func(p *party) (n int64) {
				for _, x := range p.runs {
					if x.failed == (r == RuleRepeatedError) {
						n = max(n, int64(x.n))
					}
				}
				return n
			})
		case RuleToolCalls:
			return int64(f.toolCalls)
		case RuleTurns:
			return int64(f.turns)
		case RuleChainDepth:
			return widest(func(p *party) int64 { return int64(p.chain) })
		case RuleInputTokens:
			return f.tokens[0]
		case RuleOutputTokens:
			return f.tokens[1]
		case RuleTotalTokens:
			return f.tokens[2]
		case RuleCost:
			return f.cost
		}
		return -1
	}
	var out []CounterView
	for i := range Rules {
		s := e.setting(RuleID(i), f, m)
		n := observed(RuleID(i))
		if n < 0 || s.Mode == ModeOff {
			continue
		}
		c := CounterView{Rule: Rules[i].Name, Unit: Rules[i].Unit, Observed: float64(n)}
		unit := 1.0
		if RuleID(i) == RuleCost {
			unit = 1e6
		}
		c.Observed /= unit
		if s.Warn != Off {
			c.Warn = float64(s.Warn) / unit
			c.Near = c.Observed / c.Warn
		}
		if s.Stop != Off {
			c.Limit = float64(s.Limit()) / unit
			if c.Limit > 0 {
				c.Near = c.Observed / c.Limit
			}
		}
		out = append(out, c)
	}
	return out
}

// Explain returns the canonical text of a flow, which golden tests, the command
// line and bug reports share: one line of state, then one line per order.
func (e *Engine) Explain(f *Flow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "stack=%s calls=%d agents=%d", strings.Join(f.Stack(), ","), f.hops, f.unique)
	if f.toolCalls > 0 {
		fmt.Fprintf(&b, " tools=%d", f.toolCalls)
	}
	if f.turns > 0 {
		fmt.Fprintf(&b, " turns=%d", f.turns)
	}
	if f.tokens[2] > 0 {
		fmt.Fprintf(&b, " tokens=%d", f.tokens[2])
	}
	if f.episode > 0 {
		fmt.Fprintf(&b, " episode=%d", f.episode+1)
	}
	b.WriteByte('\n')
	return b.String()
}
