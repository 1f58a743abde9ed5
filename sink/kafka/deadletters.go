package kafka

import (
	"context"
	"slices"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
	eventkafka "weir/events/kafka"
)

// The headers of dead letters.
// They are part of the format that other programs read.
const (
	errorHeader     = "weir-error"
	reasonHeader    = "weir-reason"
	topicHeader     = "weir-source-topic"
	partitionHeader = "weir-source-partition"
	offsetHeader    = "weir-source-offset"
	appendedHeader  = "weir-source-time"
	sizeHeader      = "weir-source-size"
)

// DeadLetter is a record that could not be read.
// A letter that was cut keeps the beginning of Key and Raw.
type DeadLetter struct {
	Position     int64        // its offset in the source partition
	Code, Reason string       // for machines, for people
	Appended     events.Stamp // when the source log took it; zero: not known
	Key, Raw     []byte       // the record as it came
}

// DeadLetters keeps what could not be read of one partition of a source topic, in one
// partition of the topic for dead letters. A record is the one that
// could not be read, with headers that say where it came from and why: weir-error,
// weir-reason, weir-source-topic, weir-source-partition, weir-source-offset,
// weir-source-time (milliseconds) and, if it was cut because it was too large,
// weir-source-size (bytes). A letter always has a value; that of a record without one is empty. It is for
// one goroutine.
type DeadLetters struct {
	log       *Producer
	source    string
	partition int // of the source
	now       func() time.Time
}

// NewDeadLetters returns the dead-letter queue of a partition of the source topic, which the
// producer writes.
func NewDeadLetters(log *Producer, source string, partition int, now func() time.Time) *DeadLetters {
	// A letter that is too large is cut and not refused, because it cannot be made smaller
	// later.
	log.cut = cutLetter
	return &DeadLetters{log: log, source: source, partition: partition, now: now}
}

// cutLetter cuts the record that could not be read, and says how large it was.
// It may be called for one message several times: the size stays that of the record as it
// came.
func cutLetter(m *Message, most int) bool {
	size := len(m.Key) + len(m.Value)
	if size == 0 {
		return false
	}
	last := m.Headers[len(m.Headers)-1]
	if last.Key != sizeHeader {
		m.Headers = append(slices.Clone(m.Headers), decimal(sizeHeader, int64(size)))
	}
	// The header with the size takes room, too, so a half is left for it.
	most = min(most, size/2)
	m.Key = m.Key[:min(len(m.Key), most)]
	m.Value = m.Value[:min(len(m.Value), most-len(m.Key))]
	return true
}

// Publish writes letters and returns the offset after the last of them when the brokers
// keep them. A letter that is too large for the topic is cut: it must not be in the way
// of the others. Called again with the same letters after an error it writes none twice.
// It fails as Producer.Append does.
// end is the place at which Since of the next owner begins.
func (d *DeadLetters) Publish(ctx context.Context, deadLetters []DeadLetter) (end int64, err error) {
	_, err = d.log.Append(ctx, deadLetterMessages(d.source, d.partition, deadLetters, d.now()))
	return d.log.end, err
}

// deadLetterMessages are the records of letters of one partition of a source topic.
func deadLetterMessages(source string, partition int, deadLetters []DeadLetter, now time.Time) []Message {
	msgs := make([]Message, len(deadLetters))
	for i := range deadLetters {
		l := &deadLetters[i]
		m := &msgs[i]
		value := l.Raw
		if value == nil { // consumers take a record without a value for a deletion, or fail at it
			value = []byte{}
		}
		*m = Message{Key: l.Key, Value: value, Time: events.StampOf(now), Headers: []kafkago.Header{
			{Key: errorHeader, Value: []byte(l.Code)},
			{Key: reasonHeader, Value: []byte(l.Reason)},
			{Key: topicHeader, Value: []byte(source)},
			decimal(partitionHeader, int64(partition)),
			decimal(offsetHeader, l.Position),
		}}
		// Zero would read as 1970.
		if l.Appended != 0 {
			m.Headers = append(m.Headers, decimal(appendedHeader, int64(l.Appended)))
		}
	}
	return msgs
}

// Since calls fn with the position of each letter of the source topic that earlier
// owners have left from an offset on, and returns the offset after them. It fails as
// Verdicts.Since does.
// Letters of other partitions stand in the same topic and are passed over.
func (d *DeadLetters) Since(ctx context.Context, from int64, fn func(position int64)) (end int64, err error) {
	partition := strconv.Itoa(d.partition)
	return d.log.since(ctx, from, func(r *eventkafka.Record) {
		position, ok := number(r, offsetHeader)
		if ok && header(r, topicHeader) == d.source && header(r, partitionHeader) == partition {
			fn(position)
		}
	})
}
