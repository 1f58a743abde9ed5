// Package forwarder delivers verdicts from the verdict log to files, webhooks and other sinks, each with its own
// cursor. It promises that each verdict is delivered at least once and in the order of the log, and that a receiver
// which is slow or away holds nothing up: verdicts wait in the log.
package forwarder
