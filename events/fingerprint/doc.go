// Package fingerprint hashes arguments, messages and results, so that weir compares them without keeping them.
//
// All functions are pure, total (no input makes them fail or panic) and safe for
// use by many goroutines. None of them can be undone: what goes in stays out of
// the log.
package fingerprint
