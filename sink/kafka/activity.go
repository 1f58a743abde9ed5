package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	eventkafka "weir/events/kafka"
)

// ActivityRecord is one thing that an agent did, as the reader of the events sends it on
// to whoever looks after the agent.
type ActivityRecord struct {
	Key    string // the agent; "" for what all partitions are told
	Value  []byte
	Source Position // where in the events it comes from
}

// Activity sends records on to the topic for the activity of agents, by the agent. It is
// for one goroutine.
type Activity struct {
	lanes      []*lane // by partition
	partitions []int
	parts      [][]Message

	headers []kafkago.Header // of the messages of one Send
	text    []byte           // what these are made of
}

// NewActivity returns an Activity that writes to a topic with so many partitions.
func NewActivity(cluster *eventkafka.Cluster, topic string, partitions int) *Activity {
	a := &Activity{parts: make([][]Message, partitions)}
	for p := range partitions {
		a.lanes = append(a.lanes, &lane{cluster: cluster, topic: topic, partition: p, most: batchBytes})
		a.partitions = append(a.partitions, p)
	}
	return a
}

// Send writes records, which are in the order of the events, and returns when the brokers
// keep them. Those of one partition keep their order, and one without a key goes to each
// of them. It tries until ctx ends. After an error it may be called with the same records
// again, or with earlier ones, but not with later ones: some stand there more than once
// then, and their positions tell.
func (a *Activity) Send(ctx context.Context, records []ActivityRecord) error {
	byAgent := kafkago.Murmur2Balancer{Consistent: true}
	headers, text := a.headers[:0], a.text[:0]
	for i := range records {
		r := &records[i]
		first := len(headers)
		headers, text = r.Source.appendTo(headers, text)
		m := Message{Value: r.Value, Headers: headers[first:len(headers):len(headers)]}
		if r.Key == "" {
			for p := range a.parts {
				a.parts[p] = append(a.parts[p], m)
			}
			continue
		}
		start := len(text)
		text = append(text, r.Key...)
		m.Key = text[start:len(text):len(text)]
		p := byAgent.Balance(kafkago.Message{Key: m.Key}, a.partitions...)
		a.parts[p] = append(a.parts[p], m)
	}
	errs := make([]error, len(a.parts))
	var wg sync.WaitGroup
	for p, msgs := range a.parts {
		if len(msgs) > 0 {
			wg.Go(func() { _, errs[p] = a.lanes[p].write(ctx, msgs) })
		}
	}
	wg.Wait()
	for p := range a.parts {
		clear(a.parts[p])
		a.parts[p] = a.parts[p][:0]
	}
	clear(headers)
	a.headers = headers
	if a.text = text; cap(text) > keptText {
		a.text = nil
	}
	return errors.Join(errs...)
}

// Trouble returns since when a broker does not answer Send as it should, and why. The
// error is nil when nothing is wrong, or nothing is being sent. Any goroutine may call it.
func (a *Activity) Trouble() (since time.Time, err error) {
	for _, l := range a.lanes {
		if s, e := l.Trouble(); e != nil && (err == nil || s.Before(since)) {
			since, err = s, e
		}
	}
	return since, err
}
