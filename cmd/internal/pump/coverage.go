package pump

import (
	"strings"
	"sync"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/prices"
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
	// enoughCovered is after how many calls or answers at least it is said, once, what a source does
	// not tell.
	enoughCovered = 50
)

// plus adds what a source has told to what was known of it. It returns what that comes to when it
// is said now.
func (t *sourceCoverage) plus(source string, told *coverage.Coverage) (say coverage.Coverage, now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]*coverage.Coverage{}
	}
	c := coverageOf(t.by, source)
	// Said when the number is passed and not at or above it, so that it is said once.
	before := c.Size()
	c.Plus(told)
	return *c, before < enoughCovered && c.Size() >= enoughCovered
}

// coverageOf is what a source has told among others, of which only so many are kept by name.
func coverageOf(by map[string]*coverage.Coverage, source string) *coverage.Coverage {
	c := by[source]
	if c == nil {
		// The source of an event aliases its record; only what is kept is copied.
		name := strings.Clone(source)
		if len(by) >= maxSources {
			name = otherSource
		}
		if c = by[name]; c == nil {
			c = &coverage.Coverage{}
			by[name] = c
		}
	}
	return c
}

// covering is what sources have told a pump since its last tally. All look at sourceCoverage, so that
// is touched once for each batch and not for each event.
type covering map[string]*coverage.Coverage

// add counts one event, with the prices of the limits in force.
func (t covering) add(ev *events.Event, table prices.Table) { coverageOf(t, ev.Source).Add(ev, table) }

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

// covered adds what sources have told since the last time to what all pumps have, and says in the
// log once of each what it does not tell.
func (p *Pump) covered() {
	for source, c := range p.metrics.covering {
		told := c.Take()
		if told == (coverage.Coverage{}) {
			continue
		}
		say, now := p.counts.coverage.plus(source, &told)
		if !now {
			continue
		}
		if line := coverage.Line(say.Blind(p.engine.Limits())); line != "" {
			p.o.Logger.Warn("a source does not tell all that rules need", "source", source, "blind", line)
		}
	}
}
