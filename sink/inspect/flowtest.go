package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/scenario"
	"weir/events"
)

// FlowTest writes the events of one flow as a case for weir test, with the outcome that
// the limits give. Only hashes are known of texts: equal hashes become equal texts.
// Fingerprints and kinds that the language has no word for are left out, and the notes
// of the case say so.
// The events are those of one flow in the order of the log. An error is a fault of this
// writer: what it wrote cannot be read.
func FlowTest(title string, l analyzer.Limits, evs []events.Event) (string, error) {
	// The events first: what was left out of them is known only then, and is said above them.
	w := flowWriter{}
	var body strings.Builder
	for i := range evs {
		if item := w.event(&evs[i]); item != "" {
			body.WriteString(item)
			body.WriteByte('\n')
		}
	}
	var b strings.Builder
	// The title comes from people and agents: what would begin a line of its own is made one
	// line.
	fmt.Fprintf(&b, "# %s\n", strings.Join(strings.Fields(Plain(title)), " "))
	if w.omitted > 0 {
		fmt.Fprintf(&b, "# %d events of other kinds are left out.\n", w.omitted)
	}
	if w.similar {
		b.WriteString("# Fingerprints of messages are left out: nearly equal texts count as different ones.\n")
	}
	for _, line := range settings(l) {
		b.WriteString(line + "\n")
	}
	// Each hop shows whether it came without work, if the log reports it.
	b.WriteString("[work=unknown]\n" + body.String() + "----\n")
	// Read and written again, so that it has the one form that cases have.
	cases, err := scenario.Parse("test.flow", []byte(b.String()))
	if err != nil {
		return "", fmt.Errorf("write the flow as a case: %w", err)
	}
	// A person that changes limits later sees the difference in the case.
	// The outcome is the result of these limits, and not the verdict at the time.
	for i := range cases {
		out := cases[i].Run(cases[i].Limits(l))
		cases[i].Accept(&out)
	}
	return string(scenario.Format(cases)), nil
}

// settings says the profile, when that is all there is to say. Other limits have to be
// named to weir test by --limits.
// Limits of one version are the same limits.
func settings(l analyzer.Limits) []string {
	p, err := limitfile.Parse("", []byte("profile: "+l.Profile+"\n"))
	if err == nil && limitfile.Version(&p) == limitfile.Version(&l) {
		return []string{"profile " + l.Profile}
	}
	return []string{"# The limits were of version " + limitfile.Version(&l) + ": name their file with --limits."}
}

// flowWriter writes events one after the other. clock is the time of the language so far: one
// second passes by itself before each event.
type flowWriter struct {
	clock   events.Stamp
	omitted int
	similar bool
}

// event returns the item of an event, with the time that passes before it; "" when the
// language has no word for it.
func (w *flowWriter) event(ev *events.Event) string {
	// An event that is left out takes no time: the next one says how long it was since the last
	// that is there.
	act, fields := w.act(ev)
	if act == "" {
		w.omitted++
		return ""
	}
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, key+"="+quoted(value))
		}
	}
	// 0 is what the language has for a figure that is not given.
	number := func(key string, n int64) {
		if n != 0 {
			add(key, strconv.FormatInt(n, 10))
		}
	}
	add("turn", ev.TurnID)
	add("task", ev.TaskID)
	add("conv", ev.ConversationID)
	add("project", ev.ProjectID)
	add("team", ev.TeamID)
	add("tenant", ev.TenantID)
	add("principal", ev.Principal)
	if ev.Kind == events.ToolResult || ev.Kind == events.LLMCall {
		number("ms", int64(ev.DurationMS))
	}
	add("tags", strings.Join(ev.Tags, ","))
	add("from_tags", strings.Join(ev.From.Tags, ","))
	add("tool_tags", strings.Join(ev.Tool.Tags, ","))
	if ev.Origin != events.OriginUnset {
		add("origin", ev.Origin.String())
	}
	// A message that its sender claims to be a user's, see decision 59.
	if ev.Claimed {
		fields = append(fields, "claimed")
	}
	number("depth", ev.DelegationDepth)
	number("loops", ev.LoopCount)
	if ev.SampledRate > 1 {
		number("sampled", ev.SampledRate)
	}
	if ev.Usage.Known {
		addUsage(ev, add, number)
	}
	// The case notes it for its reader, since rules about near texts may then give another
	// result.
	w.similar = w.similar || ev.Sim != (events.Fingerprint{})
	wait, late := w.wait(ev.Time)
	add("late", late)
	if len(fields) > 0 {
		act += "[" + strings.Join(fields, " ") + "]"
	}
	return wait + act
}

// addUsage writes what a call of a model used.
func addUsage(ev *events.Event, add func(key, value string), number func(key string, n int64)) {
	u := &ev.Usage
	number("in", u.Input)
	number("out", u.Output)
	number("total", u.Total)
	number("cached", u.CacheRead)
	number("written", u.CacheCreation)
	number("written_1h", u.CacheHour)
	number("reasoning", u.Reasoning)
	// Tokens are priced by the model.
	add("model", ev.Model)
	add("provider", ev.Provider)
	if u.CostMicroUSD > 0 {
		add("cost", strconv.FormatFloat(float64(u.CostMicroUSD)/1e6, 'f', -1, 64))
	}
	if u.Scope == events.UsageCumulative || u.Scope == events.UsageAggregate {
		add("usage", u.Scope.String())
	}
}

// wait returns the time that passes before an event, and how late it came. It sets the clock.
func (w *flowWriter) wait(at events.Stamp) (wait, late string) {
	// The first event sets the clock, and waits for nothing.
	// An event that came late is written as such, for the order of the log has to stay.
	switch gap := at.Sub(w.clock); {
	case w.clock == 0:
		w.clock = at
	// The clock stays where it is, as that of the flow does.
	case gap < 0:
		return "+0s ", (-gap).String()
	default:
		if w.clock = at; gap != time.Second {
			return "+" + gap.String() + " ", ""
		}
	}
	return "", ""
}

// act returns the sign of an event, and the fields that belong to its kind.
// "" for a kind or a party that the language has no word for.
func (w *flowWriter) act(ev *events.Event) (act string, fields []string) {
	ask := ""
	if ev.Ask {
		ask = "?"
	}
	from, to := party(ev.From), party(ev.To)
	switch ev.HadWork {
	case events.Yes:
		fields = append(fields, "work=yes")
	case events.No:
		fields = append(fields, "work=no")
	}
	if ev.Background {
		fields = append(fields, "background")
	}
	if ev.TransferMode != events.TransferUnset {
		fields = append(fields, "transfer="+ev.TransferMode.String())
	}
	switch ev.Kind {
	case events.AgentCall:
		// A call without a caller is written as a call of a person.
		if ev.From.IsZero() {
			return ask + "@" + to + content(ev.Content), nil
		}
		return ask + from + "->" + to + content(ev.Content), fields
	case events.AgentReturn:
		// A return without a receiver is one to a person.
		if ev.To.IsZero() {
			to = ""
		}
		if ev.Status == events.StatusError {
			return from + "=>" + to + "?" + word(ev.ErrorType, ev.Content), fields
		}
		return from + "=>" + to + content(ev.Content), fields
	case events.ToolCall, events.ToolResult:
		// The sign of a tool begins with its caller, so a call without a caller has none.
		if ev.From.IsZero() {
			return "", nil
		}
		return ask + w.tool(ev, from), toolFields(ev)
	case events.LLMCall:
		if ev.From.IsZero() {
			return "", nil
		}
		return from + "$", nil
	case events.FlowStart:
		return "start", nil
	case events.FlowEnd:
		return "end", nil
	case events.TurnStart:
		return "turn:" + quoted(ev.TurnID), nil
	case events.TaskLoop:
		return ask + "loop:" + quoted(ev.TaskID), nil
	case events.TaskReflect:
		return ask + "reflect:" + quoted(ev.TaskID), nil
	// The events of a log have been decoded, so that Operator is there for these kinds.
	case events.OperatorStop, events.OperatorRelease:
		name := "stop"
		if ev.Kind == events.OperatorRelease {
			name = "release"
		}
		if ev.Operator.For > 0 {
			fields = []string{"for=" + ev.Operator.For.String()}
		}
		return name + ":" + quoted(ev.Operator.Reason), fields
	}
	return "", nil
}

// tool writes a call of a tool or its result. The sign says what it is: ! for a call, < for a
// result, ? for a failure.
func (w *flowWriter) tool(ev *events.Event, from string) string {
	tool := quoted(ev.Tool.Name) + content(ev.Tool.ArgsHash)
	switch {
	case ev.Kind == events.ToolCall:
		return from + "!" + tool
	case ev.Status == events.StatusError || ev.ErrorType != "":
		return from + "<" + tool + "?" + word(ev.ErrorType, ev.Content)
	// A result is known to have come, and not what it was.
	case ev.Content == events.Hash{}:
		return from + "<" + tool + "="
	}
	return from + "<" + tool + "=" + word("", ev.Content)
}

// outcomeFields are what a call achieved.
func outcomeFields(o *events.Outcome) (fields []string) {
	if o.Effect != events.EffectUnset {
		fields = append(fields, "effect="+o.Effect.String())
	}
	if state := o.State.String(); state != "" {
		fields = append(fields, "state="+quoted(state))
	}
	for _, n := range [...]struct {
		key   string
		value events.Optional
	}{{"exit", o.Exit}, {"passed", o.Passed}, {"failed", o.Failed}} {
		if n.value.Set {
			fields = append(fields, n.key+"="+strconv.FormatInt(n.value.Value, 10))
		}
	}
	return fields
}

// toolFields are what a sign cannot say: a status that is neither good nor an error, how long a
// result is, a legal repeat, and that the call has no id by which its result finds it.
func toolFields(ev *events.Event) (fields []string) {
	if ev.Kind == events.ToolResult && ev.Status != events.StatusUnset && ev.Status != events.StatusOK && ev.Status != events.StatusError {
		fields = append(fields, "status="+ev.Status.String())
	}
	if ev.Kind == events.ToolResult && ev.Tool.ResultSize > 0 {
		fields = append(fields, "bytes="+strconv.FormatInt(ev.Tool.ResultSize, 10))
	}
	if o := ev.Tool.Outcome; o != nil {
		fields = append(fields, outcomeFields(o)...)
	}
	if ev.Kind == events.ToolCall && ev.Tool.Beside {
		fields = append(fields, "beside")
	}
	if ev.Kind == events.ToolCall && ev.Tool.RetryOf != "" {
		fields = append(fields, "retry")
	}
	if ev.Kind == events.ToolCall && ev.Tool.CallID == "" {
		fields = append(fields, "noid")
	}
	return fields
}

// party is a session with its agent, or the one of them that is known. Which of the two
// makes parties the same is for the limits to say, so both are written.
func party(p events.Party) string {
	if p.Session != "" && p.Agent != "" {
		return quoted(p.Session) + "@" + quoted(p.Agent)
	}
	return quoted(p.ID())
}

// content stands for a hash, with the colon before it; nothing when none is known.
func content(h events.Hash) string {
	if h == (events.Hash{}) {
		return ""
	}
	return ":" + word("", h)
}

// word is a text, or what stands for one of which only the hash is known. Equal hashes give
// equal words, which is all that the rules need of texts.
func word(text string, h events.Hash) string {
	if text == "" {
		text = fmt.Sprintf("h%x", h.Value)
	}
	return quoted(text)
}

// quoted leaves names alone that need no quotes.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Plain writes what cannot be seen, or changes how the rest is seen, as an escape.
// Texts come from agents, and could else change how a terminal or a page shows what stands
// around them.
func Plain(s string) string {
	q := strconv.QuoteToGraphic(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
