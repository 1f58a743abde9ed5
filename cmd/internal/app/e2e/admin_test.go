package e2e

import (
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
)

// deleteRecords takes the records before an offset out of a partition, as retention does.
func deleteRecords(t *testing.T, b *broker, topic string, partition int, before int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: int32(partition), At: before, LeaderEpoch: -1})
	done, err := kadm.NewClient(b.franz(t)).DeleteRecords(t.Context(), offsets)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s: %v", topic, err)
	}
}

func deleteTopic(t *testing.T, b *broker, topic string) {
	t.Helper()
	done, err := b.client().DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = done.Errors[topic]
	}
	if err != nil {
		t.Fatalf("delete topic %s: %v", topic, err)
	}
}
