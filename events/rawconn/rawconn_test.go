package rawconn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
	"time"
)

// pair returns both ends of a connection by TCP, the first one made by accept.
func pair(t *testing.T, accept func(net.Conn) net.Conn) (here net.Conn, there *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = other.Close() })
	return accept(c), other.(*net.TCPConn)
}

// TestMoreThanTheSystemHolds sends so much in both directions at one time that each has to
// wait for the other side again and again.
func TestMoreThanTheSystemHolds(t *testing.T) {
	here, there := pair(t, Wrap)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	failed := make(chan error, 3)
	send := func(c net.Conn) {
		n, err := c.Write(sent)
		if err == nil && n != len(sent) {
			err = fmt.Errorf("%d bytes of %d were written", n, len(sent))
		}
		failed <- err
	}
	go send(here)
	go send(there)
	receive := func(c net.Conn) error {
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(c, got); err != nil {
			return err
		}
		if !bytes.Equal(got, sent) {
			return errors.New("what came is not what was sent")
		}
		return nil
	}
	go func() { failed <- receive(there) }()
	if err := receive(here); err != nil {
		t.Error(err)
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestEndsAreThoseOfNet ends connections in each way that servers distinguish, and wants
// the result of package net.
func TestEndsAreThoseOfNet(t *testing.T) {
	past := time.Unix(1, 0)
	for name, use := range map[string]func(here net.Conn, there *net.TCPConn) (int, error){
		"the other side has ended": func(here net.Conn, there *net.TCPConn) (int, error) {
			_ = there.CloseWrite()
			return here.Read(make([]byte, 1))
		},
		"the other side is gone": func(here net.Conn, there *net.TCPConn) (int, error) {
			_ = there.SetLinger(0)
			_ = there.Close()
			return here.Read(make([]byte, 1))
		},
		"a write to who is gone": func(here net.Conn, there *net.TCPConn) (int, error) {
			_ = there.SetLinger(0)
			_ = there.Close()
			_, _ = here.Read(make([]byte, 1)) // by which it is known
			return here.Write([]byte("x"))
		},
		"a read of what is closed": func(here net.Conn, _ *net.TCPConn) (int, error) {
			_ = here.Close()
			return here.Read(make([]byte, 1))
		},
		"a write to what is closed": func(here net.Conn, _ *net.TCPConn) (int, error) {
			_ = here.Close()
			return here.Write([]byte("x"))
		},
		"a read after its time": func(here net.Conn, _ *net.TCPConn) (int, error) {
			_ = here.SetReadDeadline(past)
			return here.Read(make([]byte, 1))
		},
		"a read whose time ends": func(here net.Conn, _ *net.TCPConn) (int, error) {
			time.AfterFunc(time.Millisecond, func() { _ = here.SetReadDeadline(past) })
			return here.Read(make([]byte, 1))
		},
		"a read during which it is closed": func(here net.Conn, _ *net.TCPConn) (int, error) {
			time.AfterFunc(time.Millisecond, func() { _ = here.Close() })
			return here.Read(make([]byte, 1))
		},
		"a write after its time": func(here net.Conn, _ *net.TCPConn) (int, error) {
			_ = here.SetWriteDeadline(past)
			return here.Write([]byte("x"))
		},
		"a read of what there is": func(here net.Conn, there *net.TCPConn) (int, error) {
			_, _ = there.Write([]byte("abc"))
			return io.ReadFull(here, make([]byte, 3))
		},
		"a read of nothing":  func(here net.Conn, _ *net.TCPConn) (int, error) { return here.Read(nil) },
		"a write of nothing": func(here net.Conn, _ *net.TCPConn) (int, error) { return here.Write(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			want := endOf(use(pair(t, func(c net.Conn) net.Conn { return c })))
			if got := endOf(use(pair(t, Wrap))); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// end is how a read or a write has ended, but for the ports.
type end struct {
	n              int
	eof, timeout   bool
	op, net, cause string
	closed         bool
	addressed      bool
}

func endOf(n int, err error) end {
	e := end{n: n, eof: err == io.EOF, closed: errors.Is(err, net.ErrClosed)}
	if n, ok := err.(net.Error); ok {
		e.timeout = n.Timeout()
	}
	if o, ok := err.(*net.OpError); ok {
		e.op, e.net, e.cause, e.addressed = o.Op, o.Net, o.Err.Error(), o.Source != nil && o.Addr != nil
	}
	return e
}

// TestOnlyConnectionsByTCP holds that what is no socket is left alone.
func TestOnlyConnectionsByTCP(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	defer here.Close()
	if Wrap(here) != here {
		t.Error("a pipe was taken for a socket")
	}
}
