package otlp

import "weir/events"

// nestUsage adds the usage of each run to that of the next run above it that reports usage.
//
// The sum of an outer run includes those of the runs within it. If each counted whole, a request
// would count once for each run around it.
func (t *trace) nestUsage(ordered []*span) {
	for _, s := range ordered {
		s.below = events.Usage{}
	}
	for _, s := range ordered {
		if s.kind != visit || !s.usage.Known {
			continue
		}
		p := t.spans[s.parent]
		for n := 0; p != nil && p != s && n < maxUp; p, n = t.spans[p.parent], n+1 {
			if p.kind == visit && p.usage.Known {
				addUsage(&p.below, &s.usage, 1)
				break
			}
		}
	}
}

// ownUsage is what a run has used without the runs within it. A run that reports less than those
// within it does not include them, and counts whole. Where requests are reported, too, the larger sum
// counts.
func ownUsage(s *span) events.Usage {
	u := s.usage
	if s.below.Input+s.below.Output > u.Input+u.Output || s.below.Total > u.Total || s.below.CostMicroUSD > u.CostMicroUSD {
		return u
	}
	addUsage(&u, &s.below, -1)
	return u
}

// addUsage adds the counts of o, times by, to u. A count does not fall below 0, and does not overflow.
func addUsage(u, o *events.Usage, by int64) {
	for _, f := range [...]struct {
		to *int64
		n  int64
	}{{&u.Input, o.Input}, {&u.Output, o.Output}, {&u.CacheRead, o.CacheRead}, {&u.CacheCreation, o.CacheCreation},
		{&u.Reasoning, o.Reasoning}, {&u.Total, o.Total}, {&u.CostMicroUSD, o.CostMicroUSD}} {
		*f.to = min(max(0, *f.to+by*f.n), 1<<60)
	}
}
