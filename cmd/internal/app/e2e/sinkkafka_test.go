package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/events"
	eventkafka "weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// cluster is a way of its own to the broker, as another process has.
func (b *broker) cluster(t testing.TB) *eventkafka.Cluster {
	c := &eventkafka.Cluster{Brokers: []string{b.Addr}, ClientID: t.Name()}
	t.Cleanup(c.Close)
	return c
}

// records reads everything that stands in a partition, by another client, which checks
// the batches.
func (b *broker) records(t testing.TB, topic string, partition int32) []*kgo.Record {
	t.Helper()
	_, end, err := b.cluster(t).Bounds(t.Context(), topic, int(partition))
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out []*kgo.Record
	for int64(len(out)) < end {
		got := c.PollFetches(ctx)
		if err := got.Err(); err != nil {
			t.Fatalf("read topic %s partition %d: %v, after %d of %d records", topic, partition, err, len(out), end)
		}
		out = append(out, got.Records()...)
	}
	return out
}

// values are those of records that are no marks.
func values(records []*kgo.Record) []string {
	out := []string{}
	for _, r := range records {
		if r.Value != nil {
			out = append(out, string(r.Value))
		}
	}
	return out
}

func messages(values ...string) []sinkkafka.Message {
	out := make([]sinkkafka.Message, len(values))
	for i, v := range values {
		out[i] = sinkkafka.Message{Key: []byte("k"), Value: []byte(v)}
	}
	return out
}

func openProducer(t testing.TB, b *broker, group, topic string, partition int) *sinkkafka.Producer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := sinkkafka.Open(ctx, b.cluster(t), group, topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustAppend(t testing.TB, p *sinkkafka.Producer, values ...string) int64 {
	t.Helper()
	first, err := p.Append(t.Context(), messages(values...))
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func wantValues(t testing.TB, got []*kgo.Record, want ...string) {
	t.Helper()
	if got := values(got); !slices.Equal(got, want) {
		t.Errorf("the topic holds %q, want %q", got, want)
	}
}

// TestSinkTakeOver holds that an owner that was replaced writes nothing any more, and
// that its replacement is not disturbed.
func TestSinkTakeOver(t *testing.T) {
	b := startBroker(t)
	topic, group := b.topic(t, 2), unique(t)
	first := openProducer(t, b, group, topic, 1)
	if first.MarkOffset() != 0 {
		t.Errorf("the first mark is at %d", first.MarkOffset())
	}
	if at := mustAppend(t, first, "1", "2"); at != 1 {
		t.Errorf("appended at %d", at)
	}
	mustAppend(t, first, "3")
	second := openProducer(t, b, group, topic, 1)
	for range 2 { // for good
		if _, err := first.Append(t.Context(), messages("lost")); !errors.Is(err, sinkkafka.ErrFenced) {
			t.Fatalf("the first owner is told %v", err)
		}
	}
	mustAppend(t, second, "4")
	third := openProducer(t, b, group, topic, 1)
	if at := mustAppend(t, third, "5"); at != 7 {
		t.Errorf("appended at %d", at)
	}
	if _, err := second.Append(t.Context(), messages("lost")); !errors.Is(err, sinkkafka.ErrFenced) {
		t.Fatalf("the second owner is told %v", err)
	}
	// Owners of other partitions and other groups have nothing to do with it.
	mustAppend(t, openProducer(t, b, group, topic, 0), "elsewhere")
	other := openProducer(t, b, group+"-2", topic, 1)
	mustAppend(t, other, "6")
	mustAppend(t, third, "7")
	mustAppend(t, other, "8")

	got := b.records(t, topic, 1)
	wantValues(t, got, "1", "2", "3", "4", "5", "6", "7", "8")
	name := fmt.Sprintf("weir/%s/%s/1 ", group, topic)
	producers := make(map[int64]bool)
	for _, r := range got[:8] {
		producers[r.ProducerID] = true
		if r.Attrs.IsTransactional() {
			t.Errorf("record %d is in a transaction", r.Offset)
		}
	}
	if len(producers) != 1 {
		t.Errorf("owners of one partition have the producer ids %v", producers)
	}
	for i, epoch := range []int16{0, 0, 0, 0, 1, 1, 2, 2} {
		if got[i].ProducerEpoch != epoch {
			t.Errorf("record %d has epoch %d, want %d", i, got[i].ProducerEpoch, epoch)
		}
	}
	mark := got[third.MarkOffset()]
	if mark.Key != nil || mark.Value != nil || len(mark.Headers) != 1 || mark.Headers[0].Key != "weir-owner" ||
		string(mark.Headers[0].Value) != name+fmt.Sprint(mark.ProducerID) {
		t.Errorf("the mark is %v %q %q", mark.Headers, mark.Key, mark.Value)
	}
}

// TestSinkShutsOutByTheTimesOfTheRecords holds that an earlier owner under another producer id
// is found by whoever takes over, though his clock is hours ahead of the one that the records
// have their times from.
func TestSinkShutsOutByTheTimesOfTheRecords(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	const earlier = 123_456
	_, err := sinkkafka.AppendTo(t.Context(), b.cluster(t), topic, 0, []sinkkafka.Message{{Key: []byte("k"), Value: []byte("x"), Time: events.StampOf(time.Now().Add(-3 * time.Hour)),
		Headers: []kafkago.Header{{Key: "weir-owner", Value: fmt.Appendf(nil, "weir/g/%s/0 %d", topic, earlier)}}}})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, openProducer(t, b, "g", topic, 0), "y")
	got := b.records(t, topic, 0)
	if !slices.ContainsFunc(got, func(r *kgo.Record) bool { return r.ProducerID == earlier && r.ProducerEpoch == math.MaxInt16 }) {
		t.Errorf("of %d records none shuts producer %d out", len(got), earlier)
	}
}

// until waits for a condition that something else brings about.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // clean-up waits as well
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waited a minute for: %s", what)
		}
	}
}

// TestSinkTakeOverInFlight holds that a batch is refused that was on its way when the
// partition was taken over.
func TestSinkTakeOverInFlight(t *testing.T) {
	b := startBroker(t)
	topic, group := b.topic(t, 1), unique(t)
	c := b.cluster(t)
	w := tap(c)
	old, err := sinkkafka.Open(t.Context(), c, group, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, old, "1")
	var mu sync.Mutex
	var held []func() error
	w.onProduce(func(_ int, send func() error) error {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, send)
		return nil
	}, nil)
	failed := make(chan error, 1)
	go func() {
		_, err := old.Append(t.Context(), messages("in flight", strings.Repeat("x", 1000)))
		failed <- err
	}()
	until(t, "a batch on its way", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(held) > 0
	})
	owner := openProducer(t, b, group, topic, 0)
	w.onProduce(nil, nil)
	if err := held[0](); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, sinkkafka.ErrFenced) {
		t.Errorf("the old owner is told %v", err)
	}
	mustAppend(t, owner, "2")
	wantValues(t, b.records(t, topic, 0), "1", "2")
}

// TestSinkTakeOverAtWork lets owners replace each other while they write as fast as they
// can. Whoever is the owner according to the marks, and only that one, has written.
func TestSinkTakeOverAtWork(t *testing.T) {
	b := startBroker(t)
	topic, group := b.topic(t, 1), unique(t)
	const owners = 20
	acknowledged := make([]int, owners)
	started := make([]chan struct{}, owners)
	for i := range started {
		started[i] = make(chan struct{})
	}
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			if i > 0 {
				<-started[i-1]
			}
			p, err := sinkkafka.Open(t.Context(), b.cluster(t), group, topic, 0)
			if err != nil {
				if !errors.Is(err, sinkkafka.ErrFenced) {
					t.Error(err)
				}
				close(started[i])
				return
			}
			for n := 0; ; n++ {
				_, err := p.Append(t.Context(), messages(fmt.Sprintf("%d %d", i, n)))
				if n == 10 {
					close(started[i])
				}
				if n == 60 && i == owners-1 {
					acknowledged[i] = n + 1
					return
				}
				if err != nil {
					if !errors.Is(err, sinkkafka.ErrFenced) {
						t.Error(err)
					}
					acknowledged[i] = n
					if n <= 10 {
						close(started[i])
					}
					return
				}
			}
		})
	}
	wg.Wait()
	i, n := -1, 0
	var epoch int16
	for _, r := range b.records(t, topic, 0) {
		if r.Value == nil {
			if i >= 0 && n != acknowledged[i] {
				t.Errorf("owner %d has written %d records and was told of %d", i, n, acknowledged[i])
			}
			i, n, epoch = i+1, 0, r.ProducerEpoch
			continue
		}
		if want := fmt.Sprintf("%d %d", i, n); string(r.Value) != want || r.ProducerEpoch != epoch {
			t.Fatalf("record %d is %q of epoch %d, want %q of epoch %d", r.Offset, r.Value, r.ProducerEpoch, want, epoch)
		}
		n++
	}
	if i != owners-1 || n != acknowledged[i] {
		t.Errorf("%d owners, the last with %d records of %d", i+1, n, acknowledged[i])
	}
}
