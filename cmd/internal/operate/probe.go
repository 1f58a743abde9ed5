package operate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// Clocks that differ by more than a minute make weir fold events at another time than
// their own.
const (
	skewGood = 2 * time.Second
	skewMost = time.Minute
)

// probeHeader marks a record that only tries whether records come through. It has no
// value, and those who read verdicts skip records without one.
const probeHeader = "weir-probe"

// probe writes a record to the topic of verdicts, reads it back, and compares clocks.
//
// It goes to the topic of verdicts because weir has to be able to write there, and because its
// readers skip records without a value. The token distinguishes it from the records of other
// probes at the same time.
func (d *doctor) probe(ctx context.Context, c *kafka.Cluster) {
	check, topic := "verdicts", d.run.brokers.Topics.Verdicts
	if d.noProbe {
		return
	}
	_, err := c.Partitions(ctx, topic)
	if errors.Is(err, kafka.ErrNoTopic) {
		return // said already
	}
	var from int64
	token := []byte(rand.Text())
	before := d.env.Now()
	if err == nil {
		from, err = sinkkafka.AppendTo(ctx, c, topic, 0, []sinkkafka.Message{{Headers: []kafkago.Header{{Key: probeHeader, Value: token}}}})
	}
	after := d.env.Now()
	if err != nil {
		d.fail(check, "weir has to be permitted to write there", "write a record without a value to %s: %v", topic, err)
		return
	}
	var appended time.Time
	// An error of its own ends the reading at once, and shows that the record was
	// found.
	found := errors.New("found")
	err = EachRecord(ctx, c, topic, 0, from, from+1, func(r *kafka.Record) error {
		for _, h := range r.Headers {
			if h.Key == probeHeader && bytes.Equal(h.Value, token) {
				appended = r.Time.Time()
				return found
			}
		}
		return nil
	}, nil)
	if !errors.Is(err, found) {
		d.fail(check, "weir has to be permitted to read there", "the record that was written to %s is not seen there: %v", topic, err)
		return
	}
	d.ok(check, "a record went through %s and back in %s", topic, d.env.Now().Sub(before).Round(time.Millisecond))
	info, err := c.Topic(ctx, topic)
	if err != nil || info.Config["message.timestamp.type"] != "LogAppendTime" {
		d.warn("clocks", "let the broker's clock count: message.timestamp.type=LogAppendTime", "cannot be compared: %s has the times that producers say", topic)
		return
	}
	d.clocks(before, appended, after)
}

// clocks compares the time at which the broker took the record with the own times
// around it.
//
// Between before and after nothing is known, so a difference that the way there explains
// counts as none.
func (d *doctor) clocks(before, appended, after time.Time) {
	skew := time.Duration(0)
	switch {
	// Brokers report milliseconds.
	case appended.Before(before.Truncate(time.Millisecond)):
		skew = before.Sub(appended)
	case appended.After(after):
		skew = appended.Sub(after)
	}
	skew = skew.Round(time.Millisecond)
	const fix = "set both clocks by the same time server"
	switch {
	case skew > skewMost:
		d.fail("clocks", fix, "this machine and the broker differ by %s; beyond %s events are folded at another time than their own", skew, skewMost)
	case skew > skewGood:
		d.warn("clocks", fix, "this machine and the broker differ by %s", skew)
	default:
		d.ok("clocks", "this machine and the broker differ by less than %s", max(skew, time.Millisecond))
	}
}
