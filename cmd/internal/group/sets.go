package group

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"

	"weir/cmd/internal/pump"
	"weir/events/kafka"
	"weir/state"
)

// topicSets are the partitions of both stages. They are there once check has found that the topics fit,
// and stay as they are.
type topicSets struct {
	o      *Options
	host   *Host
	logger *slog.Logger
	store  *state.Store

	flows, agents *partitionSet // nil until then
}

// outputs is how many partitions the sets of both stages have together.
func (s *topicSets) outputs() int { return len(s.flows.partitions) + len(s.agents.partitions) }

func (s *topicSets) of(stage pump.Stage) *partitionSet {
	if stage == pump.AgentStage {
		return s.agents
	}
	return s.flows
}

// check makes the partition sets of both stages, when the topics fit together and the state
// in the store is of the same topics.
// It is called again after brokers were unreachable, and begins from the start then.
func (s *topicSets) check(ctx context.Context) error {
	t := s.o.Topics
	counts := make(map[string]int)
	for _, name := range []string{t.Events, t.Activity, t.Verdicts, t.DeadLetters} {
		n, err := s.o.Cluster.Partitions(ctx, name)
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
		if err := s.samePartitions(name, counts[name]); err != nil {
			return err
		}
	}
	var err error
	if s.flows, err = s.newPartitionSet(pump.FlowStage, t.Events, flows, 0); err != nil {
		return err
	}
	s.agents, err = s.newPartitionSet(pump.AgentStage, t.Activity, agents, flows)
	return err
}

// newPartitionSet returns the one of a stage. Nothing is joined yet.
func (s *topicSets) newPartitionSet(stage pump.Stage, topic string, partitions, first int) (*partitionSet, error) {
	l := &partitionSet{stage: stage, topic: topic, first: first, name: NameOf(s.o.Group, stage)}
	for i := range partitions {
		l.partitions = append(l.partitions, i)
	}
	o := kafka.GroupOptions{Cluster: s.o.Cluster, Group: l.name, Topic: topic, Partitions: partitions, Holds: func() []kafka.Hold { return s.holds(l) },
		Address: s.o.Advertise, Logger: s.logger, SessionTimeout: s.o.SessionTimeout, Heartbeat: heartbeat, JoinBackoff: heartbeat}
	// The id of the member is kept in a file, so that after a crash the next Run takes the old
	// member out of the group at once.
	if s.host.StateDir != "" {
		o.MemberFile = filepath.Join(s.host.StateDir, "member")
		if stage == pump.AgentStage {
			o.MemberFile += agentGroup
		}
	}
	var err error
	l.group, err = kafka.NewGroup(o)
	return l, err
}

// samePartitions fails when the state in the store is of a topic with another number of
// partitions, for then keys have moved, and output partitions too.
func (s *topicSets) samePartitions(topic string, now int) error {
	// Remembered on the first start, as a cursor of the store.
	cursor := "partitions:" + topic
	was, ok, err := s.store.Cursor(cursor)
	if err != nil {
		return err
	}
	if !ok {
		return s.store.SetCursor(cursor, strconv.AppendInt(nil, int64(now), 10))
	}
	if before, err := strconv.Atoi(string(was)); err != nil || before != now {
		return fmt.Errorf("the state in %s: %w", s.host.StateDir, &kafka.PartitionsChangedError{Topic: topic, Was: before, Now: now})
	}
	return nil
}

// holds returns the partitions whose state the store has, for the group. A partition is assigned
// preferably to the member that has its state, so that less is folded again.
func (s *topicSets) holds(l *partitionSet) (out []kafka.Hold) {
	partitions, err := s.store.Partitions()
	if err != nil {
		s.logger.Warn("the store does not say of which partitions it has the state; others may get them", "topic", l.topic, "error", err)
	}
	for _, output := range partitions {
		// The store numbers the partitions of both stages in one row.
		partition := int(output) - l.first
		if partition < 0 || partition >= len(l.partitions) {
			continue
		}
		// A state that cannot be read is not offered. The owner that opens it logs the reason.
		if meta, ok, err := s.store.Meta(output); err == nil && ok {
			out = append(out, kafka.Hold{Partition: partition, Next: meta.Next})
		}
	}
	return out
}
