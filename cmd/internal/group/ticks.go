package group

import (
	"context"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// ticks are the records with which an owner notifies its partition that time has passed. The time at
// which the topic took one is the time of the log. It holds whatever the clocks of producers, of this
// machine or of an earlier partition leader have reported. If a clock was ahead, such a tick sets the
// time of the topic back.
type ticks struct {
	// Times that begin with sent, ahead and up are of a clock that is never set.
	sent   time.Duration // how long the owner had run at the last one
	offset int64         // of it
	read   bool          // and folded
	taken  events.Stamp  // when the topic took the last that was read; 0 for none
	ahead  time.Duration // how long the owner had run when the log was found ahead; 0 when it is not, or when a record repeated that time
}

const (
	// aheadBy is by how much the log may be ahead: as much as a producer's clock may, and as
	// brokers' clocks differ.
	aheadBy = analyzer.MaxSkew + 5*time.Second
	// aheadFor is how long no record may report a time that is ahead before the log is turned back.
	aheadFor = time.Minute
)

// see looks at a record of the partition. The owner's own tick, when it comes back, shows the time of
// the broker that leads now. A record that is far ahead of that shows that a clock is still ahead.
func (t *ticks) see(r *kafka.Record) {
	switch {
	case r.Offset == t.offset && t.sent > 0:
		t.taken, t.read = r.Time, true
	case t.taken > 0 && r.Time.Sub(t.taken) > aheadBy:
		t.ahead = 0
	}
}

// tick appends the time to the partition when it is silent, or ahead of the record that was read last.
// It returns only errors that an operator must fix. All others are logged, and the next turn tries
// again.
func (p *partitionOwner) tick(ctx context.Context, up time.Duration, now events.Stamp) error {
	m, t := p.member, &p.own.ticks
	seen := events.Stamp(p.pump.Standing().Watermark.Load())
	ahead := seen.Sub(events.Stamp(p.shown.newest.Load())) > aheadBy // of the record that was read last, whatever clock its time is from
	if !ahead {
		t.ahead = 0
	} else if t.read { // and it is what the topic says itself
		t.read = false
		switch {
		case t.ahead == 0:
			t.ahead = up
		// The partition goes back to what the topic itself has said (see decision 61).
		case up-t.ahead >= aheadFor && seen.Sub(t.taken) > aheadBy:
			value := pump.TurnBackRecord(seen, t.taken)
			// Everything that was known of the time is of before the turn.
			p.own.ticks, p.own.appended = ticks{}, up
			_, err := m.appendTo(ctx, p.set.topic, p.partition, sinkkafka.Message{Value: value})
			return m.later(ctx, err)
		}
	}
	// A busy log needs no ticks, unless it is ahead: then only the topic's own time shows
	// that.
	if up-p.own.appended < m.host.Tick && !(ahead && up-t.sent >= m.host.Tick) {
		return nil
	}
	p.own.appended = up
	offset, err := m.appendTo(ctx, p.set.topic, p.partition, sinkkafka.Message{Value: pump.TickRecord(now)})
	// A tick that may not stand there says nothing about when it was taken.
	if err == nil {
		t.sent, t.offset, t.read = up, offset, false
	}
	return m.later(ctx, err)
}
