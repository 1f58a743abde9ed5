package analyzer_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// counted folds the activity of one key, and tells in short what was said.
type counted struct {
	t      testing.TB
	engine *analyzer.Engine
	agents agents.Partition
	agent  agents.Agent
	fx     analyzer.Effects
	n      int
	last   []events.Verdict // of the last step
	counts activity.Counts  // over all steps
}

// noon is when the activity of these tests begins; it is a whole minute.
const noon events.Stamp = 1_700_000_040_000

// counting returns a fold by limits in which all rows about agents are off, but for those
// that change turns on.
func counting(t testing.TB, key string, change func(*analyzer.Limits)) *counted {
	l := analyzer.Balanced()
	for i := range l.Agents.Rules {
		l.Agents.Rules[i].Mode = rules.ModeOff
	}
	change(&l)
	c := &counted{t: t, engine: analyzer.New(l)}
	c.agent.Reset(key)
	return c
}

// at puts an event at so many seconds after noon and returns what was said, in short.
func (c *counted) at(seconds float64, ev events.Event) string {
	c.n++
	if ev.ID == "" {
		ev.ID = fmt.Sprint("e", c.n)
	}
	ev.Source, ev.Time = "/test", noon+events.Stamp(seconds*1000)
	c.fx.Reset()
	c.engine.Agents().Step(&c.agents, &c.agent, &ev, &c.fx.Effects)
	return c.heard()
}

// pass lets time pass up to so many seconds after noon.
func (c *counted) pass(seconds float64) string {
	c.fx.Reset()
	c.agents.Watermark = noon + events.Stamp(seconds*1000)
	c.engine.Agents().Advance(&c.agents, &c.agent, c.agents.Watermark, &c.fx.Effects)
	return c.heard()
}

func (c *counted) heard() string {
	c.last = append([]events.Verdict(nil), c.fx.Verdicts...)
	c.counts.Attempts += c.fx.Counts.Attempts
	c.counts.Leaked += c.fx.Counts.Leaked
	for at := range events.ReasonCount {
		c.counts.By(at).Defied += c.fx.Counts.Of(at).Defied
		c.counts.By(at).Leaked += c.fx.Counts.Of(at).Leaked
	}
	c.counts.Duplicates += c.fx.Counts.Duplicates
	var out []string
	for i := range c.last {
		v := &c.last[i]
		said := fmt.Sprintf("%gs %s", float64(events.Stamp(v.Time)-noon)/1000, v.Action)
		if v.Effective != "" {
			said += " " + v.Effective
		}
		if v.Observed != nil {
			said += fmt.Sprintf(" %g/%g", *v.Observed, *v.Limit)
		}
		if v.ExpiresAt != 0 {
			said += fmt.Sprintf(" until %gs", float64(events.Stamp(v.ExpiresAt)-noon)/1000)
		}
		if v.Mode != "enforce" {
			said += " " + string(v.Mode)
		}
		out = append(out, said)
	}
	return strings.Join(out, ", ")
}

func (c *counted) want(got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Fatalf("event %d: said %q, want %q", c.n, got, want)
	}
}

// message is a call to the agent under test that no flow counts.
func message() events.Event {
	return events.Event{Kind: events.AgentCall, Origin: events.OriginAgent, From: events.Party{Agent: "planner"}, To: events.Party{Agent: "coder"}}
}

// opened tells that a call to the agent under test opened a flow of its own.
func opened() events.Event {
	ev := message()
	ev.Kind, ev.AgentState = events.AgentActivity, &events.AgentState{Status: activity.WorkOpened}
	return ev
}

// refused tells that the agent under test tried a call that an order refused.
func refused() events.Event {
	return events.Event{Kind: events.AgentActivity, From: events.Party{Agent: "coder"}, AgentState: &events.AgentState{Status: activity.WorkRefused}}
}

func row(r agents.RuleID, mode rules.Mode) func(*analyzer.Limits) {
	return func(l *analyzer.Limits) {
		s := &l.Agents.Rules[r]
		*s = agents.Rules[r].Default
		s.Mode = mode
		switch r { // the defaults of these only warn
		case agents.RuleMinted:
			s.Warn, s.Stop = 30, 61
		case agents.RuleAttempts:
			s.Warn, s.Stop = 12, 24
		}
	}
}

func TestMessageRateIsArmedStoppedAndRunsOut(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 7 {
		c.want(c.at(float64(i), message()), "")
	}
	c.want(c.at(7, message()), "7s warn 8/8 until 60s")
	c.want(c.at(8, message()), "")
	c.want(c.at(9, message()), "9s throttle next 10/10 until 60s")
	c.want(c.at(9.5, message()), "9.5s throttle now 11/10 until 61s") // was in flight
	if c.counts.Leaked != 1 || c.counts.Attempts != 0 {
		t.Errorf("%d leaked, %d attempts; want 1 and 0", c.counts.Leaked, c.counts.Attempts)
	}
	c.want(c.at(20, message()), "") // said once
	if c.counts.Leaked != 1 || c.counts.Attempts != 1 {
		t.Errorf("%d leaked, %d attempts; want 1 and 1", c.counts.Leaked, c.counts.Attempts)
	}
	if at := agents.Rules[agents.RuleRate].Reason.Place(); c.counts.Of(at).Leaked != 1 || c.counts.Of(at).Defied != 1 {
		t.Errorf("by reason %+v; want 1 leaked and 1 attempt", c.counts.Of(at))
	}
	c.want(c.pass(61), "")
	c.want(c.at(61.5, message()), "61.5s throttle now 11/10 until 63s") // ten are left of the twelve
	c.want(c.at(63, message()), "63s throttle next 10/10 until 64s")    // nine and one, not a warning again
	c.want(c.pass(200), "")
	c.want(c.at(201, message()), "")
	if got := c.engine.Agents().Due(&c.agent); got != 0 {
		t.Errorf("due at %v although nothing stands", got)
	}
}

func TestRefusalsToldTogetherAllCount(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleAttempts, rules.ModeEnforce))
	many := func(n int64) events.Event {
		ev := refused()
		ev.AgentState.TotalUpdates = n
		return ev
	}
	c.want(c.at(1, many(11)), "")
	c.want(c.at(2, refused()), "2s warn 12/12 until 601s")
	c.want(c.at(3, many(20)), "3s halt now 24/24 until 903s")
}

// TestLeakedMessagesGoByWhenTheOrderBegan holds that neither what others did meanwhile nor
// a verdict that says the same again decides whether a message was in flight.
func TestLeakedMessagesGoByWhenTheOrderBegan(t *testing.T) {
	spent := func() *counted { // an order refuses from 9 s on
		c := counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
		for i := range 10 {
			c.at(float64(i), message())
		}
		c.want(c.heard(), "9s throttle next 10/10 until 60s")
		return c
	}
	f := func(name string, c *counted, leaked, attempts int64) {
		t.Helper()
		if c.counts.Leaked != leaked || c.counts.Attempts != attempts {
			t.Errorf("%s: %d leaked, %d attempts; want %d and %d", name, c.counts.Leaked, c.counts.Attempts, leaked, attempts)
		}
	}
	c := spent()
	c.at(9.2, events.Event{Kind: events.VerdictAck, From: events.Party{Agent: "other"}, Ack: &events.Ack{VerdictID: c.last[0].ID, Applied: true}})
	c.at(9.5, message())
	f("somebody else was refused before", c, 1, 1)

	c = spent()
	c.at(20, message())
	c.at(9.4, message()) // arrives late
	f("somebody else defied it before", c, 1, 1)

	c = spent()
	c.want(c.at(9.5, message()), "9.5s throttle now 11/10 until 61s")
	c.at(10.3, message())
	f("the order is only said to be passed", c, 1, 1)
}

func TestMessageRateCountsWhatEscaped(t *testing.T) {
	f := func(name string, all bool, ev events.Event, want string) {
		t.Helper()
		c := counting(t, "agent:coder", func(l *analyzer.Limits) {
			row(agents.RuleRate, rules.ModeEnforce)(l)
			l.Agents.Rules[agents.RuleRate].All = all
		})
		said := ""
		for i := range 10 {
			ev.ID = fmt.Sprint(i)
			said = c.at(float64(i), ev)
		}
		if said != want {
			t.Errorf("%s: said %q, want %q", name, said, want)
		}
	}
	in, derived := message(), message()
	in.CorrelationID = "flow"
	derived.CorrelationID, derived.CorrelationSource = "made-up", events.CorrelationDerived
	const throttled = "9s throttle next 10/10 until 60s"
	f("without a correlation id", false, message(), throttled)
	f("with a derived one, which only warns", false, derived, "")
	f("in a flow", false, in, "")
	f("in a flow, all count", true, in, throttled)
	f("flows that were opened", false, opened(), "")
}

func TestThrottleSaysHowLongToWait(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 10 {
		ev := message()
		ev.ID, ev.ProjectID = fmt.Sprint("m", i), "shop"
		c.at(float64(i), ev)
	}
	const want = `{"schema_version":1,"id":"38952927c91bec58-18bcfe62768","time":"2023-11-14T22:14:09.000Z","revision":1700000049000,"mode":"enforce","scope":{"kind":"agent","id":"coder"},` +
		`"action":"throttle","controlled_cutoff":false,"effective":"next","match":{"to":["coder"],"kind":"agent.call"},"reason_code":"agent_message_rate_exceeded","incident_id":"38952927c91bec58","cause":"agent_message_rate_exceeded","rule_id":"agent_message_rate",` +
		`"limit":10,"observed":10,"unit":"messages","window_s":60,` +
		`"message":"Limit used up, the next call will be rejected: 10 messages to one agent within 60 s (limit 10)",` +
		`"agent_message":"The flow guard refuses the next call (agent_message_rate_exceeded, limit 10 used up). Wait before you call again; do other work meanwhile.",` +
		`"ttl_s":51,"expires_at":"2023-11-14T22:15:00.000Z","retry_after_s":51,"http_status":429,"confidence":"exact","agent":"coder","from":"planner","to":"coder","trigger":{"event_id":"m9","ordinal":10}}`
	if got := string(c.last[0].AppendJSON(nil)); got != want {
		t.Errorf("said\n%s\nwant\n%s", got, want)
	}
}

func TestFlowsOpenedAtOneAgent(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleMinted, rules.ModeEnforce))
	for i := range 60 {
		want := ""
		switch i {
		case 29:
			want = "14.5s warn 30/30 until 60s"
		case 59:
			want = "29.5s throttle next 60/60 until 60s"
		}
		c.want(c.at(float64(i)/2, opened()), want)
	}
	if v := c.last[0]; v.Reason != events.AgentMessageRate || v.RuleID != "agent_flow_rate" || v.Match == nil || fmt.Sprint(v.Match.To) != "[coder]" {
		t.Errorf("said %s", v.AppendJSON(nil))
	}
	c.want(c.at(45, message()), "") // of which this row knows nothing
	c.want(c.at(50, opened()), "50s throttle now 61/60 until 60.5s")
	if c.counts.Attempts != 1 {
		t.Errorf("%d attempts, want 1", c.counts.Attempts)
	}
}

func TestCapsCountInBuckets(t *testing.T) {
	capped := func(r agents.RuleID) func(*analyzer.Limits) {
		return func(l *analyzer.Limits) {
			l.Agents.Rules[r] = rules.Setting{Warn: 900, Stop: 1001, Max: true, Window: 3600}
		}
	}
	c := counting(t, "agent:coder", capped(agents.RuleMessages))
	in := message()
	in.CorrelationID = "flow"
	for i := range 1000 { // one every two seconds: 30 a bucket
		want := ""
		switch i {
		case 899:
			want = "1798s warn 900/900 until 3600s"
		case 999:
			want = "1998s throttle next 1000/1000 until 3600s"
		}
		c.want(c.at(float64(2*i), in), want)
	}
	if v := c.last[0]; v.Reason != events.MaxAgentMessages || v.RetryAfterS != 1602 || v.Match.Kind != "agent.call" || fmt.Sprint(v.Match.To) != "[coder]" {
		t.Errorf("said %s", v.AppendJSON(nil))
	}
	c.want(c.pass(3600), "")
	c.want(c.at(3601, in), "") // 970 and one: near the limit still, and said
	for i := range 29 {
		want := ""
		if i == 28 {
			want = "3630s throttle next 1000/1000 until 3660s"
		}
		c.want(c.at(float64(3602+i), in), want)
	}

	c = counting(t, "project:shop", capped(agents.RuleProject))
	in.ProjectID = "shop"
	said := ""
	for i := range 1000 {
		said = c.at(float64(i), in)
	}
	c.want(said, "999s throttle next 1000/1000 until 3600s")
	if v := c.last[0]; v.Reason != events.MaxProjectMessages || v.Scope != (events.Scope{Kind: "project", ID: "shop"}) || v.Agent != "" ||
		v.ProjectID != "shop" || v.Match.ProjectID != "shop" || len(v.Match.To) > 0 || !strings.Contains(v.Message, "in one project") {
		t.Errorf("said %s", v.AppendJSON(nil))
	}
}

func TestDefianceHaltsTheAgent(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleAttempts, rules.ModeEnforce))
	for i := range 24 {
		want := ""
		switch i {
		case 11:
			want = "11s warn 12/12 until 600s"
		case 23:
			want = "23s halt now 24/24 until 923s"
		}
		c.want(c.at(float64(i), refused()), want)
	}
	if v := c.last[0]; v.Reason != events.OrdersDefied || !v.ControlledCutoff || fmt.Sprint(v.Match.From) != "[coder]" || v.Match.Kind != "" || v.HTTPStatus != 403 {
		t.Errorf("said %s", v.AppendJSON(nil))
	}
	id := c.last[0].ID
	c.want(c.at(100, refused()), "") // defied: that renews it
	c.want(c.pass(743), "743s halt now 25/24 until 1643s")
	if got := c.last[0].ID; got[:16] != id[:16] || got == id {
		t.Errorf("renewed as %s, was %s", got, id)
	}
	c.want(c.at(800, events.Event{Kind: events.VerdictAck, From: events.Party{Agent: "coder"}, Ack: &events.Ack{VerdictID: id, Applied: true}}), "")
	if c.counts.Attempts != 1 {
		t.Errorf("an acknowledged refusal counts as %d attempts, want 1", c.counts.Attempts)
	}
	c.want(c.pass(1463), "1463s halt now 25/24 until 2363s")
	c.want(c.pass(5000), "") // nobody tried again
	if got := c.engine.Agents().Due(&c.agent); got != 0 {
		t.Errorf("due at %v although nothing stands", got)
	}
}

func TestModesOfRowsAboutAgents(t *testing.T) {
	f := func(mode rules.Mode, want string) {
		t.Helper()
		c := counting(t, "agent:coder", row(agents.RuleRate, mode))
		var said []string
		for i := range 12 {
			if s := c.at(float64(i), message()); s != "" {
				said = append(said, s)
			}
		}
		if got := strings.Join(said, ", "); got != want {
			t.Errorf("%s: said %q, want %q", mode, got, want)
		}
		if mode != rules.ModeEnforce && c.counts.Attempts+c.counts.Leaked != 0 {
			t.Errorf("%s: %+v", mode, c.counts)
		}
	}
	f(rules.ModeOff, "")
	f(rules.ModeWarn, "7s warn 8/8 until 60s")
	f(rules.ModeShadow, "7s warn 8/8 until 60s shadow, 9s throttle next 10/10 until 60s shadow, 10s throttle now 11/10 until 61s shadow")
	f(rules.ModeEnforce, "7s warn 8/8 until 60s, 9s throttle next 10/10 until 60s, 10s throttle now 11/10 until 61s")
}

func TestSampledMessagesOnlyWarn(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 20 {
		ev := message()
		ev.SampledRate = 10
		want := ""
		if i == 7 {
			want = "7s warn 8/8 until 60s"
		}
		c.want(c.at(float64(i), ev), want)
		if i == 7 && c.last[0].Confidence != "estimated" {
			t.Errorf("confidence %s", c.last[0].Confidence)
		}
	}
}

// A message that comes late counts where it belongs: it may be the one that a window was
// full without.
func TestLateMessagesCountWhereTheyBelong(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 9 {
		c.at(float64(i), message())
	}
	c.want(c.at(70, message()), "")  // alone in its window
	c.want(c.at(8.5, message()), "") // ten in a window that is over: nobody has to wait for it
	c = counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 9 {
		c.at(float64(10+i), message())
	}
	c.want(c.at(50, message()), "50s throttle next 10/10 until 70s")
	c = counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 9 {
		c.at(float64(50-i), message()) // in the wrong order
	}
	c.want(c.at(41.5, message()), "50s throttle next 10/10 until 101.5s")
	c.want(c.at(-500, message()), "") // of long ago
}

func TestRepeatedMessagesCountOnce(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 30 {
		ev := message()
		ev.ID = fmt.Sprint(i % 9)
		want := ""
		if i == 7 {
			want = "7s warn 8/8 until 60s"
		}
		c.want(c.at(float64(i), ev), want)
	}
	if c.counts.Duplicates != 21 || c.agent.Events() != 9 {
		t.Errorf("%d repeats of 30, %d events", c.counts.Duplicates, c.agent.Events())
	}
}

// One call may be told of in several ways, under one id.
func TestOneCallToldInManyWaysIsNoRepeat(t *testing.T) {
	c := counting(t, "agent:coder", func(l *analyzer.Limits) {
		row(agents.RuleRate, rules.ModeEnforce)(l)
		row(agents.RuleMinted, rules.ModeEnforce)(l)
		row(agents.RuleAttempts, rules.ModeEnforce)(l)
	})
	for _, ev := range []events.Event{message(), opened(), refused(), message(), opened(), refused()} {
		ev.ID = "one"
		c.at(1, ev)
	}
	if c.counts.Duplicates != 3 || c.agent.Events() != 3 {
		t.Errorf("%d repeats, %d events; want 3 and 3", c.counts.Duplicates, c.agent.Events())
	}
}

func TestRaisedLimitsTakeOrdersBack(t *testing.T) {
	c := counting(t, "agent:coder", row(agents.RuleRate, rules.ModeEnforce))
	for i := range 10 {
		c.at(float64(i), message())
	}
	l := *c.engine.Limits()
	l.Version = "raised"
	l.Agents.Rules[agents.RuleRate].Stop = 51
	c.engine = analyzer.New(l)
	c.want(c.at(10, message()), "10s allow, 10s warn 11/8 until 63s")
	if v := c.last[0]; !strings.HasPrefix(v.Message, "Cleared: ") || v.ExpiresAt != 0 || v.Match != nil {
		t.Errorf("said %s", v.AppendJSON(nil))
	}
}

func TestWhatSaysNothingIsNotRemembered(t *testing.T) {
	c := counting(t, "agent:coder", func(*analyzer.Limits) {})
	busy := refused()
	busy.AgentState = &events.AgentState{Status: activity.WorkInTool}
	for _, ev := range []events.Event{message(), opened(), refused(), busy,
		{Kind: events.VerdictAck, From: events.Party{Agent: "coder"}, Ack: &events.Ack{VerdictID: "x", Applied: true}},
		{Kind: events.ReviewResult, To: events.Party{Agent: "coder"}, Review: &events.Review{Decision: "keep"}}} {
		c.want(c.at(1, ev), "")
	}
	if c.agent.Events() != 0 || c.fx.Counts.Events != 0 {
		t.Errorf("%d events", c.agent.Events())
	}
}
