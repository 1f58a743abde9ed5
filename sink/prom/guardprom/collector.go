// Package guardprom exposes the metrics of a guard in its host's Prometheus registry. It is off until it is registered:
//
//	prometheus.MustRegister(guardprom.New(g))
package guardprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/sink/guard"
)

// Collector reads a guard when Prometheus asks.
// The guard counts by itself, so nothing is lost between two readings.
type Collector struct{ guard *guard.Guard }

// New returns a collector for the guard.
func New(g *guard.Guard) *Collector { return &Collector{g} }

var (
	decisions = desc("decisions_total", "Decisions about calls, by where they come from.", "decision", "source")
	stale     = desc("stale", "Whether the orders may be out of date.")
	entries   = desc("table_entries", "Orders that are held.")
	changes   = desc("orders_total", "Verdicts that changed the orders.")
	leftOut   = desc("orders_left_out_total", "Orders that there was no room for.")
	opened    = desc("connections_total", "Times that the stream of verdicts was opened.")
	lapses    = desc("stale_total", "Times that the orders went out of date.")
	acks      = desc("acks_total", "Refusals that weir was told of, and those that it could not be told of.", "outcome")
	asks      = desc("ask_failures_total", "Asks that were answered from memory because weir did not answer.")
	panics    = desc("panics_total", "Panics of the guard, after which it went on as if weir were unreachable.")
)

// desc describes a metric of guards. Guards are counted in the process of the dispatcher, so
// their names have a prefix of their own.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_guard_"+name, help, labels, nil)
}

// Describe sends what Collect may send.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{decisions, stale, entries, changes, leftOut, opened, lapses, acks, asks, panics} {
		out <- d
	}
}

// Collect reads and sends.
// What a guard counts goes on from its start; a guard that is made anew begins at 0.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	n := c.guard.Counts()
	count(decisions, n.Allowed.Load(), "allow", "orders")
	count(decisions, n.Refused.Load(), "refuse", "orders")
	count(decisions, n.StaleAllowed.Load(), "allow", guard.StaleOpen.String())
	count(decisions, n.StaleRefused.Load(), "refuse", guard.StaleClosed.String())
	count(decisions, n.LocalLimited.Load(), "refuse", guard.LocalLimit.String())
	count(decisions, n.Faults.Load(), "allow", guard.ErrorOpen.String())
	isStale := 0.0
	if c.guard.Stale() {
		isStale = 1
	}
	gauge(stale, isStale)
	gauge(entries, float64(c.guard.Orders()))
	count(changes, n.Orders.Load())
	count(leftOut, n.LeftOut.Load())
	count(opened, n.Connections.Load())
	count(lapses, n.Stales.Load())
	count(acks, n.Acked.Load(), "told")
	count(acks, n.AcksDropped.Load(), "dropped")
	count(asks, n.AskFailures.Load())
	count(panics, n.Panics.Load())
}
