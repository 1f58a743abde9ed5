package prom

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/analyzer"
	"weir/events"
	"weir/events/adapter"
)

const namespace = "weir"

// collector turns a reading into metrics.
type collector struct {
	read func(*Reading)

	mu      sync.Mutex // of what follows
	reading Reading
	out     chan<- prometheus.Metric
}

func newCollector(read func(*Reading)) *collector { return &collector{read: read} }

// Describe says nothing, which is allowed: the registry looks for doubles at each scrape.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads and sends.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading, c.out = Reading{}, out
	c.read(&c.reading)
	c.intake()
	c.verdicts()
	c.flows()
	c.spent()
	c.agents()
	c.log()
	c.store()
	c.limits()
	c.selfTest()
}

// family is a metric with its labels.
type family struct {
	c    *collector
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (c *collector) family(kind prometheus.ValueType, name, help string, labels ...string) family {
	return family{c, prometheus.NewDesc(namespace+"_"+name, help, labels, nil), kind}
}

func (c *collector) counter(name, help string, labels ...string) family {
	return c.family(prometheus.CounterValue, name, help, labels...)
}

func (c *collector) gauge(name, help string, labels ...string) family {
	return c.family(prometheus.GaugeValue, name, help, labels...)
}

func (f family) is(v float64, labels ...string) {
	f.c.out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

func (f family) count(v int64, labels ...string) { f.is(float64(v), labels...) }

func (f family) example(v *VerdictCount, labels ...string) {
	m := prometheus.MustNewConstMetric(f.desc, f.kind, float64(v.N), labels...)
	if !v.Last.At.IsZero() {
		m = prometheus.MustNewMetricWithExemplars(m, prometheus.Exemplar{Value: 1, Labels: exemplarLabels(v.Last.Flow), Timestamp: v.Last.At})
	}
	f.c.out <- m
}

func (c *collector) intake() {
	r := &c.reading
	f := c.counter("events_total", "Events that were read from the log, by what became of them.", "kind", "outcome")
	expired := int64(0)
	for _, k := range events.Kinds() {
		for o := Folded; o < Expired; o++ {
			if k != events.LimitsSet && k != events.Tick || o == Folded {
				f.count(r.Events[k][o], k.String(), outcomes[o])
			}
		}
		expired += r.Events[k][Expired]
	}
	c.counter("events_expired_total", "Events that came so late that nobody can tell whether they had been folded.").count(expired)
	c.counter("events_clamped_total", "Events stamped later than they were appended, folded at the time of the append.").count(r.Clamped)
	f = c.counter("events_rejected_total", "Records that became dead letters.", "reason")
	for code, n := range r.Rejected {
		f.count(n, string(code))
	}
	c.counter("dead_letters_dropped_total", "Dead letters that were counted and not kept, because too many came.").count(r.NotKept)
	c.counter("events_misnamed_total", "Events that lack a field and have one of nearly its name, such as form for from; what stands there is ignored.").count(r.Misnamed)
	c.gauge("intake_memory_bytes", "Bytes that requests hold while they are taken in.").count(r.Intake.Held)
	c.gauge("intake_memory_limit_bytes", "Bytes that they may hold, all together.").count(r.Intake.Limit)
	c.counter("intake_refused_total", "Requests that were told to come again, because others held all there is.").count(r.Intake.Refused)
	c.counter("ingest_bytes_total", "Bytes of the records that were read from the log.").count(r.Bytes)
	// By source would be as many series as producers have names; /readyz says which it is.
	f = c.gauge("source_coverage_ratio", "Share of the calls of all sources that tell what rules need, 1 while there are none; rules that need what is at 0 are blind.", "what")
	for _, ratio := range r.Told.Ratios() {
		share := 1.0
		if ratio.Of > 0 {
			share = float64(ratio.Told) / float64(ratio.Of)
		}
		f.is(share, strings.ReplaceAll(ratio.What, " ", "_"))
	}
	f = c.counter("spans_without_event_total", "Spans that were received and gave no event, by why; unknown are those in which nothing says that they are about an agent, a tool or a model.", "reason")
	for why, n := range r.Silent {
		f.count(n, adapter.Silence(why).String())
	}
	f = c.counter("calls_total", "Calls of agents, by who set them off.", "origin")
	for o := events.OriginUser; o < OriginCount; o++ {
		f.count(r.Calls[o], o.String())
	}
}

func (c *collector) verdicts() {
	r := &c.reading
	f := c.counter("verdicts_total", "Verdicts that were published.", "rule", "action", "mode")
	expected := expectedVerdicts(r.Limits)
	// Series of what the limits have turned off are left out, and come with those that turn it on.
	silent := func(at int) bool { return expected[at] == [events.ActionCount][2]bool{} }
	for at, reason := range events.Reasons() {
		for a := events.Allow.Place(); a < events.ActionCount; a++ {
			for shadow, mode := range [...]events.Mode{events.ModeEnforce, events.ModeShadow} {
				if v := &r.Verdicts[at][a][shadow]; v.N > 0 || expected[at][a][shadow] {
					f.example(v, string(reason), string(events.ActionAt(a)), string(mode))
				}
			}
		}
	}
	f = c.counter("calls_after_stop_total", "Calls that were made although a standing order refused them: a dispatcher does not honor verdicts.", "rule")
	leaked := c.counter("leaked_calls_total", "Calls that were in flight when an order against them went out.", "rule")
	refused := c.counter("refused_calls_total", "Calls that were refused when they were asked for, or by a dispatcher that says so.", "rule")
	for _, reason := range refusing() {
		at := reason.Place()
		if r.Defied[at]+r.Leaked[at]+r.Refused[at] == 0 && silent(at) {
			continue
		}
		f.count(r.Defied[at], string(reason))
		leaked.count(r.Leaked[at], string(reason))
		refused.count(r.Refused[at], string(reason))
	}
	f = c.counter("grants_total", "Times that a person granted a flow more of a limit.", "rule")
	for _, reason := range grantable {
		if n := r.Granted[reason.Place()]; n > 0 || !silent(reason.Place()) {
			f.count(n, string(reason))
		}
	}
	f = c.counter("verdict_acks_total", "What dispatchers reported of orders; other is about none that stands for a flow.", "rule", "applied")
	acks := func(at int, rule string) {
		f.count(r.Acks[at][0], rule, "false")
		f.count(r.Acks[at][1], rule, "true")
	}
	for _, reason := range flowReasons() {
		if at := reason.Place(); r.Acks[at] != [2]int64{} || !silent(at) {
			acks(at, string(reason))
		}
	}
	acks(events.ReasonCount, "other")
	c.gauge("verdicts_unsent", "Verdicts that wait to be published.").count(r.Unsent)
	c.troubles("verdict_publish_errors_total", "Tries to publish verdicts or dead letters that failed; they are repeated.", &r.Unpublished)
}

// grantable lists the reasons of the limits of which a person can grant more, each once.
var grantable = func() (out []events.Reason) {
	for _, r := range analyzer.Rows() {
		if r.Tells && !slices.Contains(out, r.Reason) {
			out = append(out, r.Reason)
		}
	}
	return out
}()

// speaks tells whether the limits have the rule of a row about flows say anything, be it in
// an override alone. Limits that are not known yet have all speak.
func speaks(l *analyzer.Limits, row int) bool {
	return l == nil || analyzer.Rules[row].ID == analyzer.RuleOperator || !l.Rules[row].Mute() ||
		slices.ContainsFunc(l.Overrides, func(o analyzer.Override) bool { return int(o.Rule) == row })
}

// expectedVerdicts says which verdicts the rules give: those are there before the first
// of them, or nobody would see the first in a rate.
func expectedVerdicts(l *analyzer.Limits) (x [events.ReasonCount][events.ActionCount][2]bool) {
	for i := range analyzer.Rules {
		rule := &analyzer.Rules[i]
		if !speaks(l, i) {
			continue
		}
		e := &x[rule.Reason.Place()]
		e[events.Allow.Place()][0] = true
		e[rule.Action.Place()][0], e[rule.Action.Place()][1] = true, true
		if l != nil && l.Rules[i].Hold {
			e[events.Hold.Place()][0] = true
		}
		if rule.ID != analyzer.RuleOperator {
			e[events.Warn.Place()][0], e[events.Warn.Place()][1] = true, true
			e[events.Halt.Place()][0] = true // attempts widen an order
		}
	}
	for i := range analyzer.AgentRules {
		rule := &analyzer.AgentRules[i]
		e := &x[rule.Reason.Place()]
		e[events.Allow.Place()][0] = true
		e[events.Warn.Place()][0], e[events.Warn.Place()][1] = true, true
		e[rule.Action.Place()][0], e[rule.Action.Place()][1] = true, true
		if !recovers(rule) {
			continue
		}
		for _, step := range recoverySteps {
			e[step.Place()][0] = true
		}
	}
	refused := &x[events.RescueRefusedNotStuck.Place()]
	refused[events.Notify.Place()][0], refused[events.Notify.Place()][1] = true, true
	return x
}

// recoverySteps are the actions of the ladder.
var recoverySteps = [...]events.Action{events.Resume, events.ReviewAgent, events.Archive, events.Notify}

func (c *collector) troubles(name, help string, t *Troubles) {
	f := c.counter(name, help, "class")
	for i, n := range t {
		f.count(n, troubles[i])
	}
}

// depthBuckets are the bounds of the histogram of depths.
var depthBuckets = [...]int{1, 2, 3, 4, 5, 6, 8, 12, 20}

func (c *collector) flows() {
	r := &c.reading
	f := c.gauge("flows_live", "Flows in memory with an event within the time of silence that ends an episode; held ones as long as they wait for a person.", "status")
	for i, status := range [...]string{"active", "warned", "stopped", "held"} {
		f.count(r.Live[i], status)
	}
	c.counter("flows_opened_total", "Flows that became live.").count(r.Opened)
	f = c.counter("flows_closed_total", "Flows that are live no more.", "reason")
	for i, n := range r.Closed {
		f.count(n, closings[i])
	}
	c.gauge("flow_longest_allowed_chain", "Calls of agents in the longest flow that was closed without ever being stopped.").count(r.Longest)
	c.gauge("flow_memory_bytes", "Memory that flows take.").count(r.FlowMemory)

	below, sum, next := uint64(0), 0.0, 0
	buckets := make(map[float64]uint64, len(depthBuckets))
	for depth, n := range r.Depths {
		for next < len(depthBuckets) && depth > depthBuckets[next] {
			buckets[float64(depthBuckets[next])] = below
			next++
		}
		below += uint64(n)
		sum += float64(depth) * float64(n)
	}
	desc := prometheus.NewDesc(namespace+"_flow_depth", "Depth of the collapsed call stack after each call of an agent.", nil, nil)
	c.out <- prometheus.MustNewConstHistogram(desc, below, sum, buckets)
}

// recovers reports whether the row may find an agent stuck.
func recovers(rule *analyzer.AgentRule) bool {
	return rule.Silence || rule.Action == events.Resume
}

// agents tells of the stage that judges agents over all their flows.
func (c *collector) agents() {
	r := &c.reading
	c.gauge("agents_live", "Agents that have reported within a week and have not taken their leave: their silence is judged.").count(r.Agents.Live)
	var stuck [events.ReasonCount][2]int64 // several rows may have one reason
	var steps [events.ActionCount]int64
	known := [events.ReasonCount]bool{}
	for i := range analyzer.AgentRules {
		rule := &analyzer.AgentRules[i]
		if !recovers(rule) {
			continue
		}
		at := rule.Reason.Place()
		stuck[at][0] += r.Agents.Stuck[i][0]
		stuck[at][1] += r.Agents.Stuck[i][1]
		if known[at] {
			continue
		}
		known[at] = true
		for _, step := range recoverySteps {
			steps[step.Place()] += r.Verdicts[at][step.Place()][0].N
		}
	}
	f := c.gauge("agents_stuck", "Agents that were found stuck within a week and have not been heard of since; not those that were archived for it.", "reason", "certainty")
	for at, reason := range events.Reasons() {
		if known[at] {
			f.count(stuck[at][0], string(reason), "potentially_stuck")
			f.count(stuck[at][1], string(reason), "stuck")
		}
	}
	f = c.counter("recoveries_total", "What was done about stuck agents: orders to resume, to review and to archive them, and people told.", "step")
	for _, step := range recoverySteps {
		f.count(steps[step.Place()], string(step))
	}
	f = c.counter("activity_records_total", "Records of what concerns agents that were read, by what became of them.", "outcome")
	f.count(r.Activity[0], "folded")
	f.count(r.Activity[1], "repeated")
	c.gauge("agent_memory_bytes", "Memory that agents take.").count(r.AgentMemory)
	if r.HasAgents {
		c.gauge("agents_told_age_seconds", "How long ago the time is up to which everything is known of agents; their silence after it is not judged. It is a minute or two when all is well.").is(r.AgentsTold.Seconds())
	}
}

// log tells of the partitions that are folded.
func (c *collector) log() {
	r := &c.reading
	records := c.gauge("consumer_lag_records", "Records in the log that are not folded.", "topic", "stage", "partition")
	seconds := c.gauge("consumer_lag_seconds", "Time since the oldest record was appended that is not folded; 0 when there is none.", "topic", "stage", "partition")
	assigned := make(map[[2]string]int)
	for i := range r.Sources {
		s := &r.Sources[i]
		stage, partition := "flows", strconv.Itoa(s.Partition)
		if s.Agents {
			stage = "agents"
		}
		records.count(s.LagRecords, s.Topic, stage, partition)
		seconds.is(s.Lag.Seconds(), s.Topic, stage, partition)
		assigned[[2]string{s.Topic, stage}]++
	}
	f := c.gauge("partitions_assigned", "Partitions that this process folds.", "topic", "stage")
	for of, n := range assigned {
		f.is(float64(n), of[0], of[1])
	}
	c.counter("rebalances_total", "Times that the group shared out its partitions anew.").count(r.Rebalances)
	c.troubles("fetch_errors_total", "Tries to read from the log that failed; they are repeated.", &r.FetchTrouble)
	f = c.counter("offset_commits_total", "Offsets that were committed to the broker.", "outcome")
	f.count(r.Commits[0], "ok")
	f.count(r.Commits[1], "error")
}

func (c *collector) store() {
	r := &c.reading
	f := c.gauge("store_size_bytes", "Size of the state on disk.", "part")
	f.count(r.StoreBytes[0], "lsm")
	f.count(r.StoreBytes[1], "vlog")
	c.gauge("store_disk_free_bytes", "Free space of the disk that holds the state.").count(r.DiskFree)
	c.gauge("store_disk_floor_bytes", "Free space below which nothing is written.").count(r.DiskFloor)
	c.counter("store_checkpoint_waits_total", "Times that folding waited for a checkpoint.").count(r.CheckpointWaits)
	c.gauge("store_restore_duration_seconds", "Time from the last start until the log was caught up with; 0 before that.").is(r.Restored.Seconds())
}

func (c *collector) limits() {
	r := &c.reading
	f := c.gauge("limit", "Value from which a rule stops, in its unit; rules that are off are not there.", "rule", "row")
	if l := r.Limits; l != nil {
		for i := range l.Rules {
			set := &l.Rules[i]
			if set.Mode == analyzer.ModeOff || set.Stop == analyzer.Off {
				continue
			}
			v := float64(set.Limit())
			if analyzer.RuleID(i) == analyzer.RuleCost {
				v /= 1e6
			}
			f.is(v, string(analyzer.Rules[i].Reason), analyzer.Rules[i].Name)
		}
		c.gauge("limits_info", "The limits in force, by the hash that stands in verdicts; always 1.", "hash").is(1, l.Version)
	}
	c.gauge("limits_last_reload_successful", "Whether the last reading of the limits went well.").is(truth(r.Reloaded))
	c.gauge("limits_last_reload_success_timestamp_seconds", "When the limits were last read without a fault.").is(unix(r.ReloadedAt))
}

// spent tells what flows spent. Series of names come with what is spent under them, and each is
// bounded: see MostSpenders.
func (c *collector) spent() {
	r := &c.reading
	calls := c.counter("spent_calls_total", "Calls of agents and tools, by how their flow had been judged before: after nothing, a warning, or a stop.", "after")
	tokens := c.counter("spent_tokens_total", "Tokens, by how their flow had been judged before and where their price is from: the log, a price file, or unknown.", "after", "price")
	usd := c.counter("spent_usd_total", "US dollars, by how their flow had been judged before and where the price is from; tokens of unknown price are not in it.", "after", "price")
	for when := range r.Spent {
		s, after := &r.Spent[when], spentAfter[when]
		calls.count(s.Calls, after)
		for price, n := range s.Tokens {
			tokens.count(n, after, prices[price])
		}
		for price, n := range s.MicroUSD {
			usd.is(float64(n)/1e6, after, prices[price])
		}
	}
	for by, name := range spenders {
		calls := c.counter("waste_by_"+name+"_calls_total", "Calls in flows that had been warned or stopped, by "+name+".", name, "after")
		tokens := c.counter("waste_by_"+name+"_tokens_total", "Tokens in flows that had been warned or stopped, by "+name+" and where their price is from.", name, "after", "price")
		usd := c.counter("waste_by_"+name+"_usd_total", "US dollars in flows that had been warned or stopped, by "+name+" and where the price is from.", name, "after", "price")
		for i := range r.Waste {
			w := &r.Waste[i]
			if w.By != Spender(by) {
				continue
			}
			for when, s := range [...]*Spent{1: &w.AfterWarning, 2: &w.AfterStop} {
				if s == nil || *s == (Spent{}) {
					continue
				}
				after := spentAfter[when]
				calls.count(s.Calls, w.Name, after)
				for price, n := range s.Tokens {
					if n != 0 {
						tokens.count(n, w.Name, after, prices[price])
					}
				}
				for price, n := range s.MicroUSD {
					if n != 0 {
						usd.is(float64(n)/1e6, w.Name, after, prices[price])
					}
				}
			}
		}
	}
}

func (c *collector) selfTest() {
	r := &c.reading
	c.gauge("ready", "Whether verdicts are up to date, as /readyz says.").is(truth(r.Ready))
	d := c.gauge("degraded", "Partitions of events whose calls are judged in degraded mode: because limits shrink under load, or because the fold is behind.", "reason")
	d.count(r.Degraded.Busy, "load")
	d.count(r.Degraded.Behind, "behind")
	c.counter("degraded_begun_total", "Times that the fold of a partition was so far behind that asks no longer waited for it.").count(r.Degraded.Begun)
	d = c.counter("degraded_answers_total", "Asks that were answered by what had been folded before, because the fold was behind.", "answer")
	d.count(r.Degraded.Answers[0], "allowed")
	d.count(r.Degraded.Answers[1], "refused")
	c.counter("degraded_unlogged_total", "Calls answered in degraded mode that the log could not be told of: nothing counts them later.").count(r.Degraded.Unlogged)
	if !r.SelfTest.On {
		return // a time of zero would look like a loop that was never stopped
	}
	c.gauge("selftest_last_success_timestamp_seconds", "When a loop of weir's own was last stopped as expected.").is(unix(r.SelfTest.Passed))
	c.gauge("selftest_duration_seconds", "Time from the append of the last loop of weir's own until its verdict was read back.").is(r.SelfTest.Took.Seconds())
	f := c.counter("selftest_runs_total", "Loops of weir's own.", "outcome")
	f.count(r.SelfTest.Runs[0], "stopped")
	f.count(r.SelfTest.Runs[1], "missed")
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
