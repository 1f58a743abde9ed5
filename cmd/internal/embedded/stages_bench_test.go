package embedded

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

// reporters are agents that report every nine minutes, and work in flows meanwhile.
// Some of them fall silent after their first report.
type reporters struct {
	order  []int // in which they report
	rnd    *rand.Rand
	silent map[string]bool
	at     events.Stamp
	id     int
	lines  []byte
	round  int
}

func newReporters(agents, silent int) *reporters {
	r := &reporters{rnd: rand.New(rand.NewPCG(3, 1)), silent: make(map[string]bool), at: pumptest.Start}
	r.order = r.rnd.Perm(agents)
	for len(r.silent) < silent {
		r.silent[fmt.Sprint("agent-", r.rnd.IntN(agents))] = true
	}
	return r
}

// next makes records of one round, in which every agent reports once that is not silent,
// and gets two results of a tool in a flow.
func (r *reporters) next(offset int64) (out []pump.Record) {
	const every = 9 * time.Minute
	r.round++
	begun := r.at
	for i, n := range r.order {
		name := fmt.Sprint("agent-", n)
		r.at = begun.Add(every * time.Duration(i) / time.Duration(len(r.order)))
		if r.round > 1 && r.silent[name] {
			continue
		}
		for _, kind := range []events.Kind{events.AgentStatus, events.ToolResult, events.ToolResult} {
			r.id++
			ev := events.Event{ID: fmt.Sprintf("%010d", r.id), Source: "urn:agents:bench", Time: r.at, Kind: kind, From: events.Party{Agent: name}}
			if kind == events.AgentStatus {
				ev.AgentState = &events.AgentState{Status: "active", Margin: "comfortable"}
			} else {
				ev.CorrelationID, ev.Status = fmt.Sprintf("3f0c2d9e-7a51-4b6e-9d0e-%012x", n), events.StatusOK
				ev.Tool = events.Tool{Name: "search", CallID: fmt.Sprint(r.round), ArgsHash: events.Hash{Algorithm: events.XXH64, Value: r.rnd.Uint64()}}
				ev.Content = events.Hash{Algorithm: events.XXH64, Value: r.rnd.Uint64()}
			}
			from := len(r.lines)
			r.lines = ev.AppendJSON(r.lines)
			out = append(out, pump.Record{Offset: offset, Appended: r.at, Value: r.lines[from:len(r.lines):len(r.lines)]})
			offset++
		}
	}
	r.at = begun.Add(every)
	return out
}

// BenchmarkStages is what the agent stage adds to an event: 100,000 agents report and
// work, 1,000 of them fall silent, and exactly these are found to be stuck. The store is
// on disk, and both logs are appended to and read as the embedded form does it; ratio is
// the cost per event of both stages against that of the flow stage alone.
func BenchmarkStages(b *testing.B) {
	const agents, silent, rounds = 100_000, 1_000, 5 // by then silence is 30 minutes old
	for range b.N {
		alone, _ := foldReporters(b, agents, silent, rounds, false)
		both, stuck := foldReporters(b, agents, silent, rounds, true)
		want := newReporters(agents, silent).silent
		for name := range stuck {
			if !want[name] {
				b.Fatalf("%s is called stuck, and is not", name)
			}
		}
		if len(stuck) != len(want) {
			b.Fatalf("%d of %d silent agents are found", len(stuck), len(want))
		}
		b.ReportMetric(float64(alone.Nanoseconds()), "flows-ns/event")
		b.ReportMetric(float64(both.Nanoseconds()), "both-ns/event")
		b.ReportMetric(float64(both)/float64(alone), "ratio")
		b.ReportMetric(float64(len(stuck)), "stuck")
		b.ReportMetric(0, "ns/op") // says nothing
	}
}

// foldReporters folds all rounds and returns the time per event, and who is stuck.
func foldReporters(b *testing.B, agents, silent, rounds int, both bool) (perEvent time.Duration, stuck map[string]bool) {
	b.Helper()
	store, err := state.Open(b.TempDir(), state.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	clock := clock.System{}
	limits := pumptest.Limits()
	limits.Rules[analyzer.RuleFlowDuration].Mode = rules.ModeOff // each flow is a whole day's work
	j := &folder{clock: clock}
	flows := feed{of: j, name: "journal", log: store.Journal(partition), read: journalRecord}
	activity := feed{of: j, name: activitySource, log: store.Journal(agentPartition), read: activityRecord}
	o := pump.Options{Limits: limits, Store: store, Sink: &verdictLog{log: store.Verdicts(partition), clock: clock}}
	if both {
		o.Activity = &activityLog{log: activity.log, clock: clock}
	}
	if flows.pump, err = pump.New(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	o.Partition, o.Stage, o.Source, o.Activity, o.Sink = agentPartition, pump.AgentStage, activitySource, nil, &verdictLog{log: store.Verdicts(partition), clock: clock, agents: true}
	if activity.pump, err = pump.New(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	source, n := newReporters(agents, silent), int64(0)
	var spent time.Duration
	fold := func(records []pump.Record) {
		entries := make([]state.Entry, len(records))
		for i := range records {
			entries[i] = state.Entry{Appended: records[i].Appended, Value: records[i].Value}
		}
		begun := clock.Now()
		if _, err := flows.log.Append(entries); err != nil {
			b.Fatal(err)
		}
		for _, f := range []*feed{&flows, &activity} {
			for left := int64(1); left > 0; {
				if left, err = f.fold(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
		spent += clock.Now().Sub(begun)
	}
	for range rounds {
		source.lines = nil
		records := source.next(n)
		n += int64(len(records))
		for len(records) > 0 {
			some := min(batchRecords, len(records))
			fold(records[:some])
			records = records[some:]
		}
	}
	begun := clock.Now()
	for _, p := range []*pump.Pump{flows.pump, activity.pump} {
		if err := p.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	spent += clock.Now().Sub(begun)
	if both {
		b.ReportMetric(float64(activity.log.End())/float64(n), "activity/event")
	}
	return spent / time.Duration(n), stuckIn(b, store)
}

// stuckIn returns the agents that the verdict log calls stuck.
func stuckIn(b *testing.B, store *state.Store) map[string]bool {
	b.Helper()
	out := make(map[string]bool)
	log := store.Verdicts(partition)
	for from := int64(0); from < log.End(); {
		entries, err := log.Read(from, batchRecords, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := range entries {
			var v events.Verdict
			if err := events.DecodeVerdict(entries[i].Value, &v); err != nil {
				b.Fatal(err)
			}
			if entries[i].Trigger < 0 && v.Action == events.Notify {
				out[strings.Clone(v.Agent)] = true
			}
		}
		from += int64(len(entries))
	}
	return out
}
