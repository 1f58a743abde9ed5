// Package selftest proves that weir lives: it makes loops of its own, in flows that are told
// from those of others by their name, and looks whether they are stopped. They go through
// log, fold and verdict log as all others do, are judged by limits of their own, so that it
// does not matter what limits are in force, and stand in no list, stream or count that
// users see.
package selftest
