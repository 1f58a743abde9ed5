// Package kafka reads events from Apache Kafka: cluster, partition reader, consumer group (joining, rebalances), offsets.
//
// It stores no offsets: the owner of the state knows where to continue. It never creates
// a topic except by CreateTopics, and every wait for a broker has a bound, if only by its
// context.
//
// Brokers from Kafka 2.3 on are supported.
package kafka
