package wal

import "syscall"

const (
	// A write is on the disk when it returns.
	synced = syscall.O_DSYNC
	// The disk reads from memory of the program: the system keeps no copy that it would have to look
	// for, write and wait for, which is half of what a write takes.
	direct = syscall.O_DIRECT
)
