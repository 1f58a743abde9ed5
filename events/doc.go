// Package events defines Event, Verdict and reason codes, and decodes them strictly and within bounds.
//
// The package does no I/O, reads no clock and starts no goroutine. What it
// decodes is what the analyzer folds; there is no second representation.
package events
