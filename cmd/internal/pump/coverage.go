package pump

import (
	"strings"
	"sync"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/events"
)

// told counts what each source tells, so that blindness can be said: a rule is silent about
// what it is never told.
type told struct {
	mu sync.Mutex
	by map[string]*coverage.Coverage
}

const (
	// mostTold is how many sources are counted by their names, which producers choose; the
	// rest are counted as one.
	mostTold    = 64
	otherSource = "other"
	// enoughTold is after how many calls or answers it is said, once, what a source does not tell.
	enoughTold = 50
)

// add counts one event. It returns what its source has told so far when that is said now.
func (t *told) add(ev *events.Event) (say coverage.Coverage, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.by[ev.Source]
	if c == nil {
		name := strings.Clone(ev.Source)
		if len(t.by) >= mostTold {
			name = otherSource
		}
		if t.by == nil {
			t.by = map[string]*coverage.Coverage{}
		}
		if c = t.by[name]; c == nil {
			c = &coverage.Coverage{}
			t.by[name] = c
		}
	}
	before := c.Size()
	c.Add(ev)
	return *c, before < enoughTold && c.Size() == enoughTold
}

// sum returns what all sources told together.
func (t *told) sum() (all coverage.Coverage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.by {
		all.Plus(c)
	}
	return all
}

// Blind says of each source that told enough calls what it never tells, and the rules that
// cannot judge because of it.
func (c *Counts) Blind(l *analyzer.Limits) map[string]string {
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	out := map[string]string{}
	for name, t := range c.told.by {
		if line := coverage.Line(t.Blind(l)); line != "" && t.Size() >= enoughTold {
			out[name] = line
		}
	}
	return out
}

// tells counts what an event tells, and says it in the log once for each source.
func (p *Pump) tells(ev *events.Event) {
	if p.o.Store == nil {
		return
	}
	say, now := p.counts.told.add(ev)
	if !now {
		return
	}
	if line := coverage.Line(say.Blind(p.engine.Limits())); line != "" {
		p.o.Logger.Warn("a source does not tell all that rules need", "source", ev.Source, "blind", line)
	}
}
