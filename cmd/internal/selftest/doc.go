// Package selftest proves that weir works: each minute it sends a loop of its own and expects a stop. They go through
// log, fold and verdict log as all others do, are judged by limits of their own, so that it does not matter what limits
// are in force, and stand in no list, stream or count that users see.
package selftest
