package pump

import (
	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/ledger"
	"weir/analyzer/prices"
	"weir/cmd/internal/costs"
	"weir/events"
	"weir/sink/prom"
)

// What is read has the same phases.
var _ [costs.PhaseCount]int = [prom.SpentPhases]int{}

// wasteOf returns the waste in a ledger. Only what is spent after a warning or a stop is reported by
// name, so that honest flows cost only a sum.
func wasteOf(c *costs.Costs) (out []prom.Waste) {
	for by, lines := range [...][]costs.Line{prom.ByService: c.Services, prom.ByAgent: c.Agents, prom.ByTool: c.Tools, prom.ByTenant: c.Tenants, prom.ByRule: c.Rules} {
		for i := range lines {
			l := &lines[i]
			out = append(out, prom.Waste{By: prom.Spender(by), Name: l.Name, AfterWarning: reading(&l.AfterWarning), AfterStop: reading(&l.AfterStop)})
		}
	}
	return out
}

// prices is the table by which the fold prices tokens. The caller holds mu.
func (f *fold) prices() prices.Table { return f.engine.Limits().Prices }

// The tokens are split by who set their price, and money is in millionths of a dollar.
func reading(s *costs.Spent) prom.Spent {
	return prom.Spent{Calls: s.Calls, Tokens: [prom.PriceCount]int64{s.Tokens - s.OfFile - s.Unpriced, s.OfFile, s.Unpriced}, MicroUSD: [2]int64{s.Reported, s.Priced}}
}

// spent is how much the flow at hand had spent before an event.
// spent counts from the beginning of the episode: in another one it begins at nought again.
type spent struct {
	episode      int64
	tokens, cost int64
}

// spent is what the flow at hand has spent so far in its episode.
func (m *flowMeter) spent() (x spent) {
	x.episode, x.tokens, x.cost = m.of.scratch.Spent()
	return x
}

// spend notes what the event spent that was folded into the flow at hand, by how the flow was
// judged before it. A call that was refused was not made.
func (m *flowMeter) spend(ev *events.Event, refused bool) {
	f := m.of.fold
	if f.o.Store == nil { // no reader exists
		return
	}
	was, is, calls := m.had, m.spent(), int64(0)
	if ev.Refusable() && !refused {
		calls = 1
	}
	// In an episode that has just begun all of it is the event's.
	if is.episode == was.episode {
		is.tokens, is.cost = is.tokens-was.tokens, is.cost-was.cost
	}
	if calls == 0 && is.tokens == 0 && is.cost == 0 {
		return
	}
	// By what was said before this event: what it brings about itself counts from the next one
	// on.
	when, rule := f.open.judged.phase()
	// A cost that the producer reports stays; only tokens without one are priced.
	x := costs.By(f.prices(), ev, calls, is.tokens, is.cost)
	spent := reading(&x)
	f.meter.counted.Spent[when].Add(&spent)
	if when != costs.Unjudged {
		f.meter.counts.wasted(ev, x, when, rule)
	}
}

// judged is by which rules a flow was warned and stopped first, as places of their reasons, one
// more than they are; 0 for none.
type judged struct{ warned, stopped uint8 }

// A stop outweighs a warning, and neither is ever undone: opinions about a stop do not change the
// waste figure (decision 77).
func (j judged) phase() (costs.Phase, events.Reason) {
	switch {
	case j.stopped != 0:
		return costs.AfterStop, events.ReasonAt(int(j.stopped) - 1)
	case j.warned != 0:
		return costs.AfterWarning, events.ReasonAt(int(j.warned) - 1)
	}
	return costs.Unjudged, ""
}

// judgedBy is what a flow that was loaded remembers.
func judgedBy(f *analyzer.Flow) judged {
	warned, stopped := f.Judged()
	return judged{uint8(max(0, warned.Place()+1)), uint8(max(0, stopped.Place()+1))}
}

// hear notes what the verdicts of the step say of the flow.
func (j *judged) hear(verdicts []events.Verdict) {
	for i := range verdicts {
		v := &verdicts[i]
		// What is in shadow mode, about no flow, or neither stops nor warns says nothing of this
		// one.
		if v.Mode != events.ModeEnforce || v.CorrelationID == "" || !v.Stops() && v.Action != events.Warn {
			continue
		}
		at := v.Reason.Place() + 1
		if at <= 0 {
			continue
		}
		// Only the first counts, since it is the one from which on the money was spent.
		if j.warned == 0 {
			j.warned = uint8(at)
		}
		// An armed order has not stopped anything yet.
		if j.stopped == 0 && v.Stops() && v.Effective == events.EffectiveNow {
			j.stopped = uint8(at)
		}
	}
}

// treeJudgedBy is by what the tree is warned and stopped now; nothing of an agent or a project.
func treeJudgedBy(a *agents.Agent) judged {
	warned, stopped := a.TreeJudged()
	return judged{uint8(max(0, warned.Place()+1)), uint8(max(0, stopped.Place()+1))}
}

// spend notes what a flow reported to the tree at hand as spent, by how the tree was judged before.
// The flow has noted it under all names but that rule's.
func (s *agentStage) spend(ev *events.Event, was judged) {
	f := s.fold
	when, rule := was.phase()
	// A call that was refused was not made, and what was passed up is spent in the tree above.
	if when == costs.Unjudged || f.o.Store == nil || f.fx.Asked || f.fx.Answer != nil && f.fx.Answer.Stops() {
		return
	}
	if n, ok := agents.Spends(ev); ok {
		f.meter.counts.wastedIn(costs.By(f.prices(), ev, n[ledger.Calls], n[ledger.Tokens], n[ledger.Cost]), when, rule)
	}
}
