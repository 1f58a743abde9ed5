package api

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/admission"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/prom"
)

// meter is what metrics are read of beside the counters, and their listener.
// begun is written once before anything is served. measure may be called by several scrapes
// at one time, so reloaded has a lock.
type meter struct {
	begun    time.Time
	caughtUp atomic.Int64 // how long the start took, nanoseconds

	mu       sync.Mutex
	reloaded events.RFC3339 // when limits were last seen to be read without a fault

	measures
	port port
}

// measures is what a scrape reads.
type measures struct {
	health *health
	faults *faults
	budget *budget.Budget
	counts *pump.Counts
	clock  clock.Clock
}

// restored notes that the log was caught up with.
// Only the first time counts. At least one nanosecond is noted, since 0 says that the start
// is still going on.
func (m *meter) restored(now time.Time) {
	m.caughtUp.CompareAndSwap(0, max(1, int64(now.Sub(m.begun))))
}

// measure fills in where everything stands.
// It is called for each scrape, by its goroutine. It reads what the pumps show to any
// goroutine, some of it under the lock of a pump, and nothing of single flows, so that a
// scrape costs the fold next to nothing.
func (m *meter) measure(r *prom.Reading) {
	m.counts.Read(r)
	r.Panics = m.faults.panics.Load()
	r.Intake = prom.Intake{Held: m.budget.Held(), Limit: m.budget.Limit(), Refused: m.budget.Refused()}
	for _, p := range m.health.log.Pumps(pump.FlowStage) {
		for i := range r.Live {
			r.Live[i] += p.Standing().Live[i].Load()
		}
		r.FlowMemory += p.Standing().FlowBytes.Load()
		r.Unsent += p.Standing().Unsent.Load()
		// One pump speaks for all, as in inForce.
		if r.Limits == nil {
			r.Limits, _ = p.Limits()
		}
	}
	m.readAgents(r)
	m.health.log.Measure(r)
	r.StoreBytes[0], r.StoreBytes[1] = m.health.store.Size()
	r.DiskFree, r.DiskFloor = m.health.store.Free()
	r.Restored = time.Duration(m.caughtUp.Load())
	// The same answer as /readyz gives, so that an alarm on the metric and a probe agree.
	ready := m.health.readiness()
	r.Ready, r.Reloaded = ready.Ready, ready.Limits.OK
	m.mu.Lock()
	// A reading that was refused keeps the time of the last good one, by which its age is
	// seen.
	if ready.Limits.OK {
		m.reloaded = ready.Limits.Time
	}
	if m.reloaded != 0 {
		r.ReloadedAt = events.Stamp(m.reloaded).Time()
	}
	m.mu.Unlock()
	m.health.selfTest.Measure(r)
	m.health.program.Measure(r)
	r.Degraded.Busy = int64(len(m.health.busy()))
	if behind := m.health.degraded.Status(); behind != nil {
		r.Degraded.Behind = int64(len(behind.Partitions))
	}
	r.Degraded.Begun, r.Degraded.Answers[0], r.Degraded.Answers[1], r.Degraded.Unlogged = m.health.degraded.Counted()
}

// readAgents fills in where the agent stage stands, as far as it is folded here.
// AgentsBehind is how long ago the least of their watermarks is: silence is judged up to
// there and no further (see decision 38).
func (m *meter) readAgents(r *prom.Reading) {
	now := m.clock.Now()
	watermark := now
	r.Budgets = r.Budgets[:0]
	for _, p := range m.health.log.Pumps(pump.AgentStage) {
		r.Budgets = append(r.Budgets, p.Accounts()...)
		agents, ok := p.AgentGauge()
		if !ok {
			continue
		}
		r.HasAgents = true
		r.Agents.Add(&agents)
		r.AgentMemory += p.Standing().FlowBytes.Load()
		r.Unsent += p.Standing().Unsent.Load()
		at := m.begun // nothing can be reported before
		if w := events.Stamp(p.Standing().Watermark.Load()); w != 0 {
			at = w.Time()
		}
		// The furthest behind counts: silence is reported only up to there.
		if at.Before(watermark) {
			watermark = at
		}
	}
	r.Budgets = r.Budgets[:min(len(r.Budgets), prom.MostAccounts)]
	r.AgentsBehind = now.Sub(watermark)
}

// serveMetrics serves metrics and profiles on a listener of their own. weir works without
// it, so an address that is in use is only logged.
// It has a port of its own so that operators can expose it to the collector of metrics
// alone. It requires no token.
func (a *Server) serveMetrics() {
	if a.metrics == nil {
		return
	}
	local, err := loopback(a.o.Metrics)
	if err == nil {
		a.meter.port.listener, err = net.Listen("tcp", a.o.Metrics)
	}
	if err != nil {
		a.logger.Error("metrics are not served: choose another address with --metrics, or none with --metrics ''", "address", a.o.Metrics, "error", err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.Handler())
	// A profile shows what agents wrote, so no other machine may ask for one.
	if local { // profiles hold what is in memory, and take time
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	a.meter.port.server = &http.Server{
		Handler: admission.Track(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			// A page in a browser on this machine could reach the port by a name of its own,
			// see KnowsHost. Beyond loopback a collector may use any name for weir.
			if local && !a.KnowsHost(r.Host) {
				http.Error(w, "weir does not know the host in the Host header; use an address or localhost, or start weir with --host NAME", http.StatusMisdirectedRequest)
				return
			}
			mux.ServeHTTP(w, r)
		})),
		ConnContext:       admission.ConnContext,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
	var limited net.Listener = admission.Listen(a.meter.port.listener, metricConnections, a.crowded("metrics"))
	if a.o.TLS != nil {
		limited = tls.NewListener(limited, a.o.TLS.Server(true, "http/1.1"))
	}
	go func() {
		if err := a.meter.port.server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
			// Unlike the main port, this one is no reason to end.
			a.logger.Error("there are no metrics any more", "error", fmt.Errorf("serve metrics: %w", err))
		}
	}()
	a.logger.Info("metrics are served", "address", a.MetricsAddr())
}

// metricConnections is how many connections may be open to the listener for metrics.
const metricConnections = 32

// MetricsAddr is the address that metrics are served on, with the port that was chosen;
// "" when they are not.
func (a *Server) MetricsAddr() string { return a.meter.port.address() }
