package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"weir/events"
	eventkafka "weir/events/kafka"
	"weir/events/kafka/recordbatch"
)

// How a broker that does not answer is asked again. A broker that was killed is back
// after some 20 s, so it is the caller's context that ends the asking.
const (
	attemptTime = 10 * time.Second // for one answer
	// Pauses double from the first to the long one.
	firstPause = 10 * time.Millisecond
	longPause  = time.Second
)

// batchBytes is the largest batch. The default limit of a topic is 1 MiB.
const batchBytes = 900_000

// writer is the way to one partition.
type writer struct {
	cluster   *eventkafka.Cluster
	topic     string
	partition int
	most      int // bytes of a batch; smaller when the topic wants that
	// cut makes a message smaller that is too large for the topic, and reports whether
	// there was something to cut. Without it that is an error.
	cut     func(m *Message, most int) bool
	trouble atomic.Pointer[trouble]
}

// trouble is why a broker is asked again. since stays that of the first failure until
// something succeeds.
type trouble struct {
	since time.Time
	err   error
}

// Trouble returns since when the broker does not answer as it should, and why. The
// error is nil when nothing is wrong, or nothing is being sent.
// Any goroutine may call it.
func (l *writer) Trouble() (since time.Time, err error) {
	if t := l.trouble.Load(); t != nil {
		return t.since, t.err
	}
	return time.Time{}, nil
}

// retry calls fn until it succeeds, fails for good or ctx ends. Its context has the
// time of one attempt.
func (l *writer) retry(ctx context.Context, fn func(context.Context) error) error {
	// However it ends, nothing is being sent afterwards.
	defer l.trouble.Store(nil)
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		one, cancel := context.WithTimeout(ctx, attemptTime)
		err := fn(one)
		cancel()
		if err == nil || !passing(err) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w, after: %w", context.Cause(ctx), err)
		}
		t := &trouble{time.Now(), err}
		if old := l.trouble.Load(); old != nil {
			t.since = old.since
		}
		l.trouble.Store(t)
		if !wait(ctx, pause) {
			return fmt.Errorf("%w, after: %w", context.Cause(ctx), err)
		}
	}
}

// wait waits for d; false when ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// produce sends a batch once and returns the offset of its first record. It returns -1 if
// the broker reports that it has the batch, but not where.
// It does not distinguish errors of the connection and of the broker; see passing.
func (l *writer) produce(ctx context.Context, b *recordbatch.Encoder) (int64, error) {
	// The library wants the field of the request that holds the batch: its size first.
	size := binary.BigEndian.AppendUint32(nil, uint32(len(b.Bytes)))
	res, err := l.cluster.Client().RawProduce(ctx, &kafkago.RawProduceRequest{
		Topic: l.topic, Partition: l.partition, RequiredAcks: kafkago.RequireAll,
		RawRecords: protocol.RawRecordSet{Reader: &net.Buffers{size, b.Bytes}},
	})
	// A request that failed may still be on its way and read the bytes: the encoder must not
	// write over them.
	b.Lent = b.Lent || err != nil
	if errors.Is(err, protocol.ErrNoTopic) { // or it may not be seen
		if _, why := l.cluster.Partitions(ctx, l.topic); eventkafka.Final(why) {
			return 0, why
		}
	}
	if err != nil {
		return 0, err
	}
	if !res.LogAppendTime.IsZero() && res.Error == nil {
		l.cluster.Heard(events.StampOf(res.LogAppendTime))
	}
	if errors.Is(res.Error, kafkago.DuplicateSequenceNumber) {
		return -1, nil
	}
	return res.BaseOffset, res.Error
}

// shrink is called when the broker has refused a batch as too large, of which message i
// is the first. It makes the next batch smaller, or else the message, on a copy because
// messages are the caller's. It reports whether that can help.
// l.most stays smaller for all batches to come, since the topic's limit does not change by
// itself.
func (l *writer) shrink(b *recordbatch.Encoder, msgs *[]Message, i int) bool {
	half := len(b.Bytes) / 2
	if b.Count > 1 {
		l.most = half
		return true
	}
	if l.cut == nil {
		return false
	}
	*msgs = slices.Clone(*msgs)
	return l.cut(&(*msgs)[i], half)
}

// tooLarge reports whether the broker refuses the size of a batch, which a smaller one may pass.
func tooLarge(err error) bool {
	return errors.Is(err, kafkago.MessageSizeTooLarge) || errors.Is(err, kafkago.RecordListTooLarge)
}

// passing reports whether a retry may help. It may for every error that does not come from
// a broker: a connection that breaks, a leader that is unknown at the moment.
// An error that no retry can fix is reported at once, so that a person sees it.
func passing(err error) bool {
	if errors.Is(err, ErrFenced) || eventkafka.Final(err) {
		return false
	}
	var code kafkago.Error
	if !errors.As(err, &code) {
		return true
	}
	switch code {
	// The library does not count these as temporary, and they are.
	case kafkago.BrokerNotAvailable, kafkago.ReplicaNotAvailable, kafkago.ConcurrentTransactions, kafkago.TransactionCoordinatorFenced, kafkago.Unknown:
		return true
	}
	return code.Temporary()
}

// say adds to an error what was to be done and, for those that a person has to deal
// with, how.
func (l *writer) say(what string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, protocol.ErrNoTopic):
		hint = "; create the topic, or allow this user DESCRIBE on it"
	case errors.Is(err, kafkago.TopicAuthorizationFailed):
		hint = "; allow this user WRITE on the topic"
	case errors.Is(err, kafkago.TransactionalIDAuthorizationFailed):
		hint = "; allow this user WRITE on the transactional ids that begin with weir/"
	case tooLarge(err):
		hint = "; raise max.message.bytes of the topic"
	}
	return fmt.Errorf("%s topic %s partition %d: %w%s", what, l.topic, l.partition, err, hint)
}
