package kafka

import (
	"context"
	"time"
)

// Bounds returns the offset of the first record that the partition still has, and the
// offset that the next record to be written gets. They are equal when it is empty.
//
// Where a topic was compacted or holds marks of transactions there are fewer records than the
// difference.
func (c *Cluster) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	err = c.askLeader(ctx, topic, partition, func(l *link) (err error) {
		first, end, err = l.bounds(ctx, topic, partition)
		return err
	})
	return first, end, err
}

// OffsetAt returns the offset of the first record whose time is t or later, and the end
// of the partition when there is none. No record with a time of t or later stands
// before it.
//
// An owner without a state begins at such an offset (decision 24).
func (c *Cluster) OffsetAt(ctx context.Context, topic string, partition int, t time.Time) (at int64, err error) {
	err = c.askLeader(ctx, topic, partition, func(l *link) error {
		// The end is asked for first: a record that comes in between is then found by its
		// time, or lies behind the end that is returned.
		end, err := l.offsetAt(ctx, topic, partition, latest)
		if err != nil || end == 0 {
			return err
		}
		// Negative times have a meaning of their own.
		// -1 and -2 are latest and earliest.
		if at, err = l.offsetAt(ctx, topic, partition, max(0, t.UnixMilli())); at < 0 {
			at = end
		}
		return err
	})
	return at, err
}

// OffsetBack returns the offset of the first record that is at most so much older than the
// last one, and the end of the partition, which are equal when it is empty. The clock of this
// machine counts only when it says less than the last record: one that is ahead would leave out
// what is not that old.
//
// It is for who knows a span of time and no offset, such as a new owner that looks for what
// others may still write.
func (c *Cluster) OffsetBack(ctx context.Context, topic string, partition int, back time.Duration) (from, end int64, err error) {
	// Of an empty partition there is nothing to look back from.
	first, end, err := c.Bounds(ctx, topic, partition)
	if err != nil || first == end {
		return end, end, err
	}
	now := time.Now()
	// No request of these versions returns the time of the last record, so it is read. It may be
	// a mark, or in an unreadable batch; then the loop goes on to the end.
	r := NewReader(c, topic, partition, end-1, ReaderOptions{})
	defer r.Close()
	var records []Record
	for r.Next() < end {
		records, err = r.Fetch(ctx, records)
		if next, ok := Behind(err); ok {
			r.SkipTo(next)
			continue
		}
		// An unreachable broker is an error here, because the caller needs an answer.
		if _, why := r.Trouble(); err == nil {
			err = why
		}
		if err != nil {
			return 0, 0, err
		}
		for i := range records {
			// The smallest of what was read, should more than one record come.
			if at := records[i].Time.Time(); at.Before(now) {
				now = at
			}
		}
	}
	from, err = c.OffsetAt(ctx, topic, partition, now.Add(-back))
	return from, end, err
}
