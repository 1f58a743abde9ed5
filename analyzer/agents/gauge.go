package agents

import (
	"encoding/binary"
	"time"

	"weir/analyzer/record"
	"weir/events"
)

// Gauge is how many agents of one partition there are, or of several.
type Gauge struct {
	// Live agents have reported within the last week, and have not taken their leave.
	Live int64
	// Stuck agents were found to be so within the last week and have not been heard of
	// since, by the row that found them; at 1 those that are stuck for certain, at 0
	// those that only may be. Those that were archived for it are not among them, nor is
	// what a row in shadow mode finds.
	Stuck [RuleCount][2]int64
}

// Add adds the agents of another partition.
func (m *Gauge) Add(o *Gauge) {
	m.Live += o.Live
	for r := range m.Stuck {
		m.Stuck[r][0] += o.Stuck[r][0]
		m.Stuck[r][1] += o.Stuck[r][1]
	}
}

// Gauge returns how many agents of the partition there are, without a look at any.
// It is read by the owner of the partition; metrics get a copy.
func (p *Partition) Gauge() (m Gauge) {
	// By the watermark as well as by the newest day: where nothing happens any more, days
	// leave all the same.
	gone := max(0, p.gauge.newest-gaugeKept, dayOf(p.Watermark)-gaugeKept)
	for day := gone + 1; day <= p.gauge.newest; day++ {
		h := &p.gauge.days[day%gaugeKept]
		m.Live += int64(h.live)
		for r := range h.stuck {
			m.Stuck[r][0] += int64(h.stuck[r][0])
			m.Stuck[r][1] += int64(h.stuck[r][1])
		}
	}
	return m
}

// gaugeDays counts agents by the day of what they are counted for. A day leaves it after a
// week, whatever became of its agents: the store forgets those of which nothing is heard,
// without a word, and they must not be counted for ever.
type gaugeDays struct {
	newest int64 // day; those of the week up to it are kept
	days   [gaugeKept]headcount
}

// headcount is how many agents are counted for one day.
type headcount struct {
	live  uint32
	stuck [RuleCount][2]uint32
}

// gaugeKept is how many days agents are counted for.
const gaugeKept = 7

// dayOf is the number of the day of a time: 0 only of no time.
// Days are counted from 1970-01-01, which is 1.
func dayOf(at events.Stamp) int64 {
	if at == 0 {
		return 0
	}
	return int64(at/events.Stamp(24*time.Hour/time.Millisecond)) + 1
}

// gaugeCell is where an agent is counted.
// Live and stuck are counted by different days: that of the last report and that of the
// finding.
type gaugeCell struct {
	live    int64 // day; 0 when it does not count
	stuck   int64 // day; 0 when it is not
	rule    RuleID
	certain bool
}

// gaugeCell returns where the agent is to be counted.
func (a *Agent) gaugeCell() (m gaugeCell) {
	s := &a.stuck
	if s.step >= stepArchived {
		return m
	}
	if a.reports > 0 && doingByStatus(a.status) != gone {
		m.live = dayOf(a.reported)
	}
	if s.since != 0 {
		m.stuck, m.rule, m.certain = dayOf(s.since), s.rule, s.certain
	}
	return m
}

// move counts an agent anew of which something was folded.
// Counts never go below 0: an agent may leave a day that was begun anew since.
func (l *gaugeDays) move(from, to gaugeCell) {
	if from == to {
		return
	}
	if h := l.on(from.live); h != nil {
		h.live = max(h.live, 1) - 1
	}
	if h := l.on(to.live); h != nil {
		h.live++
	}
	if h := l.on(from.stuck); h != nil {
		n := &h.stuck[from.rule][record.Bit(from.certain, 0)]
		*n = max(*n, 1) - 1
	}
	if h := l.on(to.stuck); h != nil {
		h.stuck[to.rule][record.Bit(to.certain, 0)]++
	}
}

// on returns the count of a day; nil when it has left, or is none.
// A day later than the newest one makes room: days between the two begin at 0, and those a
// week back go.
func (l *gaugeDays) on(day int64) *headcount {
	if day == 0 || day <= l.newest-gaugeKept {
		return nil
	}
	for l.newest = max(l.newest, day-gaugeKept); l.newest < day; {
		l.newest++
		l.days[l.newest%gaugeKept] = headcount{}
	}
	return &l.days[day%gaugeKept]
}

// appendBinary appends the counts that are not zero: the newest day and, for each, its
// place, from 1, and the number; a place of 0 is the end.
// Most counts are 0, so places and numbers take less than all numbers in a row would.
func (l *gaugeDays) appendBinary(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(l.newest))
	place := uint64(0)
	put := func(n uint32) {
		if place++; n != 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, place), uint64(n))
		}
	}
	for i := range l.days {
		h := &l.days[i]
		put(h.live)
		for r := range h.stuck {
			put(h.stuck[r][0])
			put(h.stuck[r][1])
		}
	}
	return append(b, 0)
}

// read reads what appendBinary wrote; rules is the number of rows at that time. A count without a place
// fails.
// The number of rows of that time decides what a place means, since rows are added at the end
// of the table.
func (l *gaugeDays) read(d *record.Reader, rules uint64) {
	columns := 1 + 2*rules
	*l = gaugeDays{newest: d.Count(1 << 62)}
	for !d.Bad() {
		place := d.Uvarint()
		if place == 0 {
			return
		}
		day, column := (place-1)/columns, (place-1)%columns
		n := d.Uvarint()
		if day >= gaugeKept || n > 1<<32-1 {
			d.Fail()
			return
		}
		if h := &l.days[day]; column == 0 {
			h.live = uint32(n)
		} else {
			h.stuck[(column-1)/2][(column-1)%2] = uint32(n)
		}
	}
}
