package group

import (
	"context"
	"time"

	"weir/events/kafka"
)

// recallTime is how long an owner may take to read records again for Host.Recall. Checks wait meanwhile.
const recallTime = 2 * time.Second

// recall gives the last records of the partition to Host.Recall before checks are answered here: those that were
// folded before, and those that are folded again only while checks come. If they cannot be read in time, the
// partition is folded without.
func (p *partitionOwner) recall(ctx context.Context) {
	m := p.member
	if m.host.Recall == nil {
		return
	}
	if err := p.recallBefore(ctx); err != nil && ctx.Err() == nil {
		m.logger.Warn("the last checks before this owner are not read: an id of them may be used once more", "topic", p.set.topic, "partition", p.partition, "error", err)
	}
}

func (p *partitionOwner) recallBefore(ctx context.Context) error {
	m := p.member
	limited, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	first, end, err := m.o.Cluster.Bounds(limited, p.set.topic, p.partition)
	if err != nil {
		return err
	}
	r := m.readFrom(p.set.topic, p.partition, max(first, end-m.host.Recalled/int64(len(m.sets.flows.partitions))), kafka.ReaderOptions{})
	defer r.Close()
	var records []kafka.Record
	for r.Next() < end {
		records, err = r.Fetch(limited, records)
		if next, ok := kafka.Behind(err); ok { // they have expired
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return err
		}
		for i := range records {
			m.host.Recall(records[i].Value)
		}
	}
	return nil
}
