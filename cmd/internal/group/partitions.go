package group

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/cmd/internal/pump"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// partitionSet is the partitions of one topic that the members of a group share, for one stage. The
// flow stage folds the events, the agent stage the activity that the flow stage publishes. The effects
// of a partition are written to its output partition, of the verdicts and of the dead letters. The
// store keeps its state under the same number.
type partitionSet struct {
	stage pump.Stage
	topic string
	// The numbers 0 to n-1: partitionOf wants them as a slice.
	partitions []int
	first      int    // output partition of partition 0
	name       string // of the group
	group      *kafka.Group
	generation int // of the group, that was seen last; guarded by the member
	addresses  ownerAddresses
}

// output is the output partition of a partition: those of the agent stage come behind those of the
// flow stage, so that each has one writer.
func (l *partitionSet) output(partition int) int { return l.first + partition }

// partitionOf is the partition in which all producers put the records of a key. It is the hash of
// Kafka's Java client and of librdkafka's murmur2_random with a key. A producer with another hash
// splits a flow over partitions, and no limit sees all of it.
func (l *partitionSet) partitionOf(key string) int {
	return kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: []byte(key)}, l.partitions...)
}

// describe names a partition for people.
func (l *partitionSet) describe(partition int) string {
	return fmt.Sprintf("partition %d of %s", partition, l.topic)
}

// record is what the pump of a partition is given of a record.
func (l *partitionSet) record(r *kafka.Record) pump.Record {
	if l.stage == pump.AgentStage {
		return ActivityRecord(r)
	}
	return pump.Record{Offset: r.Offset, Appended: r.Time, Value: r.Value, SentKey: r.Key}
}

// ActivityRecord is a record of the topic of activity as a pump of the agent stage takes
// it. One that does not say where it comes from is from no source at all, and a dead
// letter unless it sets limits.
func ActivityRecord(r *kafka.Record) pump.Record {
	out := pump.Record{Offset: r.Offset, Appended: r.Time, Value: r.Value, Key: string(r.Key), From: pump.Position{Source: -1}}
	if at, err := sinkkafka.PositionOf(r.Headers); err == nil {
		out.From = pump.Position{Source: at.Partition, Offset: at.Offset, Part: at.Part}
	}
	return out
}

// agentGroup is what the group of the agent stage is called beside the one of the flows.
const agentGroup = "-agents"

// NameOf returns the name of the consumer group of a stage of the members of a group.
func NameOf(group string, stage pump.Stage) string {
	if stage == pump.AgentStage {
		return group + agentGroup
	}
	return group
}

// newPartitionSet returns the one of a stage. Nothing is joined yet.
func (m *Member) newPartitionSet(stage pump.Stage, topic string, partitions, first int) (*partitionSet, error) {
	l := &partitionSet{stage: stage, topic: topic, first: first, name: NameOf(m.o.Group, stage)}
	for i := range partitions {
		l.partitions = append(l.partitions, i)
	}
	o := kafka.GroupOptions{Cluster: m.o.Cluster, Group: l.name, Topic: topic, Partitions: partitions, Holds: func() []kafka.Hold { return m.holds(l) },
		Address: m.o.Advertise, Logger: m.logger, SessionTimeout: m.o.SessionTimeout, Heartbeat: heartbeat, JoinBackoff: heartbeat}
	// The id of the member is kept in a file, so that after a crash the next Run takes the old
	// member out of the group at once.
	if m.host.StateDir != "" {
		o.MemberFile = filepath.Join(m.host.StateDir, "member")
		if stage == pump.AgentStage {
			o.MemberFile += agentGroup
		}
	}
	var err error
	l.group, err = kafka.NewGroup(o)
	return l, err
}

// run takes part in the group until ctx ends.
func (m *Member) run(ctx context.Context, l *partitionSet) error {
	return l.group.Run(ctx, func(ctx context.Context, as kafka.Assignment) { m.fold(ctx, l, as) })
}

// checkTopics makes the partition sets of both stages, when the topics fit together and the state
// in the store is of the same topics.
// It is called again after brokers were unreachable, and begins from the start then.
func (m *Member) checkTopics(ctx context.Context) error {
	t := m.o.Topics
	counts := make(map[string]int)
	for _, name := range []string{t.Events, t.Activity, t.Verdicts, t.DeadLetters} {
		n, err := m.o.Cluster.Partitions(ctx, name)
		if err != nil {
			return err
		}
		counts[name] = n
	}
	flows, agents := counts[t.Events], counts[t.Activity]
	all := flows + agents
	// Output partitions are 16 bits in the keys of the store.
	if all > 1<<16 {
		return fmt.Errorf("topics %s and %s have %d partitions together; weir numbers at most %d", t.Events, t.Activity, all, 1<<16)
	}
	for _, name := range []string{t.Verdicts, t.DeadLetters} {
		// Each needs a partition of its own there, since one writer per partition is what fencing
		// rests on (decision 22).
		if counts[name] < all {
			return fmt.Errorf("topic %s has %d partitions and needs %d: %d for those of %s and behind them %d for those of %s; add them with kafka-topics.sh --alter --topic %s --partitions %d, see weir topics plan",
				name, counts[name], all, flows, t.Events, agents, t.Activity, name, all)
		}
	}
	// The number of partitions decides where a flow is, so it may never change under a
	// state.
	for _, name := range []string{t.Events, t.Activity} {
		if err := m.samePartitions(name, counts[name]); err != nil {
			return err
		}
	}
	var err error
	if m.flowSet, err = m.newPartitionSet(pump.FlowStage, t.Events, flows, 0); err != nil {
		return err
	}
	m.agentSet, err = m.newPartitionSet(pump.AgentStage, t.Activity, agents, flows)
	return err
}

// samePartitions fails when the state in the store is of a topic with another number of
// partitions, for then keys have moved, and output partitions too.
func (m *Member) samePartitions(topic string, now int) error {
	// Remembered on the first start, as a cursor of the store.
	cursor := "partitions:" + topic
	was, ok, err := m.store.Cursor(cursor)
	if err != nil {
		return err
	}
	if !ok {
		return m.store.SetCursor(cursor, strconv.AppendInt(nil, int64(now), 10))
	}
	if before, err := strconv.Atoi(string(was)); err != nil || before != now {
		return fmt.Errorf("the state in %s: %w", m.host.StateDir, &kafka.PartitionsChangedError{Topic: topic, Was: before, Now: now})
	}
	return nil
}

// holds returns the partitions whose state the store has, for the group. A partition is assigned
// preferably to the member that has its state, so that less is folded again.
func (m *Member) holds(l *partitionSet) (out []kafka.Hold) {
	partitions, err := m.store.Partitions()
	if err != nil {
		m.logger.Warn("the store does not say of which partitions it has the state; others may get them", "topic", l.topic, "error", err)
	}
	for _, output := range partitions {
		// The store numbers the partitions of both stages in one row.
		partition := int(output) - l.first
		if partition < 0 || partition >= len(l.partitions) {
			continue
		}
		// A state that cannot be read is not offered. The owner that opens it logs the reason.
		if meta, ok, err := m.store.Meta(output); err == nil && ok {
			out = append(out, kafka.Hold{Partition: partition, Next: meta.Next})
		}
	}
	return out
}

// limitsEvery is how often the limits are put into the log again while events come, so
// that who begins in the middle of it need not go far back to learn of them.
const limitsEvery = 10 * time.Minute

// agentDay is how far back a partition of the agent stage begins at least. What an agent said
// a day ago still decides whether its silence is judged, and how: by then also those
// have spoken that work in shifts. Of one that speaks more rarely than that, and of
// which the state is lost, nothing is known until it speaks again.
const agentDay = 24 * time.Hour

// Lookback returns how far back a stage has to fold again without a state: every episode
// of a flow that is still open can have begun so long ago, and nothing about an agent
// that was said before decides a verdict.
func Lookback(stage pump.Stage, l *analyzer.Limits) time.Duration {
	back := l.Flow.MaxAge + l.Flow.Idle + activity.Grace
	if stage != pump.AgentStage {
		return back + limitsEvery
	}
	back = agentDay
	a := &l.Agents
	for i := range a.Rules {
		r, row := &a.Rules[i], &agents.Rules[i]
		// A rule that neither warns nor stops needs nothing of the past.
		if r.Mute() {
			continue
		}
		if row.Counts.OfTree() {
			back = max(back, l.Flow.MaxAge+l.Flow.Idle+activity.Grace) // one that is open can have begun so long ago
		}
		if row.Window == "seconds" {
			back = max(back, time.Duration(r.Window)*time.Second)
		}
		if !row.Silence { // or the thresholds are times
			continue
		}
		for _, threshold := range []int64{r.Warn, r.Stop} {
			if threshold != rules.Off {
				// The longest way of the ladder: patience, the threshold, a resume, a review by one and by a
				// second reviewer.
				back = max(back, a.Patience+time.Duration(threshold)*time.Second+a.ResumeWithin+2*a.ReviewWithin)
			}
		}
	}
	return back + limitsEvery
}
