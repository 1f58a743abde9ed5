package analyzer_test

import (
	"fmt"
	"strings"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/forecast"
	"weir/analyzer/prices"
	"weir/analyzer/rules"
	"weir/analyzer/scenario"
	"weir/events"
)

// tight are limits under which nearly everything speaks.
func tight() analyzer.Limits {
	l := analyzer.Balanced()
	l.Flow.Idle, l.Flow.MaxAge = 2*time.Minute, 20*time.Minute
	l.Order.TTL = time.Minute
	for i := range l.Rules {
		r, s := &analyzer.Rules[i], &l.Rules[i]
		if r.ID == analyzer.RuleOperator || s.Stop == 1 {
			continue
		}
		s.Warn, s.Stop, s.Max = 2, 4, r.Armed
		switch r.Unit {
		case events.UnitSeconds:
			s.Warn, s.Stop = 30, 90
		case events.UnitTokens:
			s.Warn, s.Stop = 300, 900
		case events.UnitUSD:
			s.Warn, s.Stop = 100_000, 300_000
		}
		if r.WarnsOnly {
			s.Warn, s.Stop = 100, rules.Off
		}
		s.Hold = r.Name == "max_total_calls" && s.Stop != rules.Off
	}
	l.Order.Hold = 15 * time.Minute
	l.Prices = prices.Table{{Name: "m", Price: prices.Price{Input: 3e6, Output: 15e6, CacheRead: 3e5, CacheWrite: 375e4, Reasoning: 15e6, CacheTTL: 60}}}
	kind := forecast.Kind{Name: "tale"}
	for m := range forecast.MeasureCount {
		for calls := int64(1); calls < 40; calls++ {
			if forecast.Bin(calls) == calls {
				kind.Rows[m] = append(kind.Rows[m], forecast.Row{Calls: calls, Runs: 15 + calls%9, Low: 1000, Expected: 3000, High: 9000})
				if r := &kind.Rows[m][len(kind.Rows[m])-1]; r.Runs < forecast.Least {
					r.Low, r.Expected, r.High = 0, 0, 0
				}
			}
		}
	}
	l.Forecast = forecast.Table{kind}
	return l
}

// tale makes limits and a log of fuzzed bytes: agents that call, answer, use tools,
// repeat themselves, come late and fall silent.
func tale(data []byte) (analyzer.Limits, []events.Event) {
	var at int
	next := func(n int) int {
		if at >= len(data) {
			return 0
		}
		at++
		return int(data[at-1]) % n
	}
	var l analyzer.Limits
	names := []string{"a", "b", "c", "d", "e", "f"}
	long := false
	switch next(6) {
	case 0, 1:
		l = analyzer.Balanced()
	case 2:
		l = tight()
		l.Escalate = analyzer.Escalation{}
	case 3:
		l = tight()
		names, long = names[:0], true
		for i := range 48 { // more than a flow remembers, and longer
			names = append(names, fmt.Sprintf("%c%s%d", 'a'+i%26, strings.Repeat("n", i*4), i))
		}
	default:
		l = tight()
	}
	l.Agents.Report = 20 * time.Second
	for _, r := range []agents.RuleID{agents.RuleMessages, agents.RuleProject} {
		l.Agents.Rules[r] = rules.Setting{Warn: rules.Off, Stop: 100, Window: 3600}
	}
	flows := []string{"main", "main", "main", "second", ""}
	control := map[string]string{}
	hash := func(n int) events.Hash {
		if n == 0 {
			return events.Hash{}
		}
		return events.Hash{Algorithm: events.XXH64 + events.HashAlgorithm(n%7/6), Value: uint64(n) * 0x9e3779b97f4a7c15}
	}
	now := scenario.Start
	flow := "main"
	var log []events.Event
	for at < len(data) && len(log) < 300 {
		if len(log) > 0 && next(12) == 0 { // what was done last is done again, a few times
			last := log[max(0, len(log)-1-next(12)):]
			for range 1 + next(5) {
				for _, ev := range last {
					now += 1000
					ev.ID, ev.Time = fmt.Sprint("t", len(log)), now
					if ev.Kind == events.ToolResult {
						ev.Tool.CallID = log[len(log)-1].ID
					} else if ev.Kind == events.ToolCall {
						ev.Tool.CallID = ev.ID
					}
					log = append(log, ev)
				}
			}
			continue
		}
		op, who := next(24), names[next(len(names))]
		now += events.Stamp([...]int{0, 1, 200, 1000, 1000, 1000, 1000, 3000, 3000, 11_000, 11_000, 40_000}[next(12)])
		if next(24) == 0 {
			now += events.Stamp([...]int{60_000, 130_000, 500_000, 1_000_000, 8_000_000}[next(5)])
		}
		if next(16) == 0 {
			flow = flows[next(len(flows))]
		}
		ev := events.Event{ID: fmt.Sprint("t", len(log)), Source: "tale", Time: now, CorrelationID: flow, Origin: events.OriginAgent}
		from := control[flow]
		if from == "" {
			from = who
		}
		switch {
		case op < 2:
			ev.Kind, ev.Origin, ev.To.Session = events.AgentCall, events.OriginUser, who
			control[flow] = who
		case op < 8:
			ev.Kind, ev.From.Session, ev.To.Session, ev.Content = events.AgentCall, from, who, hash(next(4))
			ev.HadWork = events.Tri(min(next(5), 2))
			if ev.HadWork == events.Yes && op < 5 {
				ev.HadWork = events.No
			}
			ev.Ask = next(4) == 0
			control[flow] = who
		case op < 10:
			ev.Kind, ev.From.Session, ev.To.Session, ev.Content = events.AgentReturn, from, who, hash(next(4))
			control[flow] = who
			if next(5) == 0 {
				ev.To = events.Party{}
			}
		case op < 17:
			ev.Kind, ev.From.Session = events.ToolCall, from
			ev.Tool = events.Tool{Name: [...]string{"read", "write", "run"}[next(3)], ArgsHash: hash(next(4)), CallID: ev.ID}
			if long {
				ev.Tool.Name = who
				ev.TaskID = strings.Repeat("t", 200) + who
			}
			ev.Ask = next(5) == 0
			if next(9) == 0 {
				ev.Tool.RetryOf = "earlier"
			}
			if next(4) == 0 {
				break
			}
			log = append(log, ev)
			ev.ID, ev.Kind, ev.Ask = fmt.Sprint("t", len(log)), events.ToolResult, false
			ev.Status = [...]events.Status{events.StatusOK, events.StatusOK, events.StatusOK, events.StatusError, events.StatusTimeout, events.StatusDenied}[next(6)]
			ev.Content = hash(next(4))
			if n := next(5); n > 0 {
				ev.Sim = events.Fingerprint{Algorithm: events.Simhash64, Value: 1<<(n*6) - 1}
			}
		case op == 17:
			ev.Kind, ev.From.Session = events.LLMCall, from
			ev.Usage = events.Usage{Known: true, Scope: events.UsageScope(next(3)), Input: int64(next(256)), Output: int64(next(256)), CostMicroUSD: int64(next(256)) * 500}
			ev.Model, ev.Usage.CacheRead, ev.Usage.CacheCreation = "m", ev.Usage.Output, ev.Usage.Input/2
		case op == 18:
			ev.Kind, ev.TaskID, ev.LoopCount = events.TaskLoop+events.Kind(next(2)), "task"+who, int64(next(4))
			if long {
				ev.TaskID += strings.Repeat("t", 250-len(ev.TaskID))
			}
		case op == 19:
			switch ev.From.Session = from; next(4) {
			case 0:
				ev.Kind, ev.AgentState = events.AgentStatus, &events.AgentState{Status: "active"}
			case 1:
				ev.Kind, ev.To.Session, ev.Note = events.NoteAdded, who, &events.Note{Summary: "s"}
			default:
				ev.Kind, ev.From.Session, ev.TurnID = events.TurnStart, "", fmt.Sprint("turn", next(5))
			}
		case op == 20:
			ev.Kind, ev.From.Session, ev.To.Session, ev.Ack = events.VerdictAck, from, who, &events.Ack{Applied: true}
		case op == 21:
			ev.Kind = events.OperatorStop + events.Kind(next(2))
			ev.Operator = &events.Operator{Reason: "r", By: "o", For: time.Duration(next(4)) * time.Minute}
			if ev.Kind == events.OperatorStop && next(3) > 0 {
				ev.Kind, ev.Operator = events.FlowStart+events.Kind(next(2)), nil
			}
		case op == 22:
			ev.Kind = events.OverrideSet
			ev.Override = &events.Override{Scope: events.ScopeFlow, ScopeID: flow, Rule: analyzer.Rules[next(int(analyzer.RuleCount))].Name,
				Mode: [...]string{"", "off", "shadow", "warn"}[next(4)], Stop: events.Optional{Set: next(2) == 0, Value: int64(1 + next(6))},
				Reason: "r", By: "o", Expires: now.Add(time.Duration(next(5)) * time.Minute)}
		default:
			ev.Kind, ev.From.Session, ev.To.Session = events.AgentCall, from, who
			ev.Time -= events.Stamp(next(256)) * 500
			ev.SampledRate = int64(next(3))
			ev.CorrelationSource = [...]events.CorrelationSource{0, 0, 0, events.CorrelationTrace, events.CorrelationConversation, events.CorrelationDerived}[next(6)]
			if next(4) == 0 {
				ev.TurnID, ev.ConversationID, ev.TaskID, ev.DelegationDepth = "turn1", who, "task"+who, int64(next(4))
			}
		}
		log = append(log, ev)
	}
	for i := range log { // of some sessions it is known whose they are, and they work for a project
		for _, p := range []*events.Party{&log[i].From, &log[i].To} {
			if strings.ContainsAny(p.Session, "bdf") {
				p.Agent, log[i].ProjectID = "id"+p.Session, "p"
			}
		}
		if log[i].Kind == events.AgentCall && log[i].LoopCount%2 == 1 {
			log[i].TransferMode = events.PassControl
		}
	}
	return l, log
}
