package admission

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// body is the body of a request.
// It is read by the goroutine of its request; Gates look at it from others.
type body struct {
	io.ReadCloser
	conn    *conn // nil of servers without a Listener
	control *http.ResponseController
	since   time.Time // when it began to come

	whole, left atomic.Bool
	awaited     atomic.Bool // more of it is waited for, which a server that is busy itself does not
}

// Read notes that the client is waited for while it is, and when all of the body has come.
func (b *body) Read(p []byte) (int, error) {
	b.awaited.Store(true)
	n, err := b.ReadCloser.Read(p)
	b.awaited.Store(false)
	if err == io.EOF {
		b.came()
	}
	return n, err
}

// came notes that all of it is there.
// From now on it is the server's turn, and its connection gives way to nobody.
func (b *body) came() {
	if !b.whole.Swap(true) && b.conn != nil {
		b.conn.busy.Add(1)
	}
}

// answered notes that the request is over. A server that is done with it no longer cuts it.
func (b *body) answered() {
	b.left.Store(true)
	if b.whole.Load() && b.conn != nil {
		b.conn.busy.Add(-1)
	}
}

// cut lets whoever reads the body fail with a timeout.
// A deadline in the past is one that has been passed: the read that waits returns at once.
func (b *body) cut() {
	if !b.left.Load() {
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // of a writer without deadlines nothing can be cut
	}
}

// Unread reports whether the request has a body that has not come to its end. Whoever
// answers before that should close the connection with the answer, or the server waits
// for the rest.
func Unread(r *http.Request) bool {
	b, ok := r.Context().Value(bodyKey).(*body)
	return ok && !b.whole.Load()
}

// Gate bounds how many requests of a sort are served at one time. When all places are
// taken, a newcomer gets that of the request whose body is on its way for the longest,
// when that is longer than Patience and the client is waited for.
// It differs from a Listener in that a place is that of a request and not of a connection.
type Gate struct {
	most int

	mu   sync.Mutex
	held map[*place]struct{}
}

// place is where a request stands that was let in.
type place struct{ body *body }

// NewGate returns a gate with so many places.
func NewGate(most int) *Gate { return &Gate{most: most, held: make(map[*place]struct{})} }

// Enter reports whether the request may be served now. If so, leave must be called when
// that is done.
// Leave may be called after the place was taken away, and more than once. Nobody is made to
// wait.
func (g *Gate) Enter(r *http.Request) (leave func(), ok bool) {
	b, _ := r.Context().Value(bodyKey).(*body)
	p := &place{b}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) >= g.most {
		slowest := g.slowest(time.Now())
		if slowest == nil {
			return nil, false
		}
		delete(g.held, slowest)
		slowest.body.cut()
	}
	g.held[p] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.held, p)
	}, true
}

// slowest is the place that may be taken away; nil when none may. A request that waits for
// the server itself, as for memory, is none of them.
func (g *Gate) slowest(now time.Time) (found *place) {
	for p := range g.held {
		if p.body == nil || p.body.whole.Load() || !p.body.awaited.Load() || now.Sub(p.body.since) < Patience {
			continue
		}
		if found == nil || p.body.since.Before(found.body.since) {
			found = p
		}
	}
	return found
}

// Seats are places for those who stay, such as followers of a stream. One peer gets at
// most three quarters of them, and when all are taken who has several gives one to a peer
// that has at least two fewer: few peers cannot keep out all others.
type Seats struct {
	// each is how many of them one peer may have.
	most, each int

	mu    sync.Mutex
	taken map[string]int // by peer
	seats []*seat        // the oldest first
}

// seat is one that is taken. Its connection is nil of servers without a Listener; such a seat
// cannot be taken away.
type seat struct {
	peer string
	conn *conn
}

// NewSeats returns so many seats.
// Of fewer than four seats one peer may have all.
func NewSeats(most int) *Seats {
	return &Seats{most: most, each: most - most/4, taken: make(map[string]int)}
}

// Take reports whether there is a seat for whoever sends the request. If so, leave must
// be called when it is free again.
// Leave is called once. Of a seat that was taken away the connection is closed, by which its
// request ends.
func (s *Seats) Take(r *http.Request) (leave func(), ok bool) {
	of := &seat{peer: r.RemoteAddr}
	if c, ok := r.Context().Value(connKey).(*conn); ok {
		of.peer, of.conn = c.peer, c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[of.peer] >= s.each {
		return nil, false
	}
	if len(s.seats) >= s.most {
		other := s.spare(of.peer)
		if other == nil {
			return nil, false
		}
		s.free(other)
		// Closing is left out of the lock: it may take a while.
		go func() { _ = other.conn.Close() }()
	}
	s.seats = append(s.seats, of)
	s.taken[of.peer]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free(of)
	}, true
}

// spare is the oldest seat of the peer that has the most, if it has at least two more than the
// one that asks; nil when there is none.
func (s *Seats) spare(peer string) (found *seat) {
	for _, other := range s.seats {
		if n := s.taken[other.peer]; other.conn != nil && n >= s.taken[peer]+2 && (found == nil || n > s.taken[found.peer]) {
			found = other
		}
	}
	return found
}

// free forgets a seat, the first time it is called.
// The caller holds mu.
func (s *Seats) free(of *seat) {
	at := slices.Index(s.seats, of)
	if at < 0 {
		return
	}
	s.seats = slices.Delete(s.seats, at, at+1)
	if s.taken[of.peer]--; s.taken[of.peer] == 0 {
		delete(s.taken, of.peer)
	}
}
