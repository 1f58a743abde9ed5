package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	eventkafka "weir/events/kafka"
	"weir/events/kafka/recordbatch"
)

// ErrFenced says that a Producer may not write any more: another owner has taken the
// partition over, or that cannot be excluded. It is final. The caller discards what it has
// folded ahead of the log, and opens the partition again if it is to own it.
var ErrFenced = errors.New("not the owner of the partition any more")

// DefaultConfirmAfter is well below the day for which a broker remembers a producer
// that is silent (producer.id.expiration.ms).
const DefaultConfirmAfter = 10 * time.Minute

// Producer writes to one partition as its only owner in a group, see Open. Append is for
// one goroutine; Trouble and MarkOffset are for all.
type Producer struct {
	// Compression is for the batches to come. The zero value is none.
	// It may be set between two calls of Append.
	Compression kafkago.Compression
	// ConfirmAfter is how long the last answer of the broker proves that no other owner has
	// taken over. An Append after a longer silence asks the coordinator first, so it
	// takes two round trips. It must be at most an hour and far shorter than
	// producer.id.expiration.ms.
	ConfirmAfter time.Duration

	writer
	// It names group, topic and partition, so the broker knows one owner of each.
	name string // transactional id
	// Offset of the record with which this owner began; all before it was written by others.
	mark int64
	// marking is the record that marks an owner, without the header with its name.
	marking Message
	end     int64 // offset after the last record that was written here
	// The time of the request, not of the answer: between the two another owner may have claimed.
	proved time.Time // when the broker last took this Producer for the owner

	batch recordbatch.Encoder // its identity and sequence are the Producer's
	// A flying batch has to be sent again as it is, under its sequence number, so that it is
	// stored once.
	flying bool  // the batch was sent, and whether it arrived is not known
	broken error // every Append fails with it
	seed   maphash.Seed
	rest   rest
}

// rest is what an Append that failed leaves to the next one.
// It is only looked at when Append is called again.
type rest struct {
	some   bool
	digest uint64 // of its messages
	done   int    // messages that are written; those of a flying batch do not count
	first  int64
}

// Open makes the caller the owner of a partition within a group: when it returns, no
// earlier owner can write there any more, and everything that those have written stands
// before MarkOffset. Two that open at the same time both own it one after the other, and
// the first gets ErrFenced. Owners of other groups are not concerned.
//
// It waits for brokers that are away until ctx ends.
// See decision 22.
func Open(ctx context.Context, cluster *eventkafka.Cluster, group, topic string, partition int) (*Producer, error) {
	return open(ctx, cluster, group, topic, partition, Message{})
}

// OpenDeadLetters is Open for a topic of dead letters: the record by which it takes the partition
// over has a value, so that a consumer meets no record without one.
func OpenDeadLetters(ctx context.Context, cluster *eventkafka.Cluster, group, topic string, partition int) (*Producer, error) {
	return open(ctx, cluster, group, topic, partition, ownerMark)
}

func open(ctx context.Context, cluster *eventkafka.Cluster, group, topic string, partition int, marking Message) (*Producer, error) {
	p := &Producer{
		ConfirmAfter: DefaultConfirmAfter,
		marking:      marking,
		writer:       writer{cluster: cluster, topic: topic, partition: partition, most: batchBytes},
		name:         fmt.Sprintf("weir/%s/%s/%d", group, topic, partition),
		seed:         maphash.MakeSeed(),
	}
	if err := p.takeOver(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// MarkOffset returns the offset of the record with which the partition was taken over.
func (p *Producer) MarkOffset() int64 { return p.mark }

// Append writes messages in their order and returns the offset of the first. They are
// one batch, and one round trip, as long as they are below 900 kB; batches stand one
// behind the other unless other groups write there as well.
//
// It tries until ctx ends. After an error some messages may be written: Append called
// again with the same messages, whose times may differ, writes the others and none
// twice. Called with other ones instead, it sends the batch that was under way before
// them. An error that is ErrFenced is final; it also comes when a batch was under way
// for longer than ConfirmAfter without an answer.
func (p *Producer) Append(ctx context.Context, msgs []Message) (first int64, err error) {
	if p.broken != nil {
		return 0, p.broken
	}
	// given keeps the messages as they came: a message that had to be cut is replaced in msgs
	// alone.
	done, given := 0, msgs
	first = p.end
	if p.rest.some {
		// The same messages again: go on where the last call ended.
		if p.rest.digest == digest(p.seed, msgs) {
			done, first = p.rest.done, p.rest.first
		} else if p.flying {
			if _, err := p.land(ctx); err != nil {
				return 0, p.say("append to", err)
			}
			first = p.end
		}
		p.rest = rest{}
	}
	for {
		// A batch that may have arrived is not made anew.
		if !p.flying {
			if done == len(msgs) {
				return first, nil
			}
			err = p.launch(ctx, msgs[done:])
		}
		var base int64
		if err == nil {
			base, err = p.land(ctx)
		}
		switch {
		case err == nil:
			if done == 0 {
				first = base
			}
			done += p.batch.Count
		// shrink leaves the batch to be made again, by the next turn.
		case tooLarge(err) && p.shrink(&p.batch, &msgs, done):
			err = nil
		default:
			// After ErrFenced there is nothing to go on with.
			if !errors.Is(err, ErrFenced) {
				p.rest = rest{true, digest(p.seed, given), done, first}
			}
			return first, p.say("append to", err)
		}
	}
}

// launch makes the next batch.
// The header with the owner goes into the first record, see shutOut.
func (p *Producer) launch(ctx context.Context, msgs []Message) error {
	if err := p.confirm(ctx); err != nil {
		return err
	}
	p.batch.Codec = p.Compression
	p.batch.Lead = []kafkago.Header{owner(p.name, p.batch.From.ID)}
	return p.batch.Encode(msgs, p.most)
}

// land sends the batch until the broker has it, and returns the offset of its first
// record.
func (p *Producer) land(ctx context.Context) (int64, error) {
	var base int64
	var sent time.Time
	err := p.retry(ctx, func(ctx context.Context) (err error) {
		// It is unknown here whether the batch has arrived, so it can go out neither
		// as it is nor under a new epoch. Open can find out: it reads the log.
		if p.flying && elapsed(p.proved) > p.ConfirmAfter {
			return fmt.Errorf("%w: no answer for more than %v", ErrFenced, p.ConfirmAfter)
		}
		// It counts as sent before the call, because a broken connection does not show whether it was.
		p.flying, sent = true, time.Now()
		base, err = p.produce(ctx, &p.batch)
		return judge(err)
	})
	switch {
	case err == nil:
		// A duplicate is in the log already, where the last batch ended.
		if base < 0 {
			base = p.end
		}
		p.end = base + int64(p.batch.Count)
		p.batch.Sequence = recordbatch.Advance(p.batch.Sequence, p.batch.Count)
		p.flying, p.proved = false, sent
	case tooLarge(err):
		p.flying = false // it is not in the log
	case errors.Is(err, ErrFenced):
		p.broken = p.say("append to", err)
	}
	return base, err
}

// judge makes ErrFenced of the answers that end a Producer. A gap in the sequence means
// that the broker has lost records that it had acknowledged, or never knew them.
// Other errors are passed on as they are, and may pass.
func judge(err error) error {
	for _, code := range [...]kafkago.Error{kafkago.InvalidProducerEpoch, kafkago.ProducerFenced, kafkago.InvalidProducerIDMapping, kafkago.UnknownProducerId, kafkago.OutOfOrderSequenceNumber} {
		if errors.Is(err, code) {
			return fmt.Errorf("%w: %w", ErrFenced, err)
		}
	}
	return err
}

// elapsed is the time that has passed by either clock: the monotonic one does not count
// while the machine is suspended, the other one may be set.
func elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
