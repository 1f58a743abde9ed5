// Package collector tests weir behind a real OpenTelemetry Collector, which is built
// from its Go modules, and behind an OpenTelemetry SDK. It is a module of its own, so
// that what they need stays out of weir's go.mod.
//
// The broker is the one of KAFKA_ADDR (host:port) when that is set, else a kfake that
// the test starts.
package collector
