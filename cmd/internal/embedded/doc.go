// Package embedded is the log backend in a directory: journal of events, derived activity and verdict log in the store.
// It promises that an event is on the disk before its sender is told so, and what is asked a moment after it is
// answered, that whoever reads the verdict log is never waited for, and that nothing that was acknowledged is lost by a
// crash.
package embedded
