package kafka

import (
	"context"
	"time"

	eventkafka "weir/events/kafka"
)

// PublishDeadLetters writes dead letters of a partition of a source, as DeadLetters does, to a partition
// that several write to. It tries until ctx ends, and after an answer that was lost a
// letter may stand there twice: its source, partition and offset tell.
// An owner is not needed, since letters bear their position.
func PublishDeadLetters(ctx context.Context, cluster *eventkafka.Cluster, topic string, partition int, source string, sourcePartition int, deadLetters []DeadLetter, now func() time.Time) error {
	l := writer{cluster: cluster, topic: topic, partition: partition, most: batchBytes, cut: cutLetter}
	_, err := l.write(ctx, deadLetterMessages(source, sourcePartition, deadLetters, now()))
	return err
}
