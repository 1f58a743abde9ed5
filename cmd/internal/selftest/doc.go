// Package selftest tells weir's own flows from those of others. In them weir makes loops
// of its own, to prove that it lives: they go through log, fold and verdict log as all
// others do, are judged by limits of their own, and stand in no list, stream or count
// that users see.
package selftest
