package plainhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// ListenTLS is Listen for connections by TLS. Handlers get the state of the connection in the request, as from
// net/http, which does not know a connection that was handed over as one by TLS. So the server's Handler and
// ConnContext are wrapped.
func ListenTLS(l net.Listener, config *tls.Config, server *http.Server, plain func(*http.Request) bool) *Listener {
	handler, connContext := server.Handler, server.ConnContext
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if state, ok := r.Context().Value(stateKey{}).(*tls.ConnectionState); ok {
			r.TLS = state
		}
		handler.ServeHTTP(w, r)
	})
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if connContext != nil {
			ctx = connContext(ctx, c)
		}
		if b, ok := c.(*begun); ok {
			ctx = context.WithValue(ctx, stateKey{}, b.state)
		}
		return ctx
	}
	return Listen(tls.NewListener(l, config), server, plain)
}

// stateKey is the key of the state of a connection that was handed over.
type stateKey struct{}

// handshake begins a connection by TLS; false when it fails. Any other connection needs none.
func (c *conn) handshake(ctx context.Context) bool {
	inner, ok := c.Conn.(*tls.Conn)
	if !ok {
		return true
	}
	server := c.listener.server
	_ = c.SetDeadline(time.Now().Add(server.ReadHeaderTimeout))
	if err := inner.HandshakeContext(ctx); err != nil {
		if other, ok := errors.AsType[tls.RecordHeaderError](err); ok && other.Conn != nil && beginsRequest(other.RecordHeader) {
			_, _ = io.WriteString(other.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
		if server.ErrorLog != nil {
			server.ErrorLog.Printf("TLS handshake with %v: %v", c.RemoteAddr(), err)
		}
		return false
	}
	_ = c.SetDeadline(time.Time{})
	state := inner.ConnectionState()
	c.state = &state
	return true
}

// beginsRequest reports whether a client sent a request without TLS.
func beginsRequest(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
