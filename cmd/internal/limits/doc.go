// Package limits loads the configured limits and writes them to the log when they change. It promises that limits that
// are refused leave everything as it is. They go into the log, and not into a pump, so that a fold of the same log
// judges each event by the limits of its time.
package limits
