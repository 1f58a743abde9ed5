package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/reports"
	"weir/analyzer/rules"
	"weir/events"
)

// quiet are the default limits with every row about agents off.
func quiet() analyzer.Limits {
	l := analyzer.Balanced()
	for i := range l.Agents.Rules {
		l.Agents.Rules[i].Mode = rules.ModeOff
	}
	return l
}

// heard folds the story and then lets a quarter of an hour pass. It returns the
// activities, one a line: key, kind, status, and after how many seconds.
func (s *story) heard(l analyzer.Limits) (lines []string) {
	e := analyzer.New(l)
	var (
		p    = analyzer.Partition{Reporting: !s.unasked}
		flow analyzer.Flow
		fx   analyzer.Effects
	)
	begin := newStory().at
	refused := ""
	var waiting reports.Waiting
	report := func(r activity.Report) {
		for _, ev := range reported(&r) {
			lines = append(lines, activityLine(&activity.Activity{Key: string(r.AppendKey(nil)), Event: ev}, begin))
		}
	}
	tell := func() {
		for i := range waiting.Len() {
			report(waiting.At(i))
		}
		waiting.Reset()
	}
	hear := func() {
		for i := range fx.Activity {
			lines = append(lines, activityLine(&fx.Activity[i], begin))
		}
		for i := range fx.Reports {
			if r := &fx.Reports[i]; r.Now {
				report(waiting.Urge(r))
			} else {
				waiting.Add(r)
			}
		}
		for i := range fx.Verdicts {
			if v := &fx.Verdicts[i]; v.Effective != "" {
				refused = v.ID
			}
		}
		fx.Reset()
	}
	for i := range s.events {
		ev := &s.events[i]
		if ev.Ack != nil && ev.Ack.VerdictID == "" {
			ev.Ack.VerdictID = refused
		}
		if e.ReportsDue(p.Watermark-begin, ev.Time-begin) { // others have moved the time on
			tell()
		}
		if !e.Relay(&p, ev, &fx) {
			e.Step(&p, &flow, ev, &fx)
		}
		hear()
	}
	e.Advance(&p, &flow, s.at.Add(15*time.Minute), &fx)
	hear()
	tell()
	return lines
}

func activityLine(a *activity.Activity, begin events.Stamp) string {
	line := a.Key + " " + a.Event.Kind.String()
	if a.Event.AgentState != nil {
		line += " " + a.Event.AgentState.Status
	}
	return fmt.Sprint(line, " ", a.Event.Time.Sub(begin).Seconds())
}

func TestActivity(t *testing.T) {
	f := func(name string, l analyzer.Limits, tell func(s *story), want ...string) {
		t.Helper()
		s := newStory()
		tell(s)
		if got := s.heard(l); !slices.Equal(got, want) {
			t.Errorf("%s: heard\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
	with := func(rows ...agents.RuleID) analyzer.Limits {
		l := quiet()
		for _, r := range rows {
			l.Agents.Rules[r] = rules.Setting{Warn: rules.Off, Stop: 5}
		}
		return l
	}
	words := func(s *story, flow string) {
		word := func(kind events.Kind, from, to string) *events.Event {
			ev := s.add(kind, from, to)
			ev.CorrelationID = flow
			return ev
		}
		word(events.AgentStatus, "a", "b").AgentState = &events.AgentState{Status: "active"}
		word(events.NoteAdded, "a", "").Note = &events.Note{Summary: "s"}
		word(events.NoteAdded, "a", "b").Note = &events.Note{Summary: "s"}
		word(events.RescueRequest, "a", "b").Rescue = &events.Rescue{Reason: "r"}
		word(events.ReviewResult, "a", "b").Review = &events.Review{Decision: "keep"}
		word(events.VerdictAck, "a", "b").Ack = &events.Ack{VerdictID: "0123456789abcdef-1", Applied: true}
		word(events.VerdictAck, "a", "").Ack = &events.Ack{VerdictID: "0123456789abcdef-1", Applied: true}
	}
	said := []string{"agent:a agent.status active 1", "agent:b agent.activity spoken_for 1", "agent:a note 2", "agent:b note 3", "agent:b rescue.request 4",
		"agent:b review.result 5", "agent:b verdict.ack 6", "agent:a verdict.ack 6", "agent:a verdict.ack 7"}

	f("words in a flow", quiet(), func(s *story) { words(s, "story") }, said...)
	f("words of no flow", quiet(), func(s *story) { words(s, "") }, said...)
	f("words delivered twice", quiet(), func(s *story) {
		words(s, "story")
		s.events = append(s.events, s.events...)
	}, said...)

	hops := func(s *story) {
		s.hop("a", "b", "x")
		s.events[0].ProjectID = "p"
		s.user("c", "x")
		s.hop("b", "c", "y")
		s.events[2].CorrelationSource = events.CorrelationDerived
	}
	f("nobody counts calls", quiet(), hops)
	f("calls that escaped", with(agents.RuleRate), hops, "agent:c agent.call 3")
	all := with(agents.RuleRate)
	all.Agents.Rules[agents.RuleRate].All = true
	f("all calls", all, hops, "agent:b agent.call 1", "agent:c agent.call 3")
	f("calls of a long window", with(agents.RuleMessages), hops, "agent:b agent.call 1", "agent:c agent.call 3")
	f("calls in projects", with(agents.RuleProject), hops, "project:p agent.call 1")
	f("calls that open flows", with(agents.RuleMinted), hops, "agent:b agent.activity opened 1")
	f("a person opens the flow", with(agents.RuleMinted), func(s *story) {
		s.user("a", "x")
		s.hop("a", "b", "x")
	})
	outcome := func(s *story) {
		s.hop("a", "b", "x")
		s.tool("b", "read", `{}`, "text")
		s.answer("b", "", "y")
	}
	wakes := with(agents.RuleWakes)
	agent := activity.WakePrefix + activity.FlowsID("", "b")
	f("a flow that an agent opens", wakes, outcome, agent+" agent.activity begun 1", agent+" agent.activity came 4")
	f("a flow that a person opens reports no outcome", wakes, func(s *story) {
		s.user("a", "x")
		outcome(s)
	})
	f("a flow that begins with another event than a call reports none", wakes, func(s *story) {
		s.add(events.TurnStart, "a", "")
		outcome(s)
	})
	f("calls without an id", with(agents.RuleRate), func(s *story) {
		s.hop("a", "b", "x")
		s.events[0].CorrelationID = ""
	}, "agent:b agent.call 1")
	f("allowed and refused asks", all, func(s *story) {
		for range 4 {
			s.hop("a", "a", "x")
			s.events[len(s.events)-1].Ask, s.events[len(s.events)-1].TransferMode = true, events.ReturnToCaller
		}
		s.hop("a", "b", "x")
		s.events[len(s.events)-1].Ask = true
	}, "agent:b agent.call 5")

	loop := func(s *story) {
		for range 6 {
			s.tool("a", "read", `{"file":"a"}`, "text")
		}
		s.gap = 3 * time.Second // no longer in flight
	}
	attempts := with(agents.RuleAttempts)
	f("a call in spite of an order", attempts, func(s *story) {
		loop(s)
		s.call("a", "read", `{"file":"a"}`)
		s.call("a", "read", `{"file":"b"}`)
	}, "agent:a agent.activity refused 15")
	f("an ask in spite of an order", attempts, func(s *story) {
		loop(s)
		s.call("a", "read", `{"file":"a"}`)
		s.events[len(s.events)-1].Ask = true
	}, "agent:a agent.activity refused 15")
	f("a refusal that a dispatcher reports", attempts, func(s *story) {
		loop(s)
		s.add(events.VerdictAck, "a", "").Ack = &events.Ack{Applied: true}
		s.add(events.VerdictAck, "a", "").Ack = &events.Ack{Applied: false}
	}, "agent:a agent.activity refused 15")
	f("a call that was in flight", attempts, func(s *story) {
		loop(s)
		s.gap = 500 * time.Millisecond
		s.call("a", "read", `{"file":"a"}`)
	})
	throttled := with(agents.RuleAttempts)
	throttled.Rules[analyzer.RuleFlowRate] = rules.Setting{Warn: rules.Off, Stop: 2, Window: 60}
	f("asking whether it is time", throttled, func(s *story) {
		s.gap = 3 * time.Second
		for range 4 {
			s.hop("a", "b", "x")
			s.events[len(s.events)-1].Ask = true
		}
		s.hop("a", "b", "x")
	}, "agent:a agent.activity refused 15")
}

func TestReports(t *testing.T) {
	f := func(name string, tell func(s *story), want ...string) {
		t.Helper()
		s := newStory()
		tell(s)
		l := quiet()
		l.Agents.Rules[agents.RuleActivity].Mode = rules.ModeEnforce
		got := s.heard(l)
		for i := range got {
			got[i] = strings.TrimSuffix(strings.Replace(got[i], " agent.activity", "", 1), ".0")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: heard\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		for _, off := range []func(l *analyzer.Limits){
			func(l *analyzer.Limits) { l.Agents.Report = 0 },
			func(l *analyzer.Limits) { l.Agents.Rules[agents.RuleActivity].Mode = rules.ModeOff },
		} {
			l := l
			off(&l)
			for _, line := range s.heard(l) {
				if strings.Contains(line, "agent.activity") {
					t.Errorf("%s: heard %s although nobody asks", name, line)
				}
			}
		}
	}

	f("one tool after the other, once a minute", func(s *story) {
		s.user("a", "x")
		for i := range 50 {
			s.tool("a", "read", fmt.Sprintf(`{"file":%d}`, i), fmt.Sprint("text ", i))
		}
	}, "agent:a active 59", "agent:a active 101")
	f("a long tool", func(s *story) {
		id := s.call("a", "build", `{}`)
		s.gap = 8 * time.Minute
		s.result("a", "build", id, "done")
	}, "agent:a in_tool 1", "agent:a active 481")
	f("a tool that waits for a person", func(s *story) {
		s.result("a", "build", s.call("a", "build", `{}`), "may I?").Status = events.StatusInputRequired
	}, "agent:a in_tool 2")
	f("two tools at once, one is back", func(s *story) {
		s.call("a", "build", `{}`)
		s.tool("a", "read", `{}`, "text")
	}, "agent:a in_tool 3")
	f("a parent waits for its child", func(s *story) {
		s.hop("a", "b", "x")
		s.hop("b", "c", "x")
		s.add(events.LLMCall, "c", "")
	}, "agent:a waiting_child 1", "agent:b waiting_child 2", "agent:c active 3")
	f("control is back", func(s *story) {
		s.hop("a", "b", "x")
		s.answer("b", "a", "y")
		s.add(events.LLMCall, "a", "")
	}, "agent:a active 3", "agent:b done 2")
	f("a call back is a return, and those on the way are done", func(s *story) {
		s.hop("a", "b", "x")
		s.hop("b", "c", "x")
		s.hop("c", "a", "x")
	}, "agent:a active 3", "agent:b done 2", "agent:c done 3")
	f("a hub waits until the last is back", func(s *story) {
		s.hop("hub", "a", "x")
		s.hop("hub", "b", "x")
		s.answer("b", "hub", "y")
	}, "agent:hub waiting_child 3", "agent:b done 3")
	f("who was said to wait does nothing when its child is back", func(s *story) {
		s.hop("a", "b", "x")
		s.gap = 3 * time.Minute
		s.answer("b", "a", "y")
	}, "agent:a waiting_child 1", "agent:a active 181", "agent:b done 181")
	f("who passes control on is done", func(s *story) {
		s.hop("a", "b", "x")
		s.events[0].TransferMode = events.PassControl
		s.tool("b", "read", `{}`, "text")
	}, "agent:a done 1", "agent:b active 3")
	f("the answer to a person ends it for all, also for those who were told to be at work", func(s *story) {
		s.hop("a", "b", "x")
		s.tool("b", "read", `{}`, "text")
		s.gap = 2 * time.Minute
		s.answer("a", "", "y")
	}, "agent:a waiting_child 1", "agent:b active 3", "agent:a done 123", "agent:b done 123")
	f("usage that comes after the answer", func(s *story) {
		s.answer("a", "", "y")
		s.add(events.LLMCall, "a", "")
	}, "agent:a done 2")
	f("a new task for who was done", func(s *story) {
		s.answer("a", "", "y")
		s.user("a", "x")
		s.add(events.LLMCall, "a", "")
	}, "agent:a active 3")
	f("the flow ends", func(s *story) {
		s.hop("a", "b", "x")
		s.call("b", "read", `{}`)
		s.add(events.FlowEnd, "", "")
	}, "agent:a done 1", "agent:b done 2")
	f("who is stopped for good is not waited for", func(s *story) {
		s.tool("a", "read", `{}`, "text")
		s.add(events.OperatorStop, "", "").Operator = &events.Operator{Reason: "r", By: "o", For: time.Hour}
	}, "agent:a done 2")
	f("who is told to wait", func(s *story) {
		s.work = events.Yes
		s.tool("a", "read", `{}`, "text")
		s.gap = 30 * time.Second
		s.user("a", "x")
		s.gap = 500 * time.Millisecond
		for range 21 {
			s.hop("a", "b", "x")
			s.answer("b", "a", "y")
		}
	}, "agent:a waiting_backoff 53", "agent:b done 53")
	f("events that come late", func(s *story) {
		s.tool("a", "read", `{}`, "text")
		s.gap = 2 * time.Minute
		s.tool("b", "read", `{}`, "text")
		late := s.add(events.LLMCall, "a", "")
		late.Time = s.events[0].Time
		again := s.add(events.LLMCall, "a", "")
		again.Time = s.events[3].Time - 60_000
	}, "agent:a active 2", "agent:b in_tool 122", "agent:b active 242", "agent:a active 2", "agent:a active 182")
	f("sessions of known agents", func(s *story) {
		s.tool("agent-1", "read", `{}`, "text")
		for i := range s.events {
			s.events[i].From.Session = "session-1"
		}
		s.tool("", "read", `{}`, "text")
		for i := range s.events[2:] {
			s.events[2+i].From.Session = "session-2"
		}
	}, "agent:agent-1 active 2", "agent:session-2 active 4")
	f("people are nobody's business", func(s *story) {
		s.user("a", "x")
		s.add(events.AgentReturn, "human", "a").From.Type = events.PartyHuman
	})
	f("an agent says how it is", func(s *story) {
		s.tool("a", "read", `{}`, "text")
		s.add(events.NoteAdded, "b", "a").Note = &events.Note{Summary: "s"}
	}, "agent:a note 3", "agent:a active 2", "agent:b active 3")
}

// TestReportsBeginWithOne tells of parties from the first report of an agent on, and always where all
// agents are watched.
func TestReportsBeginWithOne(t *testing.T) {
	s := newStory()
	s.unasked = true
	s.tool("a", "read", `{}`, "text")
	all := analyzer.Balanced()
	all.Agents.WatchAll = true
	for _, x := range []struct {
		limits analyzer.Limits
		want   []string
	}{{analyzer.Balanced(), nil}, {all, []string{"agent:a agent.activity active 2"}}} {
		if got := s.heard(x.limits); !slices.Equal(got, x.want) {
			t.Errorf("with all watched %t: before any agent reports %q is told, want %q", x.limits.Agents.WatchAll, got, x.want)
		}
	}
	s.add(events.AgentStatus, "b", "").AgentState = &events.AgentState{Status: "active"}
	s.tool("a", "write", `{}`, "text")
	got := s.heard(analyzer.Balanced())
	if want := []string{"agent:b agent.status active 3", "agent:a agent.activity active 5"}; !slices.Equal(got, want) {
		t.Errorf("%q is told, want %q", got, want)
	}
}

// TestReportingIsKept reads whether an agent reports out of the state of a partition, and that of an
// older weir, whose second byte had no third bit, as if one did.
func TestReportingIsKept(t *testing.T) {
	for _, reporting := range []bool{false, true} {
		was := analyzer.Partition{Reporting: reporting}
		record, err := was.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, older := range []bool{false, true} {
			if older {
				record[1] &^= 4
			}
			var is analyzer.Partition
			if err := is.UnmarshalBinary(record); err != nil || is.Reporting != (reporting || older) {
				t.Errorf("reporting %t, by an older weir %t: read as %t (%v)", reporting, older, is.Reporting, err)
			}
		}
	}
}

// TestReportsOfManyParties has more parties than a flow remembers, with ids that do not
// all find room.
func TestReportsOfManyParties(t *testing.T) {
	s := newStory()
	s.at = s.at.Add(1000 * time.Second)
	s.gap = time.Second
	for i := range 200 {
		n := i % 50
		s.add(events.LLMCall, fmt.Sprint("agent-", n), "").From.Session = fmt.Sprint("session-", n, strings.Repeat("-", n))
	}
	last := map[string]string{}
	for _, line := range s.heard(analyzer.Balanced()) {
		var key, at string
		if _, err := fmt.Sscanf(line, "agent:%s agent.activity active %s", &key, &at); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n := strings.Split(key, "-")[1]
		last[n] = max(last[n], at) // all are of one length
	}
	for n := range 50 {
		if want := fmt.Sprint(1000 + 150 + n + 1); last[fmt.Sprint(n)] != want {
			t.Errorf("the last that was heard of agent %d is from %s, want %s", n, last[fmt.Sprint(n)], want)
		}
	}
}

// TestActivityDoesNotAllocate sends all that a call can, and reports.
func TestActivityDoesNotAllocate(t *testing.T) {
	l := quiet()
	for i := range l.Rules {
		l.Rules[i].Mode = rules.ModeOff
	}
	l.Agents = analyzer.Balanced().Agents
	l.Agents.Report = 10 * time.Second
	l.Agents.Rules[agents.RuleMessages] = rules.Setting{Warn: rules.Off, Stop: 1 << 40, Window: 3600}
	l.Agents.Rules[agents.RuleProject] = l.Agents.Rules[agents.RuleMessages]
	s := newStory()
	for i := range 1200 {
		s.hop("a", "b", "text")
		s.events[i].From.Session, s.events[i].To.Session, s.events[i].ProjectID = "session-a", "session-b", "p"
	}
	e := analyzer.New(l)
	var (
		p      analyzer.Partition
		flow   analyzer.Flow
		fx     analyzer.Effects
		record []byte
		next   int
		told   int
	)
	step := func() {
		fx.Reset()
		e.Step(&p, &flow, &s.events[next], &fx)
		record, _ = flow.AppendBinary(record[:0])
		if err := flow.UnmarshalBinary("story", record); err != nil {
			t.Fatal(err)
		}
		next++
		told += len(fx.Activity)
	}
	for range 150 {
		step()
	}
	if told < 300 {
		t.Fatalf("%d activities of 150 calls", told)
	}
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("a step that tells the agent stage allocates %v times, want 0", n)
	}
}

func TestTold(t *testing.T) {
	l := analyzer.Balanced()
	e := analyzer.New(l)
	if got := e.LowWatermark(1_000_000); got != 1_000_000-65_000 {
		t.Errorf("told up to %d", got)
	}
	if got := e.LowWatermark(64_000); got != 0 {
		t.Errorf("told up to %d before anything was", got)
	}
}

// TestTriesAreToldTogether holds that a flow that ignores its stop has little that must be told at
// once, and that every call it tried is told of.
func TestTriesAreToldTogether(t *testing.T) {
	l := analyzer.Balanced()
	l.Rules[analyzer.RuleTotalCalls] = rules.Setting{Warn: rules.Off, Stop: 2}
	e := analyzer.New(l)
	var (
		p    analyzer.Partition
		flow analyzer.Flow
		fx   analyzer.Effects
	)
	s := newStory()
	for i := range 600 { // three parties, ten calls a second
		s.at += 100
		ev := s.add(events.AgentCall, fmt.Sprint("a", i%3), "z")
		ev.Time, ev.Origin = s.at, events.OriginAgent
	}
	attempts := int64(0)
	for i := range s.events {
		e.Step(&p, &flow, &s.events[i], &fx)
	}
	e.Advance(&p, &flow, p.Watermark.Add(time.Minute), &fx)
	attempts = fx.Counts.Attempts
	told, now := int64(0), 0
	for i := range fx.Reports {
		told += int64(fx.Reports[i].Tries)
		if fx.Reports[i].Now {
			now++
		}
	}
	if attempts < 500 || told != attempts {
		t.Errorf("%d attempts were told of, want %d", told, attempts)
	}
	if now < 2 || now > 4 { // the first, and that at which the rule warns
		t.Errorf("%d were told at once", now)
	}
}
