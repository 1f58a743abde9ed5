package coverage

import (
	"fmt"
	"math"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

// Flow counts what the events of one flow report, each up to 255. A log with several sources reports
// everything somewhere. What one flow never reports, rules cannot use to judge that flow.
type Flow struct {
	agentCalls, withCaller, withMessage, withWork, toolCalls, withArgs, withContent, withTokens uint8
}

// Add counts one event.
// It keeps nothing of the event.
func (f *Flow) Add(ev *events.Event) {
	var c Coverage
	c.count(ev)
	for _, x := range [...]struct {
		to *uint8
		n  int64
	}{{&f.agentCalls, c.AgentCalls}, {&f.withCaller, c.WithCaller}, {&f.withMessage, c.WithMessage}, {&f.withWork, c.WithWork}, {&f.toolCalls, c.ToolCalls},
		{&f.withArgs, c.WithArgs}, {&f.withContent, c.WithContent}, {&f.withTokens, c.WithTokens}} {
		if x.n > 0 && *x.to < math.MaxUint8 {
			*x.to++
		}
	}
}

// ratios are those of a log with this flow alone.
func (f *Flow) ratios() []Ratio {
	c := Coverage{AgentCalls: int64(f.agentCalls), WithCaller: int64(f.withCaller), WithMessage: int64(f.withMessage), WithWork: int64(f.withWork), ToolCalls: int64(f.toolCalls),
		WithArgs: int64(f.withArgs), WithContent: int64(f.withContent), WithTokens: int64(f.withTokens)}
	return c.Ratios()
}

// Part is what some flows of a log never report, though they could.
type Part struct {
	What    string `json:"what"`    // what is missing
	In      string `json:"in"`      // what could report it
	Flows   int    `json:"flows"`   // that never report it
	Of      int    `json:"of"`      // that could
	Example string `json:"example"` // one that never does
	Unable

	need rules.Need
}

// String says it in one line.
func (p *Part) String() string {
	return fmt.Sprintf("%d of %d flows tell no %s in their %s (such as %q): %s", p.Flows, p.Of, p.What, p.In, p.Example, p.text())
}

// Flows sums up what flows report. The zero Flows has seen none.
type Flows struct{ parts []Part }

// enoughOfFlow is the number of calls from which a flow could have shown a pattern. With fewer calls,
// missing reports hide nothing.
const enoughOfFlow = 3

// Add counts one flow, as far as it has reported until then.
func (s *Flows) Add(id string, f *Flow) {
	ratios := f.ratios()
	if s.parts == nil {
		s.parts = make([]Part, len(ratios))
	}
	for i, r := range ratios {
		// A flow that calls no tool may have none.
		if r.need == rules.NeedTools || r.What == Together || r.Of < enoughOfFlow {
			continue
		}
		p := &s.parts[i]
		p.What, p.In, p.need = r.What, r.In, r.need
		p.Of++
		if r.Told > 0 {
			continue
		}
		if p.Flows++; p.Flows == 1 {
			p.Example = id
		}
	}
}

// Blind lists what some flows never report, with the rules that are on and need it. It omits what the
// log as a whole never reports: whole is the result of Coverage.Blind.
func (s *Flows) Blind(l *analyzer.Limits, whole []Blind) (out []Part) {
	said := map[string]bool{}
	for i := range whole {
		said[whole[i].What] = true
	}
	for _, p := range s.parts {
		if p.Flows == 0 || said[p.What] {
			continue
		}
		if p.Unable = without(l, p.need); !p.none() {
			out = append(out, p)
		}
	}
	return out
}
