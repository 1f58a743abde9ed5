package analyzer_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/analyzer/scenario"
	"weir/events"
)

// A law is something that holds for every log and all limits. The laws are tried
// on all cases of the rule book and on tales that are made of fuzzed bytes.
type law struct {
	name  string
	check func(t *testing.T, l analyzer.Limits, log []events.Event)
}

var laws = []law{
	{"the same log says the same", replayed},
	{"being observed changes nothing, and what is observed is what verdicts say", observed},
	{"stopping and resuming changes nothing", resumed},
	{"a timer in time changes nothing", timed},
	{"delivering twice changes nothing", doubled},
	{"other flows in between change nothing", interleaved},
	{"other names change no reason", renamed},
	{"a raised limit speaks no earlier", raised},
	{"records are bounded and exact", bounded},
	{"what is known of a time is told in time", promised},
	{"no report goes back", forward},
	{"what is made in spite of orders is counted once", once},
	{"nobody judges otherwise because somebody listens", unheard},
}

// fold folds logs as a pump does, flow by flow.
type fold struct {
	engine    *analyzer.Engine
	partition analyzer.Partition
	flows     map[string]*analyzer.Flow
	fx        analyzer.Effects
	said      map[string][]string         // verdicts and answers of each flow, as bytes
	verdicts  map[string][]events.Verdict // the same
	passed    map[string][]string         // activities of each flow, as bytes
	answers   int
	refused   map[string]string // latest verdict of each flow that refuses calls
	record    []byte
	coded     bool // every flow goes through its record after every event
	eager     bool // deadlines fire as the watermark passes them
}

func newFold(l analyzer.Limits) *fold {
	return &fold{engine: analyzer.New(l), flows: map[string]*analyzer.Flow{}, said: map[string][]string{},
		verdicts: map[string][]events.Verdict{}, passed: map[string][]string{}, refused: map[string]string{}}
}

func (w *fold) step(t testing.TB, ev events.Event) {
	key := ev.FlowKey()
	if ev.Ack != nil && ev.Ack.VerdictID == "" {
		ev.Ack = w.acknowledge(key)
	}
	if w.flows[key] == nil {
		w.flows[key] = new(analyzer.Flow)
	}
	w.fx.Reset()
	w.engine.Step(&w.partition, w.flows[key], &ev, &w.fx)
	w.hear(key)
	if w.eager {
		for other := range w.flows {
			w.advance(other, w.partition.Watermark)
		}
	}
	// The pump encodes a flow after every event that may have made its record too long, which then
	// forgets something: that is part of the fold.
	most := w.flows[key].AtMost()
	record, err := w.flows[key].AppendBinary(w.record[:0])
	if err != nil {
		t.Fatal(err)
	}
	if len(record) > most {
		t.Fatalf("a record of %d bytes, of which it was said that it has at most %d", len(record), most)
	}
	w.record = record
	if w.coded {
		w.code(t, key)
	}
}

// acknowledge makes the acknowledgement of the latest verdict, whose id only the
// fold knows.
func (w *fold) acknowledge(key string) *events.Ack {
	return &events.Ack{Applied: true, VerdictID: cmp.Or(w.refused[key], "none")}
}

func (w *fold) advance(key string, now events.Stamp) {
	w.fx.Reset()
	w.engine.Advance(&w.partition, w.flows[key], now, &w.fx)
	w.hear(key)
}

func (w *fold) hear(key string) {
	for i := range w.fx.Verdicts {
		v := w.fx.Verdicts[i]
		w.said[key] = append(w.said[key], string(v.AppendJSON(nil)))
		w.verdicts[key] = append(w.verdicts[key], v)
		if v.Effective != "" && v.Mode == "enforce" {
			w.refused[key] = v.ID
		}
	}
	if w.fx.Asked && w.fx.Counts.Duplicates > 0 {
		return // who asks again asks the tree again, which tells repeats by itself
	}
	for i := range w.fx.Activity {
		a := &w.fx.Activity[i]
		w.passed[key] = append(w.passed[key], a.Key+" "+string(a.Event.AppendJSON(nil)))
	}
	for i := range w.fx.Reports {
		for _, ev := range reported(&w.fx.Reports[i]) {
			w.passed[key] = append(w.passed[key], string(w.fx.Reports[i].AppendKey(nil))+" "+string(ev.AppendJSON(nil)))
		}
	}
	if w.fx.Answer != nil && w.fx.Counts.Duplicates == 0 { // an ask that is repeated is answered again
		w.said[key] = append(w.said[key], "answer "+string(w.fx.Answer.AppendJSON(nil)))
		w.answers++
	}
}

// code sends the flow and the partition through their records.
func (w *fold) code(t testing.TB, key string) {
	again := new(analyzer.Flow)
	if err := again.UnmarshalBinary(key, bytes.Clone(w.record)); err != nil {
		t.Fatalf("a record that was just written: %v", err)
	}
	w.flows[key] = again
	record, err := w.partition.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.partition.UnmarshalBinary(record); err != nil {
		t.Fatal(err)
	}
}

// run folds the whole log and lets a day pass after it.
func (w *fold) run(t testing.TB, log []events.Event) *fold {
	for i := range log {
		w.step(t, log[i])
	}
	for key := range w.flows {
		w.advance(key, w.partition.Watermark.Add(24*time.Hour))
	}
	return w
}

func sameAs(t *testing.T, what string, want, got *fold) {
	t.Helper()
	for key := range want.flows {
		if diff := firstDifference(want.said[key], got.said[key]); diff != "" {
			t.Fatalf("%s, flow %q: %s", what, key, diff)
		}
		if diff := firstDifference(want.passed[key], got.passed[key]); diff != "" {
			t.Fatalf("%s, what flow %q tells of agents: %s", what, key, diff)
		}
	}
	for key := range got.said {
		if _, ok := want.said[key]; !ok {
			t.Fatalf("%s: flow %q is spoken of", what, key)
		}
	}
}

func firstDifference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		a, b := "nothing", "nothing"
		if i < len(want) {
			a = want[i]
		}
		if i < len(got) {
			b = got[i]
		}
		if a != b {
			return fmt.Sprintf("saying %d differs\n want %s\n  got %s", i+1, a, b)
		}
	}
	return ""
}

func replayed(t *testing.T, l analyzer.Limits, log []events.Event) {
	sameAs(t, "folded again", newFold(l).run(t, log), newFold(l).run(t, log))
}

// observed holds for limits without overrides and scaling too: a stop that is given for a
// value was observed, whatever widened its threshold.
func observed(t *testing.T, l analyzer.Limits, log []events.Event) {
	seen := map[string]int64{}
	w := newFold(l)
	w.engine = w.engine.Observing(func(r analyzer.RuleID, v int64) {
		name := analyzer.Rules[r].Name
		seen[name] = max(seen[name], v)
	})
	sameAs(t, "observed", newFold(l).run(t, log), w.run(t, log))
	for _, given := range w.verdicts {
		for i := range given {
			if v := &given[i]; v.Observed != nil && v.Action != "allow" && *v.Observed > 0 && seen[v.RuleID] == 0 && !analyzer.Rules[rowOf(v.RuleID)].Fixed {
				t.Errorf("%s says that it observed %v, and nothing was seen", v.RuleID, *v.Observed)
			}
		}
	}
}

func rowOf(name string) analyzer.RuleID {
	id, _ := analyzer.RuleNamed(name)
	return id
}

func resumed(t *testing.T, l analyzer.Limits, log []events.Event) {
	w := newFold(l)
	w.coded = true
	sameAs(t, "through records", newFold(l).run(t, log), w.run(t, log))
}

// timed holds for logs whose times do not run backwards: that an event comes after
// the timer that should have seen it is the one gap of timers, and the shell waits
// a grace for it.
func timed(t *testing.T, l analyzer.Limits, log []events.Event) {
	log = slices.Clone(log)
	for i := 1; i < len(log); i++ {
		log[i].Time = max(log[i].Time, log[i-1].Time)
	}
	before := newFold(l)
	for i := range log { // a timer may say more before an acknowledgement comes: it is about the same verdict all the same
		if log[i].Ack != nil {
			log[i].Ack = before.acknowledge(log[i].FlowKey())
		}
		before.step(t, log[i])
	}
	w := newFold(l)
	w.eager = true
	sameAs(t, "with timers", newFold(l).run(t, log), w.run(t, log))
}

func doubled(t *testing.T, l analyzer.Limits, log []events.Event) {
	want, got := newFold(l).run(t, log), newFold(l)
	for i := range log {
		got.step(t, log[i])
		got.step(t, log[i])
		if i >= 10 {
			got.step(t, log[i-10])
		}
	}
	sameAs(t, "delivered twice", want, got.run(t, nil))
}

func interleaved(t *testing.T, l analyzer.Limits, log []events.Event) {
	l.Load = analyzer.Load{Percent: 100}
	all := newFold(l)
	for i := range log {
		all.step(t, log[i])
		other := log[i]
		other.CorrelationID = "other-" + other.CorrelationID
		all.step(t, other)
	}
	all.run(t, nil)
	alone := map[string][]events.Event{}
	for i := range log {
		alone[log[i].FlowKey()] = append(alone[log[i].FlowKey()], log[i])
	}
	for key, part := range alone {
		want := newFold(l)
		for i := range part {
			want.step(t, part[i])
		}
		want.advance(key, all.partition.Watermark.Add(24*time.Hour))
		if diff := firstDifference(want.said[key], all.said[key]); diff != "" {
			t.Fatalf("with others in between, flow %q: %s", key, diff)
		}
		// How soon a flow reports on its parties depends on the log's time, see Engine.Advance.
		if diff := firstDifference(withoutReports(want.passed[key]), withoutReports(all.passed[key])); diff != "" {
			t.Fatalf("with others in between, what flow %q tells of agents: %s", key, diff)
		}
	}
}

func withoutReports(passed []string) []string {
	return slices.DeleteFunc(slices.Clone(passed), func(line string) bool { return strings.Contains(line, `"source":"weir"`) })
}

// renamed gives all parties names that sort as the old ones do.
func renamed(t *testing.T, l analyzer.Limits, log []events.Event) {
	other := slices.Clone(log)
	name := func(s string) string { // as long as it was
		return strings.Map(func(r rune) rune {
			switch {
			case r >= '0' && r <= '9':
				return r - '0' + 'A'
			case r >= 'a' && r <= 'z':
				return r + 1
			}
			return r
		}, s)
	}
	for i := range other {
		for _, p := range []*events.Party{&other[i].From, &other[i].To} {
			p.Session, p.Agent = name(p.Session), name(p.Agent)
		}
	}
	if len(l.Overrides)+len(l.Subagents) > 0 {
		return // they name parties
	}
	summary := func(w *fold, name func(string) string) (out []string) {
		for key, vs := range w.verdicts {
			if party, ok := strings.CutPrefix(key, "agent:"); ok {
				key = name(party)
			}
			for _, v := range vs {
				line := fmt.Sprint(key, " ", v.Time, " ", v.Action, " ", v.Effective, " ", v.Reason, " ", v.RuleID, " ", v.Revision)
				if v.Observed != nil {
					line += fmt.Sprint(" ", *v.Observed, "/", *v.Limit)
				}
				out = append(out, line)
			}
		}
		slices.Sort(out)
		return out
	}
	a, b := newFold(l).run(t, log), newFold(l).run(t, other)
	if diff := firstDifference(summary(a, name), summary(b, strings.Clone)); diff != "" {
		t.Fatalf("with other names: %s", diff)
	}
}

// raised tries each rule that speaks by itself: the first verdict comes no earlier
// when the limit is one higher. What comes after it may differ, since a refused ask
// counts for nothing.
func raised(t *testing.T, l analyzer.Limits, log []events.Event) {
	var speaks analyzer.RuleSet
	for _, vs := range newFold(l).run(t, log).verdicts {
		for i := range vs {
			r, _ := analyzer.RuleNamed(vs[i].RuleID)
			speaks = speaks.With(r)
		}
	}
	for r := range analyzer.RuleCount {
		if !speaks.Has(r) {
			continue
		}
		set := l.Rules[r]
		if set.Stop == rules.Off || set.Mode == rules.ModeOff || r == analyzer.RuleOperator {
			continue
		}
		set.Warn = rules.Off
		first := func(stop int64) int {
			one := l
			for i := range one.Rules {
				one.Rules[i].Mode = rules.ModeOff
			}
			one.Overrides = nil
			one.Rules[r] = set
			one.Rules[r].Stop = stop
			w := newFold(one)
			for i := range log {
				if log[i].Kind == events.OverrideSet || log[i].Kind == events.OperatorStop {
					continue
				}
				w.step(t, log[i])
				for _, vs := range w.verdicts {
					if len(vs) > 0 {
						return i
					}
				}
			}
			return len(log)
		}
		if low, high := first(set.Stop), first(set.Stop+1); high < low {
			t.Fatalf("%s: the limit %d speaks at event %d, the limit %d at event %d", analyzer.Rules[r].Name, set.Stop+1, high+1, set.Stop, low+1)
		}
	}
}

// bounded checks every record on the way: below 8 KiB, and read back the same.
func bounded(t *testing.T, l analyzer.Limits, log []events.Event) {
	w := newFold(l)
	var record, again []byte
	for i := range log {
		w.step(t, log[i])
		f := w.flows[log[i].FlowKey()]
		record, _ = f.AppendBinary(record[:0])
		if len(record) > analyzer.MaxRecord {
			t.Fatalf("after event %d the record has %d bytes", i+1, len(record))
		}
		var back analyzer.Flow
		if err := back.UnmarshalBinary(f.Key(), record); err != nil {
			t.Fatalf("after event %d: %v", i+1, err)
		}
		if again, _ = back.AppendBinary(again[:0]); !bytes.Equal(record, again) {
			t.Fatalf("after event %d the record, read and written again, differs", i+1)
		}
		if a, b := w.engine.Explain(f), w.engine.Explain(&back); a != b {
			t.Fatalf("after event %d the flow that was read back is another\n%s\n%s", i+1, a, b)
		}
		if due := w.engine.Due(&back); due != w.engine.Due(f) {
			t.Fatalf("after event %d the flow that was read back is due at %d", i+1, due)
		}
	}
}

func TestLawsHoldForTheRuleBook(t *testing.T) {
	book := scenarioCases(t)
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) {
			for i := range book {
				c := &book[i]
				if !t.Run(fmt.Sprintf("%s:%d", c.File, c.Line), func(t *testing.T) {
					law.check(t, c.Limits(analyzer.Balanced()), c.Events())
				}) {
					return
				}
			}
		})
	}
}

func FuzzLaws(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 16 {
		data := make([]byte, 50+r.IntN(800))
		for i := range data {
			data[i] = byte(r.UintN(256))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, log := tale(data)
		if err := limitfile.Validate(&l); err != nil {
			t.Fatal(err)
		}
		for _, law := range laws {
			law.check(t, l, log)
		}
	})
}

// TestTheFullestFlow fills every list of a flow with the longest names, so that its
// record has to forget something, and wants the laws to hold all the same.
func TestTheFullestFlow(t *testing.T) {
	l := tight()
	l.Flow.MaxAge, l.Flow.Idle, l.Order.TTL = 2*time.Hour, time.Hour, time.Hour
	for i := range l.Rules {
		if r := analyzer.RuleID(i); r != analyzer.RuleLoops {
			l.Rules[i].Warn, l.Rules[i].Stop, l.Rules[i].Max = rules.Off, rules.Off, false
		}
	}
	l.Rules[analyzer.RuleLoops].Warn, l.Rules[analyzer.RuleLoops].Stop = rules.Off, 1
	var log []events.Event
	add := func(kind events.Kind, from, to int) *events.Event {
		name := func(i int) string { return fmt.Sprintf("%048d", i) }
		n := uint64(len(log)+1) * 0x9e3779b97f4a7c15
		log = append(log, events.Event{ID: fmt.Sprint(len(log)), Source: "full", Time: scenario.Start + events.Stamp(len(log)*50), Kind: kind, CorrelationID: "main",
			From: events.Party{Session: name(from)}, To: events.Party{Session: name(to)}, Content: events.Hash{Algorithm: events.SHA256, Value: n},
			Sim: events.Fingerprint{Algorithm: events.Simhash64, Value: n}, HadWork: events.No, TurnID: fmt.Sprint("turn", len(log)/9), ConversationID: fmt.Sprint(len(log) % 8)})
		return &log[len(log)-1]
	}
	for i := range 160 {
		who := i % 32
		add(events.AgentCall, who, (who+i/32+1)%32)
		call := add(events.ToolCall, who, who)
		call.Tool = events.Tool{Name: fmt.Sprintf("%024d", i%32), CallID: call.ID, ArgsHash: call.Content}
		id := call.ID
		result := add(events.ToolResult, who, who)
		result.Tool, result.Status = events.Tool{Name: fmt.Sprintf("%024d", i%32), CallID: id}, events.StatusOK
		add(events.AgentReturn, (who+i/32+1)%32, who)
	}
	for i := range 12 {
		add(events.AgentCall, i, i+1)
		add(events.TaskLoop, i, i).TaskID = fmt.Sprintf("%0256d", i)
	}
	w, most, forgot := newFold(l), 0, false
	for i := range log {
		w.step(t, log[i])
		most = max(most, len(w.record))
		forgot = forgot || len(w.record) < most-1000
	}
	t.Logf("the longest record has %d bytes", most)
	if !forgot {
		t.Errorf("the record never had to forget anything; fill it more")
	}
	for _, law := range laws {
		t.Run(law.name, func(t *testing.T) { law.check(t, l, log) })
	}
}
