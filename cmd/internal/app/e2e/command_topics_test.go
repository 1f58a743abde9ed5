package e2e

import (
	"strings"
	"testing"
)

func TestTopicsArePlannedAndCreated(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	expects(t, 3, []string{n.events, "missing", "5 partitions", "retention.ms=604800000", "cleanup.policy=delete", "message.timestamp.type=LogAppendTime",
		"compression.type=uncompressed", "weir topics create"}, n.flags("topics plan", b, "--partitions", "5", "--replication", "1")...)
	out := expects(t, 0, []string{"created " + n.events, "created " + n.deadLetters}, n.flags("topics create", b, "--partitions", "5", "--replication", "1")...)
	if strings.Count(out, "  ok") != 5 || strings.Count(out, " 5 partitions") != 2 || strings.Count(out, "10 partitions") != 2 {
		t.Errorf("not all as they should be:\n%s", out)
	}
	// What is there already is left as it is, and no new number of partitions fits.
	expects(t, 0, nil, n.flags("topics create", b)...)
	expects(t, 0, nil, n.flags("topics plan", b)...)
	out = expects(t, 3, []string{"partitions is 5, want 6"}, n.flags("topics create", b, "--partitions", "6")...)
	if strings.Contains(out, "missing") {
		t.Errorf("something is missing:\n%s", out)
	}
	out = expects(t, 0, nil, n.flags("topics plan", b, "-o", "json")...)
	if strings.Count(out, `"state":"ok"`) != 5 {
		t.Errorf("as JSON:\n%s", out)
	}
	// With a topic of activity of its own size the verdicts of both have room.
	other := newNames(t)
	b.createTopic(t, other.activity, 2)
	expects(t, 3, []string{"7 partitions"}, other.flags("topics create", b, "--partitions", "5", "--replication", "1")...)
	// It has no more than 16 unless somebody says so, and never another number later.
	many := newNames(t)
	expects(t, 3, []string{"20 partitions", "16 partitions", "36 partitions"}, many.flags("topics plan", b, "--partitions", "20")...)
	expects(t, 0, []string{"20 partitions", "18 partitions", "38 partitions"}, many.flags("topics create", b, "--partitions", "20", "--activity-partitions", "18", "--replication", "1")...)
	expects(t, 3, []string{"partitions is 18, want 16", "agents would be in other partitions"}, many.flags("topics plan", b, "--activity-partitions", "16")...)
	expects(t, 0, nil, many.flags("topics plan", b)...)
}

func TestTopicsThatDiffer(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	b.createTopic(t, n.events, 4, "cleanup.policy=compact", "retention.ms=60000", "message.timestamp.type=LogAppendTime", "compression.type=uncompressed")
	b.createTopic(t, n.verdicts, 2, "retention.ms=-1", "message.timestamp.type=LogAppendTime", "compression.type=uncompressed", "max.message.bytes=1000")
	out := expects(t, 3, []string{
		"cleanup.policy is compact, want delete", "retention.ms is 60000, want 604800000", "kafka-configs.sh --alter --topic " + n.events,
		"partitions is 2, want 8", "max.message.bytes is 1000, want 1048588",
	}, n.flags("topics plan", b)...)
	if strings.Contains(out, "retention.ms is -1") {
		t.Errorf("unlimited retention is not enough:\n%s", out)
	}
	// The limits say how long records are needed at least.
	expects(t, 3, []string{"retention.ms=2"}, n.flags("topics plan", b, "--retention", "1h", "--set", "flow.max_age=600h")...)
}
