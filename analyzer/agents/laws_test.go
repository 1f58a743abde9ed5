package agents

import (
	"bytes"
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/events"
)

// agentAct is one thing that happens to an agent: an event, or the watermark moves.
type agentAct struct {
	to events.Stamp // the watermark, when ev is nil
	ev *events.Event
}

// agentTale makes up what happens to an agent. It names verdicts and reviewers by
// guessing, and often guesses right.
func agentTale(r *rand.Rand, n int) []agentAct {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	at := dawn
	watermark := dawn
	var acts []agentAct
	for i := range n {
		at += events.Stamp(r.IntN([...]int{1000, 60_000, 400_000, 3_000_000}[r.IntN(4)]))
		ev := &events.Event{ID: fmt.Sprint("e", i), Source: "/tale", Time: at - events.Stamp(r.IntN(2)*r.IntN(70_000)), From: probe}
		switch r.IntN(12) {
		case 0, 1, 2:
			ev.Kind = events.AgentStatus
			ev.AgentState = &events.AgentState{Status: pick("active", "active", "active", "", "waiting_input", "idle", "in_tool", "archived"),
				Margin: pick("", "tight", "critical"), Health: pick("", "healthy", "moderate"), Coherence: r.Float64(), HasCoherence: r.IntN(4) > 0,
				Risk: r.Float64(), HasRisk: r.IntN(4) > 0, VoidActive: r.IntN(8) == 0}
		case 3, 4:
			ev.Kind, ev.CorrelationID = events.AgentActivity, pick("f1", "f2", "f3")
			ev.AgentState = &events.AgentState{Status: pick(activity.WorkActive, activity.WorkInTool, activity.WorkChild, activity.WorkBackOff, activity.WorkDone, activity.WorkRefused)}
		case 5:
			ev.Kind, ev.Note = events.NoteAdded, &events.Note{Summary: "n", Tags: []string{pick("stuck", "plan"), "help"}}
			if r.IntN(2) == 0 {
				ev.From, ev.To = events.Party{Agent: "peer"}, probe
			}
		case 6:
			ev.Kind, ev.From, ev.To = events.RescueRequest, events.Party{Agent: pick("peer", "probe")}, probe
			ev.Rescue = &events.Rescue{Reason: "r", Admin: r.IntN(6) == 0}
		case 7:
			ev.Kind, ev.From, ev.To = events.ReviewResult, events.Party{Agent: pick("peer", "probe")}, probe
			ev.Review = &events.Review{Decision: pick("resume", "keep", "archive")}
		case 8:
			ev.Kind, ev.From, ev.To = events.VerdictAck, events.Party{Agent: "executor"}, probe
			ev.Ack = &events.Ack{Applied: r.IntN(4) > 0} // of the last verdict
		case 9:
			ev.Kind, ev.From, ev.To = events.AgentCall, events.Party{Agent: "peer"}, probe
		default:
			watermark = max(watermark, at-events.Stamp(r.IntN(100_000)))
			acts = append(acts, agentAct{to: watermark})
			continue
		}
		acts = append(acts, agentAct{ev: ev})
	}
	return append(acts, agentAct{to: at.Add(day)})
}

// playTale folds the tale and returns the verdicts and the last record. After each act it
// calls between, which may put the agent away and bring it back.
func playTale(t *testing.T, e *Engine, tale []agentAct, twice, slowly bool, between func(*agentPlay)) (verdicts []byte, record []byte) {
	t.Helper()
	y := &agentPlay{t: t, e: e}
	y.a.Reset("agent:probe")
	y.p.offer("peer", dawn, true)
	last := ""
	revision := int64(0)
	for _, act := range tale {
		if act.ev == nil {
			for due := e.Due(&y.a); slowly && due != 0 && due < act.to; due = e.Due(&y.a) {
				e.Advance(&y.p, &y.a, due-1, &y.fx)
				between(y)
				e.Advance(&y.p, &y.a, due, &y.fx)
				between(y)
			}
			e.Advance(&y.p, &y.a, act.to, &y.fx)
			if due := e.Due(&y.a); due != 0 && due <= act.to {
				t.Fatalf("due at %d after it was advanced to %d", due-dawn, act.to-dawn)
			}
		} else {
			ev := *act.ev
			if ev.Ack != nil {
				ev.Ack = &events.Ack{Applied: ev.Ack.Applied, VerdictID: last}
			}
			e.Step(&y.p, &y.a, &ev, &y.fx)
			if twice {
				between(y)
				e.Step(&y.p, &y.a, &ev, &y.fx)
			}
		}
		between(y)
		for i := range y.fx.Verdicts {
			v := &y.fx.Verdicts[i]
			if v.Revision <= revision {
				t.Fatalf("revision %d after %d", v.Revision, revision)
			}
			last, revision = v.ID, v.Revision
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			verdicts = append(append(verdicts, b...), '\n')
		}
		y.fx.Reset()
	}
	record, _ = y.a.AppendBinary(nil)
	if len(record) > MaxRecord {
		t.Fatalf("the record takes %d bytes, want at most %d", len(record), MaxRecord)
	}
	return verdicts, record
}

func TestLawsOfAgents(t *testing.T) {
	l := Balanced()
	l.Recover = true
	settings := []Limits{l}
	l.Rules[RuleCriticalMargin].Mode = rules.ModeShadow
	l.Rules[RuleActivity].Mode = rules.ModeWarn
	settings = append(settings, l)
	l.Rules[RuleRescue].Mode = rules.ModeWarn
	l.Recover, l.WatchAll = false, true
	settings = append(settings, l)

	seen := map[string]int{}
	for seed := range uint64(150) {
		e := New(settings[seed%uint64(len(settings))], balancedTerms)
		tale := agentTale(rand.New(rand.NewPCG(seed, 1)), 60)
		nothing := func(*agentPlay) {}
		want, state := playTale(t, e, tale, false, false, nothing)
		check := func(law string, verdicts, record []byte) {
			t.Helper()
			if string(verdicts) != string(want) {
				t.Fatalf("seed %d, %s: verdicts\n%s\nwant\n%s", seed, law, verdicts, want)
			}
			if string(record) != string(state) {
				t.Fatalf("seed %d, %s: the state differs", seed, law)
			}
		}
		verdicts, record := playTale(t, e, tale, false, false, nothing)
		check("folded again", verdicts, record)
		verdicts, record = playTale(t, e, tale, false, false, (*agentPlay).restart)
		check("resumed after every step", verdicts, record)
		verdicts, record = playTale(t, e, tale, false, true, (*agentPlay).restart)
		check("advanced step by step", verdicts, record)
		verdicts, record = playTale(t, e, tale, true, false, nothing)
		check("delivered twice", verdicts, record)
		for line := range bytes.Lines(want) {
			var v struct {
				Action string `json:"action"`
				Reason string `json:"reason_code"`
				Mode   string `json:"mode"`
			}
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
			seen[v.Action]++
			seen[v.Reason]++
			seen[v.Mode]++
		}
	}
	for _, s := range []string{"allow", "warn", "notify", "resume", "review", "archive", "shadow", "enforce", string(events.CriticalMarginTimeout),
		string(events.TightMarginTimeout), string(events.ActivityTimeout), string(events.HealthTimeout), string(events.RescueRequested), string(events.RescueRefusedNotStuck)} {
		if seen[s] == 0 {
			t.Errorf("no tale led to %s: %v", s, seen)
		}
	}
}

// dueAgents is a heap of the agents that want to be looked at, the soonest first.
type dueAgents []dueEntry

type dueEntry struct {
	at    events.Stamp
	agent int
}

func (h dueAgents) Len() int           { return len(h) }
func (h dueAgents) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueAgents) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueAgents) Push(x any)        { *h = append(*h, x.(dueEntry)) }
func (h *dueAgents) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func TestAThousandOfAHundredThousandFallSilent(t *testing.T) {
	const (
		agents = 100_000
		silent = 1000
		every  = 4 * time.Minute
		span   = 25 * time.Minute
		told   = 30 * time.Second // the watermark moves in steps
	)
	r := rand.New(rand.NewPCG(7, 7))
	states := [...]events.AgentState{
		{Status: "active", Margin: "critical"},
		{Status: "active", Margin: "tight", Health: "healthy"},
		{Status: "active", Health: "moderate"},
		{Status: "active"},
	}
	rest := events.AgentState{Status: "idle"}
	thresholds := [...]time.Duration{300 * time.Second, 600 * time.Second, 300 * time.Second, 600 * time.Second} // of the first verdict
	stops := make(map[int]events.Stamp, silent)                                                                  // who falls silent, and from when on
	for len(stops) < silent {
		stops[r.IntN(agents)] = dawn.Add(every + time.Duration(r.Int64N(int64(8*time.Minute))))
	}
	e := New(Balanced(), balancedTerms)
	var (
		p       Partition
		a       Agent
		fx      activity.Effects
		queue   dueAgents
		looks   int
		last    = make(map[int]events.Stamp, silent)
		next    = make([]events.Stamp, agents) // report
		due     = make([]events.Stamp, agents) // as the queue has it
		records = make([][]byte, agents)
		spare   []byte
		keys    = make([]string, agents)
		steps   = make([][]int, int(span/time.Second)) // who reports in which second
		found   = map[string]events.Stamp{}
	)
	for i := range agents {
		next[i] = dawn.Add(time.Duration(r.Int64N(int64(every))))
		keys[i] = fmt.Sprint("agent:", i)
		s := (next[i] - dawn) / 1000
		steps[s] = append(steps[s], i)
	}
	load := func(i int) {
		if records[i] == nil {
			a.Reset(keys[i])
		} else if err := a.UnmarshalBinary(keys[i], records[i]); err != nil {
			t.Fatal(err)
		}
	}
	store := func(i int) {
		spare, _ = a.AppendBinary(spare[:0])
		at := e.Due(&a) // before the memory that the agent's strings alias is written to
		records[i] = append(records[i][:0], spare...)
		if at != 0 && (due[i] == 0 || at < due[i]) {
			due[i] = at
			heap.Push(&queue, dueEntry{at, i})
		}
	}
	ids := 0
	for s := range steps {
		for _, i := range steps[s] {
			state := &states[i%len(states)]
			stop, stuck := stops[i]
			if stuck {
				if next[i] > stop {
					continue
				}
				last[i] = next[i]
			} else if next[i] > dawn.Add(2*every) {
				state = &rest // the others have finished their work
			}
			load(i)
			ids++
			ev := events.Event{ID: fmt.Sprint(ids), Time: next[i], Kind: events.AgentStatus, From: events.Party{Agent: keys[i][len(activity.AgentPrefix):]}, AgentState: state}
			e.Step(&p, &a, &ev, &fx)
			store(i)
			if state == &rest {
				continue
			}
			next[i] = next[i].Add(every)
			if later := int((next[i] - dawn) / 1000); later < len(steps) {
				steps[later] = append(steps[later], i)
			}
		}
		if s%int(told/time.Second) != 0 {
			continue
		}
		watermark := dawn.Add(time.Duration(s)*time.Second - 65*time.Second)
		for len(queue) > 0 && queue[0].at <= watermark {
			x := heap.Pop(&queue).(dueEntry)
			if due[x.agent] != x.at {
				continue
			}
			due[x.agent] = 0
			looks++
			load(x.agent)
			e.Advance(&p, &a, watermark, &fx)
			store(x.agent)
		}
		for i := range fx.Verdicts {
			v := &fx.Verdicts[i]
			if _, again := found[v.Agent]; again {
				t.Fatalf("%s was told of again: %s", v.Agent, verdictLine(v))
			}
			found[v.Agent] = events.Stamp(v.Time)
		}
		fx.Reset()
	}
	for i, at := range last {
		want := at.Add(thresholds[i%len(states)]) + 1
		if got := found[keys[i][len(activity.AgentPrefix):]]; got != want {
			t.Errorf("%s, silent from %d: found at %d, want %d", keys[i], at-dawn, got-dawn, want-dawn)
		}
	}
	if len(found) != silent {
		t.Errorf("%d agents were found, want the %d that fell silent", len(found), silent)
	}
	// Each look at an agent belongs to a report of it: there is no walk over all of them.
	if looks > ids {
		t.Errorf("%d looks for %d reports", looks, ids)
	}
	t.Logf("%d agents, %d reports, %d looks, %d found silent", agents, ids, looks, len(found))
}

func TestReportWithoutConsequenceDoesNotAllocate(t *testing.T) {
	e := New(Balanced(), balancedTerms)
	var (
		p      Partition
		a      Agent
		fx     activity.Effects
		record []byte
	)
	a.Reset("agent:probe")
	ids := make([]string, 3000)
	for i := range ids {
		ids[i] = fmt.Sprint("e", i)
	}
	n := 0
	ev := events.Event{Source: "/bench", Time: dawn, Kind: events.AgentStatus, From: probe, AgentState: &healthy}
	step := func() {
		ev.ID, ev.Time = ids[n], ev.Time+30_000
		n++
		e.Step(&p, &a, &ev, &fx)
		if e.Due(&a) == 0 {
			t.Fatal("an active agent is due some time")
		}
		record, _ = a.AppendBinary(record[:0])
		if err := a.UnmarshalBinary("agent:probe", record); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		step()
	}
	if got := testing.AllocsPerRun(1000, step); got != 0 {
		t.Errorf("a report that changes nothing allocates %v times, want 0", got)
	}
	t.Logf("record of an agent: %d bytes", len(record))
}
