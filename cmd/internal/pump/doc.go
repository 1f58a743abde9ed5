// Package pump folds the records of one partition into flows or agents and publishes the verdicts. It promises that
// what it publishes depends on the records alone: neither on how they are batched, nor on crashes in between, nor on
// the clock.
//
// The order of effects is: what concerns agents is passed on, dead letters are written,
// then verdicts are published, and only when all of them are safe a checkpoint may hold the
// flows that they came from. After a crash the fold goes on at the last checkpoint, and
// what the logs have already is not written again.
//
// A pump is made of parts, each for one thing:
//
//   - The feeder decodes records, skips known ones and gives the rest to the fold in order.
//   - The fold steps one flow or agent at a time. What differs between the two is in flowStage and agentStage.
//   - The memory has the flows or agents used last, and their deadlines; the store has the others.
//   - The outbox publishes the effects and leaves out what the logs have since before a crash. Its repartitioner
//     numbers and batches what concerns agents.
//   - The checkpointer writes the flows that have changed.
//   - The meter counts and logs. Nothing folded depends on it.
//   - Views answers questions from any goroutine.
//
// The goroutine of Batch owns all fields. fold.mu guards the fold and the memory against Views; it is held while
// records are folded and not while effects are published. A checkpoint is written by a goroutine of its own, which
// has its copy.
//
// A pump knows neither HTTP nor Kafka. Where records come from, where verdicts go and where
// checkpoints are kept it is given, as the interfaces Sink, DeadLetters, Activity and Store.
package pump
