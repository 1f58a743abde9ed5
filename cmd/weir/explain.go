package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/forecast"
	"weir/analyzer/rules"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/costs"
	"weir/events"
)

// explainCommand is weir explain: the state of one flow as a story. It is for the person who
// finds an agent stopped, and says first what is most asked: what stands, why, and what it
// refuses.
func explainCommand() cli.Command {
	return cli.Command{
		Name: "explain", Args: "FLOW", Wants: cli.Wants(1, 1, "the id of a FLOW"), Short: "explain the state of a flow",
		Long: `FLOW is a correlation id, or a unique beginning of one. weir looks for it in a running
weir, in the state folder of a stopped one (--state), or in logs (--log).`,
		Examples: []string{"weir explain abc123", "weir explain abc123 --log session.jsonl"},
		Setup:    ofOneFlow(explain),
	}
}

// ofOneFlow is a command that prints what is known of one flow.
//
// explain and flows show differ in what they print for people only: as JSON and YAML both
// print the same view.
func ofOneFlow(show func(env *cli.Env, v *analyzer.View, in place) error) func(*pflag.FlagSet) cli.Run {
	return func(fs *pflag.FlagSet) cli.Run {
		p := newTarget(fs, true)
		return func(ctx context.Context, env *cli.Env, args []string) error {
			// It is a running weir, a folder or logs; what follows does not know which.
			k, done, err := p.open(ctx, env)
			if err != nil {
				return err
			}
			defer done()
			// A beginning is enough, because ids are long and are copied by hand.
			v, err := find(ctx, k, args[0])
			if err != nil {
				return err
			}
			in := placeOf(ctx, k, &v)
			in.reads, in.changes = p.Again(env, quoted)
			return env.Value(v, func() error { return show(env, &v, in) })
		}
	}
}

// explain prints the history of a flow.
//
// The active orders about the flow come first, then its earlier stops, then the
// limits that it has come nearest to.
func explain(env *cli.Env, v *analyzer.View, in place) error {
	var b strings.Builder
	writeFlow(env, &b, v, in)
	if len(v.Orders) == 0 {
		if in.nothing() {
			b.WriteString("\nNo active order: nothing is refused.\n")
		} else {
			b.WriteString("\nNo rule has an active order about it.\n")
		}
		// Rules about talk without work say nothing where the log does not report work (see
		// decision 4). Without a notice, their silence would look like a good result.
		if len(v.WorkUnknown) > 0 && v.Hops > 1 {
			cli.Fprintf(&b, "Whether work was done before its calls is unknown, so %s do not count them: the log has to report tool calls or had_work.\n", strings.Join(v.WorkUnknown, ", "))
		}
	}
	writeMissing(&b, v)
	if len(v.Exempt) > 0 {
		cli.Fprintf(&b, "\nIts tags exempt it from %s: 'weir limits show' says why.\n", strings.Join(v.Exempt, ", "))
	}
	for _, x := range incidentsOf(v.Orders) {
		b.WriteByte('\n')
		x.write(env, &b)
	}
	in.write(env, &b)
	// Offences outlast their orders: who was stopped once is stopped at the warning next time
	// (see decision 5).
	for _, o := range v.Offences {
		// An active order says it already.
		if slices.ContainsFunc(v.Orders, func(a events.Verdict) bool { return a.RuleID == o.Rule }) {
			continue
		}
		cli.Fprintf(&b, "\nStopped before by %s, %s %s%s.\n", o.Rule, times(o.Count), o.Last, strict(v, &o))
	}
	if _, err := io.WriteString(env.Out, b.String()); err != nil {
		return err
	}
	if err := nearest(env, v); err != nil {
		return err
	}
	whatNext(env, v, in)
	return nil
}

// writeMissing says which rules do less than they could, because the log does not report something. It also
// stands beside a warning: why a rule only warns is asked then.
func writeMissing(b *strings.Builder, v *analyzer.View) {
	warns := len(v.OnlyWarn) > 0 && v.Hops > 1
	if len(v.Orders) > 0 && (warns || len(v.Missing) > 0 || v.StrayAnswers > 0) {
		b.WriteByte('\n')
	}
	if v.StrayAnswers > 0 {
		cli.Fprintf(b, "%s (agent.return) matched no call, so rules about delegations do not count them: from is the agent that answers, to its caller, each named as in its agent.call.\n", cli.Count(int64(v.StrayAnswers), "answer"))
	}
	if warns {
		cli.Fprintf(b, "Rules that only warn, and late, because it is unknown whether agents worked: %s. The log has to report tool calls or had_work.\n", strings.Join(v.OnlyWarn, ", "))
	}
	for i := range v.Missing {
		cli.Fprintf(b, "The log does not report %s: %s cannot be judged.\n", v.Missing[i].What, strings.Join(v.Missing[i].Rules, ", "))
	}
}

// whatNext prints the commands for a flow whose calls are refused. They are notices, because they are no
// part of the answer. Orders that a log brings about are in force nowhere.
func whatNext(env *cli.Env, v *analyzer.View, in place) {
	begun := false
	say := func(command, what string) {
		if !begun {
			env.Notice("\nWhat to do next:")
		}
		begun = true
		const column = 44
		if len(command) > column {
			env.Notice("  %s\n  %*s  %s", command, column, "", what)
			return
		}
		env.Notice("  %-*s  %s", column, command, what)
	}
	in.next(len(v.Orders) > 0, say)
	if len(v.Orders) == 0 {
		return
	}
	first := incidentsOf(v.Orders)[0].orders[0]
	flow := quoted(v.Flow)
	row, ok := analyzer.RowNamed(first.RuleID)
	if in.live && first.Stops() {
		if slices.ContainsFunc(v.Orders, func(o events.Verdict) bool { return o.Action == events.Hold }) {
			say("weir approvals"+in.reads, "list the work that waits for a person, and who was asked")
		}
		say("weir flows release "+flow+" --reason TEXT"+in.changes, "allow its calls again; if it goes on as before, weir stops it again")
		if more := grantOf(first.Unit); more != "" && (row.Tells || first.Action == events.Hold) {
			say("weir flows grant "+flow+more+" --reason TEXT"+in.changes, "grant so much more than the limit, for an hour")
		}
		if first.Action == events.Hold {
			say("weir flows stop "+flow+" --reason TEXT"+in.changes, "deny: refuse every call of the flow for a day")
		}
	}
	if ok && row.Fixed { // the order of a person, which has no limits
		return
	}
	if first.Stops() {
		say("weir review mark "+flow+" wrong", "record that the stop was wrong, for weir backtest")
	}
	if ok {
		say("weir rules show "+first.RuleID, "read what the rule measures")
	}
	say("weir limits show", "read the limits that a limits file can change; --limits FILE adds those of a file")
}

// grantOf is the flag that grants more of a limit in the unit, with an amount as an example; "" for what no grant
// raises.
func grantOf(u events.Unit) string {
	return map[events.Unit]string{events.UnitCalls: " --calls 20", events.UnitTokens: " --tokens 100000", events.UnitUSD: " --cost 1", events.UnitSeconds: " --duration 30m", events.UnitSpawns: " --spawns 1"}[u]
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	special := strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("_-.:/@+=%,", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if !special && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// statusPaint is how the states of flows are painted, and what they mean; one that is not here is plain.
var statusPaint = [...]struct {
	status string
	paint  cli.Paint
	means  string
	would  string // where no weir runs; "" for the same
}{
	{"ok", cli.Good, "no rule has an order about it", ""},
	{"expired", cli.Caution, "its last block has ended, and its calls are allowed", ""},
	{"warned", cli.Caution, "its calls are still allowed", ""},
	{"armed", cli.Caution, "a limit is used up, and the next call beyond it is refused", "a limit is used up, and weir would refuse the next call beyond it"},
	{"stopped", cli.Bad, "weir refuses calls of it", "weir would refuse calls of it"},
	{"held", cli.Bad, "its calls wait until a person grants more", "its calls would wait until a person grants more"},
}

// statusCell is the state of a flow in its colour.
func statusCell(status string) cli.Cell {
	for _, s := range statusPaint {
		if s.status == status {
			return cli.Cell{Text: status, Paint: s.paint}
		}
	}
	return cli.Cell{Text: status}
}

// statusText is what a state means; "" for one that is not known. A log, and the state of a weir that does not
// run, refuse nothing by themselves.
func statusText(status string, live bool) string {
	for _, s := range statusPaint {
		switch {
		case s.status != status:
		case !live && s.would != "":
			return ": " + s.would
		default:
			return ": " + s.means
		}
	}
	return ""
}

// writeFlow says what a flow is and how far it has come.
func writeFlow(env *cli.Env, b *strings.Builder, v *analyzer.View, in place) {
	// Colors only where a terminal shows them, see cli.Env.Painted.
	status, means := in.headline(v)
	cli.Fprintf(b, "%s is %s", v.Flow, env.Painted(status.Text, status.Paint))
	if v.Episode > 1 {
		cli.Fprintf(b, " in its episode %d", v.Episode)
	}
	b.WriteString(means)
	cli.Fprintf(b, ".\n\n%s from %s to %s", cli.Count(v.Events, "event"), v.Start, v.Last)
	// What happened before, if anything did, is in none of the figures.
	if v.Incomplete {
		b.WriteString("; it began without a start or a message, so earlier events may be missing")
	}
	// Of this episode, as the limits count them.
	cli.Fprintf(b, "\n%s between %s, %s", cli.Count(v.Hops, "call"), cli.Count(int64(len(v.Parties)), "agent"), cli.Count(v.ToolCalls, "tool call"))
	if v.Tokens > 0 {
		b.WriteString(", " + cli.Count(v.Tokens, "token"))
	}
	if v.CostUSD > 0 {
		cli.Fprintf(b, ", %.2f US dollars", v.CostUSD)
	}
	for i := range v.Parties {
		if p := &v.Parties[i]; p.Context != nil {
			b.WriteString("\n" + contextText(p))
		}
		if p := &v.Parties[i]; p.Job != nil {
			b.WriteString("\n" + jobText(p))
		}
	}
	for i := range v.Forecast {
		b.WriteString("\n" + forecastText(&v.Forecast[i]))
	}
	// From the root to the party that has control; each party waits for the next.
	if len(v.Stack) > 0 {
		cli.Fprintf(b, "\ncall stack: %s", strings.Join(v.Stack, " > "))
	}
	if v.Waited > 0 {
		cli.Fprintf(b, "\nheld for %s, waiting for a person; this time does not count as its age", events.DurationText(time.Duration(v.Waited*float64(time.Second))))
	}
	for i := range v.Grants {
		b.WriteString("\n" + grantText(&v.Grants[i], ""))
	}
	for i := range in.tree.Grants {
		b.WriteString("\n" + grantText(&in.tree.Grants[i], " for the tree of "+in.tree.Agent))
	}
	// No rule stops it until then, which explains why one that is over its limit goes on.
	if v.Released != 0 {
		cli.Fprintf(b, "\nreleased by an operator until %s", v.Released)
	}
	b.WriteByte('\n')
}

// contextText is the context of a party, how it grows, and what its next model call costs.
func contextText(p *analyzer.PartyView) string {
	c := p.Context
	text := fmt.Sprintf("context of %s: %s, %.0f %% from the cache, %s more with each call", p.Name, cli.Count(c.Tokens, "token"), 100*c.Cached, cli.Grouped(c.Slope))
	if c.Next != nil {
		text += fmt.Sprintf("; the next call costs %s", costs.USD(*c.Next, 4))
	}
	if c.Times > 0 {
		text += fmt.Sprintf("; %d times the first calls", c.Times)
	}
	return text
}

// jobText is what a subagent has used since it was called, each figure with its limit where there is one.
func jobText(p *analyzer.PartyView) string {
	j := p.Job
	of := func(limited bool, text string) string {
		if !limited {
			return ""
		}
		return " of " + text
	}
	text := "subagent " + p.Name
	if j.Kind != p.Name {
		text += " (" + j.Kind + ")"
	}
	text += ": " + cli.Grouped(j.Calls) + of(j.MaxCalls > 0, cli.Grouped(j.MaxCalls)) + " calls, " +
		cli.Grouped(j.Tokens) + of(j.MaxTokens > 0, cli.Grouped(j.MaxTokens)) + " tokens, " +
		cli.Grouped(j.Seconds) + of(j.MaxSeconds > 0, cli.Grouped(j.MaxSeconds)) + " s"
	if j.CostUSD > 0 || j.MaxCostUSD > 0 {
		text += ", $" + strconv.FormatFloat(j.CostUSD, 'f', 2, 64) + of(j.MaxCostUSD > 0, "$"+strconv.FormatFloat(j.MaxCostUSD, 'f', 2, 64))
	}
	return text + " since it was called"
}

// grantText is a limit that a person set or granted. of names what it is for, if that is not the flow.
func grantText(g *rules.GrantView, of string) string {
	what := "a person set another limit of " + g.Rule
	if g.More {
		what = "a person granted more of " + g.Rule
	}
	what += of
	if g.Given != 0 {
		what += " at " + g.Given.String()
	}
	if g.Limit > 0 {
		what += ": the limit is " + g.Unit.Amount(g.Limit)
	} else {
		what += ": nothing stops"
	}
	return what + " until " + g.Until.String()
}

// forecastText is what the flow is expected to have spent at its end.
func forecastText(x *analyzer.ForecastView) string {
	amount := func(v float64) string {
		if x.Unit == events.UnitUSD {
			return costs.USD(v, 2)
		}
		return cli.Count(int64(math.Round(v)), "token")
	}
	if x.High == 0 {
		return fmt.Sprintf("forecast by %s: unknown, because %s of its kind made %s (it takes %d)", x.Unit, cli.Count(x.Runs, "good run"), cli.Count(x.Calls, "call"), forecast.Least)
	}
	text := fmt.Sprintf("forecast: %s in the end, 90 %% between %s and %s, by %s that made as many calls", amount(x.Expected), amount(x.Low), amount(x.High), cli.Count(x.Runs, "good run"))
	if x.Limit > 0 {
		text += fmt.Sprintf("; the budget is %s", amount(x.Limit))
	}
	return text
}

// writeOrder says what stands, why, and what it refuses.
func writeOrder(env *cli.Env, b *strings.Builder, o *events.Verdict) {
	// What it does comes first, then why, then for how long and on what evidence.
	action := actionCell(o)
	cli.Fprintf(b, "%s  %s%s\n", env.Painted(action.Text, action.Paint), ruleAndReason(o.RuleID, o.Reason), measured(o))
	cli.Fprintf(b, "  %s\n", o.Message)
	// Each line stands only where there is something to say.
	row := func(name, format string, args ...any) {
		cli.Fprintf(b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	if o.Scope.Kind == events.ScopeTree {
		row("tree of", "%s: about all of its flows; what one of them is granted, all are", o.Scope.ID)
	}
	if o.Match != nil {
		row("refuses", "%s", matchText(o.Match))
	}
	if o.ExpiresAt != 0 {
		row("until", "%s", o.ExpiresAt)
	}
	// What a person needs to believe it, and to find it in the log.
	if e := o.Evidence; e != nil {
		if len(e.Ordinals) > 0 {
			row("evidence", "events %s of the flow", ordinals(e.Ordinals))
		}
		// The order of a person is about no pattern.
		if of, _ := analyzer.RowNamed(o.RuleID); e.Calls > 0 && !of.Fixed {
			row("spent", "%s and %s since the pattern began", cli.Count(e.Calls, "call"), cli.Count(e.Tokens, "token"))
		}
		if e.Attempts > 0 {
			row("ignored", "by %s after the block", cli.Count(e.Attempts, "call"))
		}
		if e.Leaked > 0 {
			row("leaked", "%s already on the way at the block", cli.Count(e.Leaked, "call"))
		}
	}
	if o.AgentMessage != "" {
		row("the model", "reads: %s", o.AgentMessage)
	}
}

// measured is the observed value and the limit; "" for verdicts that no measure brings about.
func measured(o *events.Verdict) string {
	if o.Observed == nil || o.Limit == nil {
		return ""
	}
	text := ": " + amount(o.Observed) + " of " + amount(o.Limit)
	if o.Unit != "" && o.Unit != "none" {
		text += " " + string(o.Unit)
	}
	return text
}

// matchText says in words which calls an order refuses.
//
// It reads the match as dispatchers do: all parts have to hold. A match without any part
// refuses every call in its scope.
func matchText(m *events.Match) string {
	var parts []string
	add := func(format string, list []string) {
		if len(list) > 0 {
			parts = append(parts, fmt.Sprintf(format, strings.Join(list, ", ")))
		}
	}
	// A kind that is not named is for both.
	what := map[string]string{events.AgentCall.String(): "calls to agents", events.ToolCall.String(): "tool calls"}[m.Kind]
	if what == "" {
		what = "every call"
	}
	// The order of the parts is that of a sentence.
	add("by %s", m.From)
	add("to %s", m.To)
	if m.RootCorrelationID != "" {
		parts = append(parts, "in the tree of "+m.RootCorrelationID)
	}
	add("of others than %s", m.NotFrom)
	add("to others than %s", m.NotTo)
	if m.Background {
		parts = append(parts, "in the background")
	}
	add("of %s", m.Tool)
	var edges []string
	for _, e := range m.Edges {
		edges = append(edges, e.From+" -> "+e.To)
	}
	add("along %s", edges)
	if len(m.ArgsHash) > 0 {
		parts = append(parts, "with the same arguments")
	}
	if len(m.ContentHash) > 0 {
		parts = append(parts, "with the same message")
	}
	if m.TurnID != "" {
		parts = append(parts, "in turn "+m.TurnID)
	}
	if m.NotTurnID != "" {
		parts = append(parts, "in other turns than "+m.NotTurnID)
	}
	if m.TaskID != "" {
		parts = append(parts, "for task "+m.TaskID)
	}
	return strings.TrimSpace(what + " " + strings.Join(parts, " "))
}

// ordinals are events by their number in their flow, which is how replay prints them as well.
func ordinals(list []int64) string {
	var out []string
	for _, n := range list {
		out = append(out, fmt.Sprintf("#%d", n))
	}
	return strings.Join(out, " ")
}

// strict says that the next warning is a stop, of a rule that warns before it stops. It is so from the next
// episode on.
func strict(v *analyzer.View, o *analyzer.OffenceView) string {
	row, ok := analyzer.RowNamed(o.Rule)
	warns := ok && row.Default.Warn < row.Default.Stop
	for _, c := range v.Counters {
		if c.Rule == o.Rule {
			warns = c.Warn > 0 && c.Warn < c.Limit
		}
	}
	if o.Last < v.Start && warns {
		return "; the next warning stops it at once"
	}
	return ""
}

// times says how often, and leads over to when it was last: "at", or "3 times, last at".
func times(n int) string {
	if n == 1 {
		return "at"
	}
	return fmt.Sprintf("%d times, last at", n)
}

// nearest lists the counters that are nearest to their limits.
//
// Near is the share of the limit that is used; 0 for a rule that is off or has measured
// nothing, which is left out.
func nearest(env *cli.Env, v *analyzer.View) error {
	// A copy, so that the view stays as it is.
	near := slices.DeleteFunc(slices.Clone(v.Counters), func(c rules.CounterView) bool { return c.Near == 0 })
	// Stable, so that equal ones stay in the order of the rules.
	slices.SortStableFunc(near, func(a, b rules.CounterView) int { return cmp.Compare(b.Near, a.Near) })
	// More would be far from their limits, and flows show has all.
	const shown = 6
	if len(near) > shown {
		near = near[:shown]
	}
	return counters(env, near, "\nNearest to their limits:\n")
}

// counters prints counters as a table below a title, and nothing at all when there are none. A
// threshold of 0 is one that is off.
func counters(env *cli.Env, list []rules.CounterView, title string) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := io.WriteString(env.Out, title); err != nil {
		return err
	}
	t := env.Table("RULE", "OBSERVED", "WARN", "LIMIT", "UNIT", "USED")
	for _, c := range list {
		number := func(f float64) cli.Cell {
			if f == 0 {
				return cli.Cell{Text: "-", Right: true}
			}
			return cli.Cell{Text: amount(&f), Right: true}
		}
		limit := number(c.Limit)
		switch {
		case c.Limit == 0:
		case c.Max:
			limit.Text = "max " + limit.Text
		default:
			limit.Text = "stop " + limit.Text
		}
		// It is above 100 % where a limit is only watched, or was lowered.
		used := cli.Cell{Text: fmt.Sprintf("%.0f %%", 100*c.Near), Right: true}
		if c.Near == 0 {
			used.Text = "-"
		}
		err := t.Row(cli.Cell{Text: c.Rule}, cli.Cell{Text: amount(&c.Observed), Right: true}, number(c.Warn), limit, cli.Cell{Text: string(c.Unit)}, used)
		if err != nil {
			return err
		}
	}
	return t.Flush()
}
