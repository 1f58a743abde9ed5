package pump

import (
	"strings"
	"sync"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/events"
)

// sourceCoverage counts what each source tells, so that blindness can be said: a rule is silent about
// what it is never told.
type sourceCoverage struct {
	mu sync.Mutex
	// by is nil until the first event, and has at most maxSources names and otherSource.
	by map[string]*coverage.Coverage
}

const (
	// maxSources is how many sources are counted by their names, which producers choose; the
	// rest are counted as one.
	maxSources  = 64
	otherSource = "other"
	// enoughCovered is after how many calls or answers it is said, once, what a source does not tell.
	enoughCovered = 50
)

// add counts one event. It returns what its source has told so far when that is said now.
func (t *sourceCoverage) add(ev *events.Event) (say coverage.Coverage, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The source of an event aliases its record; only what is kept is copied.
	c := t.by[ev.Source]
	if c == nil {
		name := strings.Clone(ev.Source)
		if len(t.by) >= maxSources {
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
	// Said when the number is passed and not at or above it, so that it is said once.
	before := c.Size()
	c.Add(ev)
	return *c, before < enoughCovered && c.Size() == enoughCovered
}

// sum returns what all sources told together.
func (t *sourceCoverage) sum() (all coverage.Coverage) {
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
	c.coverage.mu.Lock()
	defer c.coverage.mu.Unlock()
	out := map[string]string{}
	for name, t := range c.coverage.by {
		if line := coverage.Line(t.Blind(l)); line != "" && t.Size() >= enoughCovered {
			out[name] = line
		}
	}
	return out
}

// covers counts what an event tells, and says it in the log once for each source.
func (p *Pump) covers(ev *events.Event) {
	// A replay counts for itself what it reads.
	if p.o.Store == nil {
		return
	}
	say, now := p.counts.coverage.add(ev)
	if !now {
		return
	}
	if line := coverage.Line(say.Blind(p.engine.Limits())); line != "" {
		p.o.Logger.Warn("a source does not tell all that rules need", "source", ev.Source, "blind", line)
	}
}
