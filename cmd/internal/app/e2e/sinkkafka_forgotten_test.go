package e2e

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	sinkkafka "weir/sink/kafka"
)

// forgetful connects to a broker that forgets producers and transactional ids within a
// minute. Only a real one forgets as Kafka does, and only when it is told to:
//
//	transactional.id.expiration.ms=5000
//	transaction.remove.expired.transaction.cleanup.interval.ms=1000
//	producer.id.expiration.ms=5000
//	producer.id.expiration.check.interval.ms=1000
func forgetful(t *testing.T, b *broker) *kgo.Client {
	t.Helper()
	if b.Fake != nil {
		t.Skip("NOT TESTED: what happens when a broker forgets producers; it needs a real one (KAFKA_ADDR) with short times, see forgetful")
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	req := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType = kmsg.ConfigResourceTypeBroker
	one.ResourceName = "1"
	one.ConfigNames = []string{"transactional.id.expiration.ms", "producer.id.expiration.ms"}
	req.Resources = append(req.Resources, one)
	res, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range res.Resources[0].Configs {
		if ms, err := strconv.Atoi(*config.Value); err != nil || ms > 60_000 {
			t.Skipf("NOT TESTED: what happens when a broker forgets producers; this one has %s=%s, see forgetful", config.Name, *config.Value)
		}
	}
	return c
}

// knows reports whether the coordinator knows a transactional id.
func knows(t *testing.T, c *kgo.Client, id string) bool {
	t.Helper()
	res, err := kmsg.NewPtrListTransactionsRequest().RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(res.TransactionStates, func(s kmsg.ListTransactionsResponseTransactionState) bool { return s.TransactionalID == id })
}

// remembers reports whether the leader of a partition remembers any producer.
func remembers(t *testing.T, c *kgo.Client, topic string) bool {
	t.Helper()
	req := kmsg.NewPtrDescribeProducersRequest()
	one := kmsg.NewDescribeProducersRequestTopic()
	one.Topic, one.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, one)
	res, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return len(res.Topics[0].Partitions[0].ActiveProducers) > 0
}

func TestSinkForgotten(t *testing.T) {
	b := startBroker(t)
	c := forgetful(t, b)
	f := func(name string, play func(topic string, id string)) {
		t.Helper()
		t.Log(name)
		topic := b.topic(t, 1)
		play(topic, "weir/g/"+topic+"/0")
	}
	fenced := func(p *sinkkafka.Producer) {
		t.Helper()
		if _, err := p.Append(t.Context(), messages("lost")); !errors.Is(err, sinkkafka.ErrFenced) {
			t.Errorf("the old owner is told %v", err)
		}
	}

	f("an owner that was silent for long goes on when nobody else came", func(topic, id string) {
		p := openProducer(t, b, "g", topic, 0)
		mustAppend(t, p, "1")
		until(t, "the coordinator to forget", func() bool { return !knows(t, c, id) })
		until(t, "the broker to forget", func() bool { return !remembers(t, c, topic) })
		p.ConfirmAfter = time.Nanosecond
		mustAppend(t, p, "2")
		mustAppend(t, p, "3")
		wantValues(t, b.records(t, topic, 0), "1", "2", "3")
	})
	f("an owner that was frozen for long writes nothing, though all have forgotten that it was replaced", func(topic, id string) {
		old := openProducer(t, b, "g", topic, 0)
		mustAppend(t, old, "1")
		openProducer(t, b, "g", topic, 0)
		until(t, "the coordinator to forget", func() bool { return !knows(t, c, id) })
		until(t, "the broker to forget", func() bool { return !remembers(t, c, topic) })
		old.ConfirmAfter = time.Nanosecond
		fenced(old)
		wantValues(t, b.records(t, topic, 0), "1")
	})
	f("an owner that writes without a break for longer than the coordinator remembers is shut out", func(topic, id string) {
		old := openProducer(t, b, "g", topic, 0)
		until(t, "the coordinator to forget", func() bool {
			mustAppend(t, old, "x")
			return !knows(t, c, id)
		})
		owner := openProducer(t, b, "g", topic, 0)
		fenced(old)
		mustAppend(t, owner, "y")
		got := b.records(t, topic, 0)
		if n := len(got); got[0].ProducerID == got[n-1].ProducerID || got[n-1].ProducerEpoch != 0 {
			t.Errorf("the coordinator has not forgotten: producers %d and %d, epoch %d", got[0].ProducerID, got[n-1].ProducerID, got[n-1].ProducerEpoch)
		}
		if v := values(got); strings.Count(strings.Join(v, ""), "x") != len(v)-1 || v[len(v)-1] != "y" {
			t.Errorf("the topic holds %d values, the last %q", len(v), v[len(v)-1])
		}
	})
}
