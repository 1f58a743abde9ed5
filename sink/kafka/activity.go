package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	eventkafka "weir/events/kafka"
)

// ActivityRecord is one action of an agent, which the reader of the events sends to the member that
// tracks the agent.
type ActivityRecord struct {
	Key    string // the agent; "" for a record that goes to all partitions
	Value  []byte
	Source Position // where in the events it comes from
}

// ActivityTopic is the way of one process to the topic for the activity of agents. All
// that pass events on write by it: what they have for one partition at one time goes
// there in one batch, or with as many sources as partitions a process would write a batch
// of its own for each pair of them. Its methods are safe for concurrent use.
// Without it each pair of a source and a target would be a batch (see decision 70).
type ActivityTopic struct {
	// Gather is asked before each batch, by any goroutine. If it says so, the batch waits 50 ms for
	// what others have for its partition: there are enough of them to go on meanwhile. Nil: whatever
	// there is goes at once. It is set before the first Send.
	Gather func() bool

	writers    []*activityWriter // by partition
	partitions []int
	end        context.CancelFunc
}

// activityWriter is the way to one partition. One batch is under way at a time, so that what
// one source sends keeps its order.
type activityWriter struct {
	writer
	topic *ActivityTopic
	ctx   context.Context // of the topic

	mu sync.Mutex
	// In the order in which they were handed over.
	waiting []*share
	// A goroutine is at work; send starts one if there is none.
	writing bool
}

// share is what one Send has for one partition.
// The messages belong to one goroutine that waits. It does not touch them until written
// has a value.
type share struct {
	messages []Message
	// It has room for the value, so the writer never waits for a sender that has given up.
	written chan error // one value
}

// NewActivityTopic returns the way to a topic with this number of partitions. Nothing is
// connected yet.
func NewActivityTopic(cluster *eventkafka.Cluster, topic string, partitions int) *ActivityTopic {
	ctx, end := context.WithCancel(context.Background())
	t := &ActivityTopic{end: end}
	for p := range partitions {
		t.writers = append(t.writers, &activityWriter{writer: writer{cluster: cluster, topic: topic, partition: p, most: batchBytes}, topic: t, ctx: ctx})
		t.partitions = append(t.partitions, p)
	}
	return t
}

// Close ends what is still being written, for those who do not wait for it any more.
func (t *ActivityTopic) Close() { t.end() }

// Sender returns an Activity that writes to the topic.
func (t *ActivityTopic) Sender() *Activity {
	return &Activity{topic: t, shares: make([]share, len(t.writers))}
}

// send hands a share over. It is written behind those that were handed over before.
func (l *activityWriter) send(s *share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, s)
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

// write writes all that waits as one batch, until nothing does.
func (l *activityWriter) write() {
	var messages []Message
	// What gathered while the last batch was under way is the next one.
	for {
		l.gather()
		l.mu.Lock()
		shares := l.waiting
		l.waiting, l.writing = nil, len(shares) > 0
		l.mu.Unlock()
		if len(shares) == 0 {
			return
		}
		messages = messages[:0]
		for _, s := range shares {
			messages = append(messages, s.messages...)
		}
		_, err := l.writer.write(l.ctx, messages)
		// A batch that failed has failed for all: each share is sent again by its source.
		for _, s := range shares {
			s.written <- err
		}
	}
}

// gatherFor is how long a batch waits for others, see ActivityTopic.Gather.
const gatherFor = 50 * time.Millisecond

// gather waits for others, if that is worth it.
func (l *activityWriter) gather() {
	if l.topic.Gather != nil && l.topic.Gather() {
		wait(l.ctx, gatherFor)
	}
}

// Activity sends on what one partition of the events brings about, by the agent. It is for
// one goroutine.
// The memory of messages is kept from one Send to the next.
type Activity struct {
	topic  *ActivityTopic
	shares []share // by partition

	headers []kafkago.Header // of the messages of one Send
	text    []byte           // what these are made of
}

// Send writes records, which are in the order of the events, and returns when the brokers
// keep them. Those of one partition keep their order, and one without a key goes to each
// of them. It tries until ctx ends. After an error it may be called with the same records
// again, or with earlier ones, but not with later ones. Some are then in the topic more than once,
// and their positions identify them.
func (a *Activity) Send(ctx context.Context, records []ActivityRecord) error {
	// The balancer of other clients, so that every writer to the topic finds the same
	// partition for an agent.
	byAgent := kafkago.Murmur2Balancer{Consistent: true}
	headers, text := a.headers[:0], a.text[:0]
	// The capacity is cut to the length, so that what is appended later cannot overwrite it.
	since := func(start int) []byte { return text[start:len(text):len(text)] }
	for i := range records {
		r := &records[i]
		// A slice that grows leaves the earlier parts where they were, and they stay good.
		first := len(headers)
		headers, text = r.Source.appendTo(headers, text)
		// A copy, for a batch may be under way when ctx ends.
		start := len(text)
		text = append(text, r.Value...)
		m := Message{Value: since(start), Headers: headers[first:len(headers):len(headers)]}
		// A record for all partitions has no agent.
		if r.Key == "" {
			for p := range a.shares {
				a.shares[p].messages = append(a.shares[p].messages, m)
			}
			continue
		}
		start = len(text)
		text = append(text, r.Key...)
		m.Key = since(start)
		p := byAgent.Balance(kafkago.Message{Key: m.Key}, a.topic.partitions...)
		a.shares[p].messages = append(a.shares[p].messages, m)
	}
	// All partitions are written at once, and then waited for.
	for p := range a.shares {
		if s := &a.shares[p]; len(s.messages) > 0 {
			s.written = make(chan error, 1)
			a.topic.writers[p].send(s)
		}
	}
	var errs []error
	for p := range a.shares {
		s := &a.shares[p]
		if len(s.messages) == 0 {
			continue
		}
		select {
		case err := <-s.written:
			errs = append(errs, err)
		case <-ctx.Done():
			// What is handed over is not this Activity's any more, nor is its memory.
			a.headers, a.text, a.shares = nil, nil, make([]share, len(a.topic.writers))
			if _, why := a.topic.Trouble(); why != nil {
				return fmt.Errorf("%w, after: %w", context.Cause(ctx), why)
			}
			return context.Cause(ctx)
		}
		// Cleared so that the arrays hold no messages of the last Send.
		clear(s.messages)
		s.messages = s.messages[:0]
	}
	clear(headers)
	a.headers = headers
	if a.text = text; cap(text) > keptText {
		a.text = nil
	}
	return errors.Join(errs...)
}

// Trouble returns since when a broker does not answer as it should, and why. The
// error is nil when nothing is wrong, or nothing is being sent. Any goroutine may call it.
// Of several partitions the one counts that has been in trouble for longest.
func (t *ActivityTopic) Trouble() (since time.Time, err error) {
	for _, l := range t.writers {
		if s, e := l.Trouble(); e != nil && (err == nil || s.Before(since)) {
			since, err = s, e
		}
	}
	return since, err
}
