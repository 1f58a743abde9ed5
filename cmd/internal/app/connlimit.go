package app

import (
	"net"
	"sync"
)

// limitListener accepts a connection only when fewer than so many are open.
type limitListener struct {
	net.Listener
	room  chan struct{}
	close sync.Once
	done  chan struct{}
}

func newLimitListener(l net.Listener, most int) net.Listener {
	return &limitListener{Listener: l, room: make(chan struct{}, most), done: make(chan struct{})}
}

// Accept waits for room and then for a connection.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &limitedConn{Conn: c, room: l.room}, nil
}

// Close closes the listener; connections stay open.
func (l *limitListener) Close() error {
	l.close.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	room  chan struct{}
	close sync.Once
}

// Close closes the connection and makes room for another.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.close.Do(func() { <-c.room })
	return err
}
