// Package forwarder passes verdicts on from the verdict log to files, webhooks and whoever
// else wants to be told: one follower of the log, with a cursor of its own, for each
// receiver, which is a function of a few lines (see ToFile). It promises that each verdict
// is delivered at least once and in the order of the log, and that a receiver which is slow
// or away holds nothing up: verdicts wait in the log.
package forwarder
