package group

import (
	"context"
	"fmt"
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
func (l *partitionSet) partitionOf(key string) int { return l.partitionOfKey([]byte(key)) }

// partitionOfKey is partitionOf for a key as it stands in a record.
func (l *partitionSet) partitionOfKey(key []byte) int {
	return kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: key}, l.partitions...)
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

// run takes part in the group until ctx ends.
func (m *Member) run(ctx context.Context, l *partitionSet) error {
	return l.group.Run(ctx, func(ctx context.Context, as kafka.Assignment) { m.fold(ctx, l, as) })
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
