package kafka

import (
	"sync"
	"time"
)

// trouble is what does not work just now, and since when. It is safe for concurrent use.
type trouble struct {
	mu    sync.Mutex
	since time.Time
	err   error
}

// set notes what is wrong, and reports whether all was well before.
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
func (t *trouble) clear() (since time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since, err = t.since, t.err
	t.since, t.err = time.Time{}, nil
	return since, err
}

func (t *trouble) get() (since time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since, t.err
}
