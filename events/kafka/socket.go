package kafka

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"weir/events/rawconn"
)

// socket is a connection to a broker that never waits without end: a read or write
// for which no deadline is set has one of its patience. It reads through a buffer,
// because the library reads through a small one, and it says why when a broker hangs up.
//
// The library sets deadlines for some exchanges and none for others, such as a login.
type socket struct {
	// All but reading goes past the buffer, which only reads ahead.
	net.Conn
	buffer   *bufio.Reader
	addr     string
	secure   bool // talks TLS
	login    bool // has not logged in yet, and will
	patience time.Duration
	// The first bytes of a broker show best what it is.
	heard bool // the broker has sent something
	// A deadline that was set is left alone; the flags are atomic because deadlines are set
	// from other goroutines than those that read.
	readLimited  atomic.Bool
	writeLimited atomic.Bool
}

// open connects to one broker and agrees with it about TLS.
//
// One patience is for the whole of it, TLS included.
func (c *Cluster) open(ctx context.Context, addr string) (*socket, error) {
	patience := c.dialTimeout()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// A host that swallows packets must leave time for the next one.
	conn, err := (&net.Dialer{Timeout: patience / 2}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, explain(addr, err)
	}
	// A partition that few records a moment come to is answered for each of them.
	conn = rawconn.Wrap(conn)
	s := &socket{Conn: conn, addr: addr, login: c.SASL != nil, patience: patience}
	if c.TLS != nil {
		config := c.TLS.Clone()
		// The certificate is checked against the name that was dialed, unless the settings
		// name another.
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, explainTLS(addr, err)
		}
		s.Conn, s.secure = secure, true
	}
	s.buffer = bufio.NewReaderSize(s.Conn, linkBuffer)
	return s, nil
}

// Read never returns io.EOF: a broker that hangs up is always an error, and the
// library would take it for a refused login.
//
// A read without a deadline of its own begins its patience anew, so a long answer that goes on
// coming is never cut off.
func (s *socket) Read(p []byte) (int, error) {
	if !s.readLimited.Load() {
		if err := s.Conn.SetReadDeadline(time.Now().Add(s.patience)); err != nil {
			return 0, err
		}
	}
	n, err := s.buffer.Read(p)
	if n > 0 && !s.heard {
		s.heard = true
		// No answer is as long as the head of a TLS alert would say.
		// 0x15 0x03 is a TLS alert. As the length of an answer it would mean 350 MB.
		if n > 1 && p[0] == 0x15 && p[1] == 0x03 && !s.secure {
			return 0, fmt.Errorf("%w: broker %s talks TLS on this port, but this program was not told to", ErrTLS, s.addr)
		}
	}
	if err != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
		err = s.hungUp()
	}
	return n, err
}

// hungUp says what a broker that closes the connection most likely wants. Brokers close
// without a word where TLS, a login or a certificate is missing, and do just the same when
// they go down, so it is a hint and not final.
func (s *socket) hungUp() error {
	hint := ""
	if !s.heard {
		switch {
		case !s.secure && !s.login:
			hint = "; if it does so every time, it wants TLS or a login"
		case !s.secure:
			hint = "; if it does so every time, it wants TLS"
		case !s.login:
			hint = "; if it does so every time, it wants a login or a certificate"
		}
	} else if s.login {
		hint = "; if it does so every time, the user or the password is wrong, or it takes no login on this port"
	}
	return fmt.Errorf("%w: broker %s closed the connection%s", ErrUnreachable, s.addr, hint)
}

// Write writes all of p within the deadline, or within the patience if none is set.
func (s *socket) Write(p []byte) (int, error) {
	if !s.writeLimited.Load() {
		if err := s.Conn.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
			return 0, err
		}
	}
	n, err := s.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		err = s.hungUp()
	}
	return n, err
}

// SetDeadline sets both deadlines; the zero time stands for the patience.
func (s *socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline sets when reads end; the zero time stands for the patience.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.readLimited.Store(!t.IsZero())
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets when writes end; the zero time stands for the patience.
func (s *socket) SetWriteDeadline(t time.Time) error {
	s.writeLimited.Store(!t.IsZero())
	return s.Conn.SetWriteDeadline(t)
}
