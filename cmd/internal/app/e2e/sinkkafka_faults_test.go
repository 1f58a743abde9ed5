package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	sinkkafka "weir/sink/kafka"
)

// tappedProducer opens a partition of a new topic through a wire.
func tappedProducer(t testing.TB, b *broker) (*sinkkafka.Producer, *wire, string) {
	t.Helper()
	topic := b.topic(t, 1)
	c := b.cluster(t)
	w := tap(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := sinkkafka.Open(ctx, c, "g", topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p, w, topic
}

// TestSinkFaults holds that nothing is lost and nothing doubled when answers are lost,
// spoilt or errors that pass.
func TestSinkFaults(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	f := func(name string, times int, request func(send func() error) error, answer func(answer []byte) error) {
		t.Helper()
		p, w, topic := tappedProducer(t, b)
		mustAppend(t, p, "before")
		w.onProduce(func(n int, send func() error) error {
			if n < times && request != nil {
				return request(send)
			}
			return send()
		}, func(n int, a []byte) error {
			if n < times && answer != nil {
				return answer(a)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first, err := p.Append(ctx, messages("1", "2", "3"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if first != 2 {
			t.Errorf("%s: the first stands at %d", name, first)
		}
		if since, err := p.Trouble(); err != nil || !since.IsZero() {
			t.Errorf("%s: in trouble when it is over: %v", name, err)
		}
		if w.sent() != times+1 {
			t.Errorf("%s: %d requests", name, w.sent())
		}
		if at := mustAppend(t, p, "after"); at != 5 {
			t.Errorf("%s: what comes after stands at %d", name, at)
		}
		if got := values(b.records(t, topic, 0)); !slices.Equal(got, []string{"before", "1", "2", "3", "after"}) {
			t.Errorf("%s: the topic holds %q", name, got)
		}
	}
	for _, code := range []kafkago.Error{
		kafkago.RequestTimedOut, kafkago.NotLeaderForPartition, kafkago.LeaderNotAvailable, kafkago.UnknownTopicOrPartition, kafkago.NotEnoughReplicas,
		kafkago.NotEnoughReplicasAfterAppend, kafkago.KafkaStorageError, kafkago.NetworkException, kafkago.InvalidMessage, kafkago.Unknown,
	} {
		for times := range 3 {
			f(fmt.Sprintf("%d x after it was written: %v", times+1, code), times+1, nil, func(a []byte) error {
				spoil(a, int16(code))
				return nil
			})
		}
	}
	f("known already, it does not say where", 0, nil, func(a []byte) error {
		spoil(a, int16(kafkago.DuplicateSequenceNumber))
		return nil
	})
	for times := range 3 {
		f("broken before the request", times+1, func(func() error) error { return io.ErrClosedPipe }, nil)
		f("broken before the answer", times+1, nil, func([]byte) error { return io.ErrUnexpectedEOF })
		f("the request twice", times+1, func(send func() error) error {
			if err := send(); err != nil {
				return err
			}
			return errors.Join(send(), io.ErrClosedPipe)
		}, nil)
	}
}

// TestSinkFinalFaults holds that a Producer writes nothing more after an answer that says
// that another one owns the partition, or may.
func TestSinkFinalFaults(t *testing.T) {
	b := startBroker(t)
	f := func(code kafkago.Error) {
		t.Helper()
		p, w, topic := tappedProducer(t, b)
		mustAppend(t, p, "1")
		w.onProduce(nil, func(_ int, a []byte) error {
			spoil(a, int16(code))
			return nil
		})
		if _, err := p.Append(t.Context(), messages("2")); !errors.Is(err, sinkkafka.ErrFenced) || !errors.Is(err, code) {
			t.Errorf("%v: %v", code, err)
		}
		w.onProduce(nil, nil)
		if _, err := p.Append(t.Context(), messages("3")); !errors.Is(err, sinkkafka.ErrFenced) {
			t.Errorf("%v: the next time %v", code, err)
		}
		if w.sent() != 0 {
			t.Errorf("%v: it writes on", code)
		}
		wantValues(t, b.records(t, topic, 0), "1", "2")
	}
	f(kafkago.InvalidProducerEpoch)
	f(kafkago.ProducerFenced)
	f(kafkago.OutOfOrderSequenceNumber)
	f(kafkago.UnknownProducerId)
	f(kafkago.InvalidProducerIDMapping)
}

// TestSinkAgain holds what an Append after one that failed does.
func TestSinkAgain(t *testing.T) {
	b := startBroker(t)
	// Three batches; the answer to the second is lost and the caller gives up.
	big := strings.Repeat("x", 500_000)
	three := messages("1"+big, "2"+big, "3"+big)
	giveUp := func(p *sinkkafka.Producer, w *wire) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		w.onProduce(nil, func(n int, _ []byte) error {
			if n == 1 {
				cancel()
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		if _, err := p.Append(ctx, three); !errors.Is(err, context.Canceled) || errors.Is(err, sinkkafka.ErrFenced) {
			t.Fatalf("given up: %v", err)
		}
		w.onProduce(nil, nil)
	}
	heads := func(topic string) (out []string) {
		for _, v := range values(b.records(t, topic, 0)) {
			out = append(out, v[:1])
		}
		return out
	}
	want := func(topic string, want ...string) {
		t.Helper()
		if got := heads(topic); !slices.Equal(got, want) {
			t.Errorf("the topic holds %q, want %q", got, want)
		}
	}

	// The same messages again, at another time.
	p, w, topic := tappedProducer(t, b)
	giveUp(p, w)
	for i := range three {
		three[i].Time = 1_700_000_000_000
	}
	if first, err := p.Append(t.Context(), three); err != nil || first != 1 {
		t.Errorf("at %d, %v", first, err)
	}
	if w.sent() != 2 {
		t.Errorf("%d requests for what was left", w.sent())
	}
	mustAppend(t, p, "4")
	want(topic, "1", "2", "3", "4")

	// And again after a second failure.
	p, w, topic = tappedProducer(t, b)
	giveUp(p, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Append(ctx, three); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
	if first, err := p.Append(t.Context(), three); err != nil || first != 1 {
		t.Errorf("at %d, %v", first, err)
	}
	want(topic, "1", "2", "3")

	// Other messages: what was under way goes first, what was not is the caller's.
	p, w, topic = tappedProducer(t, b)
	giveUp(p, w)
	if at := mustAppend(t, p, "4"); at != 3 {
		t.Errorf("appended at %d", at)
	}
	want(topic, "1", "2", "4")
}

// TestSinkTooLarge holds that batches become as small as the topic wants them, and that a
// message that is too large alone does not end the Producer.
func TestSinkTooLarge(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1, "max.message.bytes=20000")
	p := openProducer(t, b, "g", topic, 0)
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("%d %s", i, strings.Repeat("x", i*60)))
	}
	if at := mustAppend(t, p, want...); at != 1 {
		t.Errorf("appended at %d", at)
	}
	if _, err := p.Append(t.Context(), messages(strings.Repeat("x", 30_000))); !errors.Is(err, kafkago.MessageSizeTooLarge) || !strings.Contains(err.Error(), "max.message.bytes") {
		t.Errorf("a message that is too large: %v", err)
	}
	if _, err := sinkkafka.AppendTo(t.Context(), b.cluster(t), topic, 0, messages("a"+strings.Repeat("x", 15_000), "b"+strings.Repeat("x", 15_000))); err != nil {
		t.Error(err)
	}
	mustAppend(t, p, "last")
	want = append(want, "a"+strings.Repeat("x", 15_000), "b"+strings.Repeat("x", 15_000), "last")
	wantValues(t, b.records(t, topic, 0), want...)
}

// TestSinkCompressed holds that compressed batches are read by others.
func TestSinkCompressed(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	p := openProducer(t, b, "g", topic, 0)
	var want []string
	for codec := kafkago.Gzip; codec <= kafkago.Zstd; codec++ {
		p.Compression = codec
		batch := []string{codec.String(), strings.Repeat(codec.String(), 1000)}
		mustAppend(t, p, batch...)
		want = append(want, batch...)
	}
	wantValues(t, b.records(t, topic, 0), want...)
}

// TestSinkConfirms holds that an owner that was silent asks whether it still is the
// owner, and learns that it is not also when the broker has forgotten.
func TestSinkConfirms(t *testing.T) {
	b := startBroker(t)
	topic, group := b.topic(t, 1), unique(t)
	first := openProducer(t, b, group, topic, 0)
	first.ConfirmAfter = time.Nanosecond
	mustAppend(t, first, "1")
	mustAppend(t, first, "2", "3")
	owner := openProducer(t, b, group, topic, 0)
	for range 2 {
		if _, err := first.Append(t.Context(), messages("lost")); !errors.Is(err, sinkkafka.ErrFenced) {
			t.Errorf("the first owner is told %v", err)
		}
	}
	if b.Fake != nil { // it hands out an epoch where Kafka refuses
		owner = openProducer(t, b, group, topic, 0)
		mustAppend(t, owner, "4")
		wantValues(t, b.records(t, topic, 0), "1", "2", "3", "4")
		return
	}
	mustAppend(t, owner, "4")
	got := b.records(t, topic, 0)
	wantValues(t, got, "1", "2", "3", "4")
	for i, epoch := range []int16{0, 1, 2, 2, 3, 3} {
		if got[i].ProducerEpoch != epoch {
			t.Errorf("record %d has epoch %d, want %d", i, got[i].ProducerEpoch, epoch)
		}
	}
}
