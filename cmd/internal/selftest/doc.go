// Package selftest proves that weir works: each minute it sends a loop of its own and expects a stop, and throws the
// switch. The loops go through log, fold and verdict log as all others do, are judged by limits of their own, so that it does not matter what limits
// are in force, and stand in no list, stream or count that users see. The switch is thrown for one agent of weir's own
// flows: its checks have to be refused, those of another have to be allowed.
package selftest
