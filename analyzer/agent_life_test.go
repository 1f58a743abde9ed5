package analyzer_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
	"weir/schemas"
)

// life is the activity of one agent as the pump of the agent stage takes it: events, and
// after each how far everything was told.
type life []moment

type moment struct {
	ev   events.Event
	told events.Stamp // the watermark afterwards
}

// lifeOf makes a life of any bytes: each pair says what comes next and how much later, or
// earlier.
func lifeOf(data []byte) (out life) {
	at, told := noon, events.Stamp(0)
	flows := []string{"", "flow-a", "flow-b"}
	others := []string{"planner", "reviewer", "tester"}
	states := []string{"active", "in_tool", "waiting_input", "paused", "archived", ""}
	works := []string{activity.WorkActive, activity.WorkInTool, activity.WorkChild, activity.WorkBackOff, activity.WorkDone, "unheard of"}
	me := events.Party{Agent: "coder"}
	for i := 0; i+1 < len(data) && len(out) < 400; i += 2 {
		what, how := data[i], int(data[i+1])
		other := events.Party{Agent: others[how%3]}
		ev := events.Event{ID: fmt.Sprint("e", i), Source: "/life", CorrelationID: flows[how%3], ProjectID: "shop"}
		switch what % 16 {
		case 0, 1, 2:
			ev.Kind, ev.From, ev.To = events.AgentCall, other, me
		case 3, 4:
			ev.Kind, ev.From, ev.To, ev.AgentState = events.AgentActivity, other, me, &events.AgentState{Status: activity.WorkOpened}
		case 5, 6:
			ev.Kind, ev.From, ev.AgentState = events.AgentActivity, me, &events.AgentState{Status: activity.WorkRefused}
		case 7, 8:
			ev.Kind, ev.From, ev.AgentState = events.AgentActivity, me, &events.AgentState{Status: works[how%len(works)]}
		case 9, 10, 11:
			ev.Kind, ev.From = events.AgentStatus, me
			ev.AgentState = &events.AgentState{Status: states[how%len(states)], Margin: []string{"comfortable", "tight", "critical"}[how%3],
				Health: []string{"healthy", "moderate", "critical", ""}[how%4], Coherence: float64(how) / 256, HasCoherence: how%5 > 0,
				Risk: float64(how%7) / 7, HasRisk: how%6 > 0, VoidActive: how%11 == 0}
		case 12:
			ev.Kind, ev.From = events.NoteAdded, other
			ev.Note = &events.Note{Summary: strings.Repeat("note ", how), Tags: []string{"stuck", "help", "other"}[:how%4]}
			if how%2 == 0 {
				ev.To = me
			} else {
				ev.From = me
			}
		case 13:
			ev.Kind, ev.From, ev.To, ev.Rescue = events.RescueRequest, other, me, &events.Rescue{Reason: "no answer", Admin: how%2 == 0}
		case 14:
			ev.Kind, ev.From, ev.To, ev.Review = events.ReviewResult, other, me, &events.Review{Decision: []string{"resume", "keep", "archive"}[how%3]}
		case 15:
			ev.Kind, ev.From, ev.To, ev.Ack = events.VerdictAck, other, me, &events.Ack{Applied: how%4 > 0} // of the last verdict
		}
		switch step := events.Stamp(how) * events.Stamp(how); {
		case what >= 0xf0:
			at += step * 60 // up to an hour
		case what >= 0x80:
			at += step / 16 // up to four seconds
		case what >= 0x10:
			at += step
		}
		ev.Time = at
		if what&0x70 == 0x30 { // late
			ev.Time -= events.Stamp(how) * 300
		}
		if how%9 == 0 {
			told = max(told, at-60_000)
		}
		out = append(out, moment{ev, told})
	}
	return out
}

// strict returns limits by which every row about agents speaks soon, each in one of the
// modes.
func strict(recover bool, modes uint64) analyzer.Limits {
	l := analyzer.Balanced()
	a := &l.Agents
	for r := agents.RuleRate; r <= agents.RuleAttempts; r++ {
		a.Rules[r].Warn, a.Rules[r].Stop, a.Rules[r].Max = 2, 5, r%2 == 0
	}
	a.Rules[agents.RuleRate].All = true
	for r := agents.RuleCriticalMargin; r <= agents.RuleCadence; r++ {
		a.Rules[r].Warn, a.Rules[r].Stop = 120, 300
	}
	for r := range a.Rules {
		a.Rules[r].Mode = []rules.Mode{rules.ModeEnforce, rules.ModeEnforce, rules.ModeWarn, rules.ModeShadow}[modes>>(2*r)&3]
	}
	a.Recover, a.WatchAll = recover, recover
	return l
}

// living folds a life.
type living struct {
	engine *analyzer.Engine
	agents agents.Partition
	agent  *agents.Agent
	peer   agents.Agent // who can review
	fx     analyzer.Effects
	said   []string         // verdicts, as bytes
	given  []events.Verdict // the same
	last   string           // id of the last
	record []byte
	coded  bool // agent and partition go through their records after every step
}

func newLiving(l analyzer.Limits) *living {
	w := &living{engine: analyzer.New(l), agent: new(agents.Agent)}
	w.agent.Reset("agent:coder")
	w.peer.Reset("agent:reviewer")
	return w
}

func (w *living) step(t testing.TB, x moment) {
	if x.ev.Ack != nil && x.ev.Ack.VerdictID == "" {
		x.ev.Ack = &events.Ack{Applied: x.ev.Ack.Applied, VerdictID: w.last}
	}
	if x.ev.Time%3 == 0 {
		report := events.Event{ID: x.ev.ID, Source: "/peer", Time: x.ev.Time, Kind: events.AgentStatus, From: events.Party{Agent: "reviewer"},
			AgentState: &events.AgentState{Status: "active", Health: "healthy"}}
		w.engine.Agents().Step(&w.agents, &w.peer, &report, &w.fx.Effects)
	}
	w.fx.Reset()
	w.engine.Agents().Step(&w.agents, w.agent, &x.ev, &w.fx.Effects)
	w.hear(t)
	w.tell(t, x.told)
}

func (w *living) tell(t testing.TB, told events.Stamp) {
	if told <= w.agents.Watermark {
		return
	}
	w.agents.Watermark = told
	w.fx.Reset()
	w.engine.Agents().Advance(&w.agents, w.agent, told, &w.fx.Effects)
	if due := w.engine.Agents().Due(w.agent); due != 0 && due <= told {
		t.Fatalf("due at %v although it is %v", due, told)
	}
	w.hear(t)
}

func (w *living) hear(t testing.TB) {
	for i := range w.fx.Verdicts {
		v := w.fx.Verdicts[i]
		w.last = v.ID
		w.said, w.given = append(w.said, string(v.AppendJSON(nil))), append(w.given, v)
	}
	record, err := w.agent.AppendBinary(w.record[:0])
	if err != nil || len(record) > agents.MaxRecord {
		t.Fatalf("record of %d bytes: %v", len(record), err)
	}
	w.record = record
	if !w.coded {
		return
	}
	w.agent = new(agents.Agent)
	if err := w.agent.UnmarshalBinary("agent:coder", bytes.Clone(record)); err != nil {
		t.Fatalf("a record that was just written: %v", err)
	}
	again, err := w.agent.AppendBinary(nil)
	if err != nil || !bytes.Equal(again, record) {
		t.Fatalf("read and written again it is another record: %v", err)
	}
	part, err := w.agents.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.agents.UnmarshalBinary(part); err != nil {
		t.Fatal(err)
	}
}

// run folds the life and lets a day pass after it.
func (w *living) run(t testing.TB, l life) *living {
	for i := range l {
		w.step(t, l[i])
	}
	last := w.agents.Watermark
	for i := range l {
		last = max(last, l[i].ev.Time)
	}
	w.tell(t, last.Add(24*time.Hour))
	return w
}

func sameSaid(t *testing.T, what string, want, got *living) {
	t.Helper()
	if diff := firstDifference(want.said, got.said); diff != "" {
		t.Fatalf("%s: %s", what, diff)
	}
	if a, b := want.engine.Agents().Explain(&want.agents, want.agent), got.engine.Agents().Explain(&got.agents, got.agent); a != b {
		t.Fatalf("%s: state\n%swant\n%s", what, b, a)
	}
}

var lawsOfLives = []struct {
	name  string
	check func(t *testing.T, l analyzer.Limits, log life)
}{
	{"the same log says the same", func(t *testing.T, l analyzer.Limits, log life) {
		sameSaid(t, "folded again", newLiving(l).run(t, log), newLiving(l).run(t, log))
	}},
	{"stopping and resuming changes nothing", func(t *testing.T, l analyzer.Limits, log life) {
		w := newLiving(l)
		w.coded = true
		sameSaid(t, "through records", newLiving(l).run(t, log), w.run(t, log))
	}},
	{"delivering twice changes nothing", func(t *testing.T, l analyzer.Limits, log life) {
		w := newLiving(l)
		folded := make([]bool, len(log)) // what was of no concern then may be of some later
		for i := range log {
			twice, before := log[i], w.agent.Events()
			if twice.ev.Ack != nil {
				twice.ev.Ack = &events.Ack{Applied: twice.ev.Ack.Applied, VerdictID: w.last}
			}
			w.step(t, twice)
			folded[i] = w.agent.Events() > before
			w.step(t, twice)
			if i >= 10 && folded[i-10] {
				w.step(t, log[i-10])
			}
		}
		want := newLiving(l).run(t, log)
		w.tell(t, want.agents.Watermark)
		sameSaid(t, "delivered twice", want, w)
	}},
	{"when it is told changes nothing of what is counted", func(t *testing.T, l analyzer.Limits, log life) {
		for r := agents.RuleCriticalMargin; r < agents.RuleCount; r++ {
			l.Agents.Rules[r].Mode = rules.ModeOff
		}
		seldom, often := slices.Clone(log), slices.Clone(log)
		for i := range log {
			if i > 0 {
				seldom[i].ev.Time = max(seldom[i].ev.Time, seldom[i-1].ev.Time)
				often[i-1].told = seldom[i].ev.Time - 1
			}
			often[i].ev.Time, seldom[i].told = seldom[i].ev.Time, 0
			if log[i].ev.Ack != nil { // a timer may say more before it comes
				seldom[i].ev.Ack = &events.Ack{VerdictID: "of somebody"}
				often[i].ev.Ack = seldom[i].ev.Ack
			}
		}
		sameSaid(t, "told often", newLiving(l).run(t, seldom), newLiving(l).run(t, often))
	}},
	{"verdicts grow and have ids of their own", func(t *testing.T, l analyzer.Limits, log life) {
		ids := map[string]bool{}
		revision := int64(0)
		for _, v := range newLiving(l).run(t, log).given {
			if v.Revision <= revision || ids[v.ID] {
				t.Fatalf("revision %d after %d: %s", v.Revision, revision, v.AppendJSON(nil))
			}
			revision, ids[v.ID] = v.Revision, true
			if v.CorrelationID != "" || v.Scope != (events.Scope{Kind: "agent", ID: "coder"}) || v.Message == "" {
				t.Fatalf("said %s", v.AppendJSON(nil))
			}
		}
	}},
}

func TestLawsOfLives(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	said := 0
	for n := range 100 {
		data := randomBytes(r, 2*(1+r.IntN(200)))
		l := strict(n%2 == 0, r.Uint64())
		for _, law := range lawsOfLives {
			t.Run(fmt.Sprint(law.name, "/", n), func(t *testing.T) { law.check(t, l, lifeOf(data)) })
			if t.Failed() {
				return
			}
		}
		said += len(newLiving(l).run(t, lifeOf(data)).said)
	}
	if said < 1000 {
		t.Errorf("only %d verdicts were given: these lives try little", said)
	}
}

func TestVerdictsAboutAgentsFollowTheSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Verdict()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("verdict.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("verdict.json")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(15, 16))
	actions := map[string]bool{}
	for n := range 30 {
		w := newLiving(strict(n%2 == 0, r.Uint64()&r.Uint64()&r.Uint64())).run(t, lifeOf(randomBytes(r, 400)))
		for i, said := range w.said {
			text, err := jsonschema.UnmarshalJSON(strings.NewReader(said))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(text); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			actions[string(w.given[i].Action)] = true
		}
	}
	for _, a := range []events.Action{events.Allow, events.Warn, events.Throttle, events.Halt, events.Resume, events.ReviewAgent, events.Archive, events.Notify} {
		if !actions[string(a)] {
			t.Errorf("no verdict with action %s was tried", a)
		}
	}
}

func randomBytes(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// FuzzStepAgent folds lives that are made of any bytes, with a crash after every step.
func FuzzStepAgent(f *testing.F) {
	f.Add([]byte(strings.Repeat("some life of an agent ", 20)), true, uint64(0))
	f.Add([]byte{9, 1, 0xf9, 255, 0xf9, 254, 15, 1, 14, 0}, true, uint64(3<<14))
	f.Add(bytes.Repeat([]byte{0, 3, 5, 9}, 60), false, uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, recover bool, modes uint64) {
		w := newLiving(strict(recover, modes))
		w.coded = true
		sameSaid(t, "through records", newLiving(strict(recover, modes)).run(t, lifeOf(data)), w.run(t, lifeOf(data)))
	})
}

// FuzzAgentRecord reads records that nobody wrote: they are refused, or are agents that
// can be folded on.
func FuzzAgentRecord(f *testing.F) {
	f.Add([]byte{})
	r := rand.New(rand.NewPCG(13, 14))
	for range 12 {
		w := newLiving(strict(true, 0))
		for _, x := range lifeOf(randomBytes(r, 300)) {
			w.step(f, x)
		}
		f.Add(bytes.Clone(w.record))
	}
	after := lifeOf([]byte(strings.Repeat("what comes after a record that was read", 9)))
	f.Fuzz(func(t *testing.T, record []byte) {
		w := newLiving(strict(true, 0))
		if w.agent.UnmarshalBinary("agent:coder", record) != nil {
			return
		}
		again, err := w.agent.AppendBinary(nil)
		if err != nil || len(again) > agents.MaxRecord {
			t.Fatalf("written again it has %d bytes: %v", len(again), err)
		}
		w.engine.Agents().View(&w.agents, w.agent)
		w.run(t, after)
	})
}
