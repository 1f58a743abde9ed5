// Package embedded is the log backend in a directory: journal of events, derived activity and verdict
// log in the store. It makes three promises. An event is on the disk before its sender is notified,
// and a later check request takes it into account. Readers of the verdict log never delay weir. A
// crash loses nothing that was acknowledged.
package embedded
