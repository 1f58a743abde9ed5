package main

import (
	"net"
	"sync"
	"time"
)

// linger is longer than the session of any member of a trial.
const linger = 15 * time.Second

// lingering has kfake believe that the connections of its clients last for linger after their end.
//
// kfake sets a session timeout only for a member whose connection is there when it answers a JoinGroup. One
// that is killed while the group changes would be a member for good, with partitions that no member reads.
// Apache Kafka counts it out.
type lingering struct{ net.Listener }

func listenLingering(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return lingering{l}, err
}

func (l lingering) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	closed := make(chan struct{})
	return &lingeringConn{Conn: c, closed: closed, end: sync.OnceFunc(func() { close(closed) })}, nil
}

// lingeringConn is a connection that ends late.
type lingeringConn struct {
	net.Conn
	closed <-chan struct{} // when kfake closes it
	end    func()
}

// Read reports the end of the connection late.
func (c *lingeringConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		late := time.NewTimer(linger)
		defer late.Stop()
		select {
		case <-c.closed:
		case <-late.C:
		}
	}
	return n, err
}

// Write drops what cannot be sent any more.
func (c *lingeringConn) Write(b []byte) (int, error) {
	_, _ = c.Conn.Write(b)
	return len(b), nil
}

func (c *lingeringConn) Close() error {
	c.end()
	return c.Conn.Close()
}
