package pump

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/analyzer"
	"weir/cmd/internal/selftest"
	"weir/events"
)

// Views answers questions about what a pump has folded. Any goroutine may call its methods.
type Views struct {
	folded *fold
	// One of the two is what the pump folds.
	flows  *flowStage
	agents *agentStage
}

func newViews(f *fold) Views {
	vs := Views{folded: f}
	switch s := f.stage.(type) {
	case *flowStage:
		vs.flows = s
	case *agentStage:
		vs.agents = s
	}
	return vs
}

// FlowSummary is one flow in a list.
type FlowSummary struct {
	Flow      string         `json:"flow"`
	Status    string         `json:"status"`            // as in analyzer.View
	Service   string         `json:"service,omitempty"` // the service that reported it first, at most 64 bytes of its name
	Events    int64          `json:"events"`
	Hops      int64          `json:"hops"`
	ToolCalls int64          `json:"tool_calls"`
	Parties   int            `json:"parties"`
	Agents    []string       `json:"agents"` // names of the first parties, at most MaxListed
	Tokens    int64          `json:"tokens,omitempty"`
	CostUSD   float64        `json:"cost_usd,omitempty"`
	Orders    int            `json:"orders"`
	Start     events.RFC3339 `json:"start"`
	Last      events.RFC3339 `json:"last"`
	Nearest   *Nearest       `json:"nearest,omitempty"`
	// Stop has the figures at which the first active order was given; absent without such an
	// order, or if the order measures nothing.
	Stop *Nearest `json:"stop,omitempty"`
}

// MaxListed is how many agents of a flow a list of flows names.
const MaxListed = 8

// Nearest is the counter of a flow that is nearest to its limit.
type Nearest struct {
	Rule     string  `json:"rule"`
	Observed float64 `json:"observed"`
	Limit    float64 `json:"limit"`
	Near     float64 `json:"near"` // observed / limit
}

// FlowList is an answer to a question for flows.
type FlowList struct {
	Flows []FlowSummary `json:"flows"`
	// Scanned is how many flows were looked at. When Truncated is set there are more,
	// which were not used for longer.
	Scanned   int  `json:"scanned"`
	Truncated bool `json:"truncated"`
	// Statuses counts the flows that match the query by status, also those beyond its limit.
	// With order Nearby it is present even if there are no flows; otherwise it is nil.
	Statuses map[string]int `json:"statuses,omitzero"`
}

// FlowQuery says which flows are wanted, how many and in which order.
// The zero Limit wants none.
type FlowQuery struct {
	// Text is in the id of the flow, its service or the name of one of its agents, whatever its
	// case; "" is in all.
	Text  string
	Limit int
	Order Order
	// Wanted reports whether a flow may be shown at all; nil shows all.
	Wanted func(id string) bool
	// Standing returns what stands against a flow and is not in its fold, as about its tree; nil
	// knows of nothing. It must not be changed.
	Standing func(flow, root string) ([]*events.Verdict, error)
}

// Order is how flows are sorted in a list.
type Order uint8

// The orders.
const (
	Newest Order = iota // by the time of the last event, the latest first
	Nearby              // by what was used up of a limit, the most first
)

// MaxScanned is how many flows one question looks at, those in memory first.
const MaxScanned = 10_000

// Flows returns the flows that are wanted. Any goroutine may call it.
// It decodes all that it looks at, so callers take turns (decision 52).
func (vs *Views) Flows(q FlowQuery) (FlowList, error) {
	limit, order := q.Limit, q.Order
	records, engine, truncated, err := vs.snapshot(nil)
	if err != nil {
		return FlowList{}, err
	}
	if q.Wanted != nil {
		records = slices.DeleteFunc(records, func(r snapshot) bool { return !q.Wanted(r.key) })
	}
	list := FlowList{Scanned: len(records), Truncated: truncated}
	var f analyzer.Flow
	// Two passes: only the records that are in the list are made into views, which takes far
	// longer than to read when a flow did something last.
	if order == Newest {
		last := make(map[string]events.Stamp, len(records))
		for _, r := range records {
			if err := f.UnmarshalBinary(r.key, r.record); err != nil {
				return FlowList{}, fmt.Errorf("flow %q: %w", r.key, err)
			}
			last[r.key] = f.Last()
		}
		slices.SortFunc(records, func(a, b snapshot) int {
			return cmp.Or(cmp.Compare(last[b.key], last[a.key]), cmp.Compare(a.key, b.key))
		})
		// A text can be in any of them, so all are made into views then.
		if q.Text == "" {
			records = records[:min(limit, len(records))]
		}
	}
	list.Flows = make([]FlowSummary, 0, min(limit, len(records)))
	for _, r := range records {
		if err := f.UnmarshalBinary(r.key, r.record); err != nil {
			return FlowList{}, fmt.Errorf("flow %q: %w", r.key, err)
		}
		view := engine.View(&f)
		if !q.wants(&view) {
			continue
		}
		if q.Standing != nil {
			orders, err := q.Standing(view.Flow, view.Root)
			if err != nil {
				return FlowList{}, err
			}
			view.Bind(orders)
		}
		list.Flows = append(list.Flows, summary(view))
	}
	if order == Nearby {
		list.Statuses = map[string]int{}
		for i := range list.Flows {
			list.Statuses[list.Flows[i].Status]++
		}
		// Flows that were not scanned are not among them, and stopped flows may be just those that no
		// caller uses any more. The flows in memory are counted by status with each event.
		if truncated && q.Wanted == nil && q.Text == "" {
			for s, status := range map[analyzer.Standing]string{analyzer.Stopped: "stopped", analyzer.Held: "held"} {
				list.Statuses[status] = max(list.Statuses[status], int(vs.folded.meter.standing.Live[s].Load()))
			}
		}
		list.sort(order)
	}
	list.Flows = list.Flows[:min(limit, len(list.Flows))]
	return list, nil
}

// wants reports whether the text of the query is in the flow.
func (q *FlowQuery) wants(v *analyzer.View) bool {
	if q.Text == "" {
		return true
	}
	text := strings.ToLower(q.Text)
	return strings.Contains(strings.ToLower(v.Flow), text) || strings.Contains(strings.ToLower(v.Service), text) ||
		slices.ContainsFunc(v.Parties, func(p analyzer.PartyView) bool { return strings.Contains(strings.ToLower(p.Name), text) })
}

// FlowsOf is Flows of several pumps.
// Each pump is asked for the whole limit, since all of the list may be of one.
func FlowsOf(pumps []*Pump, q FlowQuery) (FlowList, error) {
	if len(pumps) == 1 {
		return pumps[0].Flows(q)
	}
	all := FlowList{Flows: []FlowSummary{}}
	if q.Order == Nearby {
		all.Statuses = map[string]int{}
	}
	for _, p := range pumps {
		list, err := p.Flows(q)
		if err != nil {
			return FlowList{}, err
		}
		all.Flows = append(all.Flows, list.Flows...)
		all.Scanned += list.Scanned
		for status, n := range list.Statuses {
			all.Statuses[status] += n
		}
		all.Truncated = all.Truncated || list.Truncated
	}
	all.sort(q.Order)
	all.Flows = all.Flows[:min(q.Limit, len(all.Flows))]
	return all, nil
}

// sort puts the list into order; by id where two are equal, so that it is the same each time.
func (l *FlowList) sort(order Order) {
	slices.SortFunc(l.Flows, func(a, b FlowSummary) int {
		// Equal ones are sorted by their ids in the end, so that a list does not change from
		// call to call.
		if order == Nearby {
			return cmp.Or(cmp.Compare(b.near(), a.near()), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Flow, b.Flow))
		}
		return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.Flow, b.Flow))
	})
}

// near is how much of its nearest limit a flow has used, from 0 to 1 and above.
func (s *FlowSummary) near() float64 {
	if s.Nearest == nil {
		return 0
	}
	return s.Nearest.Near
}

// summary is the flow in a list, with the counter that is nearest to its limit.
func summary(v analyzer.View) FlowSummary {
	s := FlowSummary{Flow: v.Flow, Service: v.Service, Status: v.Status, Events: v.Events, Hops: v.Hops, ToolCalls: v.ToolCalls, Parties: len(v.Parties),
		Orders: len(v.Orders), Start: v.Start, Last: v.Last, Tokens: v.Tokens, CostUSD: v.CostUSD, Agents: make([]string, 0, min(len(v.Parties), MaxListed))}
	for i := range v.Parties[:min(len(v.Parties), MaxListed)] {
		s.Agents = append(s.Agents, v.Parties[i].Name)
	}
	for i := range v.Counters {
		c := &v.Counters[i]
		if c.Near > s.near() {
			s.Nearest = &Nearest{c.Rule, c.Observed, c.Limit, c.Near}
		}
	}
	s.Stop = stopOf(v.Orders)
	return s
}

// stopOf returns the figures of the first order that stops calls now; nil without one.
func stopOf(orders []events.Verdict) *Nearest {
	for i := range orders {
		o := &orders[i]
		if !o.Stops() || o.Effective == events.EffectiveNext || o.Observed == nil || o.Limit == nil {
			continue
		}
		stop := &Nearest{Rule: o.RuleID, Observed: *o.Observed, Limit: *o.Limit}
		if stop.Limit > 0 {
			stop.Near = stop.Observed / stop.Limit
		}
		return stop
	}
	return nil
}

// snapshot is a copy of one record, which stays as it is while folding goes on.
type snapshot struct {
	key    string
	record []byte
}

// errEnough ends a look into the store.
var errEnough = errors.New("enough")

// snapshot copies the records of the most recently used flows or agents, then those that only the
// store has. It copies all of them, or those that want selects; want must be fast.
func (vs *Views) snapshot(want func(record []byte) bool) (records []snapshot, engine *analyzer.Engine, truncated bool, err error) {
	if want == nil {
		want = func([]byte) bool { return true }
	}
	seen := make(map[string]bool)
	vs.folded.mu.Lock()
	for r := vs.folded.memory.cache.ends.older; r != &vs.folded.memory.cache.ends; r = r.older {
		if len(records) == MaxScanned {
			truncated = true
			break
		}
		if vs.folded.memory.cache.outside {
			// What the store has of these is older.
			seen[r.key] = true
		}
		// Own flows are the self-test's, which no list shows (decision 33).
		if len(r.record) > 0 && !r.own && want(r.record) {
			records = append(records, snapshot{r.key, slices.Clone(r.record)})
		}
	}
	engine = vs.folded.engine
	// The store is read without the lock, so folding need not wait. A flow that moves to the store
	// meanwhile may be missing from the list.
	look := vs.folded.memory.cache.outside && !truncated
	vs.folded.mu.Unlock()
	if !look {
		return records, engine, truncated, nil
	}
	err = vs.folded.o.Store.Records(vs.folded.o.Partition, vs.folded.memory.subject, func(key string, record []byte) error {
		if seen[key] || selftest.OwnFlow(key) || !want(record) {
			return nil
		}
		if len(records) == MaxScanned {
			truncated = true
			return errEnough
		}
		records = append(records, snapshot{key, slices.Clone(record)})
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return records, engine, truncated, err
}

// View returns a flow for people and programs; false when nothing is known of it.
// Any goroutine may call it.
// It costs the fold a copy of the record and no more.
func (vs *Views) View(key string) (analyzer.View, bool, error) {
	record, engine, err := vs.lookUp(key)
	if err != nil || len(record) == 0 {
		return analyzer.View{}, false, err
	}
	var f analyzer.Flow
	if err := f.UnmarshalBinary(key, record); err != nil {
		return analyzer.View{}, false, fmt.Errorf("flow %q: %w", key, err)
	}
	return engine.View(&f), true, nil
}

// lookUp copies the record of a flow or agent; it is empty when nothing is known of it.
func (vs *Views) lookUp(key string) (record []byte, engine *analyzer.Engine, err error) {
	vs.folded.mu.Lock()
	engine, outside := vs.folded.engine, vs.folded.memory.cache.outside
	// Not get, which would make the flow the newest: a question must not keep it in memory.
	if r := vs.folded.memory.cache.byKey[key]; r != nil {
		record, outside = slices.Clone(r.record), false
	}
	vs.folded.mu.Unlock()
	if outside {
		record, _, _, err = vs.folded.o.Store.Load(vs.folded.o.Partition, vs.folded.memory.subject, key)
	}
	return record, engine, err
}

// Known returns a flow as it was folded last, as a copy of its own, and what was folded over
// all flows of the partition. Any goroutine may call it.
// It is what asks are judged by while the fold is behind (decision 73). The two may be of
// different moments.
func (vs *Views) Known(key string) (*analyzer.Flow, analyzer.Partition, error) {
	var over analyzer.Partition
	vs.folded.mu.Lock()
	if vs.flows != nil {
		over = vs.flows.partition
	}
	vs.folded.mu.Unlock()
	record, _, err := vs.lookUp(key)
	if err != nil {
		return nil, over, err
	}
	f := new(analyzer.Flow)
	if len(record) == 0 {
		f.Reset(key)
	} else if err := f.UnmarshalBinary(key, record); err != nil {
		return nil, over, fmt.Errorf("flow %q: %w", key, err)
	}
	return f, over, nil
}

// Limits returns the limits in force and their document, which is empty when the log
// has set none. Neither may be changed. Any goroutine may call it.
func (vs *Views) Limits() (*analyzer.Limits, []byte) {
	vs.folded.mu.Lock()
	defer vs.folded.mu.Unlock()
	return vs.folded.engine.Limits(), vs.folded.document
}

// Next returns the offset of the first record that is not folded: where the reader of
// the log begins. Any goroutine may call it.
func (vs *Views) Next() int64 { return vs.folded.meter.standing.Next.Load() }

// Standing returns how the pump stands now. Any goroutine may call it.
func (vs *Views) Standing() *Standing { return &vs.folded.meter.standing }

// Counts returns what the pump and those that share them have done. Any goroutine may
// call it.
func (vs *Views) Counts() *Counts { return vs.folded.meter.counts }

// Partition is the one of the options. Any goroutine may call it.
// It never changes.
func (vs *Views) Partition() int { return int(vs.folded.o.Partition) }

// Hold keeps anything from being folded until release is called. It is for a caller that reads several
// things at one moment. Any goroutine may call it. The caller must do nothing slow meanwhile. A method
// of the pump that takes the same lock would wait forever.
func (vs *Views) Hold() (release func()) {
	vs.folded.mu.Lock()
	return vs.folded.mu.Unlock
}

// InForce returns the limits that pumps judge by, and as they were written; before there is
// a pump, those that the first will be given. While a change of limits passes through the
// partitions of a topic, it is those of one of them.
func InForce(pumps []*Pump, wanted func() *analyzer.Limits) (*analyzer.Limits, []byte) {
	if len(pumps) > 0 {
		return pumps[0].Limits()
	}
	return wanted(), nil
}
