//go:build !linux

package state

import (
	"errors"
	"os"
)

// datasync waits until what was written to a write-ahead log is on the disk.
func datasync(log *os.File) error { return log.Sync() }

// setAside is for Linux alone; elsewhere there is no reserve against other programs.
func setAside(*os.File, int64, int64) error { return errors.ErrUnsupported }
