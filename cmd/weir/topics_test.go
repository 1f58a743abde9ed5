package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/operate"
	"weir/events/kafka"
)

// TestCompareTopics compares what is there with what weir needs, without a cluster.
func TestCompareTopics(t *testing.T) {
	flags := operate.NewTopicFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	events := flags.Needs(limitfile.Default(), 6, 4)[0]
	good := map[string]string{"cleanup.policy": "delete", "retention.ms": "604800000", "message.timestamp.type": "LogAppendTime", "compression.type": "uncompressed", "max.message.bytes": "1048588"}
	f := func(want string, partitions int, setting, value string) {
		t.Helper()
		config := map[string]string{}
		maps.Copy(config, good)
		if setting != "" {
			config[setting] = value
		}
		p := new(operate.TopicPlan)
		p.Compare(events, kafka.TopicInfo{Name: events.Name, Partitions: partitions, Config: config})
		if len(p.Gaps) != 1 || p.Gaps[0].State+" "+p.Gaps[0].Setting != want || strings.HasPrefix(want, operate.TopicDiffers) != (p.Gaps[0].Fix != "") {
			t.Errorf("%s=%s: %+v", setting, value, p.Gaps)
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
	f("ok ", 6, "segment.index.bytes", "10485760") // costs brokers a little, and is no fault

	// If the settings are not visible, they are not reported as wrong.
	p := new(operate.TopicPlan)
	if p.Compare(events, kafka.TopicInfo{Name: events.Name, Partitions: 6}); p.Differs != 0 {
		t.Errorf("%+v", p.Gaps)
	}
	p.Lacks(events, 3)
	if len(p.Missing) != 1 || p.Missing[0].Partitions != 6 || p.Missing[0].Replication != 3 || p.Missing[0].Config["min.insync.replicas"] != "2" ||
		p.Missing[0].Config["segment.index.bytes"] != "" || p.Missing[0].Optional["segment.index.bytes"] != "524288" {
		t.Errorf("%+v", p.Missing)
	}
}
