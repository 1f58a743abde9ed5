package plainhttp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

const (
	// bufferBytes is how much of a connection is read at one time. A head that does not
	// fit is not plain.
	bufferBytes = 4 << 10
	// mostBody is how long the body of a plain request is at most.
	mostBody = 64 << 10
	// mostSpare is how much memory of an answer is used again; longer ones are rare.
	mostSpare = 16 << 10
	// lastWords is how long a client that was refused may go on to send its body, so that
	// it reads the answer before the connection breaks.
	lastWords = 500 * time.Millisecond
)

// conn is a connection that is served here, by one goroutine.
type conn struct {
	net.Conn
	listener *Listener
	busy     bool                 // with the listener's mu
	state    *tls.ConnectionState // nil without TLS

	buffer    []byte
	from, end int // what was read and not used, in buffer

	head    []byte        // of the last request, and what was read of it
	request *http.Request // without a body
	body    body
	answer  answer

	readBy, writeBy time.Time // deadlines
}

// serve answers requests until one is not plain.
func (c *conn) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handed := false
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler && c.listener.server.ErrorLog != nil {
			c.listener.server.ErrorLog.Printf("panic serving %v: %v\n%s", c.RemoteAddr(), p, debug.Stack())
		}
		if !handed {
			_ = c.Close()
		}
		c.listener.leave(c)
	}()
	server := c.listener.server
	if server.ConnContext != nil {
		ctx = server.ConnContext(ctx, c.Conn)
	}
	if !c.handshake(ctx) {
		return
	}
	patience := server.ReadHeaderTimeout
	for {
		if !c.fill(patience) {
			return
		}
		patience = server.IdleTimeout
		if c.skipLineEnds(); c.from == c.end {
			continue
		}
		if !c.listener.turn(c, true) {
			return
		}
		r := c.next()
		if r == nil {
			handed = true
			// The server sets deadlines of its own, but for that of writing.
			_ = c.SetDeadline(time.Time{})
			c.listener.handOver(c, c.buffer[c.from:c.end])
			return
		}
		if !c.repeat() && !c.serveOne(r.WithContext(ctx)) {
			return
		}
		if !c.listener.turn(c, false) {
			return
		}
	}
}

// fill waits for the next request, if none has come; false when none comes. Fewer bytes than
// any request has, and no more, are none after another one, as in net/http.
func (c *conn) fill(patience time.Duration) bool {
	least := 1
	if c.request != nil {
		least = 4
	}
	for c.end-c.from < least {
		c.setReadBy(patience)
		c.from, c.end = 0, copy(c.buffer, c.buffer[c.from:c.end])
		n, err := c.Conn.Read(c.buffer[c.end:])
		if n == 0 && err != nil {
			return false
		}
		c.end += n
	}
	return true
}

// skipLineEnds passes over the line end that some clients send after the body of a POST, as
// net/http does.
func (c *conn) skipLineEnds() {
	for n := 0; c.request != nil && c.request.Method == http.MethodPost && n < 4 && c.from < c.end && (c.buffer[c.from] == '\r' || c.buffer[c.from] == '\n'); n++ {
		c.from++
	}
}

// little is by how much a deadline may be earlier than wanted: to set one costs as much as to parse a head.
func little(patience time.Duration) time.Duration { return max(time.Second, patience/8) }

// setReadBy moves the deadline of reads, if it is more than a little earlier.
func (c *conn) setReadBy(patience time.Duration) {
	by := time.Now().Add(patience)
	if d := by.Sub(c.readBy); d < 0 || d > little(patience) {
		c.readBy = by
		_ = c.SetReadDeadline(by)
	}
}

// repeat answers a request as the handler wanted it for its head; false when it is the handler's. One whose body
// goes on, or that others follow already, takes the longer way, where it waits and takes its turn with others.
func (c *conn) repeat() bool {
	body := c.buffer[c.from:c.end]
	if c.answer.again == nil || len(body) != int(c.request.ContentLength) {
		return false
	}
	c.answer.status, c.answer.body = 0, c.answer.body[:0]
	if !c.answer.again(&c.answer, body) {
		return false
	}
	c.from = c.end
	c.answer.write(false) // the next read reports a connection that is gone
	return true
}

// serveOne answers a request; false when the connection is to end with it.
func (c *conn) serveOne(r *http.Request) bool {
	c.body = body{conn: c, left: int(r.ContentLength)}
	if c.body.left > c.end-c.from { // more has to be waited for
		c.readBy = time.Time{} // also others may set it now
		_ = c.SetReadDeadline(time.Now().Add(c.listener.server.ReadTimeout))
	}
	if r.Body = http.NoBody; c.body.left > 0 {
		r.Body = &c.body
	}
	c.answer.begin(c)
	c.listener.server.Handler.ServeHTTP(&c.answer, r)
	goesOn := c.answer.header.Get("Connection") != "close"
	if c.body.left > 0 { // it was refused
		goesOn = goesOn && c.body.skip()
	}
	if !c.answer.write(!goesOn) {
		return false
	}
	if !goesOn && c.body.left > 0 && !c.body.skip() {
		_ = c.SetReadDeadline(time.Now().Add(lastWords))
		_, _ = io.Copy(io.Discard, &c.body)
	}
	return goesOn
}

// next takes the next request out of what was read; nil when it is not plain.
func (c *conn) next() *http.Request {
	in := c.buffer[c.from:c.end]
	n := bytes.Index(in, []byte("\r\n\r\n"))
	if n < 0 {
		return nil
	}
	head := in[:n+4]
	// Who asks much sends the same head again and again.
	if c.request == nil || !bytes.Equal(head, c.head) {
		r := parse(head)
		if r == nil || !c.listener.plain(r) {
			return nil
		}
		r.RemoteAddr, r.TLS = c.RemoteAddr().String(), c.state
		c.request, c.head = r, append(c.head[:0], head...)
		c.answer.again, c.answer.lines = nil, c.answer.lines[:0]
	}
	c.from += len(head)
	return c.request
}

// parse reads the head of a request; nil when it is not plain, which is the server's to
// judge. net/http reads it in any case: what is looked for here is all that its server looks
// at beyond that, and what would have to be served in another way.
func parse(head []byte) *http.Request {
	for i, b := range head {
		switch {
		case b == '\r' && head[i+1] == '\n', b >= ' ' && b <= '~':
		case b == '\n' && i > 0 && head[i-1] == '\r' && (i+1 == len(head) || head[i+1] != ' '): // which would go on with the line
		default:
			return nil
		}
	}
	text := bytes.NewReader(head)
	in := bufio.NewReader(text)
	r, err := http.ReadRequest(in)
	if err != nil || in.Buffered()+text.Len() > 0 {
		return nil
	}
	h := r.Header
	if r.Method == http.MethodHead || r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.RequestURI[0] != '/' || r.ContentLength < 0 || r.ContentLength > mostBody ||
		len(r.TransferEncoding) > 0 || r.Close || len(h["Content-Length"]) > 1 || !plainHost(r.Host) {
		return nil
	}
	for name, values := range h {
		if !plainName(name) || slices.Contains(asksMore, name) {
			return nil
		}
		if name == "Connection" && (len(values) > 1 || !strings.EqualFold(values[0], "keep-alive")) {
			return nil
		}
	}
	return r
}

// asksMore are the headers by which a client wants more of the connection than an answer.
var asksMore = []string{"Expect", "Upgrade", "Trailer", "Te", "Http2-Settings", "Proxy-Connection", "Keep-Alive"}

func plainHost(host string) bool {
	for _, b := range []byte(host) {
		if !isWord(b) && b != '.' && b != ':' && b != '[' && b != ']' {
			return false
		}
	}
	return host != ""
}

func plainName(name string) bool {
	for _, b := range []byte(name) {
		if !isWord(b) {
			return false
		}
	}
	return name != ""
}

func isWord(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_'
}

// body is the body of a request.
type body struct {
	conn *conn
	left int
}

// Read reads what has come with the head, and then what comes.
func (b *body) Read(p []byte) (n int, err error) {
	c := b.conn
	p = p[:min(len(p), b.left)]
	switch {
	case b.left == 0:
		return 0, io.EOF
	case c.from < c.end:
		n = copy(p, c.buffer[c.from:c.end])
		c.from += n
	default:
		if n, err = c.Conn.Read(p); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	if b.left -= n; b.left == 0 {
		return n, io.EOF
	}
	return n, err
}

// Close has nothing to do.
func (b *body) Close() error { return nil }

// skip passes over what has come of the body; true when that is all of it.
func (b *body) skip() bool {
	n := min(b.left, b.conn.end-b.conn.from)
	b.conn.from += n
	b.left -= n
	return b.left == 0
}
