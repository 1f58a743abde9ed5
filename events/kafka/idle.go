package kafka

import (
	"slices"
	"sync"
	"time"
)

// idleLinks are links that answered a question a moment ago. A new owner of a partition asks a dozen
// questions. Connecting, logging in and finding the leader for each takes longer than the
// answers.
type idleLinks struct {
	mu    sync.Mutex
	links []*link
	known map[string]leaders // by topic
}

// leaders are those of a topic, as a broker reported a moment ago. An election may have passed since.
type leaders struct {
	addrs map[int]string // by partition
	until time.Time
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
	l.expires.Stop()
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
	l.expires = time.AfterFunc(idleFor, func() { i.drop(l) })
}

// drop closes a link, unless it is in use. One that came back at this moment is closed early,
// which costs a connection.
func (i *idleLinks) drop(l *link) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := slices.Index(i.links, l); at >= 0 {
		i.links = slices.Delete(i.links, at, at+1)
		l.Close()
	}
}

// learn keeps who leads the partitions of a topic.
func (i *idleLinks) learn(topic string, addrs map[int]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		i.known = make(map[string]leaders)
	}
	i.known[topic] = leaders{addrs, time.Now().Add(idleFor)}
}

// leader returns the address of who led a partition a moment ago; empty when that is not known.
func (i *idleLinks) leader(topic string, partition int) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.known[topic]
	if time.Now().After(l.until) {
		delete(i.known, topic)
		return ""
	}
	return l.addrs[partition]
}

// close closes all.
func (i *idleLinks) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range i.links {
		l.expires.Stop()
		l.Close()
	}
	i.links, i.known = nil, nil
}
