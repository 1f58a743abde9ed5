package analyzer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
	"weir/events/fingerprint"
)

// peerOp is one element of a case's events, its fields as they stand in the file.
type peerOp map[string]json.RawMessage

// fieldOf reads a field; the zero value stands for one that is not there.
func fieldOf[T any](op peerOp, name string) (v T) {
	if raw, ok := op[name]; ok {
		if err := json.Unmarshal(raw, &v); err != nil {
			panic(fmt.Sprintf("field %s of %v: %v", name, op, err))
		}
	}
	return v
}

func (op peerOp) name() string { return fieldOf[string](op, "op") }

// seen reports whether anything of the operation reaches weir that rules count.
func (op peerOp) seen() bool {
	return !slices.Contains([]string{"user", "say", "think", "other", "condense", "text", "text_random", "turn", "nudge", "clear", "disable", "new_run", "restart"}, op.name())
}

// expandOps writes out repetitions; i counts those of the loop around ops.
func expandOps(ops []peerOp, i int) (out []peerOp) {
	for _, op := range ops {
		of := fieldOf[[]peerOp](op, "of")
		switch {
		case op["rep"] != nil:
			for range fieldOf[int](op, "rep") {
				out = append(out, expandOps(of, i)...)
			}
		case op["for"] != nil:
			for k := range fieldOf[int](op, "for") {
				out = append(out, expandOps(of, k)...)
			}
		default:
			out = append(out, op.at(i))
		}
	}
	return out
}

// at fills in the count: {i} in strings, elements of cyc, lines of lin.
func (op peerOp) at(i int) peerOp {
	out := peerOp{}
	for name, raw := range op {
		if !strings.Contains(string(raw), "{i}") && !strings.Contains(string(raw), `"cyc"`) && !strings.Contains(string(raw), `"lin"`) {
			out[name] = raw // as it is: the order of keys is part of some cases
			continue
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			panic(err)
		}
		filled, err := json.Marshal(fillIn(v, i))
		if err != nil {
			panic(err)
		}
		out[name] = filled
	}
	return out
}

func fillIn(v any, i int) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "{i}", fmt.Sprint(i))
	case []any:
		for k := range v {
			v[k] = fillIn(v[k], i)
		}
	case map[string]any:
		if cycle, ok := v["cyc"].([]any); ok {
			return fillIn(cycle[i%len(cycle)], i)
		}
		if line, ok := v["lin"].([]any); ok {
			return line[0].(float64) + line[1].(float64)*float64(i)
		}
		for k := range v {
			v[k] = fillIn(v[k], i)
		}
	}
	return v
}

// peerStep is what one operation is to weir.
type peerStep struct {
	events  []events.Event
	ask     *events.Event  // the call, if it is one: what a dispatcher would ask
	before  []events.Event // what goes before the ask and is forgotten after it
	result  bool
	judged  bool // no call, but the peer judges it
	newFlow bool
	restart bool
}

// peerTranslator turns operations into events. It stands for a producer that reports
// all that a case tells.
type peerTranslator struct {
	habits   peerHabit
	limits   *analyzer.Limits
	volatile []string // fields of results that this producer leaves out of the hash
	headless bool     // what poses as a user is the harness
	at       events.Stamp
	batch    int
	n        int
	runs     int
	turn     string
	opened   []events.Event // tool calls without a result
	call     *events.Event  // the latest call
	last     string         // the member that was visited, or node that was active, last
}

const caseStart events.Stamp = 1_767_225_600_000

func newPeerTranslator(c *peerCase, h peerHabit, l *analyzer.Limits) *peerTranslator {
	cfg := c.config()
	return &peerTranslator{habits: h, limits: l, volatile: cfg.names("volatile"), headless: cfg.text("mode") == "headless", at: caseStart - 1000}
}

// event begins an event one second after the last, or when the operation says.
// Calls of one batch are made at once.
func (tr *peerTranslator) event(op peerOp, kind events.Kind) events.Event {
	batch := fieldOf[int](op, "batch")
	switch {
	case op["ts"] != nil:
		tr.at = caseStart + events.Stamp(fieldOf[float64](op, "ts")*1000)
	case batch == 0 || batch != tr.batch:
		tr.at += 1000
	}
	tr.batch = batch
	tr.n++
	return events.Event{ID: fmt.Sprint(tr.n), Source: "/peer", Time: tr.at, Kind: kind, CorrelationID: fmt.Sprint("run-", tr.runs), TurnID: tr.turn}
}

func named(name string) events.Party { return events.Party{Agent: name} }

const soleAgent = "agent"

func (tr *peerTranslator) translate(op peerOp) peerStep {
	switch op.name() {
	case "user":
		ev := tr.event(op, events.AgentCall)
		ev.Origin, ev.To = events.OriginUser, named(soleAgent)
		if tr.headless {
			ev.Origin = events.OriginSystem
		}
		return peerStep{events: []events.Event{ev}}
	case "nudge":
		ev := tr.event(op, events.AgentCall)
		ev.Origin, ev.To = events.OriginSystem, named(soleAgent)
		return peerStep{events: []events.Event{ev}}
	case "call":
		return tr.toolCall(op, soleAgent, fieldOf[string](op, "tool"), op["args"])
	case "ok", "err", "veto", "denied":
		return tr.toolResult(op)
	case "step":
		return tr.trajectory(op)
	case "a2a", "delegate":
		return tr.hop(op, fieldOf[string](op, "from"), fieldOf[string](op, "to"))
	case "visit":
		return tr.visit(op, fieldOf[string](op, "s"))
	case "node":
		return tr.visit(op, fieldOf[string](op, "agent"))
	case "check":
		return tr.check(op)
	case "msg":
		s := tr.hop(op, soleAgent, "peer-"+fieldOf[string](op, "conv"))
		s.events[0].ConversationID = "conversation-" + fieldOf[string](op, "conv")
		s.events[0].Content = fingerprint.Content([]byte(fieldOf[string](op, "s")))
		s.ask.ConversationID, s.ask.Content = s.events[0].ConversationID, s.events[0].Content
		return s
	case "llm":
		// One request to the model is one iteration of the agent's loop.
		ev := tr.event(op, events.TaskLoop)
		ev.From, ev.TaskID = named(soleAgent), "conversation-"+fieldOf[string](op, "conv")
		next := tr.event(op, events.ToolCall)
		next.From, next.TaskID, next.Tool.Name = ev.From, ev.TaskID, "any"
		tr.call = &next
		return peerStep{events: []events.Event{ev}, judged: true}
	case "loop", "deleg":
		return tr.counter(op)
	case "turn_mark":
		tr.turn = fieldOf[string](op, "id")
		ev := tr.event(op, events.TurnStart)
		ev.From = named(soleAgent)
		return peerStep{events: []events.Event{ev}}
	case "clear":
		ev := tr.event(op, events.OperatorRelease)
		ev.Operator = &events.Operator{Reason: "cleared", By: "caller"}
		return peerStep{events: []events.Event{ev}}
	case "disable":
		return tr.disable(op)
	case "restart":
		return peerStep{restart: true}
	case "new_run":
		if tr.habits.runsShareFlow {
			return peerStep{restart: true}
		}
		tr.runs++
		tr.opened, tr.call, tr.last = nil, nil, ""
		return peerStep{newFlow: true}
	}
	// What is left is the agent's own talk: the model was called.
	ev := tr.event(op, events.LLMCall)
	ev.From = named(soleAgent)
	return peerStep{events: []events.Event{ev}}
}

// disable turns off for this flow what is on.
func (tr *peerTranslator) disable(op peerOp) (s peerStep) {
	for i := range tr.limits.Rules {
		if tr.limits.Rules[i].Mode == rules.ModeOff {
			continue
		}
		ev := tr.event(op, events.OverrideSet)
		ev.Override = &events.Override{Scope: events.ScopeFlow, ScopeID: ev.CorrelationID, Rule: analyzer.Rules[i].Name, Mode: rules.ModeOff.String(),
			Reason: "disabled", By: "caller", Expires: ev.Time.Add(24 * time.Hour)}
		s.events = append(s.events, ev)
	}
	return s
}

func (tr *peerTranslator) toolCall(op peerOp, who, tool string, args json.RawMessage) peerStep {
	ev := tr.event(op, events.ToolCall)
	ev.From = named(who)
	if args == nil {
		args = json.RawMessage("{}")
	}
	ev.Tool = events.Tool{Name: tool, CallID: "call-" + ev.ID, ArgsHash: fingerprint.Args(args, nil)}
	tr.opened = append(tr.opened, ev)
	tr.call = &ev
	return peerStep{events: []events.Event{ev}, ask: &ev}
}

// toolResult is the result of the latest call that has none.
func (tr *peerTranslator) toolResult(op peerOp) peerStep {
	if len(tr.opened) == 0 {
		return peerStep{}
	}
	call := tr.opened[len(tr.opened)-1]
	tr.opened = tr.opened[:len(tr.opened)-1]
	ev := tr.event(op, events.ToolResult)
	ev.From, ev.Tool, ev.Status = call.From, events.Tool{Name: call.Tool.Name, CallID: call.Tool.CallID}, events.StatusOK
	switch op.name() {
	case "veto", "denied":
		ev.Status = events.StatusDenied
	case "err":
		text := []byte(fieldOf[string](op, "out"))
		ev.Status, ev.ErrorType, ev.Content = events.StatusError, fingerprint.Error(text), fingerprint.Content(text)
	default:
		ev.Content = tr.content(op)
	}
	return peerStep{events: []events.Event{ev}, result: true}
}

// content is the hash of a result with all its fields, so that an empty output is a
// result like any other. Fields that the producer knows to be volatile are left out.
func (tr *peerTranslator) content(op peerOp) events.Hash {
	fields := map[string]any{}
	for name := range op {
		if name != "op" && !slices.Contains(tr.volatile, name) {
			fields[name] = fieldOf[any](op, name)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return fingerprint.Content(text)
}

// trajectory turns one of its entries, what an agent did to what and how it ended.
// Agents that delegate the same task in turn hand it to each other.
func (tr *peerTranslator) trajectory(op peerOp) peerStep {
	who, target := fieldOf[string](op, "agent"), fieldOf[string](op, "target")
	if fieldOf[string](op, "act") == "delegate" {
		before := tr.last
		tr.last = who
		if before == who {
			return peerStep{}
		}
		s := tr.hop(op, before, who)
		for _, ev := range []*events.Event{&s.events[0], s.ask} {
			ev.Content = fingerprint.Content([]byte(target))
		}
		return s
	}
	args, err := json.Marshal(target)
	if err != nil {
		panic(err)
	}
	s := tr.toolCall(op, who, fieldOf[string](op, "act"), args)
	outcome := peerOp{"op": json.RawMessage(`"ok"`), "res": op["res"]}
	if fieldOf[string](op, "res") != "success" {
		outcome = peerOp{"op": json.RawMessage(`"err"`), "out": op["res"]}
	}
	s.events = append(s.events, tr.toolResult(outcome).events...)
	return s
}

// hop is a message from one agent to another; nobody stands for a person. A case
// that does not speak of work had none: it tells all that happened.
func (tr *peerTranslator) hop(op peerOp, from, to string) peerStep {
	ev := tr.event(op, events.AgentCall)
	ev.To, ev.HadWork = named(to), events.No
	if fieldOf[bool](op, "work") {
		ev.HadWork = events.Yes
	}
	if task := fieldOf[string](op, "task"); task != "" {
		ev.Content = fingerprint.Content([]byte(task))
	}
	if from == "" {
		ev.Origin = events.OriginUser
	} else {
		ev.From, ev.Origin = named(from), events.OriginAgent
	}
	asked := ev
	tr.call = &asked
	return peerStep{events: []events.Event{ev}, ask: &asked}
}

// visit is a message of which only the receiver is told: who got the last one sent
// it, the first one came from a person.
func (tr *peerTranslator) visit(op peerOp, name string) peerStep {
	s := tr.hop(op, tr.last, name)
	tr.last = name
	return s
}

// check asks about a delegation without making it. The chain that led to it is
// walked first, as far as the case tells it.
func (tr *peerTranslator) check(op peerOp) peerStep {
	var before []events.Event
	chain := fieldOf[[]string](op, "chain")
	for i, name := range chain {
		from := ""
		if i > 0 {
			from = chain[i-1]
		}
		before = append(before, tr.hop(peerOp{"ts": op["ts"]}, from, name).events...)
	}
	s := tr.hop(op, fieldOf[string](op, "from"), fieldOf[string](op, "to"))
	return peerStep{ask: s.ask, before: before}
}

// counter is a call of an agent that tells its own counters.
func (tr *peerTranslator) counter(op peerOp) peerStep {
	var told int64
	for _, name := range []string{"n", "count", "v", "value", "loop_count", "depth", "delegation_depth"} {
		if op[name] != nil {
			told = fieldOf[int64](op, name)
		}
	}
	s := tr.hop(op, "caller", soleAgent)
	for _, ev := range []*events.Event{&s.events[0], s.ask} {
		ev.TaskID = "task"
		if op.name() == "loop" {
			ev.LoopCount = told
		} else {
			ev.DelegationDepth = told
		}
	}
	return s
}
