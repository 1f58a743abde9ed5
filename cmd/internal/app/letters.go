package app

import (
	"context"
	"errors"

	"weir/state"
)

// storedLetters are the dead letters of one source in the store.
type storedLetters struct {
	store  *state.Store
	source string
}

func (l *storedLetters) Bury(_ context.Context, letters []state.DeadLetter) (int64, error) {
	err := l.store.DeadLetter(letters...)
	return l.store.DeadLetterCount(), err
}

func (l *storedLetters) Since(_ context.Context, from int64, fn func(offset int64)) (int64, error) {
	var batch []state.DeadLetter
	for {
		var err error
		batch, err = l.store.DeadLetters(from, batchRecords, batch[:0])
		if gap, ok := errors.AsType[*state.GapError](err); ok {
			from = gap.To
			continue
		}
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
