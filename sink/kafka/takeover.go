package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	eventkafka "weir/events/kafka"
	"weir/events/kafka/recordbatch"
)

// ownerHeader stands in the first record of each batch: the transactional id and the
// producer id of who wrote it.
const ownerHeader = "weir-owner"

// owner is the header with which a batch names its owner. The transactional id has no space in
// it as far as the last one, at which it is cut again.
func owner(name string, producer int64) kafkago.Header {
	return kafkago.Header{Key: ownerHeader, Value: strconv.AppendInt(append([]byte(name), ' '), producer, 10)}
}

// MarkHeader stands in a record of a topic of dead letters that is no letter, but marks a change of owner.
const MarkHeader = "weir-mark"

// ownerMark is such a record. Its value is JSON that names it as the header does.
var ownerMark = Message{Value: []byte(`{"weir_mark":"owner"}`), Headers: []kafkago.Header{{Key: MarkHeader, Value: []byte("owner")}}}

// takeOver gives the Producer an identity that shuts out earlier owners, and writes the
// mark that makes it known.
// The mark is what makes the broker know the new epoch: until then it compares with the old
// one.
func (p *Producer) takeOver(ctx context.Context) error {
	id, err := p.claim(ctx, recordbatch.NoProducer)
	if err != nil {
		return p.say("take over", err)
	}
	p.batch.From = id
	// With epoch 0 the producer id is a new one, and an earlier owner under the old id
	// is not shut out by it: the coordinator forgets a transactional id that was not
	// claimed for a week, and takes a new producer id when the epochs are used up.
	if id.Epoch == 0 {
		if err := p.shutOut(ctx); err != nil {
			return p.say("shut out earlier owners of", err)
		}
	}
	p.mark, err = p.Append(ctx, []Message{p.marking})
	return err
}

// claim gets the next epoch. An owner that has one passes it, and claim fails with ErrFenced
// if another owner has claimed since.
// With recordbatch.NoProducer it claims regardless of earlier owners.
func (p *Producer) claim(ctx context.Context, have recordbatch.Producer) (id recordbatch.Producer, err error) {
	err = p.retry(ctx, func(ctx context.Context) error {
		sent := time.Now()
		res, err := p.cluster.Client().InitProducerID(ctx, &kafkago.InitProducerIDRequest{
			TransactionalID: p.name, TransactionTimeoutMs: 10_000, // of a transaction that never is
			ProducerID: int(have.ID), ProducerEpoch: int(have.Epoch),
		})
		if err == nil {
			err = res.Error
		}
		if err != nil {
			return judge(err)
		}
		// An answer proves that at the time of the request no other owner had claimed later.
		p.proved = sent
		id = recordbatch.Producer{ID: int64(res.Producer.ProducerID), Epoch: int16(res.Producer.ProducerEpoch)}
		return nil
	})
	return id, err
}

// confirm makes sure, after a silence, that no other owner has taken over: brokers forget
// the epochs of producers that do not write for a day, so an owner that comes back from
// a long freeze would not be refused.
func (p *Producer) confirm(ctx context.Context) error {
	if elapsed(p.proved) <= p.ConfirmAfter {
		return nil
	}
	have := p.batch.From
	id, err := p.claim(ctx, have)
	switch {
	case err != nil:
	case id.ID != have.ID:
		err = p.alone(ctx)
	case id.Epoch != have.Epoch+1: // not every broker compares what it is given
		err = fmt.Errorf("%w: somebody has claimed epoch %d", ErrFenced, id.Epoch-1)
	}
	if errors.Is(err, ErrFenced) {
		p.broken = p.say("append to", err)
	}
	if err != nil {
		return err
	}
	// A new epoch counts its batches from 0.
	p.batch.From, p.batch.Sequence = id, 0
	return nil
}

// alone fails with ErrFenced when something was written behind the last own record: the
// coordinator has forgotten who was the owner, but one that came after has left a mark.
func (p *Producer) alone(ctx context.Context) error {
	return p.retry(ctx, func(ctx context.Context) error {
		_, end, err := p.cluster.Bounds(ctx, p.topic, p.partition)
		if err == nil && end != p.end {
			err = fmt.Errorf("%w: the coordinator does not know it, and others have written", ErrFenced)
		}
		return err
	})
}

// lookBack is how far back an earlier owner is looked for that may still write. Longer
// than ConfirmAfter, for clocks may differ.
// By the times of records.
const lookBack = 2 * time.Hour

// shutOut makes the broker refuse what earlier owners under other producer ids send: it
// writes a mark in their place, with the last of all epochs. An owner that was silent
// for so long that it is not found has to confirm first, and fails at that.
func (p *Producer) shutOut(ctx context.Context) error {
	// An offset of two hours back is found by the broker.
	var from, end int64
	err := p.retry(ctx, func(ctx context.Context) (err error) {
		from, end, err = p.cluster.OffsetBack(ctx, p.topic, p.partition, lookBack)
		return err
	})
	if err != nil {
		return err
	}
	others := make(map[int64]bool)
	err = p.read(ctx, from, end, func(r *eventkafka.Record) {
		// The name is compared, since owners of other groups write to the same topic and keep
		// their right to.
		name, producer, _ := strings.Cut(header(r, ownerHeader), " ")
		if id, err := strconv.ParseInt(producer, 10, 64); err == nil && name == p.name && id != p.batch.From.ID {
			others[id] = true
		}
	})
	if err != nil {
		return err
	}
	// No epoch can be later than the last, so the broker refuses that id for ever.
	for id := range others {
		b := recordbatch.Encoder{From: recordbatch.Producer{ID: id, Epoch: math.MaxInt16}, Lead: []kafkago.Header{owner(p.name, p.batch.From.ID)}}
		if err := b.Encode([]Message{p.marking}, p.most); err != nil {
			return err
		}
		err := p.retry(ctx, func(ctx context.Context) error {
			_, err := p.produce(ctx, &b)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read calls fn with the records from an offset on to before another one. What has
// expired or cannot be read is left out.
// It waits for brokers that are away, as retry does, until ctx ends.
func (p *Producer) read(ctx context.Context, from, end int64, fn func(*eventkafka.Record)) (err error) {
	r := eventkafka.NewReader(p.cluster, p.topic, p.partition, from, eventkafka.ReaderOptions{})
	defer func() { err = errors.Join(err, r.Close()) }()
	var records []eventkafka.Record
	for r.Next() < end {
		records, err = r.Fetch(ctx, records)
		if next, ok := eventkafka.Behind(err); ok {
			r.SkipTo(next)
			continue
		}
		_, why := r.Trouble()
		switch {
		case err != nil && why != nil:
			return fmt.Errorf("%w, after: %w", err, why)
		case err != nil:
			return err
		case eventkafka.Final(why):
			return why
		}
		for i := range records {
			if records[i].Offset < end {
				fn(&records[i])
			}
		}
	}
	return nil
}

// since calls fn with the records that stand before the mark, from an offset on, and
// returns the offset after the mark.
// A position behind the mark is of a topic that was made anew.
func (p *Producer) since(ctx context.Context, from int64, fn func(*eventkafka.Record)) (int64, error) {
	if from > p.mark {
		return from, &eventkafka.BeyondEndError{Topic: p.topic, Partition: p.partition, Next: from, End: p.mark}
	}
	if err := p.read(ctx, from, p.mark, fn); err != nil {
		return from, fmt.Errorf("read topic %s partition %d: %w", p.topic, p.partition, err)
	}
	return p.mark + 1, nil
}

// header returns the value of a header, or nothing.
func header(r *eventkafka.Record, key string) string {
	for i := range r.Headers {
		if r.Headers[i].Key == key {
			return string(r.Headers[i].Value)
		}
	}
	return ""
}

// number returns the value of a header that is a decimal number.
// false for a header that is missing.
func number(r *eventkafka.Record, key string) (int64, bool) {
	n, err := strconv.ParseInt(header(r, key), 10, 64)
	return n, err == nil
}

// decimal is a header whose value is a number, as text that people can read.
func decimal(key string, n int64) kafkago.Header {
	return kafkago.Header{Key: key, Value: strconv.AppendInt(nil, n, 10)}
}
