// Package simulate runs a whole group of weirs in one goroutine at a time, on a clock, disks
// and a log that it makes up, and lets them fail at every place where they wait: processes
// are killed and frozen, disks go back to what they held before, fill up and are lost,
// partitions change hands at any moment, brokers take a part of a batch, or all of it and say
// that they did not, or take it later.
//
// Flows open flows, and ask for calls of which the tree of them has the last word: it never
// allows more than its root may make, and says what the plain fold says.
//
// What runs is the real pump with its checkpoints and its recovery, the real fold and the
// real table of orders of the guards. What it writes to are models of the contracts of its
// sinks and its store. Everything follows from one seed: a schedule that breaks an invariant
// is made shorter and printed as a command that runs it again.
package simulate
