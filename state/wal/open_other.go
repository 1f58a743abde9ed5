//go:build !linux

package wal

import "os"

const (
	synced = os.O_SYNC // a write is on the disk when it returns
	direct = 0
)
