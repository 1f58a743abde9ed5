package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"
	"weir/analyzer/spelling"
	"weir/cmd/internal/ask"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/limits"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/sink/prom"
)

// health reports whether weir is alive and ready. Its fields are set by Serve.
type health struct {
	program  Program
	log      Log
	store    Store
	limits   Limits
	folded   *folded
	reading  Intake
	selfTest *selftest.Prober
	degraded Degraded
	orders   Orders
	counts   *pump.Counts
	door     *door
	clock    clock.Clock
	stuck    time.Duration // see Options.Stuck

	transcripts *transcripts
}

func (h *health) routes() []route {
	return []route{
		{"GET", "/healthz", public, h.serveHealth},
		{"GET", "/readyz", public, h.serveReady},
	}
}

// serveHealth reports whether the pump loop runs. It depends on nothing outside, because
// its watcher restarts weir when it fails.
// A full disk and unreachable brokers are no reason to restart (see decision 31), so only
// /readyz reports them. A pump that waits for free space pauses on purpose.
func (h *health) serveHealth(w http.ResponseWriter, _ *http.Request) error {
	since := h.clock.Now().Sub(h.log.Turned())
	out := healthAnswer{since < h.stuck || h.diskLow(), since.Milliseconds()}
	status := http.StatusOK
	if !out.OK || h.program.Err() != nil {
		out.OK, status = false, http.StatusServiceUnavailable
	}
	writeJSON(w, "application/json", status, out)
	return nil
}

// healthAnswer says whether weir is alive.
type healthAnswer struct {
	OK       bool  `json:"ok"`
	TurnedMS int64 `json:"turned_ms_ago"` // since the loop that folds last turned
}

// readyAnswer says whether verdicts are up to date, and else why not.
// It is one answer for probes, people and the metrics. What stands in Why makes it 503.
type readyAnswer struct {
	Ready bool     `json:"ready"`
	Why   []string `json:"why"` // what is wrong; empty when ready
	// Lag is how many records wait to be folded, of all partitions that are folded here.
	Lag int64 `json:"lag_records"`
	// DiskMiB is absent for a state in memory.
	DiskMiB *int64 `json:"disk_free_mib,omitempty"`
	// Degraded says in which mode calls are judged that is not that of quiet times. Weir is
	// ready then: it answers, under limits of that mode.
	Degraded []ask.DegradedStatus `json:"degraded,omitempty"`
	Limits   limits.Status        `json:"limits"`
	SelfTest *selftest.Status     `json:"self_test,omitempty"`
	// Follow is the state of each followed file; one that cannot be read does not make weir unready.
	// This and Blind are left out for requests without the role observe, see serveReady.
	Follow []intake.Status `json:"follow,omitempty"`

	// Misplaced are the records of events that may split their flow over partitions, since the start.
	Misplaced []misplaced `json:"misplaced_records,omitempty"`

	// Blind lists by source what it never reports and which rules cannot judge because of it.
	Blind map[string]string `json:"blind,omitempty"`
}

// misplaced is how many records of events have one fault of their key, and what to do about it.
type misplaced struct {
	Reason  string `json:"reason"`
	Records int64  `json:"records"`
	Fix     string `json:"fix"`
}

// misplaced returns those that there were since the start.
func (h *health) misplaced() (out []misplaced) {
	counted := h.counts.Sum()
	for reason, n := range counted.Misplaced {
		if n > 0 {
			why := prom.Misplacement(reason)
			out = append(out, misplaced{why.String(), n, why.Fix()})
		}
	}
	return out
}

// serveReady reports whether weir is ready.
// The route is public, as probes have no token. Names of files and sources, and words of the
// limits file, are only for principals that may read about all flows.
func (h *health) serveReady(w http.ResponseWriter, r *http.Request) error {
	out := h.readiness()
	if who, e := h.door.admit(r, reader); e != nil || who.Bound() {
		out.Limits.Error, out.Follow, out.Blind = "", nil, nil
	}
	status := http.StatusOK
	if !out.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, "application/json", status, out)
	return nil
}

// readiness reports whether the pump has caught up, the store is open and has room, and
// weir's own loops are stopped. It also reports bad limits and files that cannot be read,
// but weir works without them.
// In degraded mode weir is ready, because it answers (see decision 73). It then reports
// what is behind under Degraded and not under Why.
func (h *health) readiness() readyAnswer {
	out := readyAnswer{Why: []string{}, SelfTest: h.selfTest.State()}
	// The answer says how much is free also while it is enough, for who looks in time.
	free, floor := h.store.Free()
	if floor > 0 { // else the state is in memory
		out.DiskMiB = new(free >> 20)
	}
	_, out.Limits = h.limits.State()
	out.Follow = h.reading.States()
	out.Misplaced = h.misplaced()
	if now, _ := h.folded.inForce(); now != nil {
		out.Blind = h.counts.Blind(now)
		h.transcripts.blind(out.Blind)
	}
	if h.program.Err() != nil {
		out.Why = append(out.Why, "weir has failed and is stopping")
	}
	// A load balancer takes it out of its list while requests are still answered.
	if h.program.Ending().Err() != nil {
		out.Why = append(out.Why, "weir is stopping")
	}
	why, lag, differs := h.log.Ready()
	why = append(why, h.orders.Book.Ready()...)
	behind := h.degraded.Status()
	if out.Lag = lag; behind != nil {
		behind.Why = why
		out.Degraded = append(out.Degraded, *behind)
	} else {
		out.Why = append(out.Why, why...)
	}
	// Under load asks are answered by the fold as ever, only by smaller limits.
	if busy := h.busy(); len(busy) > 0 {
		out.Degraded = append(out.Degraded, ask.DegradedStatus{Reason: events.DegradedLoad, Partitions: busy})
	}
	if differs != "" {
		out.Why = append(out.Why, differs)
	}
	if free < floor || h.diskLow() {
		out.Why = append(out.Why, "there is too little free disk space to write")
	}
	// The proof fails for every reason that is named above, too, and would only repeat it.
	if t := out.SelfTest; t != nil && len(out.Why) == 0 && !t.OK && behind == nil {
		why := "none of weir's own loops was stopped lately"
		if t.Error != "" {
			why += ": " + t.Error
		}
		out.Why = append(out.Why, why)
	}
	out.Ready = len(out.Why) == 0
	return out
}

// busy are the partitions whose limits have shrunk.
// Limits that are named in the file shrink while a partition has more hops a minute than
// load.high (see decision 14).
func (h *health) busy() (out []int) {
	for _, p := range h.log.Pumps(pump.FlowStage) {
		if p.Standing().Busy.Load() {
			out = append(out, p.Partition())
		}
	}
	return out
}

// diskLow reports whether a pump waits for free space.
// The agent stage counts as well: it writes to the same disk.
func (h *health) diskLow() bool {
	return slices.ContainsFunc(append(h.log.Pumps(pump.FlowStage), h.log.Pumps(pump.AgentStage)...), func(p *pump.Pump) bool { return p.Standing().DiskLow() })
}

// HealthCheck is the response of GET /v1/health_check: the agents that this process folds,
// and weir itself. Its names are those of the recovery system's tool of that name, which it
// replaces. It lists agents that were archived for being stuck until they report again.
// It covers maxAgents agents at most.
type HealthCheck struct {
	Status string   `json:"status"` // healthy, degraded or critical: the worst of what follows
	Why    []string `json:"why"`    // one sentence for each reason; empty when healthy

	// Stuck are the agents that are stuck or may be, the longest silent before all; Escalated
	// are those of them that nothing has helped and that were archived: people have to look.
	Stuck     []StuckAgent `json:"stuck_agents"`
	Escalated []StuckAgent `json:"escalated"`
	Summary   StuckSummary `json:"summary"`
	// Truncated says that there are more agents than were looked at.
	Truncated bool `json:"truncated,omitempty"`
}

// StuckAgent is an agent that needs help.
type StuckAgent struct {
	Agent     string        `json:"agent_id"`
	Reason    events.Reason `json:"reason"`
	Certainty string        `json:"certainty"` // stuck or potentially_stuck
	// Age is the time since its last action, as far as all actions were reported (see decision 38).
	Age      float64        `json:"age_minutes"`
	Since    events.RFC3339 `json:"since,omitzero"`
	Step     events.Action  `json:"step,omitempty"` // what is done about it: resume, review, archive, notify
	Reviewer string         `json:"reviewer,omitempty"`
	Details  string         `json:"details"`
}

// StuckSummary counts them.
// ByReason counts the escalated ones, too.
type StuckSummary struct {
	Stuck     int                   `json:"total_stuck"`
	Escalated int                   `json:"total_escalated"`
	ByReason  map[events.Reason]int `json:"by_reason"`
}

// The states of a HealthCheck.
const (
	healthy  = "healthy"
	degraded = "degraded"
	critical = "critical"
)

// serveHealthCheck is GET /v1/health_check. It always answers 200, because it is no probe:
// /healthz and /readyz are.
// The worst state comes first: what is critical stays so, regardless of later entries.
func (a *agentPages) serveHealthCheck(w http.ResponseWriter, _ *http.Request) error {
	list, err := pump.AgentsOf(a.log.Pumps(pump.AgentStage), pump.AgentQuery{Stuck: true, Limit: maxAgents})
	if err != nil {
		return err
	}
	out := HealthCheck{Status: healthy, Why: []string{}, Stuck: []StuckAgent{}, Escalated: []StuckAgent{},
		Summary: StuckSummary{ByReason: map[events.Reason]int{}}, Truncated: list.Truncated}
	for i := range list.Agents {
		s := &list.Agents[i]
		one := StuckAgent{Agent: s.Agent, Reason: s.Reason, Certainty: s.Certainty, Age: s.AgeS / 60, Since: s.Since, Step: s.Step, Reviewer: s.Reviewer,
			Details: fmt.Sprintf("%s for %.1f minutes", s.Reason, s.AgeS/60)}
		out.Summary.ByReason[s.Reason]++
		// The last step of recovery. The agent stays in the list until it is heard of
		// again.
		if s.State == "archived" {
			out.Escalated = append(out.Escalated, one)
			continue
		}
		out.Stuck = append(out.Stuck, one)
	}
	out.Summary.Stuck, out.Summary.Escalated = len(out.Stuck), len(out.Escalated)
	degrade := func(status string, n int, one, several string) {
		if n == 0 {
			return
		}
		if out.Status != critical {
			out.Status = status
		}
		out.Why = append(out.Why, fmt.Sprintf(spelling.Of(n, one, several), n))
	}
	ready := a.health.readiness()
	degrade(critical, out.Summary.Escalated, "%d agent was archived because it is stuck and nothing helped: somebody has to look", "%d agents were archived because they are stuck and nothing helped: somebody has to look")
	degrade(degraded, out.Summary.Stuck, "%d agent is stuck, or may be", "%d agents are stuck, or may be")
	degrade(degraded, len(ready.Degraded), "weir judges calls in degraded mode, for %d reason: GET /readyz", "weir judges calls in degraded mode, for %d reasons: GET /readyz")
	degrade(critical, len(ready.Why), "weir is not ready, for %d reason: GET /readyz", "weir is not ready, for %d reasons: GET /readyz")
	return answer(w, out)
}
