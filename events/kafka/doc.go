// Package kafka reads events from Apache Kafka: cluster, partition reader, consumer group, offsets.
//
// It keeps no offsets: where to read on is the business of whoever holds the state. It
// never creates a topic unless CreateTopics is called, and never waits for a broker
// without a bound, except where a context is the bound.
//
// Brokers from Kafka 2.3 on are understood.
package kafka
