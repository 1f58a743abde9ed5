package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"weir/cmd/internal/access"
	"weir/cmd/internal/admission"
	"weir/cmd/internal/budget"
	"weir/sink/check"
	"weir/sink/prom"
)

// fromGateways lets the server treat the calls of gateways as requests to weir. A client
// with a token is a gateway. Without tokens a gateway cannot be distinguished from a page
// in a browser. It runs before every check of a request's host, origin and credentials,
// because these belong to the client and not to the gateway.
func (a *Server) fromGateways(next http.Handler) http.Handler {
	if !a.o.Authz {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, _ = check.FromGateway(r, a.door.isGateway(r))
		next.ServeHTTP(w, r)
	})
}

// isGateway reports whether a request proves that it comes from a gateway: by the token
// or the certificate of a principal with the role ask. Its other credentials are its
// client's. Where no token is set, no request is a gateway's by this, and hosts and
// origins are judged unchanged.
func (d *door) isGateway(r *http.Request) bool {
	p := d.keeper.ByToken(r.Header.Get(check.TokenHeader))
	if p == nil {
		p = d.keeper.ByCertificate(r)
	}
	return p != nil && p.May(access.Ask)
}

// port is a listener beside that for requests, and who serves it.
// Its zero value is a port that is not opened.
type port struct {
	listener net.Listener
	server   *http.Server
}

// address is where the port was opened; "" when it was not.
func (p *port) address() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// close closes the port and all requests on it.
// It waits for no request: a gateway that is cut off follows its own setting for an
// unreachable weir.
func (p *port) close() {
	if p.server != nil {
		_ = p.server.Close()
	}
}

// One connection of a gateway asks about many requests at a time. Each takes some 20 KiB until
// its answer is taken, so a client that takes none holds no more than these bounds leave it.
const (
	gatewayConnections = 128
	gatewayStreams     = 64        // on one connection
	gatewayReceived    = 256 << 10 // bytes of messages on one connection that are not read yet
)

// How long a message of a gateway may take to come, which has all of it before it asks, and
// how long until its answer is taken.
const (
	gatewayTimeout = 5 * time.Second
	gatewayAnswer  = 10 * time.Second
)

// listenForGateways opens the port, when there is to be one. On another address than
// loopback a token is needed, as for the other routes.
// It is gRPC by net/http's HTTP/2 (see decision 35). The listener serves nothing else, so
// what holds for the main port, hosts and origins, has no part here.
func (a *Server) listenForGateways() error {
	if a.o.AuthzGRPC == "" {
		return nil
	}
	at, err := newDoor(a.door.keeper, a.o.AuthzGRPC, " for gateways")
	if err != nil {
		return err
	}
	if a.gateways.listener, err = net.Listen("tcp", a.o.AuthzGRPC); err != nil {
		return fmt.Errorf("listen on %s for gateways: %w; choose another address", a.o.AuthzGRPC, err)
	}
	gate := admission.NewGate(a.o.Requests * checksPerRequest)
	calls := &check.GRPC{
		Authz: check.NewAuthz(a.checking().timed(prom.RouteAuthz), a.faults.write, a.clock.Now),
		// Allowed notes the caller in the visit that the handler below has made, for Enter,
		// which comes later. It rejects a caller that is bound to sources, since a gateway's
		// check names no source.
		Allowed: func(r *http.Request) bool {
			who, e := at.admit(r, asker)
			visitOf(r.Context()).who = who
			return e == nil && !who.BoundToSources()
		},
		Panicked: func(fault *check.Panic) { a.faults.panicked("gRPC of a gateway", fault) },
		Busy:     func(err error) bool { return errors.Is(err, budget.ErrFull) },
		// The rate is looked at before a place is taken. What finds none is answered
		// RESOURCE_EXHAUSTED, at which Envoy goes by its failure mode.
		Enter: func(r *http.Request) (leave func(), ok bool) {
			if a.entrance.paid(visitOf(r.Context()).who) != nil {
				return nil, false
			}
			return gate.Enter(r, visitOf(r.Context()).name())
		},
	}
	a.gateways.server = &http.Server{
		Handler: admission.Track(a.charged(func(w http.ResponseWriter, r *http.Request) {
			// Allowed above sees the token and fills in the caller.
			calls.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, new(visit))))
		})),
		ConnContext:       admission.ConnContext,
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: headerTimeout,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: gatewayStreams, MaxReceiveBufferPerConnection: gatewayReceived, MaxReceiveBufferPerStream: gatewayReceived},
		ReadTimeout:       gatewayTimeout, // of each stream
		WriteTimeout:      gatewayAnswer,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
	var limited net.Listener = admission.Listen(a.gateways.listener, gatewayConnections, a.crowded("gateways"))
	if a.o.TLS != nil {
		a.gateways.server.Protocols.SetHTTP2(true)
		limited = tls.NewListener(limited, a.o.TLS.Server(true, "h2"))
	} else {
		// gRPC in the clear begins with HTTP/2 at once; nothing else is spoken on this
		// port.
		a.gateways.server.Protocols.SetUnencryptedHTTP2(true)
	}
	go func() {
		if err := a.gateways.server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
			a.parts.Program.Fail(fmt.Errorf("serve gateways: %w", err))
		}
	}()
	a.logger.Info("gateways are answered by gRPC", "address", a.GatewayAddr())
	return nil
}

// GatewayAddr is the address that gateways are answered on by gRPC, with the port that
// was chosen; "" when they are not.
func (a *Server) GatewayAddr() string { return a.gateways.address() }
