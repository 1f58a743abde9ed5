package prom

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// All names begin with it.
const namespace = "weir"

// row is a metric: a family of series that are read when they are asked for.
type row struct {
	// Names have no prefix; newCollector puts it before them.
	name, help string
	kind       prometheus.ValueType
	labels     []string
	// It may give any number of series, one for each combination of labels, and none.
	read func(r *Reading, to *series)

	// Made once by newCollector.
	desc *prometheus.Desc
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// series takes those of one row.
// It is made for each row of each scrape.
type series struct {
	row *row
	out chan<- prometheus.Metric
}

// is sends one series. The labels are the values of row.labels, in their order; a wrong number
// of them ends the process, which tests find.
func (s *series) is(v float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(s.row.desc, s.row.kind, v, labels...)
}

// count is is of a whole number.
func (s *series) count(v int64, labels ...string) { s.is(float64(v), labels...) }

// example is count with the flow to look at that was counted last.
// The exemplar has the hash of the flow's key, see exemplarLabels.
func (s *series) example(v *VerdictCount, labels ...string) {
	m := prometheus.MustNewConstMetric(s.row.desc, s.row.kind, float64(v.N), labels...)
	if !v.Last.At.IsZero() {
		m = prometheus.MustNewMetricWithExemplars(m, prometheus.Exemplar{Value: 1, Labels: exemplarLabels(v.Last.Flow), Timestamp: v.Last.At})
	}
	s.out <- m
}

// one reads the only series of a row.
// get must be quick and must not block: all rows are read in turn.
func one(get func(*Reading) int64) func(*Reading, *series) {
	return func(r *Reading, to *series) { to.count(get(r)) }
}

// float is one of what is no whole number.
func float(get func(*Reading) float64) func(*Reading, *series) {
	return func(r *Reading, to *series) { to.is(get(r)) }
}

// each reads a series for each name, in the order of the figures.
// The array that get returns has to be as long as names.
func each(names []string, get func(*Reading) []int64) func(*Reading, *series) {
	return func(r *Reading, to *series) {
		for i, n := range get(r) {
			to.count(n, names[i])
		}
	}
}

// collector turns a reading into metrics.
type collector struct {
	read func(*Reading)
	rows []row

	// A reading is large and is used again, so scrapes at one time wait for each other.
	mu      sync.Mutex // of what follows
	reading Reading
}

// newCollector makes the descriptions of the table once; a scrape only fills in values.
func newCollector(read func(*Reading)) *collector {
	c := &collector{read: read, rows: table()}
	for i := range c.rows {
		r := &c.rows[i]
		r.desc = prometheus.NewDesc(namespace+"_"+r.name, r.help, r.labels, nil)
	}
	return c
}

// Describe says nothing, which is allowed: the registry looks for doubles at each scrape.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads and sends.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// What read does not fill in is zero, as of a weir that has done nothing.
	c.reading = Reading{}
	c.read(&c.reading)
	for i := range c.rows {
		c.rows[i].read(&c.reading, &series{&c.rows[i], out})
	}
	out <- c.reading.depths()
}

// depthBuckets are the bounds of the histogram of depths.
var depthBuckets = [...]int{1, 2, 3, 4, 5, 6, 8, 12, 20}

// depthDesc is made once, for the one metric that is not in the table.
var depthDesc = prometheus.NewDesc(namespace+"_flow_depth", "Depth of the collapsed call stack after each call of an agent.", nil, nil)

// depths is the only histogram that is read at the scrape: it has a figure for each call.
// It is made of exact counts by depth, so no call has to be reported to Prometheus when it is
// made.
func (r *Reading) depths() prometheus.Metric {
	below, sum, next := uint64(0), 0.0, 0
	buckets := make(map[float64]uint64, len(depthBuckets))
	for depth, n := range r.Depths {
		// A bucket holds what is at most its bound, and all buckets before it.
		for next < len(depthBuckets) && depth > depthBuckets[next] {
			buckets[float64(depthBuckets[next])] = below
			next++
		}
		below += uint64(n)
		sum += float64(depth) * float64(n)
	}
	return prometheus.MustNewConstHistogram(depthDesc, below, sum, buckets)
}
