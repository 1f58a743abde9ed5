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

// came notes that the body is complete. From now on it is the server's turn, and its connection is not
// closed for another one.
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

// waits is since when the client is waited for, which is to send the rest of the body or to
// take what was written of the answer; false when it is the server's turn.
func (b *body) waits() (since time.Time, ok bool) {
	if !b.whole.Load() && b.awaited.Load() {
		return b.since, true
	}
	if b.conn == nil {
		return since, false
	}
	writing := b.conn.writing.Load()
	return b.conn.listener.begun.Add(time.Duration(writing)), writing != 0
}

// cut makes the read of a body fail with a timeout. If the client does not take its answer, cut closes
// its connection. A deadline in the past has already passed, so a waiting read returns at once.
func (b *body) cut() {
	switch {
	case b.left.Load():
	case !b.whole.Load():
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // of a writer without deadlines nothing can be cut
	default:
		// Closing is left out of the lock of the gate: it may take a while.
		go func() { _ = b.conn.Close() }()
	}
}

// Unread reports whether the request has a body that has not come to its end. A handler that answers
// before that should close the connection with the answer. Otherwise the server waits for the rest.
func Unread(r *http.Request) bool {
	b, ok := r.Context().Value(bodyKey).(*body)
	return ok && !b.whole.Load()
}

// Gate bounds how many requests of a sort are served at one time. When all places are taken, a
// newcomer may get the place of the request that has waited for its client for the longest. The wait
// counts since its body began to come, or since the client last took part of its answer. That request
// gives way if the wait is at least Patience, or if its party has at least two places more than the
// newcomer's. Otherwise no request gives way. Unlike in a Listener, a place is that of a request and
// not of a connection.
type Gate struct {
	most int

	mu    sync.Mutex
	held  map[*place]struct{}
	taken map[string]int // by party
}

// place is where a request stands that was let in.
type place struct {
	party string
	body  *body
}

// partyOf is the sender of a request, for the sharing of places. It is the principal of that name,
// from any address, or the address if name is "". A named principal with many machines gets no more
// places for them. Named principals behind one address are distinguished.
func partyOf(r *http.Request, name string) string {
	if name != "" {
		return "/" + name // which no address is
	}
	if c, ok := r.Context().Value(connKey).(*conn); ok {
		return c.peer
	}
	return r.RemoteAddr
}

// NewGate returns a gate with the given number of places.
func NewGate(most int) *Gate {
	return &Gate{most: most, held: make(map[*place]struct{}), taken: make(map[string]int)}
}

// Enter reports whether the request may be served now. If so, the caller must call leave when that is
// done. name is that of the sender; "" means its address. leave may be called after the place was
// taken away, and more than once. Enter never waits.
func (g *Gate) Enter(r *http.Request, name string) (leave func(), ok bool) {
	p := &place{party: partyOf(r, name)}
	p.body, _ = r.Context().Value(bodyKey).(*body)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) >= g.most {
		slowest := g.slowest(time.Now(), p.party)
		if slowest == nil {
			return nil, false
		}
		g.free(slowest)
		slowest.body.cut()
	}
	g.held[p] = struct{}{}
	g.taken[p.party]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.free(p)
	}, true
}

// free forgets a place, the first time it is called.
// The caller holds mu.
func (g *Gate) free(p *place) {
	if _, ok := g.held[p]; !ok {
		return
	}
	delete(g.held, p)
	uncount(g.taken, p.party)
}

// uncount takes one from the count of a key, and removes the key at zero.
func uncount[K comparable](has map[K]int, who K) {
	if has[who]--; has[who] == 0 {
		delete(has, who)
	}
}

// slowest is the place that may be taken away for a newcomer of a party; nil when none may. A request
// that waits for the server itself, as for memory, is never taken. A place that is not slow yet is
// taken only from a party with many. Otherwise a party that begins requests faster than they become
// slow would have all places.
func (g *Gate) slowest(now time.Time, party string) (found *place) {
	var longest time.Time
	for p := range g.held {
		if p.body == nil {
			continue
		}
		since, ok := p.body.waits()
		if ok && (now.Sub(since) >= Patience || g.taken[p.party] >= g.taken[party]+2) && (found == nil || since.Before(longest)) {
			found, longest = p, since
		}
	}
	return found
}

// Seats are places for streams, such as those of followers. One party gets at most three quarters of
// them from one address. Beyond that, a newcomer gets the seat of the same party and address that was
// idle for the longest, if that is at least Patience. So unused streams keep no client out. When all
// seats are taken, a party with several gives one to a party that has at least two fewer. This also
// holds for a name with many addresses. Otherwise a newcomer without a seat gets the one that waited
// for its client for the longest.
type Seats struct {
	// each is how many of them one party may have from one address.
	most, each int

	mu    sync.Mutex
	taken map[string]int // by party
	seats []*seat        // the oldest first
}

// seat is one that is taken. Its connection is nil of servers without a Listener; such a seat
// cannot be taken away.
type seat struct {
	party, peer string
	conn        *conn
	// listens is that the client has sent all that it sends: it can show no more that it is there.
	listens bool
	since   int64 // when the seat was taken, by Listener.now
}

// idle is since when the client used its seat for nothing; false while weir owes it something. A
// client that only listens is as idle as its seat is old.
func (s *seat) idle() (since int64, ok bool) {
	switch {
	case s.conn == nil:
		return 0, false
	case s.listens:
		return s.since, true
	default:
		return s.conn.last.Load(), s.conn.waits(s.conn.listener.now())
	}
}

// NewSeats returns the given number of seats. Of fewer than four seats one party may have all.
func NewSeats(most int) *Seats {
	return &Seats{most: most, each: most - most/4, taken: make(map[string]int)}
}

// Take reports whether there is a seat for the sender of the request, by name, or by the address if
// name is "". If so, the caller must call leave once when it is free again. If a seat is taken away,
// its connection is closed, which ends its request.
func (s *Seats) Take(r *http.Request, name string) (leave func(), ok bool) {
	of := &seat{party: partyOf(r, name), peer: partyOf(r, "")}
	if of.conn, _ = r.Context().Value(connKey).(*conn); of.conn != nil {
		b, _ := r.Context().Value(bodyKey).(*body)
		of.listens, of.since = b != nil && b.whole.Load(), of.conn.listener.now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, ok := s.room(of); !ok {
		return nil, false
	} else if other != nil {
		s.free(other)
		// Closing is left out of the lock: it may take a while.
		go func() { _ = other.conn.Close() }()
	}
	s.seats = append(s.seats, of)
	s.taken[of.party]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free(of)
	}, true
}

// room is the seat that gives way to a newcomer, nil when none has to; false when none may.
func (s *Seats) room(of *seat) (other *seat, ok bool) {
	alike := func(other *seat) bool { return other.party == of.party && other.peer == of.peer }
	here := 0
	for _, other := range s.seats {
		if alike(other) {
			here++
		}
	}
	switch {
	case here >= s.each:
		other = s.idlest(alike)
	case len(s.seats) < s.most:
		return nil, true
	default:
		if other = s.spare(of.party); other == nil && s.taken[of.party] == 0 {
			other = s.idlest(func(other *seat) bool { return !other.listens })
		}
	}
	return other, other != nil
}

// idlest is the seat among some that was idle for the longest, if that is Patience or more.
func (s *Seats) idlest(among func(*seat) bool) (found *seat) {
	var longest int64
	for _, other := range s.seats {
		since, ok := other.idle()
		if ok && among(other) && other.conn.listener.now()-since >= int64(Patience) && (found == nil || since < longest) {
			found, longest = other, since
		}
	}
	return found
}

// spare is the oldest seat of the party that has the most, if it has at least two more than the
// one that asks; nil when there is none.
func (s *Seats) spare(party string) (found *seat) {
	for _, other := range s.seats {
		if n := s.taken[other.party]; other.conn != nil && n >= s.taken[party]+2 && (found == nil || n > s.taken[found.party]) {
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
	uncount(s.taken, of.party)
}
