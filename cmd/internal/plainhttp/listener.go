package plainhttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// Listener accepts connections, answers the plain requests on them, and gives those that
// ask for something else to the server, whose Accept it is.
type Listener struct {
	net.Listener
	server *http.Server
	plain  func(*http.Request) bool
	others chan net.Conn
	failed chan error
	done   chan struct{} // closed by Close

	mu     sync.Mutex
	open   map[*conn]struct{} // those that are here
	ending bool
	gone   chan struct{} // signals Wait that one has gone
}

// Listen begins to accept connections from l for server, whose Serve is to be called with
// what it returns. The server's Handler answers the requests that plain says true of,
// whether they come here or there; its ConnContext and timeouts hold for both. plain gets
// the request without its body. Requests that follow each other may share a Header and a URL,
// which a handler clones before it changes them.
func Listen(l net.Listener, server *http.Server, plain func(*http.Request) bool) *Listener {
	p := &Listener{Listener: l, server: server, plain: plain, others: make(chan net.Conn), failed: make(chan error),
		done: make(chan struct{}), open: make(map[*conn]struct{}), gone: make(chan struct{}, 1)}
	go p.accept()
	return p
}

// accept takes connections in until the listener is closed.
// Errors are the server's, which knows which of them pass, and waits before it accepts
// again.
func (l *Listener) accept() {
	for {
		inner, err := l.Listener.Accept()
		if err == nil {
			if c := l.enter(inner); c != nil {
				go c.serve()
			}
			continue
		}
		select {
		case l.failed <- err:
		case <-l.done:
			return
		}
	}
}

// Accept waits for a connection that asks for what is not plain.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.others:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close takes in no more connections and closes those that wait for their next request.
// Those whose request is being answered are closed with the answer, see Wait.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.ending = true
		close(l.done)
		for c := range l.open {
			if !c.busy {
				_ = c.Close()
			}
		}
	}
	return l.Listener.Close()
}

// Wait returns when the last answer is out after Close. When ctx ends before, all
// connections are closed and its error is returned. A nil Listener has none.
func (l *Listener) Wait(ctx context.Context) error {
	if l == nil {
		return nil
	}
	for {
		l.mu.Lock()
		left := len(l.open)
		l.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-l.gone:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			for c := range l.open {
				_ = c.Close()
			}
			return context.Cause(ctx)
		}
	}
}

// enter takes in a connection; nil when the end has come.
func (l *Listener) enter(inner net.Conn) *conn {
	c := &conn{Conn: inner, listener: l, buffer: make([]byte, bufferBytes)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		_ = inner.Close()
		return nil
	}
	l.open[c] = struct{}{}
	return c
}

// leave forgets a connection. It wakes Wait also before Close: a server that is shut down before it serves closes its
// listener late.
func (l *Listener) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
	select {
	case l.gone <- struct{}{}:
	default:
	}
}

// turn notes whether a connection is being answered; false when it is to end instead.
func (l *Listener) turn(c *conn, busy bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.busy = busy
	return !l.ending
}

// handOver gives a connection to the server, with what was read of it.
func (l *Listener) handOver(c *conn, rest []byte) {
	select {
	case l.others <- &begun{Conn: c.Conn, state: c.state, rest: rest}:
	case <-l.done:
		_ = c.Close()
	}
}

// begun is a connection of which something has been read already.
type begun struct {
	net.Conn
	state *tls.ConnectionState // nil without TLS
	rest  []byte
}

// Read gives what was read first.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.rest) > 0 {
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
		return n, nil
	}
	b.rest = nil
	return b.Conn.Read(p)
}

// NetConn is the connection as it was accepted, below TLS.
func (b *begun) NetConn() net.Conn {
	if inner, ok := b.Conn.(*tls.Conn); ok {
		return inner.NetConn()
	}
	return b.Conn
}
