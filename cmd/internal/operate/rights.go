package operate

import (
	"errors"
	"strings"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/group"
	"weir/events/kafka"
)

// Right is what a command may do with something of the brokers.
//
// Names that end in a star are prefixes. Operations are those of Kafka's ACLs.
type Right struct {
	Command    string   `json:"command"`  // of weir, or guard
	Resource   string   `json:"resource"` // topic, group, transactional-id or cluster
	Name       string   `json:"name"`
	Operations []string `json:"operations"`
	Why        string   `json:"why"`
}

// RightsOf returns the least rights that weir needs at the brokers for topics and a group.
func RightsOf(t group.Topics, g string) []Right {
	all := []string{"READ", "WRITE", "DESCRIBE"}
	return []Right{
		{"run", "topic", t.Events, all, "reads events, and writes those that come by HTTP"},
		{"run", "topic", t.Activity, all, "passes on what concerns agents"},
		{"run", "topic", t.Verdicts, all, "writes verdicts, and reads them after a restart"},
		{"run", "topic", t.Orders, all, "writes and reads orders for all flows"},
		{"run", "topic", t.DeadLetters, all, "keeps rejected records, and shows them"},
		{"run", "group", g, []string{"READ", "DESCRIBE"}, "shares the partitions of events"},
		{"run", "group", g + "-agents", []string{"READ", "DESCRIBE"}, "shares the partitions of activity"},
		{"run", "transactional-id", "weir/*", []string{"WRITE", "DESCRIBE"}, "keeps an old owner of a partition from writing; no transaction is made"},
		{"ingest", "topic", "the raw topic", []string{"READ", "DESCRIBE"}, "with --from-topic"},
		{"ingest", "group", g + "-ingest", []string{"READ", "DESCRIBE"}, "with --from-topic"},
		{"ingest", "topic", t.Events, []string{"WRITE", "DESCRIBE"}, "writes events"},
		{"ingest", "topic", t.DeadLetters, []string{"WRITE", "DESCRIBE"}, "keeps rejected records"},
		{"replay, backtest", "topic", t.Events, []string{"READ", "DESCRIBE"}, "with --brokers"},
		{"guard", "topic", t.Verdicts, []string{"READ", "DESCRIBE"}, "follows orders, without a group"},
		{"doctor, topics plan", "topic", "each of these", []string{"DESCRIBE", "DESCRIBE_CONFIGS"}, "compares settings"},
		{"topics create", "cluster", "kafka-cluster", []string{"CREATE"}, "once; a person may create the topics of weir topics plan instead"},
		{"topics create", "topic", "each of these", []string{"ALTER", "ALTER_CONFIGS"}, "once, to add partitions and set settings"},
	}
}

// rights prints the table of rights.
func (d *doctor) rights() error {
	lines := cli.NewLines(d.env, func(r *Right) []cli.Cell {
		return cli.Text(r.Command, r.Resource, r.Name, strings.Join(r.Operations, " "), r.Why)
	}, "COMMAND", "RESOURCE", "NAME", "OPERATIONS", "WHY")
	for _, r := range RightsOf(d.run.brokers.Topics, d.run.brokers.Group) {
		if err := lines.Print(&r); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// deniedFix says what to do about a right that the user of the brokers lacks.
func deniedFix(err error, otherwise string) string {
	if errors.Is(err, kafka.ErrDenied) {
		return "weir doctor --rights lists the least rights that weir needs"
	}
	return otherwise
}
