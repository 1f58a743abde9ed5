package scenario

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/events"
)

// Bounds of a case, so that no file can exhaust its reader.
const (
	// Checked after each item, so that nested ( ... ) cannot multiply beyond it.
	maxDeliveries = 20_000
	maxText       = 4096 // bytes of a name or text after counting
	maxNesting    = 3    // of ( ... )
)

// mainFlow is the correlation id of events that name none.
const mainFlow = "main"

// expansion makes events of items. It plays the producer, which knows the party in control, the
// parties that have worked, and the calls that await their result. It is used for one case.
type expansion struct {
	step time.Duration
	// It is filled by brackets that stand alone; one with an empty value takes a field back.
	fields   map[string]field // in force for all that follow
	counters []int            // of the ( ... ) around, the innermost last
	// By flow; who acts where the event does not say.
	control map[string]events.Party
	worked  map[string]bool // by flow and party
	// The oldest first: results come in the order of calls where nothing else is said.
	open  map[string][]string // call ids that await their result, by flow, party, tool and arguments
	calls map[string]string   // the latest call id of the same
	// Waits that follow each other add up. waits distinguishes a wait of 0 from none.
	wait  time.Duration
	waits bool
	now   events.Stamp
	out   []delivery
}

// expand fills in the deliveries of c, or reports what is wrong with its events. It reports only
// the first fault: what comes after it depends on the party in control by then.
func (x *expansion) expand(c *Case, p *parser) {
	x.fields, x.control, x.worked = map[string]field{}, map[string]events.Party{}, map[string]bool{}
	x.open, x.calls = map[string][]string{}, map[string]string{}
	// Always the same time, so that outcomes name the same one.
	x.now = Start
	// Lines mean nothing here: parentheses may open on one and close on another.
	var flat []item
	for _, line := range c.lines {
		flat = append(flat, line...)
	}
	if line, err := x.group(flat); err != nil {
		p.fail(line, "%w", err)
		return
	}
	// A wait at the end lets deadlines fire that nothing follows.
	c.deliveries, c.end = x.out, x.now
	if x.waits {
		c.end = x.now.Add(x.wait)
	}
}

// group expands the items, following parentheses. An error comes with its line.
func (x *expansion) group(items []item) (line int, err error) {
	for i := 0; i < len(items); i++ {
		it := &items[i]
		switch it.kind {
		case itemClose:
			return it.line, fmt.Errorf("a closing parenthesis without one that opens")
		case itemOpen:
			end := closing(items, i)
			if end < 0 {
				return it.line, fmt.Errorf("the parenthesis does not close: ( ... )*20")
			}
			if len(x.counters) == maxNesting {
				return it.line, fmt.Errorf("parentheses stand in one another %d deep at most", maxNesting)
			}
			// The counter of the innermost is the last, and so is {i}.
			x.counters = append(x.counters, 0)
			// What is inside is expanded anew for each turn, since counters stand in its names
			// and texts.
			n := len(x.out)
			for k := 1; k <= items[end].times; k++ {
				x.counters[len(x.counters)-1] = k
				if line, err = x.group(items[i+1 : end]); err != nil {
					return line, err
				}
				if len(x.out) == n && k > 1 {
					break // nothing in it makes an event: once more changes nothing but the time
				}
			}
			x.counters = x.counters[:len(x.counters)-1]
			i = end
		default:
			if err = x.item(it); err != nil {
				return it.line, err
			}
			if len(x.out) > maxDeliveries {
				return it.line, fmt.Errorf("a case has at most %d events", maxDeliveries)
			}
		}
	}
	return 0, nil
}

// closing returns the index of the parenthesis that closes the one at i, or -1.
func closing(items []item, i int) int {
	depth := 0
	for ; i < len(items); i++ {
		switch items[i].kind {
		case itemOpen:
			depth++
		case itemClose:
			// Parentheses inside are left to the expansion of what is inside.
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// item carries out one item. Brackets that stand alone are counted when they are met, and not
// when they are used.
func (x *expansion) item(it *item) error {
	switch it.kind {
	case itemWait:
		x.wait, x.waits = x.wait+it.wait, true
		if x.wait > 10*366*24*time.Hour {
			return fmt.Errorf("a case lasts ten years at most")
		}
	case itemFields:
		for _, f := range it.fields {
			v, err := x.count(f.value)
			if err != nil {
				return err
			}
			// With the counters of where it stands, not of where it will be used.
			f.value = v
			x.fields[f.key] = f
		}
	case itemEvent:
		return x.event(it)
	}
	return nil
}

// count puts the counters of the ( ... ) around in the place of {i}, {j} and {k}. {i} is of
// the innermost, whatever is around it.
func (x *expansion) count(s string) (string, error) {
	if !strings.Contains(s, "{") {
		return s, nil
	}
	for depth, key := range [...]string{"{i}", "{j}", "{k}"} {
		if !strings.Contains(s, key) {
			continue
		}
		// The counters are kept from the outermost on.
		at := len(x.counters) - 1 - depth
		if at < 0 {
			return "", fmt.Errorf("%s: %s counts how often a ( ... )*n was gone through, and there are %d around", s, key, len(x.counters))
		}
		s = strings.ReplaceAll(s, key, strconv.Itoa(x.counters[at]))
	}
	if len(s) > maxText {
		return "", fmt.Errorf("a text is longer than %d bytes", maxText)
	}
	return s, nil
}

// field is the value of a key for the event at hand. Its own brackets come before those that
// stand alone, and of two in its own the last. has is true if it is there with a value, or is
// there at all where it needs none.
func (x *expansion) field(it *item, key string) (value string, has bool) {
	for i := len(it.fields) - 1; i >= 0; i-- {
		if it.fields[i].key == key {
			v, err := x.count(it.fields[i].value)
			if err != nil {
				v = it.fields[i].value
			}
			return v, !it.fields[i].has || v != ""
		}
	}
	f, ok := x.fields[key]
	return f.value, ok && (!f.has || f.value != "")
}

// value is the value alone; "" for none.
func (x *expansion) value(it *item, key string) string {
	v, _ := x.field(it, key)
	return v
}

// party fills the counters into a name.
func (x *expansion) party(n name) (events.Party, error) {
	session, err := x.count(n.session)
	if err != nil {
		return events.Party{}, err
	}
	agent, err := x.count(n.agent)
	return events.Party{Session: session, Agent: agent}, err
}

// tick moves the clock on to the next event. The first event is at Start, and a wait takes the
// place of the step.
func (x *expansion) tick() {
	switch {
	case x.waits:
		x.now = x.now.Add(x.wait)
	case len(x.out) > 0:
		x.now = x.now.Add(x.step)
	}
	x.wait, x.waits = 0, false
}

// flow is the correlation id of the event. An empty one that was given means none, which is
// not the same as not given.
func (x *expansion) flow(it *item) string {
	// Either the event's own brackets, also empty ones, or those that stand alone.
	if own := it.given("flow"); own != nil || x.fields["flow"].key != "" {
		return x.value(it, "flow")
	}
	return mainFlow
}

// given is the field as the event's own brackets have it; nil for none.
func (it *item) given(key string) *field {
	for i := range it.fields {
		if it.fields[i].key == key {
			return &it.fields[i]
		}
	}
	return nil
}

// event makes the one or two deliveries of an item. An output makes none: it only marks that
// work was done.
func (x *expansion) event(it *item) (err error) {
	a := &it.act
	if a.verb == verbWord && a.word == "dup" {
		return x.dup(a)
	}
	flow := x.flow(it)
	from, to, err := x.parties(a, flow)
	if err != nil {
		return err
	}
	texts := [2]text{a.text, a.result}
	for i := range texts {
		if texts[i].s, err = x.count(texts[i].s); err != nil {
			return err
		}
		if texts[i].near, err = x.count(texts[i].near); err != nil {
			return err
		}
	}
	if a.verb == verbOutput {
		x.worked[flow+"\x00"+from.ID()] = true
		return nil
	}
	x.tick()
	if a.ofAgents() {
		return x.ofAgent(it, from, to, texts[0].s)
	}
	ev := x.base(it, flow)
	switch a.verb {
	// A user's message begins the work of its receiver anew.
	case verbUser:
		ev.Kind, ev.To = events.AgentCall, to
		x.control[flow] = to
		x.worked[flow+"\x00"+to.ID()] = false
		setContent(&ev, texts[0])
	case verbCall:
		ev.Kind, ev.From, ev.To = events.AgentCall, from, to
		setContent(&ev, texts[0])
		x.work(it, &ev, flow)
		// As the fold sees it: the call uses up the work of the caller, and the callee has done
		// none yet.
		x.worked[flow+"\x00"+from.ID()], x.worked[flow+"\x00"+to.ID()] = false, false
		x.control[flow] = to
	// An answer to a user leaves control where it is.
	case verbReturn:
		ev.Kind, ev.From, ev.To = events.AgentReturn, from, to
		setContent(&ev, texts[0])
		x.work(it, &ev, flow)
		if a.ended == '?' {
			ev.Status, ev.ErrorType = events.StatusError, texts[0].s
		}
		if !to.IsZero() {
			x.control[flow] = to
		}
	case verbTool, verbResult:
		return x.tool(it, ev, flow, from, to.Session, texts)
	case verbModel:
		ev.Kind, ev.From = events.LLMCall, from
	case verbWord:
		x.word(it, &ev, texts[0].s)
	}
	x.usage(it, &ev)
	_, err = x.deliver(it, ev)
	return err
}

// parties finds who acts and who is acted on.
func (x *expansion) parties(a *action, flow string) (from, to events.Party, err error) {
	if from, err = x.party(a.from); err != nil {
		return from, to, err
	}
	if to, err = x.party(a.to); err != nil {
		return from, to, err
	}
	// A user is no party, and words are of the flow.
	if a.from.isZero() && a.verb != verbUser && a.verb != verbWord {
		if from = x.control[flow]; from.IsZero() {
			return from, to, fmt.Errorf("nobody is in control yet: say who acts, as in a->b")
		}
	}
	return from, to, nil
}

// base is what all events have. Values were checked when they were read, so faults are passed
// over here.
func (x *expansion) base(it *item, flow string) events.Event {
	// Ids count what is delivered, so they are the numbers by which outcomes name events.
	ev := events.Event{ID: "e" + strconv.Itoa(len(x.out)+1), Source: "flow", Time: x.now, CorrelationID: flow}
	if v, has := x.field(it, "source"); has {
		ev.Source = v
	}
	if v, has := x.field(it, "late"); has {
		if d, err := duration(v); err == nil {
			// 0 would mean that the time is missing.
			ev.Time = max(1, ev.Time.Add(-d))
		}
	}
	ev.CorrelationSource, _ = events.ParseCorrelationSource(x.value(it, "corr"))
	ev.Origin, _ = parseOrigin(x.value(it, "origin"))
	ev.TransferMode, _ = parseTransfer(x.value(it, "transfer"))
	_, ev.Claimed = x.field(it, "claimed")
	_, ev.Background = x.field(it, "background")
	ev.Status, _ = parseStatus(x.value(it, "status"))
	ev.TurnID, ev.TaskID, ev.ConversationID = x.value(it, "turn"), x.value(it, "task"), x.value(it, "conv")
	ev.ProjectID, ev.MemoryTraceID = x.value(it, "project"), x.value(it, "memory")
	ev.TeamID, ev.TenantID, ev.Principal = x.value(it, "team"), x.value(it, "tenant"), x.value(it, "principal")
	ev.DurationMS = float64(whole(x.value(it, "ms")))
	ev.RootCorrelationID, ev.ParentCorrelationID = x.value(it, "root"), x.value(it, "parent")
	ev.LoopCount, ev.DelegationDepth, ev.SampledRate = whole(x.value(it, "loops")), whole(x.value(it, "depth")), whole(x.value(it, "sampled"))
	return ev
}

// work sets had_work as a producer that knows would. It is asked for calls and answers, before
// the marks of the parties are set anew.
func (x *expansion) work(it *item, ev *events.Event, flow string) {
	switch x.value(it, "work") {
	case "yes":
		ev.HadWork = events.Yes
	case "no":
		ev.HadWork = events.No
	case "unknown":
	default:
		ev.HadWork = events.No
		// By the rule that doc.go states: a tool used or an output made since it was called.
		if x.worked[flow+"\x00"+ev.From.ID()] {
			ev.HadWork = events.Yes
		}
	}
}

// usage sets tokens and money. Figures that are not reported leave Usage unknown, which is not the
// same as nothing spent.
func (x *expansion) usage(it *item, ev *events.Event) {
	cost, err := dollars(x.value(it, "cost"))
	if err != nil {
		cost = 0
	}
	u := events.Usage{Input: whole(x.value(it, "in")), Output: whole(x.value(it, "out")), Total: whole(x.value(it, "total")), CostMicroUSD: cost,
		CacheRead: whole(x.value(it, "cached")), CacheCreation: whole(x.value(it, "written")), CacheHour: whole(x.value(it, "written_1h")), Reasoning: whole(x.value(it, "reasoning"))}
	if u == (events.Usage{}) {
		return
	}
	u.Known = true
	u.Scope, _ = parseUsage(x.value(it, "usage"))
	ev.Usage, ev.Model, ev.Provider = u, x.value(it, "model"), x.value(it, "provider")
}

// tool makes a tool call, its result, or one after the other.
func (x *expansion) tool(it *item, ev events.Event, flow string, from events.Party, tool string, texts [2]text) (err error) {
	a := &it.act
	if tool, err = x.count(tool); err != nil {
		return err
	}
	x.worked[flow+"\x00"+from.ID()] = true
	// By this a result finds its call and a retry what it repeats.
	like := strings.Join([]string{flow, from.ID(), tool, strconv.FormatBool(texts[0].given), texts[0].s}, "\x00")
	ev.From, ev.Tool.Name, ev.Tool.ArgsHash = from, tool, hash(texts[0])
	if a.verb == verbTool {
		call := ev
		call.Kind = events.ToolCall
		if _, noid := x.field(it, "noid"); !noid {
			call.Tool.CallID = "c" + strconv.Itoa(len(x.out)+1)
		}
		if _, retry := x.field(it, "retry"); retry {
			if call.Tool.RetryOf = x.calls[like]; call.Tool.RetryOf == "" {
				// Nothing like it was seen; the fold only asks whether the field is there.
				call.Tool.RetryOf = "earlier"
			}
		}
		_, call.Tool.Beside = x.field(it, "beside")
		if a.ended == 0 {
			x.usage(it, &call)
		}
		kind, err := x.deliver(it, call)
		if err != nil {
			return err
		}
		// A call that was refused has no result to wait for.
		if kind == events.ToolCall && call.Tool.CallID != "" {
			x.open[like] = append(x.open[like], call.Tool.CallID)
			x.calls[like] = call.Tool.CallID
		}
		if a.ended == 0 {
			return nil
		}
		// The result is an event of its own, one step later.
		x.tick()
		ev = x.base(it, flow)
		ev.From, ev.Tool.Name, ev.Tool.ArgsHash = from, tool, hash(texts[0])
	}
	ev.Kind = events.ToolResult
	// Without a call that waits the result has no id, as one whose call was never reported.
	if ids := x.open[like]; len(ids) > 0 {
		ev.Tool.CallID, x.open[like] = ids[0], ids[1:]
	}
	if _, silent := x.field(it, "silent"); !silent {
		setContent(&ev, texts[1])
	}
	ev.Tool.ResultSize = whole(x.value(it, "bytes"))
	ev.Tool.Outcome = x.outcome(it)
	// A status in brackets says more than the sign.
	if ev.Status == events.StatusUnset {
		ev.Status = events.StatusOK
		if a.ended == '?' {
			ev.Status = events.StatusError
		}
	}
	if a.ended == '?' {
		ev.ErrorType = texts[1].s
	}
	x.usage(it, &ev)
	_, err = x.deliver(it, ev)
	return err
}

// outcome returns what the brackets say that a call achieved; nil for nothing.
func (x *expansion) outcome(it *item) *events.Outcome {
	var o events.Outcome
	o.Effect, _ = parse(effects[:], x.value(it, "effect"))
	if state := x.value(it, "state"); state != "" {
		o.State = hash(text{given: true, s: state})
	}
	for _, f := range [...]struct {
		key string
		to  *events.Optional
	}{{"exit", &o.Exit}, {"passed", &o.Passed}, {"failed", &o.Failed}} {
		if v := x.value(it, f.key); v != "" {
			*f.to = events.Optional{Set: true, Value: whole(v)}
		}
	}
	if o == (events.Outcome{}) {
		return nil
	}
	return &o
}

// word makes the event of a word. Words about agents are made by ofAgent.
func (x *expansion) word(it *item, ev *events.Event, argument string) {
	forTime, err := duration(x.value(it, "for"))
	if err != nil {
		forTime = 0
	}
	switch it.act.word {
	case "start":
		ev.Kind = events.FlowStart
	case "end":
		ev.Kind = events.FlowEnd
	case "turn":
		ev.Kind, ev.TurnID = events.TurnStart, argument
	case "loop":
		ev.Kind, ev.TaskID = events.TaskLoop, argument
	case "reflect":
		ev.Kind, ev.TaskID = events.TaskReflect, argument
	case "stop", "release":
		if argument == "" {
			// Every order of a person has a reason beside it.
			argument = "unsaid"
		}
		ev.Kind, ev.Operator = events.OperatorStop, &events.Operator{Reason: argument, By: "operator", For: forTime}
		if it.act.word == "release" {
			ev.Kind = events.OperatorRelease
		}
	case "override":
		if forTime == 0 {
			forTime = time.Hour
		}
		ev.Kind, ev.Override = events.OverrideSet, &events.Override{Scope: events.ScopeFlow, ScopeID: ev.FlowKey(), Rule: argument,
			Warn: optional(x.value(it, "warn")), Stop: optional(x.value(it, "stop")), Extra: whole(x.value(it, "extra")), Mode: x.value(it, "mode"),
			Reason: "scenario", By: "operator", Expires: ev.Time.Add(forTime)}
		if row, ok := analyzer.RowNamed(argument); ok && row.OfAgents() {
			// A person's limits for agents are those of trees alone (see checkArgument).
			ev.Override.Scope = events.ScopeTree
		}
		if account := x.value(it, "account"); account != "" { // NAME:VALUE of a budget, which is of no flow
			ev.CorrelationID, ev.Override.Scope, ev.Override.ScopeID = "", events.ScopeBudget, account
			if by := x.value(it, "by"); by != "" {
				ev.Override.By = by
			}
		}
	}
}

// deliver appends the event and returns its kind: a call that was refused becomes
// an acknowledgement. It fails on an event that weir would not take in. The event is checked
// as an intake would, so that no case rests on what cannot come in.
func (x *expansion) deliver(it *item, ev events.Event) (events.Kind, error) {
	ev.Ask = it.act.ask
	ev.Tags, ev.From.Tags, ev.Tool.Tags = x.tags(it, "tags"), x.tags(it, "from_tags"), x.tags(it, "tool_tags")
	// now is when it is delivered, which is later than its own time where it is late.
	d := delivery{ev: ev, now: x.now}
	if reason, refused := x.field(it, "refused"); refused && (ev.Kind == events.AgentCall || ev.Kind == events.ToolCall) {
		d.ev.Kind, d.ev.Ack, d.ack = events.VerdictAck, &events.Ack{Applied: true}, reason
		d.ev.HadWork = events.Unknown
	}
	sent := d.event()
	if sent.Ack != nil {
		sent.Ack.VerdictID = "any" // only a run knows it
	}
	if err := sent.Validate(); err != nil {
		return 0, fmt.Errorf("no producer may send this event: %w", err)
	}
	x.out = append(x.out, d)
	return d.ev.Kind, nil
}

// tags are those that a field lists.
func (x *expansion) tags(it *item, key string) []string {
	if v := x.value(it, key); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// dup delivers an event once more. No time passes. The event is the same to the last field, so
// only its id shows that it comes again.
func (x *expansion) dup(a *action) error {
	n := len(x.out)
	if a.text.given {
		n = int(whole(a.text.s))
	}
	if n < 1 || n > len(x.out) {
		return fmt.Errorf("dup: there is no event %d yet", n)
	}
	d := x.out[n-1]
	d.now = x.now
	x.out = append(x.out, d)
	return nil
}

// hash is the hash of a text; none for one that was not given.
func hash(t text) events.Hash {
	if !t.given {
		return events.Hash{}
	}
	return events.Hash{Algorithm: events.XXH64, Value: xxhash.Sum64String(t.s)}
}

// setContent sets hash and fingerprint. The fingerprint is made of the group's name and not of
// the text; the bits that differ are the highest.
func setContent(ev *events.Event, t text) {
	ev.Content = hash(t)
	if t.near == "" {
		return
	}
	v := xxhash.Sum64String("near\x00" + t.near)
	if t.bits > 0 {
		// So two texts of one group with other numbers differ in as many bits as the numbers do.
		v ^= bits.Reverse64(1<<t.bits - 1)
	}
	ev.Sim = events.Fingerprint{Algorithm: events.Simhash64, Value: v}
}
