package state

import (
	"fmt"
	"math"
	"sync/atomic"
)

// disk guards the floor of free space. Badger writes through memory maps of sparse
// files: when the file system is full the kernel ends the process with SIGBUS, at
// the write or at a later flush, and again when the full store is opened.
//
// The file system is asked once per transaction. That takes about a microsecond,
// where a synced transaction takes some hundred, so nothing is cached.
type disk struct {
	path  string
	floor int64                            // at least; see least
	merge atomic.Int64                     // what flushes and the next merge of tables may take
	free  func(path string) (int64, error) // freeBytes, except in tests
}

// least is how much must stay free: what was chosen, and more where a merge needs that.
func (d *disk) least() int64 { return max(d.floor, d.merge.Load()) }

// admit returns ErrDiskLow when writing that many bytes would leave less than a floor.
func (d *disk) admit(bytes, floor int64) error {
	free, err := d.free(d.path)
	if err != nil {
		return err
	}
	if free-bytes < floor {
		return fmt.Errorf("%w: %d MiB in %s, %d MiB must stay free; it goes on when there is room",
			ErrDiskLow, free>>20, d.path, floor>>20)
	}
	return nil
}

// freeBytes returns how many bytes an unprivileged process may still write below path.
func freeBytes(path string) (int64, error) {
	st, err := statfs(path)
	if err != nil {
		return 0, fmt.Errorf("ask for the free space of %s: %w", path, err)
	}
	if st.Blocks == 0 { // a tmpfs without a limit says so
		return math.MaxInt64, nil
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// boundless is the free space of a store in memory.
func boundless(string) (int64, error) { return math.MaxInt64, nil }
