package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/retry"
	"weir/events/byhand"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// OrderTopic is the topic of orders by hand, of one partition. Every member reads it from its
// beginning, and any member writes it. It does not go through the owner of a partition, so an order is
// in force while partitions change owners. Any client with write access to the topic can give orders.
type OrderTopic struct {
	cluster *kafka.Cluster
	topic   string
	clock   clock.Clock
	logger  *slog.Logger
}

// NewOrderTopic returns the topic that the options name.
func NewOrderTopic(o Options, c clock.Clock, logger *slog.Logger) *OrderTopic {
	return &OrderTopic{cluster: o.Cluster, topic: cmp.Or(o.Topics.Orders, DefaultTopics().Orders), clock: c, logger: logger}
}

// OrderTopicConfig are the settings of the topic: the newest record of each order is kept.
func OrderTopicConfig() map[string]string {
	return map[string]string{"cleanup.policy": "compact", "compression.type": "uncompressed"}
}

// writeTime is how long a write may take before the order is recorded later.
const writeTime = 2 * time.Second

// Write returns when the brokers have the record.
func (t *OrderTopic) Write(ctx context.Context, o *byhand.Order) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	_, err := sinkkafka.AppendTo(ctx, t.cluster, t.topic, 0, []sinkkafka.Message{{Key: []byte(o.Key()), Value: o.Encode()}})
	return err
}

// Follow reads the topic from its beginning, and what comes later, until ctx ends. A topic that is
// missing is created: a weir that was upgraded finds none.
func (t *OrderTopic) Follow(ctx context.Context, take func(*byhand.Order), reached func(), lost func(error)) error {
	for ctx.Err() == nil {
		err := t.follow(ctx, take, reached, lost)
		if ctx.Err() != nil {
			break
		}
		lost(err)
		t.logger.Warn("the orders by hand are not read for now; it is tried again", "topic", t.topic, "error", err)
		if retry.Pause(ctx, t.clock, time.Second) != nil {
			break
		}
	}
	return nil
}

func (t *OrderTopic) follow(ctx context.Context, take func(*byhand.Order), reached func(), lost func(error)) error {
	if err := t.create(ctx); err != nil {
		return err
	}
	first, end, err := t.cluster.Bounds(ctx, t.topic, 0)
	if err != nil {
		return err
	}
	if first >= end {
		reached()
	}
	r := kafka.NewReader(t.cluster, t.topic, 0, first, kafka.ReaderOptions{Bytes: replicatorBytes, Logger: t.logger})
	defer r.Close()
	var records []kafka.Record
	for ctx.Err() == nil {
		records, err = r.Fetch(ctx, records)
		if next, ok := kafka.Behind(err); ok {
			r.SkipTo(next) // the topic was created with a retention
			continue
		}
		if err != nil {
			return err
		}
		for i := range records {
			t.read(&records[i], take)
		}
		if _, trouble := r.Trouble(); trouble != nil {
			lost(trouble)
		} else if r.HighWatermark() >= 0 && r.Next() >= r.HighWatermark() {
			reached()
		}
	}
	return ctx.Err()
}

// create makes the topic where it is missing.
func (t *OrderTopic) create(ctx context.Context) error {
	_, err := t.cluster.Partitions(ctx, t.topic)
	if err == nil || errors.Is(err, kafka.ErrUnreachable) {
		return err
	}
	if _, cerr := t.cluster.CreateTopics(ctx, kafka.NewTopic{Name: t.topic, Partitions: 1, Config: OrderTopicConfig()}); cerr != nil {
		return fmt.Errorf("%w; it could not be created: %w; run weir topics create", err, cerr)
	}
	return nil
}

// read takes a record. What a stranger wrote may lack a revision and times: the record's own count
// then. What is no order is logged.
func (t *OrderTopic) read(r *kafka.Record, take func(*byhand.Order)) {
	if len(r.Value) == 0 {
		return
	}
	o, err := byhand.Decode(r.Value)
	if err != nil {
		t.logger.Error("a record of the topic of orders is no order and is ignored", "topic", t.topic, "offset", r.Offset, "error", err)
		return
	}
	o.Appended(r.Time)
	take(o)
}
