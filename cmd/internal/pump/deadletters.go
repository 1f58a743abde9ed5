package pump

import (
	"context"

	"weir/state"
)

// DeadLetterStore is where the dead letters go that have no other place. See state.Store.
type DeadLetterStore interface {
	DeadLetter(deadLetters ...state.DeadLetter) error
	// DeadLetters appends at most max dead letters to dst, from a sequence number on.
	DeadLetters(from int64, max int, dst []state.DeadLetter) ([]state.DeadLetter, error)
	DeadLetterCount() int64
}

// storedDeadLetters are the dead letters of one source in the store.
// The list has those of all sources; positions count over all of them.
type storedDeadLetters struct {
	store  DeadLetterStore
	source string
}

func (l *storedDeadLetters) Publish(_ context.Context, deadLetters []state.DeadLetter) (int64, error) {
	err := l.store.DeadLetter(deadLetters...)
	return l.store.DeadLetterCount(), err
}

// Since goes on behind dead letters that have expired.
func (l *storedDeadLetters) Since(_ context.Context, from int64, fn func(offset int64)) (int64, error) {
	var batch []state.DeadLetter
	for {
		var err error
		from, batch, err = state.ReadOn(l.store.DeadLetters, from, letterBatch, batch[:0])
		if err != nil || len(batch) == 0 {
			return from, err
		}
		for i := range batch {
			if d := &batch[i]; d.Source == l.source {
				fn(d.Position)
			}
		}
		from += int64(len(batch))
	}
}

// letterBatch is how many dead letters are read at one time.
const letterBatch = 1000
