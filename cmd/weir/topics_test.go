package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"weir/analyzer/limitfile"
	"weir/events/kafka"
)

// TestCompareTopics compares what is there with what weir needs, without a cluster.
func TestCompareTopics(t *testing.T) {
	flags := newTopicFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	events := flags.needs(limitfile.Default(), 6, 4)[0]
	good := map[string]string{"cleanup.policy": "delete", "retention.ms": "604800000", "message.timestamp.type": "LogAppendTime", "compression.type": "uncompressed", "max.message.bytes": "1048588"}
	f := func(want string, partitions int, setting, value string) {
		t.Helper()
		config := map[string]string{}
		for k, v := range good {
			config[k] = v
		}
		if setting != "" {
			config[setting] = value
		}
		p := new(topicPlan)
		p.compare(events, kafka.TopicInfo{Name: events.name, Partitions: partitions, Config: config})
		if len(p.gaps) != 1 || p.gaps[0].State+" "+p.gaps[0].Setting != want || strings.HasPrefix(want, topicDiffers) != (p.gaps[0].Fix != "") {
			t.Errorf("%s=%s: %+v", setting, value, p.gaps)
		}
	}
	f("ok ", 6, "", "")
	f("ok ", 7, "", "")
	f("differs partitions", 5, "", "")
	f("ok ", 6, "retention.ms", "-1")
	f("ok ", 6, "retention.ms", "8705000") // two hours, 25 minutes and five seconds
	f("differs retention.ms", 6, "retention.ms", "8704999")
	f("ok ", 6, "max.message.bytes", "10000000")
	f("differs max.message.bytes", 6, "max.message.bytes", "1000000")
	f("differs cleanup.policy", 6, "cleanup.policy", "compact,delete")
	f("differs message.timestamp.type", 6, "message.timestamp.type", "CreateTime")
	f("differs compression.type", 6, "compression.type", "producer")

	// Who may not see the settings is not told that they are wrong.
	p := new(topicPlan)
	if p.compare(events, kafka.TopicInfo{Name: events.name, Partitions: 6}); p.differs != 0 {
		t.Errorf("%+v", p.gaps)
	}
	p.lacks(events, 3)
	if len(p.missing) != 1 || p.missing[0].Partitions != 6 || p.missing[0].Replication != 3 || p.missing[0].Config["min.insync.replicas"] != "2" {
		t.Errorf("%+v", p.missing)
	}
}
