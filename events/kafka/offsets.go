package kafka

import (
	"context"
	"time"
)

// Bounds returns the offset of the first record that the partition still has, and the
// offset that the next record to be written gets. They are equal when it is empty.
func (c *Cluster) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	l, err := c.leader(ctx, topic, partition)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	return l.bounds(ctx, topic, partition)
}

// OffsetAt returns the offset of the first record whose time is t or later, and the end
// of the partition when there is none. No record with a time of t or later stands
// before it.
func (c *Cluster) OffsetAt(ctx context.Context, topic string, partition int, t time.Time) (int64, error) {
	l, err := c.leader(ctx, topic, partition)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	// The end is asked for first: a record that comes in between is then found by its
	// time, or lies behind the end that is returned.
	end, err := l.offsetAt(ctx, topic, partition, latest)
	if err != nil {
		return 0, err
	}
	// Negative times have a meaning of their own.
	at, err := l.offsetAt(ctx, topic, partition, max(0, t.UnixMilli()))
	if err != nil {
		return 0, err
	}
	if at < 0 {
		at = end
	}
	return at, nil
}

// OffsetBack returns the offset of the first record that is at most so much older than the
// last one, and the end of an empty partition. The clock of this machine counts only when it
// says less than the last record: one that is ahead would leave out what is not that old.
func (c *Cluster) OffsetBack(ctx context.Context, topic string, partition int, back time.Duration) (int64, error) {
	first, end, err := c.Bounds(ctx, topic, partition)
	if err != nil || first == end {
		return end, err
	}
	now := time.Now()
	r := NewReader(c, topic, partition, end-1, ReaderOptions{})
	defer r.Close()
	var records []Record
	for r.Next() < end {
		records, err = r.Fetch(ctx, records)
		if next, ok := Behind(err); ok {
			r.SkipTo(next)
			continue
		}
		if _, why := r.Trouble(); err == nil {
			err = why
		}
		if err != nil {
			return 0, err
		}
		for i := range records {
			if at := records[i].Time.Time(); at.Before(now) {
				now = at
			}
		}
	}
	return c.OffsetAt(ctx, topic, partition, now.Add(-back))
}
