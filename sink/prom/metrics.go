package prom

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

// Options are what metrics are made with.
type Options struct {
	// Read fills in where the counters stand. It is called for each scrape, by one
	// goroutine at a time.
	Read func(*Reading)
	// Requests lists what can be asked of the server; other requests are not counted.
	Requests []Request
	// Native adds native histograms to the classic ones. A Prometheus that scrapes
	// them leaves the classic ones out unless it is configured otherwise, and then every
	// panel that reads buckets is empty.
	Native bool
}

// Request is one thing that the server can be asked.
type Request struct{ Method, Pattern string }

// Metrics is a registry of its own with all metrics of weir. A nil Metrics
// accepts all calls and keeps nothing. Its methods may be called by any number of
// goroutines.
// Figures that are read at each scrape are not among its fields: the registry has the collector.
type Metrics struct {
	registry *prometheus.Registry

	batch    prometheus.Histogram
	fold     prometheus.Histogram
	commit   prometheus.Histogram
	lateness prometheus.Histogram
	// By events.Action.Place; nil for actions without a latency.
	latency  [events.ActionCount]prometheus.Observer
	duration prometheus.Histogram
	calls    prometheus.Histogram
	// By the place of a rule's reason; nil for rules that measure nothing at any time.
	ratios     [events.ReasonCount]prometheus.Observer
	checks     [RouteCount][decisionCount]prometheus.Counter
	checkTimes [RouteCount]prometheus.Observer
	requests   map[Request]*[classCount]prometheus.Counter
}

// New returns metrics under which every series is there from the start.
// A series that is there from the start begins at 0, so that a rate sees its first step.
func New(o Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), requests: make(map[Request]*[classCount]prometheus.Counter, len(o.Requests))}
	m.registry.MustRegister(newCollector(o.Read), buildInfo(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h := histograms{m.registry, o.Native}
	m.batch = h.one("batch_events", "Records in one batch that was folded.", 1, 10, 50, 100, 500, 1000)
	m.fold = h.one("fold_duration_seconds", "Time to fold one batch and to publish its verdicts.", 1e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1, 5)
	m.commit = h.one("store_commit_duration_seconds", "Time to write one checkpoint to disk.", 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1, 5)
	// The first bound is about the grace for late events, by which every deadline is late.
	m.lateness = h.one("timer_lateness_seconds", "Event time that passed between a deadline and its firing.", 5, 6, 10, 15, 30, 60, 300)
	m.duration = h.one("flow_duration_seconds", "Time from the first to the last event of flows that were closed (a sample when many are).", 1, 10, 60, 300, 900, 1800, 3600)
	m.calls = h.one("flow_calls", "Calls of agents in flows that were closed (a sample when many are).", 1, 2, 5, 10, 20, 50, 100)
	latency := h.many("detection_latency_seconds", "Time from the append of the event that offends until its verdict is safe for dispatchers to read.", "action",
		1e-3, 5e-3, 0.025, 0.1, 0.25, 0.5, 1, 5, 30)
	for _, a := range []events.Action{events.Warn, events.Throttle, events.Deny, events.Halt} {
		// Looked up once, since it is reported for each verdict.
		m.latency[a.Place()] = latency.WithLabelValues(string(a))
	}
	ratios := h.many("flow_limit_ratio", "What flows that were closed had used up of a limit (a sample when many are).", "rule", 0.5, 0.8, 1)
	var empty analyzer.Flow
	for _, c := range analyzer.New(analyzer.Balanced()).View(&empty).Counters { // what can be measured at any time
		if r, ok := analyzer.RuleNamed(c.Rule); ok {
			reason := analyzer.Rules[r].Reason
			m.ratios[reason.Place()] = ratios.WithLabelValues(string(reason))
		}
	}
	// What is counted by the caller is made here as well, so that it is there from the start.
	m.addChecks(h)
	m.addRequests(o.Requests)
	return m
}

// Handler serves the metrics, with exemplars to those who ask for OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	// More scrapes than this would only wait for one another.
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Registry is where the metrics are registered, for tests.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Batch reports that a number of records were folded and the resulting verdicts published.
func (m *Metrics) Batch(records int, took time.Duration) {
	if m != nil && records > 0 {
		m.batch.Observe(float64(records))
		m.fold.Observe(took.Seconds())
	}
}

// Checkpoint reports that one was written.
func (m *Metrics) Checkpoint(took time.Duration) {
	if m != nil {
		m.commit.Observe(took.Seconds())
	}
}

// Deadline reports how much later than at its time a deadline fired.
func (m *Metrics) Deadline(late time.Duration) {
	if m != nil {
		m.lateness.Observe(late.Seconds())
	}
}

// Published reports how long it took from an event to the verdict that it brought about.
// flow is the hash of the flow's key.
func (m *Metrics) Published(a events.Action, took time.Duration, flow uint64) {
	// Clocks of producers are not asked: both times are weir's own.
	if m == nil || m.latency[a.Place()] == nil {
		return
	}
	// A latency below 0 is a clock that was set back.
	m.latency[a.Place()].(prometheus.ExemplarObserver).ObserveWithExemplar(max(0, took.Seconds()), exemplarLabels(flow))
}

// FlowClosed reports a flow that is live no more: how long it was, how many calls
// agents made, and how much of each limit it had used up.
func (m *Metrics) FlowClosed(lasted time.Duration, calls int64, counters []rules.CounterView) {
	if m == nil {
		return
	}
	m.duration.Observe(lasted.Seconds())
	m.calls.Observe(float64(calls))
	// Several rows of one reason count as the one that was used up most.
	// On the stack: nothing is allocated for a flow that has ended.
	var near [events.ReasonCount]float64
	var known [events.ReasonCount]bool
	for i := range counters {
		c := &counters[i]
		if r, ok := analyzer.RuleNamed(c.Rule); ok && c.Limit > 0 { // a reason may stand in several rows
			at := analyzer.Rules[r].Reason.Place()
			near[at], known[at] = max(near[at], c.Near), true
		}
	}
	for at, o := range m.ratios {
		if o != nil && known[at] {
			o.Observe(near[at])
		}
	}
}

// exemplarLabels are those of a flow: 22 of the 128 characters that there may be. The
// id itself may be longer, and would end the process.
func exemplarLabels(flow uint64) prometheus.Labels {
	return prometheus.Labels{"flow_key": fmt.Sprintf("%016x", flow)}
}

// histograms makes those of a registry.
type histograms struct {
	registry *prometheus.Registry
	native   bool
}

// options are those of a histogram under weir's prefix, with native buckets beside the classic
// ones where they are wanted.
func (h histograms) options(name, help string, buckets []float64) prometheus.HistogramOpts {
	o := prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
	if h.native {
		// Buckets grow by 1.1, at most 100 of them, and begin anew at most once an hour.
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = 1.1, 100, time.Hour
	}
	return o
}

// one makes and registers a histogram without labels.
func (h histograms) one(name, help string, buckets ...float64) prometheus.Histogram {
	x := prometheus.NewHistogram(h.options(name, help, buckets))
	h.registry.MustRegister(x)
	return x
}

// many makes and registers a histogram for each value of a label, from a list that is closed.
func (h histograms) many(name, help, label string, buckets ...float64) *prometheus.HistogramVec {
	x := prometheus.NewHistogramVec(h.options(name, help, buckets), []string{label})
	h.registry.MustRegister(x)
	return x
}

// buildInfo reports the version of this program. A program that was built without version control has
// "unknown".
func buildInfo() prometheus.Collector {
	// As labels and not as values: what a program is made of is no figure.
	labels := prometheus.Labels{"version": "unknown", "revision": "unknown", "goversion": "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		labels["goversion"] = info.GoVersion
		if info.Main.Version != "" {
			labels["version"] = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				labels["revision"] = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info", Help: "What this program was made of; always 1.", ConstLabels: labels})
	g.Set(1)
	return g
}
