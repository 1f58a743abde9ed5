// Package kafka is how events come from Apache Kafka: it reaches brokers and says what
// is wrong when it cannot (Cluster), reads one partition fast and within bounds
// (Reader), and shares the partitions of a topic between processes (Group).
//
// It keeps no offsets: where to read on is the business of whoever holds the state. It
// never creates a topic unless CreateTopics is called, and never waits for a broker
// without a bound, except where a context is the bound.
//
// Brokers from Kafka 2.3 on are understood.
package kafka
