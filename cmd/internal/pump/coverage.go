package pump

import (
	"strings"
	"sync"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/prices"
	"weir/events"
)

// sourceCoverage counts which fields each source reports, so that weir can report missing ones: a rule
// cannot fire on a field that it never gets.
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
	// enoughCovered is the number of calls or answers after which weir logs, once, what a source does
	// not report.
	enoughCovered = 50
)

// plus adds new coverage of a source to its sum. It returns the sum, and whether to log it now.
// The first answer without a call is logged at once: it is nearly always a wrong name.
func (t *sourceCoverage) plus(source string, heard *coverage.Coverage) (say coverage.Coverage, now, stray bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[string]*coverage.Coverage{}
	}
	_, c := coverageOf(t.by, source)
	// Said when the number is passed and not at or above it, so that it is said once.
	before, strays := c.Size(), c.Strays
	c.Plus(heard)
	return *c, before < enoughCovered && c.Size() >= enoughCovered, strays == 0 && c.Strays > 0
}

// coverageOf returns the coverage of a source in by, and the name that it has there. At most maxSources
// sources are kept by name.
func coverageOf(by map[string]*coverage.Coverage, source string) (name string, c *coverage.Coverage) {
	if c = by[source]; c != nil {
		return source, c
	}
	// The source of an event aliases its record; only what is kept is copied.
	name = strings.Clone(source)
	if len(by) >= maxSources {
		name = otherSource
	}
	if c = by[name]; c == nil {
		c = &coverage.Coverage{}
		by[name] = c
	}
	return name, c
}

// covering is what a pump has counted of each source since its last tally. All pumps share
// sourceCoverage, so it is updated once for each batch and not for each event.
type covering struct {
	by map[string]*coverage.Coverage
	// heard are the sources that have something in by, in the order of their events. The names may
	// alias the records of the batch. One that alternates with others is there several times.
	heard []covered
}

type covered struct {
	source string
	of     *coverage.Coverage
}

// add counts one event, with the prices of the limits in force;
// strays is how many answers without a call it is.
func (t *covering) add(ev *events.Event, table prices.Table, strays int64) {
	source, c := coverageOf(t.by, ev.Source)
	c.Add(ev, table)
	c.Stray(strays)
	if n := len(t.heard); n == 0 || t.heard[n-1].of != c {
		t.heard = append(t.heard, covered{source, c})
	}
}

// take calls fn for each source of which something was counted since the last call.
func (t *covering) take(fn func(source string, heard *coverage.Coverage)) {
	for _, c := range t.heard {
		if heard := c.of.Take(); heard != (coverage.Coverage{}) {
			fn(c.source, &heard)
		}
	}
	clear(t.heard) // the records are their caller's again
	t.heard = t.heard[:0]
}

// sum returns the coverage of all sources together.
func (t *sourceCoverage) sum() (all coverage.Coverage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.by {
		all.Plus(c)
	}
	return all
}

// Blind returns, for each source with enough calls, what it never reports and which rules cannot judge
// because of that.
func (c *Counts) Blind(l *analyzer.Limits) map[string]string {
	c.coverage.mu.Lock()
	defer c.coverage.mu.Unlock()
	out := map[string]string{}
	for name, t := range c.coverage.by {
		line := ""
		if t.Size() >= enoughCovered {
			line = coverage.Line(t.Blind(l))
		}
		if stray := t.StrayLine(); stray != "" {
			line = strings.TrimPrefix(line+"; "+stray, "; ")
		}
		if line != "" {
			out[name] = line
		}
	}
	return out
}

// covered adds what was counted since the last time to the coverage of all pumps. It logs once for
// each source what that source does not report.
func (m *meter) covered(l *analyzer.Limits) {
	m.covering.take(func(source string, heard *coverage.Coverage) {
		say, now, stray := m.counts.coverage.plus(source, heard)
		if stray {
			m.o.Logger.Warn("answers of a source match no call", "source", source, "blind", say.StrayLine())
		}
		if !now {
			return
		}
		if line := coverage.Line(say.Blind(l)); line != "" {
			m.o.Logger.Warn("a source does not tell all that rules need", "source", source, "blind", line)
		}
	})
}
