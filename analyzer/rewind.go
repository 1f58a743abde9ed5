package analyzer

import "weir/events"

// TurnBack sets the partition's time back to at, when a clock that was ahead had advanced the
// time of its log. Deadlines that it made fire are not undone; flows that it carried into the
// future come back as they are stepped on. It does nothing when the time is not ahead.
func (p *Partition) TurnBack(at events.Stamp) {
	if at >= p.Watermark {
		return
	}
	busy := p.busy
	// The load of the last minute is forgotten, since its seconds lie ahead; whether it was
	// busy stays, as the best guess.
	*p = Partition{Watermark: at, second: at / 1000, busy: busy, turned: true}
}

// rewind brings a flow back that was folded while the log's time was ahead: nothing of it
// has happened later than now. What it did then counts as done now, so that no limit is
// looser than it was, and orders stand from now on for as long as they were given.
func (f *Flow) rewind(now events.Stamp) {
	sooner := func(at *events.Stamp) { *at = min(*at, now) }
	for _, at := range []*events.Stamp{&f.clock, &f.last, &f.start, &f.idTimes[0], &f.idTimes[1]} {
		sooner(at)
	}
	f.waited = min(f.waited, now-f.start)
	f.forgotAt = min(f.forgotAt, now.Add(-MaxSkew)) // or events in time would be taken for forgotten ones
	// After the start was moved back: times within the episode count from it.
	age := f.since(now)
	for i := range f.rate {
		f.rate[i].at = min(f.rate[i].at, age)
	}
	for i := range f.streakAt {
		f.streakAt[i] = min(f.streakAt[i], age)
	}
	for i := range f.parties {
		p := &f.parties[i]
		sooner(&p.did)
		for j := range p.calls {
			p.calls[j].at = min(p.calls[j].at, age)
		}
	}
	for i := range f.offences {
		sooner(&f.offences[i].last)
	}
	for i := range f.orders {
		o := &f.orders[i]
		if ahead := o.Issued - now; ahead > 0 {
			o.Expires, o.Due = o.Expires-ahead, o.Due-ahead
		}
		sooner(&o.Issued)
		sooner(&o.Since)
		sooner(&o.Begun)
	}
}
