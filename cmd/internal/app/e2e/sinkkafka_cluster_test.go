package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	eventkafka "weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// TestSinkLeaderMoves holds that nothing is lost or doubled while the leader of the
// partition and the coordinator move from broker to broker.
func TestSinkLeaderMoves(t *testing.T) {
	t.Parallel()
	b := startFake(t, kfake.NumBrokers(3))
	topic := b.topic(t, 1)
	p := openProducer(t, b, "g", topic, 0)
	var want []string
	for i := range 4 {
		if err := b.Fake.MoveTopicPartition(topic, 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
		b.Fake.RehashCoordinators()
		batch := []string{fmt.Sprint(i), fmt.Sprint(i, " more")}
		mustAppend(t, p, batch...)
		want = append(want, batch...)
	}
	wantValues(t, b.records(t, topic, 0), want...)
}

// permission is a line of the table of what a user of weir has to be allowed.
type permission struct {
	resource  kmsg.ACLResourceType
	name      string
	operation kmsg.ACLOperation
}

// TestSinkPermissions holds what the user has to be allowed for what this package does:
// these, none other, and each of them.
func TestSinkPermissions(t *testing.T) {
	need := []permission{
		{kmsg.ACLResourceTypeTransactionalId, "weir/g/", kmsg.ACLOperationWrite},
		{kmsg.ACLResourceTypeTopic, "verdicts", kmsg.ACLOperationWrite},
		{kmsg.ACLResourceTypeTopic, "verdicts", kmsg.ACLOperationRead},
		{kmsg.ACLResourceTypeTopic, "activity", kmsg.ACLOperationWrite},
	}
	work := func(ctx context.Context, c *eventkafka.Cluster) error {
		for range 2 {
			p, err := sinkkafka.Open(ctx, c, "g", "verdicts", 0)
			if err != nil {
				return err
			}
			v := sinkkafka.NewVerdicts(p, time.Now)
			if _, err := v.Since(ctx, 0, func(string, int64) {}); err != nil {
				return err
			}
			if _, err := v.Emit(ctx, emitted(1)); err != nil {
				return err
			}
		}
		return sinkkafka.NewActivityTopic(c, "activity", 1).Sender().Send(ctx, []sinkkafka.ActivityRecord{{Key: "a"}})
	}
	f := func(without int, want ...error) {
		t.Helper()
		var acls []kfake.ACL
		for i, p := range need {
			if i != without {
				acls = append(acls, kfake.ACL{Resource: p.resource, Name: p.name, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: p.operation, Allow: true})
			}
		}
		b := startFake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "weir", "secret", acls...), kfake.SeedTopics(1, "verdicts", "activity"))
		c := &eventkafka.Cluster{Brokers: []string{b.Addr}, SASL: plain.Mechanism{Username: "weir", Password: "secret"}}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := work(ctx, c)
		if len(want) == 0 {
			if err != nil {
				t.Errorf("with all: %v", err)
			}
			return
		}
		for _, w := range want {
			if errors.Is(err, w) {
				return
			}
		}
		t.Errorf("without line %d: %v, want one of %v", without, err, want)
	}
	f(-1)
	f(0, kafkago.TransactionalIDAuthorizationFailed)
	f(1, kafkago.TopicAuthorizationFailed)
	f(2, eventkafka.ErrDenied)
	f(3, kafkago.TopicAuthorizationFailed)
}
