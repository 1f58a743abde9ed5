package state

import (
	"errors"
	"fmt"
)

// What a caller decides on. All are wrapped with what and where.
var (
	// ErrClosed is returned by every method once Close was called.
	ErrClosed = errors.New("state is closed")

	// ErrDiskLow reports that free space is below the floor. Nothing was written, except
	// perhaps the first part of a large Append. Pause, notify an operator, and try again.
	ErrDiskLow = errors.New("too little free disk space")

	// ErrTooLarge says that a key, a value or a checkpoint is above its limit.
	// Nothing was written, and trying again will not help.
	ErrTooLarge = errors.New("too large")

	// ErrFailed says that an earlier write failed half way. The process has to
	// end; the next one finds by Open what is on disk.
	ErrFailed = errors.New("an earlier write failed")

	// ErrLocked says that another process has the state open.
	ErrLocked = errors.New("state is in use by another process")

	// ErrNewer says that the state was written by a newer weir.
	ErrNewer = errors.New("state has a newer format")

	// ErrInMemory says that nothing of the state outlives its process.
	ErrInMemory = errors.New("a state in memory has no backup")

	// ErrDamaged says that what is on disk is not what was written.
	ErrDamaged = errors.New("state is damaged")
)

// damaged says what is wrong with which part of the stored bytes.
func damaged(part string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrDamaged, part, err)
}

// GapError reports that the entries of a log from From to To-1 have expired. The reader
// was away for longer than JournalTTL. It reports the gap and continues at To, as
// ReadOn does.
type GapError struct {
	From, To int64
}

// ReadOn calls read, a method of a log or of the dead letters, and skips expired
// entries. first is the offset of the first returned entry; from to first-1 have
// expired. A caller that promised those entries must report the gap.
func ReadOn[E any](read func(from int64, limit int, dst []E) ([]E, error), from int64, limit int, dst []E) (first int64, entries []E, err error) {
	for {
		entries, err = read(from, limit, dst)
		gap, ok := errors.AsType[*GapError](err)
		if !ok {
			return from, entries, err
		}
		from = gap.To
	}
}

// Error names the gap.
func (e *GapError) Error() string {
	return fmt.Sprintf("entries %d to %d of the log have expired, go on at %d", e.From, e.To-1, e.To)
}
