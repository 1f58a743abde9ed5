// Package events is the vocabulary of weir: the Event that agents' logs are read
// into, the Verdict that dispatchers honor, and the strict decoding of both.
//
// The package does no I/O, reads no clock and starts no goroutine. What it
// decodes is what the analyzer folds; there is no second representation.
package events
