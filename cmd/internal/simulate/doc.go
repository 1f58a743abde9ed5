// Package simulate runs a group of weirs on a simulated clock, disk and log, and injects faults at every wait.
//
// Flows open flows, and ask for calls of which the tree of them has the last word: it never
// allows more than its root may make, and says what the plain fold says.
//
// What runs is the real pump with its checkpoints and its recovery, the real fold and the
// real table of orders of the guards. What it writes to are models of the contracts of its
// sinks and its store. Everything follows from one seed: a schedule that breaks an invariant
// is made shorter and printed as a command that runs it again.
package simulate
