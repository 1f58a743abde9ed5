package kafka

import (
	"sync"
	"time"
)

// trouble is what does not work just now, and since when. It is safe for concurrent use.
//
// Only the change from well to not well is news, so a broker that is away for an hour is one
// line of the log.
type trouble struct {
	mu    sync.Mutex
	since time.Time
	err   error
}

// set notes what is wrong, and reports whether all was well before.
//
// since stays that of the first error of a row.
func (t *trouble) set(err error) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news = t.err == nil
	if news {
		t.since = time.Now()
	}
	t.err = err
	return news
}

// clear notes that all is well, and returns what was wrong before.
//
// A nil error means that all was well already.
func (t *trouble) clear() (since time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since, err = t.since, t.err
	t.since, t.err = time.Time{}, nil
	return since, err
}

// get returns a nil error and no time when all is well.
func (t *trouble) get() (since time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since, t.err
}
