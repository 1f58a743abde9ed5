package budgets

import (
	"encoding/binary"

	"weir/analyzer/record"
	"weir/events"
)

// AppendBinary appends the record of the account, in which times are relative to a clock.
func (a *Account) AppendBinary(b []byte, clock events.Stamp) []byte {
	for _, at := range [...]events.Stamp{a.Began, a.Start, a.End, a.GrantEnds, a.Last, a.Before.Start, a.Before.End, a.lostExpire,
		a.Order.Since, a.Order.Issued, a.Order.Expires, a.Order.Due} {
		b = appendStamp(b, at, clock)
	}
	for _, n := range [...]int64{a.Spent, a.Granted, int64(a.Refused), a.Beyond, a.Before.Spent, a.Before.Granted, a.lost, a.newest,
		int64(a.Order.Tried), int64(a.Order.Limits), a.Order.Revision} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	mask := uint64(0)
	for i, n := range a.counts {
		if n != 0 {
			mask |= 1 << i
		}
	}
	b = binary.LittleEndian.AppendUint64(append(b, record.Bit(a.Order.Warned, 0)|record.Bit(a.Order.Used, 1), byte(a.Kind), byte(a.Measure)), mask)
	for _, n := range a.counts {
		if n != 0 {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(a.claims)))
	for i := range a.claims {
		c := &a.claims[i]
		b = binary.LittleEndian.AppendUint64(b, c.flow)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.held)), uint64(c.calls))
		b = appendStamp(appendStamp(b, c.seen, clock), c.told, clock)
	}
	return b
}

// appendStamp writes a time as what it is before or after the clock; 0 for never.
func appendStamp(b []byte, at, clock events.Stamp) []byte {
	if at == 0 {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, int64(at-clock)<<1|1)
}

// readStamp reads what appendStamp wrote.
func readStamp(d *record.Reader, clock events.Stamp) events.Stamp {
	v := d.Varint()
	if v&1 == 0 {
		return 0
	}
	return clock + events.Stamp(v>>1)
}

// Read reads what AppendBinary wrote. Of an account that is damaged, which the reader knows then,
// nothing is kept.
func (a *Account) Read(d *record.Reader, clock events.Stamp) {
	a.Reset()
	for _, at := range [...]*events.Stamp{&a.Began, &a.Start, &a.End, &a.GrantEnds, &a.Last, &a.Before.Start, &a.Before.End, &a.lostExpire,
		&a.Order.Since, &a.Order.Issued, &a.Order.Expires, &a.Order.Due} {
		*at = readStamp(d, clock)
	}
	a.Spent, a.Granted, a.Refused, a.Beyond = d.Count(most), d.Count(most), uint32(d.Count(1<<32-1)), d.Count(most)
	a.Before.Spent, a.Before.Granted, a.lost, a.newest = d.Count(most), d.Count(most), d.Count(most), d.Count(1<<52)
	a.Order.Tried, a.Order.Limits, a.Order.Revision = uint32(d.Count(1<<32-1)), uint32(d.Count(1<<32-1)), d.Count(1<<62)
	h := d.Take(11)
	a.Order.Warned, a.Order.Used = h[0]&1 != 0, h[0]&2 != 0
	a.Kind, a.Measure = Kind(d.Most(h[1], int(kindCount)-1)), Measure(d.Most(h[2], int(measureCount)-1))
	mask := binary.LittleEndian.Uint64(h[3:])
	if mask>>buckets != 0 {
		d.Fail()
	}
	for i := range a.counts {
		if mask>>i&1 == 1 {
			a.counts[i] = d.Count(most)
		}
	}
	for range d.Count(MaxClaims) {
		var c claim
		c.flow = binary.LittleEndian.Uint64(d.Take(8))
		c.held, c.calls = d.Count(most), uint32(d.Count(1<<32-1))
		c.seen, c.told = readStamp(d, clock), readStamp(d, clock)
		a.claims = append(a.claims, c)
	}
	if d.Bad() || a.Began <= 0 {
		d.Fail()
		a.Reset()
	}
}
