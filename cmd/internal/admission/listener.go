package admission

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/events/rawconn"
)

// Patience is how long a write may wait for its reader, or a body be on its way, before another client
// in need gets the place. A connection is cut off only if another one needs its place. It is real
// time, like all times here, because it is about real clients.
const Patience = time.Second

// Listener accepts a limited number of connections at one time. When all places are taken, a newcomer
// gets that of a connection that waits for its client. It is a connection of the peer with the most
// connections, the one that was silent for the longest. A connection whose request is being answered
// is never closed for another one.
type Listener struct {
	net.Listener
	most    int
	refused func(net.Addr)
	// begun is what now counts from.
	begun time.Time

	mu    sync.Mutex
	open  map[*conn]struct{}
	peers map[string]int // connections by address
}

// Listen returns a listener with most places. refused is called for each connection that was closed at
// once; it may be nil. That happens when every other connection is being answered, or when its peer
// has more connections than all that could give way. The goroutine that accepts calls refused, and
// waits for it.
func Listen(l net.Listener, most int, refused func(peer net.Addr)) *Listener {
	return &Listener{Listener: l, most: most, refused: refused, begun: time.Now(), open: make(map[*conn]struct{}), peers: make(map[string]int)}
}

// Places returns how many of the wanted connections the process may have. Each takes a descriptor, and
// so do the store and followed files. Without a descriptor a newcomer is not even accepted, so no
// connection would give way.
func Places(want int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return want // it is found out when they are gone
	}
	return placesOf(want, files.Cur)
}

// placesOf leaves 256 descriptors to others, or three quarters where there are few.
func placesOf(want int, files uint64) int {
	left := max(files/4, files-min(files, 256), 1)
	return int(min(uint64(want), left))
}

// Accept waits for a connection that there is a place for.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: rawconn.Wrap(inner), listener: l, peer: peerOf(inner.RemoteAddr())}
		c.last.Store(l.now())
		// Closing is left out of the lock: it may take a while.
		gone, ok := l.admit(c)
		if gone != nil {
			_ = gone.Conn.Close() // its server finds out by itself
		}
		if ok {
			return c, nil
		}
		_ = inner.Close()
		if l.refused != nil {
			l.refused(inner.RemoteAddr())
		}
	}
}

// CloseWaiting closes every connection that is not being answered, as at the end of a
// server: one that was never used, one between two requests, one in the middle of a body.
func (l *Listener) CloseWaiting() {
	l.mu.Lock()
	var gone []*conn
	for c := range l.open {
		if c.waits(l.now()) {
			gone = append(gone, c)
		}
	}
	l.mu.Unlock()
	for _, c := range gone {
		_ = c.Close()
	}
}

// now is the time since the listener began: real and monotonic.
func (l *Listener) now() int64 { return int64(time.Since(l.begun)) }

// admit finds a place for a connection; gone is the one that had it. A peer with fewer connections
// than the newcomer's peer keeps them: one peer cannot push out the others by connecting more and
// more.
func (l *Listener) admit(c *conn) (gone *conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		if gone = l.idlest(); gone == nil || l.peers[gone.peer] < l.peers[c.peer] {
			return nil, false
		}
		l.remove(gone)
	}
	l.open[c] = struct{}{}
	l.peers[c.peer]++
	return gone, true
}

// idlest is the connection that gives way first; nil when all are at work. It looks at all
// of them, which happens only when there is no room.
func (l *Listener) idlest() (found *conn) {
	now := l.now()
	for c := range l.open {
		if !c.waits(now) {
			continue
		}
		if found == nil || l.peers[c.peer] > l.peers[found.peer] || l.peers[c.peer] == l.peers[found.peer] && c.last.Load() < found.last.Load() {
			found = c
		}
	}
	return found
}

// remove forgets a connection, the first time it is called.
// The caller holds mu.
func (l *Listener) remove(c *conn) {
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	uncount(l.peers, c.peer)
}

// peerOf is the address without its port, and of IPv6 the network of 64 bits that it is in, all
// of which one machine may have.
// Behind a proxy all clients are one peer.
func peerOf(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
}

// conn is a connection that has a place.
// Its times are those of Listener.now. They are changed by the goroutine that serves it and
// read by the one that accepts.
type conn struct {
	net.Conn
	listener *Listener
	peer     string

	last    atomic.Int64 // when a byte came or went
	writing atomic.Int64 // since when a write waits; 0 when none does
	// With HTTP/2 there may be many at one time.
	busy atomic.Int64 // requests that came whole and are not answered yet
	came atomic.Bool  // something did since the last request began

	// What Together keeps back.
	mu       sync.Mutex
	together bool
	back     []byte
}

// waits reports whether it is the client's turn: that it is to send something, or to read.
// A connection that writes for longer than Patience waits for its client, whatever is under
// way on it.
func (c *conn) waits(now int64) bool {
	since := c.writing.Load()
	return c.busy.Load() == 0 || since != 0 && now-since >= int64(Patience)
}

// Read notes when something came.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.last.Store(c.listener.now())
		c.came.Store(true)
	}
	return n, err
}

// writePart is how much is written at one time. It distinguishes a client that takes a long answer
// from one that takes none.
const writePart = 64 << 10

// Write writes, or keeps it back for Together.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.together {
		c.back = append(c.back, p...)
		if len(c.back) < writePart {
			return len(p), nil
		}
		return len(p), c.writeBack()
	}
	return c.write(p)
}

// writeBack writes what was kept back.
func (c *conn) writeBack() error {
	_, err := c.write(c.back)
	if c.back = c.back[:0]; cap(c.back) > mostSpare {
		c.back = nil
	}
	return err
}

// mostSpare is how much memory of what is kept back is used again; more is rare.
const mostSpare = 16 << 10

// Part is a request that is answered in parts, such as a stream of checks.
type Part struct {
	conn  *conn // nil of servers without a Listener
	alone bool  // no answer to others is on the connection, as with HTTP/2
}

// PartOf returns what notes the parts of a request.
func PartOf(r *http.Request) Part {
	c, _ := r.Context().Value(connKey).(*conn)
	return Part{c, r.ProtoMajor == 1}
}

// Begin notes that a part of the request, the body of which goes on, is being answered, until End is
// called. A stream of checks has a body that never ends, by which it would count as waiting for its
// client all the time.
func (p Part) Begin() {
	if p.conn != nil {
		p.conn.busy.Add(1)
	}
}

// End notes that a part is answered.
func (p Part) End() {
	if p.conn != nil {
		p.conn.busy.Add(-1)
	}
}

// Together has what write sends on the connection of the request go out at one time. The server cuts
// what is longer than its buffer, and each piece costs a system call and wakes the client.
func (p Part) Together(write func() error) error {
	c := p.conn
	if c == nil || !p.alone {
		return write()
	}
	c.mu.Lock()
	c.together = true
	c.mu.Unlock()
	err := write()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.together = false
	if len(c.back) > 0 {
		err = errors.Join(err, c.writeBack())
	}
	return err
}

// write notes since when it waits for the client to take what it writes.
func (c *conn) write(p []byte) (int, error) {
	for done := 0; ; {
		c.writing.Store(c.listener.now())
		n, err := c.Conn.Write(p[done:min(len(p), done+writePart)])
		c.writing.Store(0)
		if n > 0 {
			c.last.Store(c.listener.now())
		}
		if done += n; err != nil || done == len(p) {
			return done, err
		}
	}
}

// Close closes the connection and gives its place back.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// contextKey separates the values of this package from others in a context.
type contextKey int

const (
	connKey contextKey = iota
	bodyKey
)

// ConnContext is for http.Server: it lets Track know on which connection a request came. With TLS or
// other layers, it is the connection below them.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey, c)
	}
	return ctx
}

// yield lets others run. Tests count it.
var yield = runtime.Gosched

// Track follows how far the body of each request has come, for the Listener and for Gates. The server
// needs ConnContext. If a client sends many requests at one time, they are served in turn with those
// of others. Track has to be the outermost handler, so that a request counts until all of its answer
// is written.
func Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey).(*conn)
		// A request that came together with the one before it waited for nothing: the goroutine of
		// its connection would go on until it is preempted, and the requests of others wait as long
		// for each connection that does so.
		if c != nil && !c.came.Swap(false) {
			yield()
		}
		b := &body{ReadCloser: r.Body, conn: c, control: http.NewResponseController(w), since: time.Now()}
		defer b.answered()
		r = r.WithContext(context.WithValue(r.Context(), bodyKey, b))
		if r.Body == nil || r.Body == http.NoBody {
			b.came()
		} else {
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}
