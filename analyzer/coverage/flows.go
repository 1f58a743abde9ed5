package coverage

import (
	"fmt"
	"math"
	"strings"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

// Flow counts what the events of one flow tell, each up to 255. A log of many sources tells
// everything somewhere; what one flow never tells is what rules cannot judge it by.
type Flow struct {
	agentCalls, withCaller, withWork, toolCalls, withArgs, withContent, withTokens uint8
}

// Add counts one event.
// It keeps nothing of the event.
func (f *Flow) Add(ev *events.Event) {
	var c Coverage
	c.count(ev)
	for _, x := range [...]struct {
		to *uint8
		n  int64
	}{{&f.agentCalls, c.AgentCalls}, {&f.withCaller, c.WithCaller}, {&f.withWork, c.WithWork}, {&f.toolCalls, c.ToolCalls},
		{&f.withArgs, c.WithArgs}, {&f.withContent, c.WithContent}, {&f.withTokens, c.WithTokens}} {
		if x.n > 0 && *x.to < math.MaxUint8 {
			*x.to++
		}
	}
}

// ratios are those of a log with this flow alone.
func (f *Flow) ratios() []Ratio {
	c := Coverage{AgentCalls: int64(f.agentCalls), WithCaller: int64(f.withCaller), WithWork: int64(f.withWork), ToolCalls: int64(f.toolCalls),
		WithArgs: int64(f.withArgs), WithContent: int64(f.withContent), WithTokens: int64(f.withTokens)}
	return c.Ratios()
}

// Part is what some flows of a log never tell, though they could.
type Part struct {
	What    string   `json:"what"`    // is not told
	In      string   `json:"in"`      // what could tell it
	Flows   int      `json:"flows"`   // that never tell it
	Of      int      `json:"of"`      // that could
	Example string   `json:"example"` // one that never does
	Rules   []string `json:"rules"`   // that cannot judge these flows

	need rules.Need
}

// String says it in one line.
func (p *Part) String() string {
	return fmt.Sprintf("%d of %d flows tell no %s in their %s (such as %q): %s cannot judge these", p.Flows, p.Of, p.What, p.In, p.Example, strings.Join(p.Rules, ", "))
}

// Flows sums up what flows tell. The zero Flows has seen none.
type Flows struct{ parts []Part }

// enoughOfFlow is from how many calls on a flow could have shown a pattern: with fewer nothing is
// missed that the flow does not tell.
const enoughOfFlow = 3

// Add counts one flow. The flow may have told more until then, and not afterwards.
func (s *Flows) Add(id string, f *Flow) {
	ratios := f.ratios()
	if s.parts == nil {
		s.parts = make([]Part, len(ratios))
	}
	for i, r := range ratios {
		// Whoever calls no tool may have none.
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

// Blind lists what some flows never tell, with the rules that are on and need it, but for what the
// log as a whole never tells: whole is what Coverage.Blind says of it.
func (s *Flows) Blind(l *analyzer.Limits, whole []Blind) (out []Part) {
	said := map[string]bool{}
	for i := range whole {
		said[whole[i].What] = true
	}
	for _, p := range s.parts {
		if p.Flows == 0 || said[p.What] {
			continue
		}
		if p.Rules = l.RulesThatNeed(p.need); len(p.Rules) > 0 {
			out = append(out, p)
		}
	}
	return out
}
