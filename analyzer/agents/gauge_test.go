package agents

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/events"
)

// recount counts agents one by one, as they are shown to people. The week ends on the
// latest day that anything counted for so far.
func recount(t *testing.T, e *Engine, p *Partition, agents [][]byte, latest *events.Stamp) (m Gauge) {
	t.Helper()
	*latest = max(*latest, p.Watermark)
	views := make([]View, len(agents))
	reported := make([]events.Stamp, len(agents))
	for i, record := range agents {
		var a Agent
		if err := a.UnmarshalBinary("agent:probe", record); err != nil {
			t.Fatal(err)
		}
		views[i] = e.View(p, &a)
		if views[i].Step != "archive" && views[i].Step != "notify" {
			*latest = max(*latest, a.stuck.since)
		}
		if a.reports > 0 && views[i].Step != "archive" && views[i].Step != "notify" && doingByStatus(a.status) != gone {
			reported[i] = a.reported
			*latest = max(*latest, a.reported)
		}
	}
	within := func(at events.Stamp) bool { return at != 0 && dayOf(at) > dayOf(*latest)-gaugeKept }
	for i := range views {
		v := &views[i]
		if within(reported[i]) {
			m.Live++
		}
		stuck := v.State == "stuck"
		if (stuck || v.State == "potentially_stuck") && within(events.Stamp(v.Since)) {
			m.Stuck[reasonRow(v.Reason)][record.Bit(stuck, 0)]++
		}
	}
	return m
}

// reasonRow is the first row with the reason.
func reasonRow(reason events.Reason) RuleID {
	for r := range Rules {
		if Rules[r].Reason == reason {
			return RuleID(r)
		}
	}
	return RuleCount
}

// byReason puts rows with the same reason together.
func (m Gauge) byReason() (out Gauge) {
	out.Live = m.Live
	for r := range m.Stuck {
		to := &out.Stuck[reasonRow(Rules[r].Reason)]
		to[0], to[1] = to[0]+m.Stuck[r][0], to[1]+m.Stuck[r][1]
	}
	return out
}

// TestGaugeIsARecount holds after each of many acts that what is kept of how many agents
// there are is what a look at each of them gives, through restarts, days of silence and
// the end of the week.
func TestGaugeIsARecount(t *testing.T) {
	recovering := Balanced()
	recovering.Recover = true
	shadowing := Balanced()
	shadowing.Rules[RuleCriticalMargin].Mode = rules.ModeShadow
	shadowing.Rules[RuleRescue].Mode = rules.ModeWarn
	var most Gauge
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		e := New([]Limits{Balanced(), recovering, shadowing}[seed%3], balancedTerms)
		y := &agentPlay{t: t, e: e}
		var agents [][]byte
		var latest events.Stamp
		check := func() {
			t.Helper()
			got, want := y.p.Gauge(), recount(t, e, &y.p, agents, &latest)
			if got.byReason() != want.byReason() {
				t.Fatalf("seed %d, %d agents: kept\n%+v\ncounted\n%+v", seed, len(agents), got, want)
			}
			most.Live = max(most.Live, got.Live)
			for r := range got.Stuck {
				most.Stuck[r][0], most.Stuck[r][1] = max(most.Stuck[r][0], got.Stuck[r][0]), max(most.Stuck[r][1], got.Stuck[r][1])
			}
		}
		shift := events.Stamp(0)
		for range 12 {
			shift += events.Stamp(r.Int64N(int64(36 * time.Hour / time.Millisecond)))
			y.a = Agent{}
			y.a.Reset("agent:probe")
			y.p.offer("peer", dawn+shift, true)
			agents = append(agents, nil)
			tale := agentTale(r, 40)
			for _, act := range tale[:20+r.IntN(len(tale)-20)] {
				if act.ev != nil {
					ev := *act.ev
					ev.Time += shift
					e.Step(&y.p, &y.a, &ev, &y.fx)
				} else {
					y.p.Watermark = max(y.p.Watermark, act.to+shift)
					e.Advance(&y.p, &y.a, act.to+shift, &y.fx)
				}
				y.fx.Reset()
				if r.IntN(3) == 0 {
					y.restart()
				}
				agents[len(agents)-1], _ = y.a.AppendBinary(nil)
				check()
			}
		}
		// An agent of long ago is heard of again.
		for i := range agents {
			if err := y.a.UnmarshalBinary("agent:probe", agents[i]); err != nil {
				t.Fatal(err)
			}
			ev := events.Event{ID: "again", Time: dawn + shift, Kind: events.AgentStatus, From: probe, AgentState: &healthy}
			e.Step(&y.p, &y.a, &ev, &y.fx)
			y.fx.Reset()
			agents[i], _ = y.a.AppendBinary(nil)
			check()
		}
		y.p.Watermark = max(y.p.Watermark, dawn+shift).Add(gaugeKept * day)
		if got := y.p.Gauge(); got != (Gauge{}) {
			t.Fatalf("seed %d: %+v after a week of silence", seed, got)
		}
	}
	for _, row := range []RuleID{RuleCriticalMargin, RuleActivity, RuleHealthPoor, RuleRescue} {
		if most.Stuck[row][1] == 0 {
			t.Errorf("no tale made an agent stuck by %s: %+v", Rules[row].Name, most)
		}
	}
	if most.Stuck[RuleActivity][0] == 0 || most.Live < 5 {
		t.Errorf("the tales leave out too much: %+v", most)
	}
}

func TestGaugeOfARecordThatIsDamaged(t *testing.T) {
	var p Partition
	p.gauge.move(gaugeCell{}, gaugeCell{live: 20_000, stuck: 20_001, rule: RuleRescue, certain: true})
	whole, _ := p.AppendBinary(nil)
	for i := range whole {
		var q Partition
		if err := q.UnmarshalBinary(whole[:i]); err == nil && i > 0 {
			t.Errorf("the first %d of %d bytes are taken", i, len(whole))
		}
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			damaged := append([]byte(nil), whole...)
			damaged[i] = b
			if q.UnmarshalBinary(damaged) == nil {
				_ = q.Gauge() // whatever it says
				q.gauge.move(gaugeCell{live: 20_000}, gaugeCell{live: 20_009})
			}
		}
	}
	var q Partition
	if err := q.UnmarshalBinary(whole); err != nil {
		t.Fatal(err)
	}
	if q.Gauge() != p.Gauge() || q.Gauge().Live != 1 || q.Gauge().Stuck[RuleRescue][1] != 1 {
		t.Errorf("%+v, want %+v", q.Gauge(), p.Gauge())
	}
}
