//go:build linux && !race

package rawconn

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Wrap returns c with reads and writes that bypass the scheduler if c is a TCP connection of
// package net, and else c as it is.
func Wrap(c net.Conn) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := t.SyscallConn()
	if err != nil { // it is closed, which its next use reports
		return c
	}
	d := &conn{Conn: c, raw: raw}
	d.in.try = func(fd uintptr) bool { return d.in.call(syscall.SYS_READ, fd) }
	d.out.try = func(fd uintptr) bool { return d.out.call(syscall.SYS_WRITE, fd) }
	return d
}

// conn is a connection by TCP.
type conn struct {
	net.Conn
	raw     syscall.RawConn
	in, out direction
}

// direction is one of the two in which bytes go.
type direction struct {
	mu  sync.Mutex            // held by one Read or Write at a time
	try func(fd uintptr) bool // is made once: each call would need memory for its own

	p     []byte // the rest of the caller's
	n     int    // bytes that came or went
	errno syscall.Errno
}

// do has try called until it is done, which is as often as wait has found the connection
// ready. The errors are those that package net gives.
func (d *direction) do(c *conn, op string, p []byte, wait func(try func(fd uintptr) bool) error) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.p, d.n, d.errno = p, 0, 0
	err := wait(d.try)
	d.p = nil
	if e, ok := err.(*net.OpError); ok { // of a deadline, or of a connection that is closed
		e.Op = op
	}
	if err == nil && d.errno != 0 {
		local := c.LocalAddr()
		err = &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, d.errno)}
	}
	return d.n, err
}

// call reads or writes as much as can be without waiting; false when it has to be called
// again once the connection is ready.
func (d *direction) call(trap, fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(&d.p[0])), uintptr(len(d.p)))
		switch errno {
		case 0:
			d.n, d.p = d.n+int(n), d.p[n:]
			// A read takes what there is, a write goes on to the end.
			if trap == syscall.SYS_READ || len(d.p) == 0 {
				return true
			}
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			d.errno = errno
			return true
		}
	}
}

// Read reads what has come, and waits when nothing has.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return c.Conn.Read(p)
	}
	n, err := c.in.do(c, "read", p, c.raw.Read)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write writes all of p, and waits while the other side takes nothing.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return c.Conn.Write(p)
	}
	return c.out.do(c, "write", p, c.raw.Write)
}
