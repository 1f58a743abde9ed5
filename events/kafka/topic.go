package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// TopicInfo describes a topic as the cluster reports it.
//
// The start of weir and the doctor of a running weir read it.
type TopicInfo struct {
	Name        string
	Partitions  int
	Replication int               // replicas of the partition that has the fewest
	Config      map[string]string // every setting in force, by its Kafka name; nil when this program may not see them
}

// Topic describes a topic. It never creates one. The error is ErrNoTopic when no topic has
// the name.
//
// With an error about the settings the rest is returned.
func (c *Cluster) Topic(ctx context.Context, name string) (TopicInfo, error) {
	m, err := c.describe(ctx, name)
	if err != nil {
		return TopicInfo{}, err
	}
	t := TopicInfo{Name: name, Partitions: len(m.Partitions)}
	// Replication is what a topic can lose, and that is decided by its worst partition.
	for i, p := range m.Partitions {
		if n := len(p.ReplicaNodes); i == 0 || n < t.Replication {
			t.Replication = n
		}
	}
	answer, err := c.Client().DescribeConfigs(ctx, &kafkago.DescribeConfigsRequest{
		Resources: []kafkago.DescribeConfigRequestResource{{ResourceType: kafkago.ResourceTypeTopic, ResourceName: name}},
	})
	if err != nil {
		return t, c.because(ctx, "settings of topic "+name, err)
	}
	for _, r := range answer.Resources {
		// A principal without the right to see settings may still use the topic: Config stays nil.
		if errors.Is(r.Error, kafkago.TopicAuthorizationFailed) {
			continue
		}
		if r.Error != nil {
			return t, fmt.Errorf("settings of topic %s: %w", name, r.Error)
		}
		t.Config = make(map[string]string, len(r.ConfigEntries))
		for _, e := range r.ConfigEntries {
			t.Config[e.ConfigName] = e.ConfigValue
		}
	}
	return t, nil
}

// Partitions returns how many partitions a topic has. It asks for less than Topic.
//
// It never creates the topic either.
func (c *Cluster) Partitions(ctx context.Context, name string) (int, error) {
	m, err := c.describe(ctx, name)
	return len(m.Partitions), err
}

// describe asks whichever broker answers; any of them knows all topics.
func (c *Cluster) describe(ctx context.Context, name string) (t metadata.ResponseTopic, err error) {
	err = c.askAny(ctx, func(l *link) error {
		m, err := l.describe(ctx, name)
		if err != nil {
			return err
		}
		t = m.Topics[0]
		c.idle.put(l)
		return nil
	})
	return t, err
}

// NewTopic is a topic to be created.
type NewTopic struct {
	Name        string
	Partitions  int
	Replication int // 0: the default of the brokers
	Config      map[string]string
	Optional    map[string]string // as Config, and left out where the brokers refuse it
}

// CreateTopics creates those of the topics that do not exist, leaves the others as
// they are, and returns the names that it created once the cluster knows them. On an
// error some may have been created, too: they are returned.
//
// That one exists is no error, so it may be called by several members at once, and again after
// half of it failed.
func (c *Cluster) CreateTopics(ctx context.Context, topics ...NewTopic) (created []string, err error) {
	// The library's own error would say no more than that it took too long.
	if err := c.Check(ctx); err != nil {
		return nil, err
	}
	answers, err := c.createTopics(ctx, topics)
	if err != nil {
		return nil, err
	}
	// Services that run Kafka for others let their users set less than Kafka does.
	var refused []NewTopic
	for _, t := range topics {
		if err := answers[t.Name]; len(t.Optional) > 0 && (errors.Is(err, kafkago.InvalidConfiguration) || errors.Is(err, kafkago.PolicyViolation)) {
			t.Optional = nil
			refused = append(refused, t)
		}
	}
	if len(refused) > 0 {
		again, err := c.createTopics(ctx, refused)
		if err != nil {
			return nil, err
		}
		maps.Copy(answers, again)
	}
	var problems []error
	for _, t := range topics {
		switch err := answers[t.Name]; {
		case err == nil:
			created = append(created, t.Name)
		case errors.Is(err, kafkago.TopicAlreadyExists):
		case errors.Is(err, kafkago.TopicAuthorizationFailed), errors.Is(err, kafkago.ClusterAuthorizationFailed):
			problems = append(problems, fmt.Errorf("create topic %s: %w: this user needs the permission to create topics, or a person who has it creates them: %w", t.Name, ErrDenied, err))
		default:
			problems = append(problems, fmt.Errorf("create topic %s: %w", t.Name, err))
		}
	}
	// Otherwise a Produce right after it would meet a broker that knows no such topic.
	for _, name := range created {
		if err := c.await(ctx, name); err != nil {
			problems = append(problems, err)
		}
	}
	return created, errors.Join(problems...)
}

// createTopics asks for topics once, and returns what was answered for each.
func (c *Cluster) createTopics(ctx context.Context, topics []NewTopic) (map[string]error, error) {
	req := &kafkago.CreateTopicsRequest{}
	for _, t := range topics {
		entry := kafkago.TopicConfig{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replication}
		// -1 stands for the brokers' default, which the library does not fill in for 0.
		if t.Replication == 0 {
			entry.ReplicationFactor = -1
		}
		for _, config := range []map[string]string{t.Config, t.Optional} {
			// Sorted, so that equal calls send equal requests.
			for _, key := range slices.Sorted(maps.Keys(config)) {
				entry.ConfigEntries = append(entry.ConfigEntries, kafkago.ConfigEntry{ConfigName: key, ConfigValue: config[key]})
			}
		}
		req.Topics = append(req.Topics, entry)
	}
	answer, err := c.Client().CreateTopics(ctx, req)
	if err != nil {
		return nil, c.because(ctx, "create topics", err)
	}
	return answer.Errors, nil
}

// await waits until a topic that was created is known and has leaders: a broker
// answers before the others know.
//
// It waits as long as ctx does, but not for what no time heals.
func (c *Cluster) await(ctx context.Context, name string) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		m, err := c.describe(ctx, name)
		if err == nil && !slices.ContainsFunc(m.Partitions, func(p metadata.ResponsePartition) bool { return p.LeaderID < 0 }) {
			return nil
		}
		if Final(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s was created, but does not appear: %w", name, ctx.Err())
		case <-again.C:
		}
	}
}
