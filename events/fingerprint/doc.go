// Package fingerprint makes the hashes and fingerprints by which weir compares
// what agents say and do without keeping it: the arguments of a tool call, the
// content of a message or a result, an error.
//
// All functions are pure, total (no input makes them fail or panic) and safe for
// use by many goroutines. None of them can be undone: what goes in stays out of
// the log.
package fingerprint
