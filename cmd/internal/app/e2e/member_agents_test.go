package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

// wantedOfAgents is what the one fold says of the topic of activity as it stands.
func (g *members) wantedOfAgents(limits analyzer.Limits) (out []string) {
	g.t.Helper()
	for n, records := range g.records(g.topics.Activity) {
		p, err := pump.New(g.t.Context(), pump.Options{Partition: uint16(g.partitions + n), Stage: pump.AgentStage, Sources: g.partitions, AgentPartitions: g.partitions, Limits: limits,
			Parse: func(document []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", document) }})
		if err != nil {
			g.t.Fatal(err)
		}
		for i := range records {
			var ev events.Event
			var given []events.Verdict
			one := group.ActivityRecord(&records[i])
			if pump.IsReports(one.Value) {
				if given, err = p.FoldReports(&one); err != nil {
					g.t.Fatal(err)
				}
			} else {
				if err := events.Decode(one.Value, &ev); err != nil {
					g.t.Fatal(err)
				}
				ev.Appended = one.Appended
				given = p.FoldRecord(&ev, &one)
			}
			for _, v := range given {
				out = append(out, string(v.AppendJSON(nil)))
			}
		}
	}
	return out
}

// aboutAgents are the verdicts of agents and projects among those of a group.
func (g *members) aboutAgents() []events.Verdict {
	g.t.Helper()
	var out []events.Verdict
	for n, records := range g.records(g.topics.Verdicts) {
		for i := range records {
			var v events.Verdict
			if err := events.DecodeVerdict(records[i].Value, &v); err != nil {
				g.t.Fatal(err)
			}
			if ofAgent := n >= g.partitions; ofAgent != (v.CorrelationID == "") {
				g.t.Errorf("a verdict of flow %q and scope %s:%s is in partition %d", v.CorrelationID, v.Scope.Kind, v.Scope.ID, n)
			} else if ofAgent {
				out = append(out, v)
			}
		}
	}
	return out
}

// story is a sequence of events of agents, each with an id of its own.
type story struct {
	name string
	list []kafkago.Message
}

// at adds an event so long after the start.
func (s *story) at(after time.Duration, ev events.Event) {
	ev.ID, ev.Source, ev.Time = fmt.Sprint(s.name, "-", len(s.list)), "test", testStart.Add(after)
	s.list = append(s.list, kafkago.Message{Key: []byte(ev.FlowKey()), Value: ev.AppendJSON(nil)})
}

// reports adds that an agent says that it is active.
func (s *story) reports(after time.Duration, agent string) {
	s.at(after, events.Event{Kind: events.AgentStatus, From: events.Party{Agent: agent}, AgentState: &events.AgentState{Status: "active"}})
}

// ticks adds an event in each partition of the events in a step of time, so that all of
// them know it.
func (s *story) ticks(g *members, from, to, step time.Duration, only ...int) {
	for at := from; at <= to; at += step {
		missing := slices.Clone(only)
		for n := range g.partitions {
			if len(only) == 0 {
				missing = append(missing, n)
			}
		}
		for i := 0; len(missing) > 0; i++ {
			key := fmt.Sprint(s.name, "-clock-", i)
			if k := slices.Index(missing, g.partitionOf(key)); k >= 0 {
				missing = slices.Delete(missing, k, k+1)
				s.at(at, events.Event{Kind: events.TurnStart, CorrelationID: key, TurnID: fmt.Sprint(at), From: events.Party{Agent: "clock"}})
			}
		}
	}
}

// partitionOf is where the events of a key are.
func (g *members) partitionOf(key string) int {
	numbers := make([]int, g.partitions)
	for n := range numbers {
		numbers[n] = n
	}
	return kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: []byte(key)}, numbers...)
}

// inPartition is a name whose own events are in a partition.
func (g *members) inPartition(n int, prefix string) string {
	for i := 0; ; i++ {
		name := fmt.Sprint(prefix, i)
		if g.partitionOf("agent:"+name) == n {
			return name
		}
	}
}

// TestMemberAgents sees rules that cut across flows, and so across partitions of events:
// an agent that falls silent, and calls to one agent from flows that do not know of each
// other.
func TestMemberAgents(t *testing.T) {
	g := newGroup(t, startBroker(t), 4)
	s := &story{name: "one"}
	s.ticks(g, 0, 0, time.Minute)
	for i := range 4 {
		s.reports(time.Duration(i)*time.Second, g.inPartition(i, "quiet"))
	}
	// Fourteen agents call one, each without a correlation id.
	for i := range 14 {
		s.at(time.Minute+time.Duration(i)*time.Second, events.Event{Kind: events.AgentCall, From: events.Party{Agent: fmt.Sprint("caller-", i)}, To: events.Party{Agent: "popular"}})
	}
	// And another one is called in a new flow each time.
	for i := range 70 {
		s.at(2*time.Minute+time.Duration(i)*500*time.Millisecond, events.Event{Kind: events.AgentCall, CorrelationID: fmt.Sprint("minted-", i),
			From: events.Party{Agent: "minter"}, To: events.Party{Agent: "target"}})
	}
	s.ticks(g, 5*time.Minute, 45*time.Minute, 5*time.Minute)
	g.produce(s.list...)
	one, two := g.start(g.options(t.TempDir())), g.start(g.options(t.TempDir()))
	g.until("both have partitions of both stages", func() bool {
		return len(one.Places()) == 2 && len(two.Places()) == 2 && len(one.AgentPlaces()) == 2 && len(two.AgentPlaces()) == 2
	})
	g.folded(one, two)
	one.stop()
	two.stop()
	said := map[string]int{}
	for _, v := range g.aboutAgents() {
		said[fmt.Sprintf("%s %s %s", v.Reason, v.Action, strings.TrimRight(v.Scope.ID, "0123456789"))]++
	}
	for _, want := range []string{"agent_message_rate_exceeded throttle popular", "agent_message_rate_exceeded warn target"} {
		if said[want] == 0 {
			t.Errorf("nobody says %s: %v", want, said)
		}
	}
	if said["activity_timeout warn quiet"] != 4 || said["activity_timeout notify quiet"] != 4 {
		t.Errorf("four agents fell silent: %v", said)
	}
	g.check(limitfile.Default())
}

// TestMemberReportsAreAskedFor tells of the parties of flows in no partition before an agent reports
// of itself, and in all of them then, whoever folds them.
func TestMemberReportsAreAskedFor(t *testing.T) {
	const partitions = 3
	g := newGroup(t, startBroker(t), partitions)
	one, two := g.start(g.options(t.TempDir())), g.start(g.options(t.TempDir()))
	g.until("both have partitions of both stages", func() bool {
		return len(one.Places()) > 0 && len(two.Places()) > 0 && len(one.AgentPlaces()) > 0 && len(two.AgentPlaces()) > 0
	})
	worker := g.inPartition(0, "worker")
	works := func(s *story, after time.Duration) {
		for n := range partitions {
			flow := strings.TrimPrefix(g.inPartition(n, "flow"), "agent:")
			s.at(after, events.Event{Kind: events.LLMCall, CorrelationID: "agent:" + flow, From: events.Party{Agent: worker}})
		}
		s.ticks(g, after+2*time.Minute, after+2*time.Minute, time.Minute)
	}
	told := func() (n int) {
		for _, records := range g.records(g.topics.Activity) {
			for i := range records {
				if r := group.ActivityRecord(&records[i]); pump.IsReports(r.Value) {
					if err := pump.EachReport(r.Value, func(r *activity.Report) {
						if r.Name == worker {
							n++
						}
					}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		return n
	}
	before := &story{name: "before"}
	works(before, 0)
	g.produce(before.list...)
	g.folded(one, two)
	if n := told(); n > 0 {
		t.Errorf("no agent reports, and %d times it is told what one did", n)
	}
	report := &story{name: "report"}
	report.reports(5*time.Minute, worker)
	report.ticks(g, 6*time.Minute, 6*time.Minute, time.Minute)
	g.produce(report.list...)
	g.until("all partitions were told that an agent reports", func() bool {
		n := 0
		for _, records := range g.records(g.topics.Events) {
			if slices.ContainsFunc(records, func(r kafka.Record) bool { return strings.Contains(string(r.Value), `"tags":["reporting"]`) }) {
				n++
			}
		}
		return n == partitions-1
	})
	g.folded(one, two)
	after := &story{name: "after"}
	works(after, 7*time.Minute)
	g.produce(after.list...)
	g.folded(one, two)
	if n := told(); n != partitions {
		t.Errorf("it did something in a flow of each of %d partitions, and is told of %d times", partitions, n)
	}
	end := &story{name: "end"}
	end.ticks(g, 30*time.Minute, 30*time.Minute, time.Minute) // it falls silent
	g.produce(end.list...)
	g.folded(one, two)
	one.stop()
	two.stop()
	g.check(limitfile.Default())
}

// TestMemberSilenceWaits holds that nobody is called silent up to a time of which a
// partition of events has not told yet, for an agent may have spoken there.
func TestMemberSilenceWaits(t *testing.T) {
	g := newGroup(t, startBroker(t), 2)
	behind := g.inPartition(1, "behind") // reports where the log lags
	ahead := &story{name: "ahead"}
	ahead.ticks(g, 0, 0, time.Minute)
	ahead.reports(0, behind)
	ahead.ticks(g, time.Minute, 90*time.Minute, 10*time.Minute, 0)
	g.produce(ahead.list...)
	m := g.start(g.options(t.TempDir()))
	g.folded(m)
	if said := g.aboutAgents(); len(said) > 0 {
		t.Errorf("partition 1 has told nothing of the time, and there are verdicts: %+v", said[0])
	}
	late := &story{name: "late"}
	for at := 5 * time.Minute; at < 45*time.Minute; at += 9 * time.Minute {
		late.reports(at, behind)
	}
	late.ticks(g, 50*time.Minute, 50*time.Minute, time.Minute, 1)
	g.produce(late.list...)
	g.folded(m)
	if said := g.aboutAgents(); len(said) > 0 {
		t.Errorf("it reported every nine minutes, and there are verdicts: %+v", said[0])
	}
	end := &story{name: "end"}
	end.ticks(g, 90*time.Minute, 90*time.Minute, time.Minute, 1)
	g.produce(end.list...)
	g.folded(m)
	m.stop()
	var times []events.Stamp
	for _, v := range g.aboutAgents() {
		times = append(times, events.Stamp(v.Time)-testStart)
	}
	const last = 41 * 60_000
	if !slices.Equal(times, []events.Stamp{last + 600_001, last + 1_800_001}) {
		t.Errorf("verdicts at %v after the start, want ten and thirty minutes after the last report", times)
	}
	g.check(limitfile.Default())
}

// TestMemberLikeReplay holds that members say of a log in one partition what the replay
// says that has both stages in one process: the same bytes.
func TestMemberLikeReplay(t *testing.T) {
	g := newGroup(t, startBroker(t), 1)
	s := &story{name: "both"}
	s.reports(0, "quiet")
	for i := range 14 {
		s.at(time.Minute+time.Duration(i)*time.Second, events.Event{Kind: events.AgentCall, From: events.Party{Agent: fmt.Sprint("caller-", i)}, To: events.Party{Agent: "popular"}})
	}
	s.at(3*time.Minute, events.Event{Kind: events.RescueRequest, From: events.Party{Agent: "friend"}, To: events.Party{Agent: "quiet"}, Rescue: &events.Rescue{Reason: "no answer"}})
	g.produce(s.list...)
	g.produce(loops("loop", 3, 14)...)
	end := &story{name: "end"}
	end.ticks(g, 5*time.Minute, 45*time.Minute, 5*time.Minute)
	end.reports(46*time.Minute, "quiet")
	g.produce(end.list...)
	m := g.start(g.options(t.TempDir()))
	g.folded(m)
	m.stop()
	r, err := pump.NewReplay(t.Context(), pump.Options{Limits: limitfile.Default(),
		Parse: func(document []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", document) }})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	rules := map[string]bool{}
	for _, record := range g.records(g.topics.Events)[0] {
		var ev events.Event
		if events.Decode(record.Value, &ev) != nil {
			continue
		}
		ev.Appended = record.Time
		for _, v := range r.Fold(&ev, record.Offset) {
			want = append(want, string(v.AppendJSON(nil)))
			rules[v.RuleID] = true
		}
	}
	slices.Sort(want)
	if got := g.verdicts(); !slices.Equal(got, want) {
		t.Errorf("the members say\n%s\nand the replay\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, rule := range []string{"ping_pong_other", "agent_message_rate", "activity_timeout", "rescue"} {
		if !rules[rule] {
			t.Errorf("rule %s says nothing: %v", rule, rules)
		}
	}
	g.check(limitfile.Default())
}

// TestMemberActivity holds that what was sent on twice, because a member without a state
// folded the events again, counts once, also for a member that has folded it before.
func TestMemberActivity(t *testing.T) {
	g := newGroup(t, startBroker(t), 2)
	send := func(name string, from, n int) {
		s := &story{name: name}
		for i := from; i < from+n; i++ {
			s.at(time.Duration(i)*time.Second, events.Event{Kind: events.AgentCall, From: events.Party{Agent: "a"}, To: events.Party{Agent: fmt.Sprint("worker-", i%5)}})
		}
		g.produce(s.list...)
	}
	send("first", 0, 35) // seven to each: eight in a minute would warn
	m := g.start(g.options(t.TempDir()))
	g.folded(m)
	m.stop()
	send("second", 300, 35)
	m = g.start(g.options(t.TempDir())) // without a state: sends again
	g.folded(m)
	m.stop()
	sent, taken := 0, 0
	for _, records := range g.records(g.topics.Activity) {
		seen := positions{}
		for i := range records {
			at, err := sinkkafka.PositionOf(records[i].Headers)
			if err != nil {
				if strings.Contains(string(records[i].Value), `"limits.set"`) {
					continue
				}
				t.Fatal(err)
			}
			isNew := seen.take(at)
			if pump.IsReports(records[i].Value) {
				continue
			}
			var ev events.Event
			if err := events.Decode(records[i].Value, &ev); err != nil {
				t.Fatal(err)
			}
			if ev.Kind != events.AgentCall {
				continue
			}
			if want := activity.AgentKey(ev.To); string(records[i].Key) != want {
				t.Errorf("key %s of an event of %s", records[i].Key, want)
			}
			sent++
			if isNew {
				taken++
			}
		}
	}
	if taken != 70 || sent <= taken {
		t.Errorf("%d of %d calls are taken, want 70 of more", taken, sent)
	}
	for _, v := range g.aboutAgents() {
		if v.Reason == events.AgentMessageRate {
			t.Errorf("nobody was called eight times in a minute: %+v", v)
		}
	}
	g.check(limitfile.Default())
}
