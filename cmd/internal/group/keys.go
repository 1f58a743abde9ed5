package group

import (
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/prom"
)

// look is called with each record of events that can be read. All that ask about a flow look for it in the
// partition that murmur2 gives its correlation id. A record elsewhere is folded as a part of another flow
// of the same name, which is stopped late or never, and no error shows that.
func (p *partitionOwner) look(r *pump.Record, ev *events.Event) {
	if r.Offset < p.looked { // the pump has read it before, for a sweep that was not made
		return
	}
	p.looked = r.Offset + 1
	if read := p.member.host.Pump.Read; read != nil {
		read(r, ev)
	}
	// What weir says to a partition has no key, and an event without a correlation id no right one.
	if ev.CorrelationID == "" || ev.Kind == events.Tick || ev.Kind == events.LimitsSet {
		return
	}
	switch {
	case r.SentKey == nil:
		p.misplaced(r, ev, prom.NoKey, "the record has no key")
	case string(r.SentKey) != ev.CorrelationID:
		p.misplaced(r, ev, prom.OtherKey, "the key of the record is not the correlation_id")
	// All records of a flow have one key, so the first is enough as long as none was elsewhere.
	case (!r.Further || p.strayed) && p.set.partitionOfKey(r.SentKey) != p.partition:
		p.strayed = true
		p.misplaced(r, ev, prom.OtherPartition, "the record is not in the partition of its key")
	}
}

// misplaced counts a record that may split its flow, and logs the first of each kind.
func (p *partitionOwner) misplaced(r *pump.Record, ev *events.Event, why prom.Misplacement, what string) {
	first := false
	p.member.host.Pump.Counts.Count(func(n *prom.Counters) {
		n.Misplaced[why]++
		first = n.Misplaced[why] == 1
	})
	if first {
		p.member.logger.Error(what+": its flow is split over partitions, and stopped late or never; others like it are only counted",
			"fix", why.Fix(), "topic", p.set.topic, "partition", p.partition, "offset", r.Offset, "key", string(r.SentKey), "correlation_id", ev.CorrelationID, "source", ev.Source)
	}
}
