package state

import (
	"errors"
	"os"
	"syscall"
)

// datasync waits until what was written to a write-ahead log is on the disk. Badger writes by
// a memory map, and what was written so is of the file, whoever has it open. Badger could sync
// by itself: then it would sync its value log as well, to which nothing is ever written, and
// each time what the system notes beside the data, which takes twice as long.
func datasync(log *os.File) error {
	for {
		if err := syscall.Fdatasync(int(log.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// setAside gives a file so many bytes of the disk from an offset on, which nobody else can
// take before they are written.
func setAside(file *os.File, from, bytes int64) error {
	return syscall.Fallocate(int(file.Fd()), 0, from, bytes)
}
