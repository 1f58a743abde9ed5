package kafka

import (
	"slices"
	"sync"
	"time"
)

// idleLinks are links by which a question was answered a moment ago. Whoever takes a partition over
// asks a dozen of them, and to connect and log in for each takes longer than the answers.
type idleLinks struct {
	mu    sync.Mutex
	links []*link
}

const (
	mostIdle = 16
	idleFor  = 2 * time.Second
)

// take returns a link to a broker, which may have hung up meanwhile; nil when there is none.
func (i *idleLinks) take(addr string) *link {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := slices.IndexFunc(i.links, func(l *link) bool { return l.addr == addr })
	if at < 0 {
		return nil
	}
	l := i.links[at]
	i.links = slices.Delete(i.links, at, at+1)
	return l
}

// put keeps a link for a while, or closes it when there are enough.
func (i *idleLinks) put(l *link) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.links) >= mostIdle {
		l.Close()
		return
	}
	i.links = append(i.links, l)
	l.uses++
	uses := l.uses
	time.AfterFunc(idleFor, func() { i.drop(l, uses) })
}

// drop closes a link that nobody has taken since it was put here.
func (i *idleLinks) drop(l *link, uses int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := slices.Index(i.links, l); at >= 0 && l.uses == uses {
		i.links = slices.Delete(i.links, at, at+1)
		l.Close()
	}
}

// close closes all.
func (i *idleLinks) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range i.links {
		l.Close()
	}
	i.links = nil
}
