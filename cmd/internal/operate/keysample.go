package operate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/internal/cli"
	"weir/events"
	"weir/events/kafka"
)

// sampled is how many of the newest records of each partition are looked at.
//
// A wrong producer shows in nearly every record, so a few suffice; old records may come
// from producers that were fixed since.
const sampled = 200

// keyed is a record of which the key says something.
//
// key is a copy: what it was read into is used again.
type keyed struct {
	partition int
	key       []byte
}

// keySample is what the newest records of a topic say of those who wrote them.
// records are those that have a key; keyless and strange count.
type keySample struct {
	partitions int
	records    []keyed
	keyless    int
	strange    int    // keys that are not the flow
	example    string // of one of these
}

// keys looks whether producers put each flow into the partition that all look for it in.
//
// A flow whose records lie in several partitions is folded by several weirs, each of which
// sees a part of it: loops are then found late or never. Nothing else shows this fault.
func (d *doctor) keys(ctx context.Context, c *kafka.Cluster) {
	const check = "keys"
	var s *keySample
	err := Settled(ctx, func(ctx context.Context) (err error) {
		s, err = sampleKeys(ctx, c, d.run.brokers.Topics.Events)
		return err
	})
	if errors.Is(err, kafka.ErrNoTopic) {
		return // said already
	}
	if err != nil {
		d.fail(check, "", "look at the newest records: %v", err)
		return
	}
	all := len(s.records) + s.keyless
	wrong := s.astray()
	const useKey = "the key of a record has to be its correlation_id; weir ingest sees to it"
	switch {
	case all == 0:
		d.ok(check, "there are no events yet")
	// The worst is reported first, and alone: the operator fixes one producer and runs the check again.
	case s.keyless > 0:
		d.fail(check, useKey, "%d of the %d newest records have no key, so that flows are spread over partitions", s.keyless, all)
	case len(wrong) > 0:
		d.fail(check, "have it use murmur2, as Java does by default: partitioner=murmur2_random (librdkafka), kafka.Murmur2Balancer{Consistent: true} (kafka-go)",
			"%d of the %d newest records are in a partition that murmur2 does not give: %s", len(wrong), all, s.suspect(wrong))
	case s.strange > 0:
		d.warn(check, useKey, "%d of the %d newest records have a key that is not their flow, such as %s", s.strange, all, s.example)
	default:
		d.ok(check, "the %s newest records are where murmur2 puts them", cli.Grouped(int64(all)))
	}
}

// sampleKeys looks at the newest records of each partition of the topic. It reads to the ends
// as they are when it begins.
func sampleKeys(ctx context.Context, c *kafka.Cluster, topic string) (*keySample, error) {
	n, err := c.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	s := &keySample{partitions: n}
	for p := range n {
		first, end, err := c.Bounds(ctx, topic, p)
		if err != nil {
			return nil, err
		}
		// The record is good only until this returns.
		err = EachRecord(ctx, c, topic, p, max(first, end-sampled), end, func(r *kafka.Record) error {
			s.add(p, r)
			return nil
		}, nil)
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add looks at one record. What weir itself puts into a partition is where it belongs,
// and what is no event is a matter for the dead letters.
func (s *keySample) add(partition int, r *kafka.Record) {
	var ev events.Event
	if events.Decode(r.Value, &ev) != nil || ev.Kind == events.Tick || ev.Kind == events.LimitsSet {
		return
	}
	// Producers spread records without a key over all partitions.
	if r.Key == nil {
		s.keyless++
		return
	}
	// A strange key is still looked at for its partition: the producer's partitioner shows in
	// it all the same.
	if flow := ev.FlowKey(); flow != string(r.Key) {
		s.strange++
		s.example = cmp.Or(s.example, fmt.Sprintf("%.40q for the flow %.40q", r.Key, flow))
	}
	s.records = append(s.records, keyed{partition, bytes.Clone(r.Key)})
}

// astray returns the records that are in another partition than murmur2 gives.
// With one partition there is none.
func (s *keySample) astray() (list []keyed) {
	for _, r := range s.records {
		if placed(kafkago.Murmur2Balancer{Consistent: true}, r.key, s.partitions) != r.partition {
			list = append(list, r)
		}
	}
	return list
}

// suspect says how the records may have come where they are.
//
// An explanation has to fit nine in ten of the wrong records, and there have to be five,
// because a wrong partitioner hits the right partition by chance, too.
// It is for the sentence alone; a wrong guess costs a person some time and no record.
func (s *keySample) suspect(wrong []keyed) string {
	explains := func(b kafkago.Balancer, partitions int) bool {
		n := 0
		for _, r := range wrong {
			if placed(b, r.key, partitions) == r.partition {
				n++
			}
		}
		return n*10 >= len(wrong)*9
	}
	if len(wrong) < 5 {
		return "too few to say how they came there"
	}
	for _, other := range []struct {
		balancer kafkago.Balancer
		who      string
	}{
		{kafkago.CRC32Balancer{Consistent: true}, "where CRC32 puts them, the default of librdkafka (confluent-kafka for Python, .NET and Node, kcat)"},
		{&kafkago.Hash{}, "where FNV-1a puts them, the default of Sarama and of kafka-go's Hash balancer"},
		{&kafkago.ReferenceHash{}, "where FNV-1a puts them, as Sarama's reference partitioner does"},
	} {
		if explains(other.balancer, s.partitions) {
			return other.who
		}
	}
	// A topic that was made larger has its old records where its former size put them.
	for n := s.partitions - 1; n > 0; n-- {
		if explains(kafkago.Murmur2Balancer{Consistent: true}, n) {
			return fmt.Sprintf("where murmur2 puts them among %d partitions; was the topic smaller once?", n)
		}
	}
	return "no partitioner that is known; round robin perhaps, or one of the producer's own"
}

// placed returns the partition that a balancer gives a key.
// A balancer takes the list of partitions and not their number.
func placed(b kafkago.Balancer, key []byte, partitions int) int {
	numbers := make([]int, partitions)
	for i := range numbers {
		numbers[i] = i
	}
	return b.Balance(kafkago.Message{Key: key}, numbers...)
}
