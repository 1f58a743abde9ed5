package kafka

import (
	"context"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// commitPatience is how long the coordinator may take to keep an offset.
const commitPatience = 5 * time.Second

// commits sends offsets of partitions to the coordinator. Those that arrive while a request is in
// flight share the next one, because a request costs much more than an offset in it.
type commits struct {
	// send commits offsets of one generation, and returns the answer for each partition.
	send func(ctx context.Context, of Assignment, offsets []kafkago.OffsetCommit) (map[int]error, error)

	sending   sync.Mutex // held while a request is under way
	mu        sync.Mutex
	gathering *commit // nil when none waits
}

// commit is one request.
type commit struct {
	of       Assignment // one of its generation
	offsets  []kafkago.OffsetCommit
	done     chan struct{} // is closed when there is an answer
	answered map[int]error
	err      error
}

// commit returns the coordinator's answer to an offset, after 5 s at most.
func (c *commits) commit(a Assignment, next int64) error {
	c.mu.Lock()
	r := c.gathering
	first := r == nil || r.of.Generation != a.Generation || r.of.MemberID != a.MemberID
	if first {
		r = &commit{of: a, done: make(chan struct{})}
		c.gathering = r
	}
	r.offsets = append(r.offsets, kafkago.OffsetCommit{Partition: a.Partition, Offset: next})
	c.mu.Unlock()
	if first {
		// What is under way before is waited for by the same patience.
		ctx, cancel := context.WithTimeout(context.Background(), commitPatience)
		defer cancel()
		c.sending.Lock()
		c.mu.Lock()
		if c.gathering == r {
			c.gathering = nil
		}
		c.mu.Unlock()
		r.answered, r.err = c.send(ctx, a, r.offsets)
		c.sending.Unlock()
		close(r.done)
	}
	<-r.done
	if r.err != nil {
		return r.err
	}
	return r.answered[a.Partition]
}
