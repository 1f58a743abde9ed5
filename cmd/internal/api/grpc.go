package api

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"weir/cmd/internal/problem"
)

// grpcClients finds clients that send gRPC to the port of HTTP, as exporters of OTLP do by default in
// some languages. Nothing that they send arrives, and their own log rarely says why.
type grpcClients struct {
	faults *faults
	logger *slog.Logger
	logged atomic.Bool
}

const otlpByHTTP = "weir reads OTLP over HTTP, not gRPC: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"

// refuse answers a request of gRPC and reports whether it was one. The first one is logged; clients
// could fill the log otherwise. HTTP/2 in the clear begins with the method PRI.
func (g *grpcClients) refuse(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != "PRI" && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return false
	}
	if !g.logged.Swap(true) {
		g.logger.Warn(otlpByHTTP, "client", r.RemoteAddr)
	}
	g.faults.write(w, r, &problem.Error{Status: http.StatusUnsupportedMediaType, Detail: otlpByHTTP})
	return true
}
