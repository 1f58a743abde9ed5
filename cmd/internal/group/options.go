package group

import (
	"time"

	"weir/events/kafka"
)

// Options make the program a member of a group on Kafka, whose members share the
// partitions of the topic of events among them, and of a second one for those of the
// activity of agents, see GroupOf. Cluster is required.
type Options struct {
	Cluster *kafka.Cluster
	Group   string // consumer group; default DefaultGroup
	Topics  Topics

	// Advertise is the URL at which the other members reach this one, to pass on
	// checks of flows that it owns; "" makes them answer that it cannot be asked.
	Advertise string

	// Lookback is how far back a member folds events again that takes over a partition of
	// which it has no state; 0 takes the longest that an episode can last, see Lookback.
	Lookback time.Duration

	// SessionTimeout is how long the group waits for a member that says nothing;
	// default 10 s.
	SessionTimeout time.Duration
}

// Topics are the names of the topics that the Kafka form works on. Those of verdicts and
// dead letters have at least as many partitions as the ones of events and of activity
// together: partition p of the events has the one of the same number there, partition q
// of the activity the q-th one behind those.
type Topics struct {
	Events      string // default DefaultTopics.Events, and so on
	Verdicts    string
	Activity    string
	DeadLetters string
	Orders      string // by hand; one partition
}

// DefaultGroup is the consumer group of Options.
const DefaultGroup = "weir"

// DefaultTopics returns the default names of the topics.
func DefaultTopics() Topics {
	return Topics{Events: "agent-events", Verdicts: "agent-verdicts", Activity: "agent-activity", DeadLetters: "dead-letter", Orders: "agent-orders"}
}
