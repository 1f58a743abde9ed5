// Package e2e tests weir against a Kafka broker, and against real processes that are
// killed, frozen, joined and dropped. It is a module of its own, so that brokers and
// other heavy things that only tests need stay out of weir's go.mod.
//
// The broker is the one of KAFKA_ADDR (host:port) when that is set, else a kfake that
// the test starts.
package e2e
