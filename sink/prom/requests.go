package prom

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/events"
)

// Route is a way in which dispatchers ask whether a call may be made.
type Route uint8

// The routes.
const (
	RouteCheck Route = iota // POST /v1/check
	RouteAuthz              // ext_authz of a gateway
	RouteHook               // the hook of a coding agent
	RouteCount
)

// In the order of the constants.
var routes = [RouteCount]string{"check", "authz", "hook"}

// The decisions: what a dispatcher does with an answer.
const (
	allowed = iota
	warned
	denied
	// The caller then acts as it does without weir, which this side does not see.
	failed // there was no answer
	decisionCount
)

var decisions = [decisionCount]string{"allow", "warn", "deny", "error"}

// addChecks makes the counters and times of asks, one for each route and decision, so that all
// are there from the start.
func (m *Metrics) addChecks(h histograms) {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "checks_total",
		Help: "Answers to dispatchers that asked before a call."}, []string{"route", "decision"})
	h.registry.MustRegister(count)
	// The bounds are around what a call may wait for unnoticed: milliseconds, and a second at
	// most.
	times := h.many("check_duration_seconds", "Time to answer a dispatcher that asks.", "route", 1e-3, 5e-3, 0.025, 0.1, 0.25, 1)
	for r, name := range routes {
		m.checkTimes[r] = times.WithLabelValues(name)
		for d, decision := range decisions {
			m.checks[r][d] = count.WithLabelValues(name, decision)
		}
	}
}

// Check reports one answer: v is nil when there was none.
// A verdict in shadow mode is an allowance, for that is the answer that the dispatcher received.
func (m *Metrics) Check(r Route, v *events.Verdict, took time.Duration) {
	// A route that is not known would be a fault of the caller, and is not worth a crash.
	if m == nil || r >= RouteCount {
		return
	}
	d := allowed
	switch {
	case v == nil:
		d = failed
	case v.Mode == events.ModeShadow:
	case v.Action == events.Warn:
		d = warned
	case v.Stops():
		d = denied
	}
	m.checks[r][d].Inc()
	m.checkTimes[r].Observe(took.Seconds())
}

// The classes of status codes that are counted separately.
const (
	// Redirects count with 2xx: neither is a fault.
	class2xx = iota
	class4xx
	class5xx
	classCount
)

var classes = [classCount]string{"2xx", "4xx", "5xx"}

// addRequests makes the counters of requests to the server. Only patterns are labels,
// never paths, which a client could make up.
func (m *Metrics) addRequests(all []Request) {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: "http_requests_total",
		Help: "Requests that were answered, by pattern and class of status."}, []string{"handler", "method", "code"})
	m.registry.MustRegister(count)
	for _, r := range all {
		counters := new([classCount]prometheus.Counter)
		for c, class := range classes {
			counters[c] = count.WithLabelValues(r.Pattern, r.Method, class)
		}
		m.requests[r] = counters
	}
}

// Counted returns next with its answers counted under the request.
func (m *Metrics) Counted(r Request, next http.HandlerFunc) http.HandlerFunc {
	if m == nil || m.requests[r] == nil {
		return next
	}
	counters := m.requests[r]
	return func(w http.ResponseWriter, req *http.Request) {
		s := &statusWriter{ResponseWriter: w}
		// Deferred, so that a handler that ends by a panic is counted, too.
		defer func() { counters[s.class()].Inc() }()
		next(s, req)
	}
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader passes the status on.
func (s *statusWriter) WriteHeader(status int) {
	// Only the first one goes out.
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController, by which streams flush.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// class is that of the status. A handler that wrote none has answered 200.
func (s *statusWriter) class() int {
	switch {
	case s.status >= 500:
		return class5xx
	case s.status >= 400:
		return class4xx
	}
	return class2xx
}
