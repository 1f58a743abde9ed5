package kafka

import (
	"context"
	"time"

	eventkafka "weir/events/kafka"
)

// PublishDeadLetters writes rejected records from a partition of a source, in the form of DeadLetters,
// to a partition with several writers. It tries until ctx ends. After an answer that was lost a letter
// may be stored twice: its source, partition and offset identify it.
// An owner is not needed, since letters bear their position.
func PublishDeadLetters(ctx context.Context, cluster *eventkafka.Cluster, topic string, partition int, source string, sourcePartition int, deadLetters []DeadLetter, now func() time.Time) error {
	l := writer{cluster: cluster, topic: topic, partition: partition, most: batchBytes, cut: cutLetter}
	_, err := l.write(ctx, deadLetterMessages(source, sourcePartition, deadLetters, now()))
	return err
}
