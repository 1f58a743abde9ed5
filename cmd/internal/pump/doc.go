// Package pump folds the records of one partition into flows or agents and publishes the verdicts. It promises that
// what it publishes depends on the records alone: neither on how they are batched, nor on crashes in between, nor on
// the clock.
//
// The order of effects is: what concerns agents is passed on, dead letters are written,
// then verdicts are published, and only when all of them are safe a checkpoint may hold the
// flows that they came from. After a crash the fold goes on at the last checkpoint, and
// what the logs have already is not written again.
//
// A pump knows neither HTTP nor Kafka. Where records come from, where verdicts go and where
// checkpoints are kept it is given, as the interfaces Sink, DeadLetters, Activity and Store.
package pump
