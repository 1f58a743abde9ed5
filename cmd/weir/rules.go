package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/operate"
	"weir/events"
)

// ruleView is one row of the tables of rules by the limits in force.
//
// Thresholds are those at which the rule speaks, in the unit that people read: dollars and
// not millionths. Warn and Stop are pointers because 0 would be a threshold.
//
// It is printed as JSON, so its names are a promise to programs.
type ruleView struct {
	Name   string           `json:"name"`
	Reason events.Reason    `json:"reason_code"`
	About  string           `json:"about"`
	Over   events.ScopeKind `json:"per"` // flow; or agent or project, over all flows
	Unit   events.Unit      `json:"unit"`
	Mode   string           `json:"mode"`
	Warn   *float64         `json:"warn,omitempty"` // absent: never
	Stop   *float64         `json:"stop,omitempty"` // absent: never
	Max    *float64         `json:"max,omitempty"`  // the greatest allowed value, where the limits file has max
	Window int64            `json:"window,omitempty"`
	Per    string           `json:"window_unit,omitempty"`
	Action events.Action    `json:"action"`
	Scope  events.ScopeKind `json:"scope"`
	Status int              `json:"http_status,omitempty"` // absent: it refuses nothing
	Armed  bool             `json:"armed"`                 // the order goes out when the limit is used up
	From   string           `json:"from"`
	On     []string         `json:"measured_after"`

	silence bool
	held    heldView
}

// viewOfRule describes a row under these limits. A row of flows lists the events that
// it counts; for those over all flows they follow from what the row counts.
func viewOfRule(r *analyzer.Row, l *analyzer.Limits) ruleView {
	s := *r.Setting(l)
	// Thresholds are whole numbers inside; only money has a unit of its own there.
	unit := 1.0
	if r.Unit == events.UnitUSD {
		unit, s.Stop = 1e6, s.Limit() // without the millionth of a dollar above it, which readers do not need
	}
	// Off is the greatest number, and so is one below it that was reckoned from it.
	figure := func(v int64) *float64 {
		if v == rules.Off || v >= rules.Off-1 || r.ModeOnly() {
			return nil
		}
		f := float64(v) / unit
		return &f
	}
	v := ruleView{Name: r.Name, Reason: r.Reason, About: r.About, Unit: r.Unit, Mode: s.Mode.String(), Warn: figure(s.Warn), Stop: figure(s.Stop),
		Window: s.Window, Per: r.Window, Action: r.Action, Status: r.Status, Armed: r.Armed && s.Max, From: r.From, silence: r.Silence}
	if s.Max {
		v.Max = figure(r.Setting(l).Limit())
	}
	// The status of the limits goes before that of the row.
	if status := *r.HTTPStatus(l); status != 0 {
		v.Status = int(status)
	}
	// In the order of the kinds, so that the list reads alike for all rows.
	var on []events.Kind
	if id, ok := r.Flow(); ok {
		rule := &analyzer.Rules[id]
		v.Over, v.Scope = events.ScopeFlow, rule.Scope
		// In the order of the kinds, whatever that of the table.
		for _, k := range events.Kinds() {
			if rule.On.Has(k) {
				on = append(on, k)
			}
		}
	} else {
		v.Over, on = overAllFlows(r)
		v.Scope = v.Over
		if r.Counts() == agents.CountedTreeSpawns { // as the depth, about one flow of the tree
			v.Scope = events.ScopeFlow
		}
	}
	v.hold(r, l)
	for _, k := range on {
		v.On = append(v.On, k.String())
	}
	return v
}

// overAllFlows returns the scope of a rule that is not about flows, and the events that it
// counts; silence comes without any.
func overAllFlows(r *analyzer.Row) (whose events.ScopeKind, on []events.Kind) {
	whose = events.ScopeAgent
	switch counts := r.Counts(); {
	case r.Silence:
		return whose, nil
	// It measures nothing; these are the events that it answers.
	case r.ModeOnly():
		return whose, []events.Kind{events.NoteAdded, events.RescueRequest}
	case counts == agents.CountedRefused:
		return whose, []events.Kind{events.AgentCall, events.ToolCall, events.VerdictAck}
	case counts == agents.CountedProject:
		whose = events.ScopeProject
	case counts == agents.CountedTreeDepth, counts == agents.CountedTreeChildren:
		return events.ScopeFlow, []events.Kind{events.AgentCall, events.ToolCall, events.LLMCall}
	// Sums of a tree have the last numbers, those about single flows of it excepted, which stand
	// above.
	case counts >= agents.CountedTreeCalls:
		return events.ScopeTree, []events.Kind{events.AgentCall, events.ToolCall, events.LLMCall}
	}
	return whose, []events.Kind{events.AgentCall}
}

// amount writes a threshold; a dash stands for never.
func amount(v *float64) string {
	if v == nil {
		return "-"
	}
	// With as many digits as it needs and no exponent, as limits files have it.
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// ruleNames are the names of all rules, of flows and of agents, for completion and for the
// word that was meant.
func ruleNames() (out []string) {
	for _, r := range analyzer.Rows() {
		out = append(out, r.Name)
	}
	return out
}

// rulesCommand is weir rules: the tables of rules as they are by some limits. It asks no weir;
// what a running one goes by is said by its limits.
func rulesCommand() cli.Command {
	return cli.Command{Name: "rules", Short: "list and describe rules", Commands: []cli.Command{
		{
			Name: "ls", Short: "list the rules with their limits",
			Long: `WARN and STOP are the observed values at which a rule warns and stops; a dash means
never. PER is what a rule counts over: a flow, or all flows of an agent or a project.
The limits are those of the profile balanced unless flags select others.`,
			Examples: []string{"weir rules ls", "weir rules ls --profile gateway"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				limitFlags := operate.NewLimitFlags(fs)
				return func(_ context.Context, env *cli.Env, _ []string) error {
					l, err := limitFlags.Limits()
					if err != nil {
						return err
					}
					return listRules(env, &l)
				}
			},
		},
		{
			Name: "show", Args: "RULE", Wants: cli.Wants(1, 1, "the name of a RULE"), Short: "describe one rule", Words: ruleNames,
			Examples: []string{"weir rules show stale_delegation"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				limitFlags := operate.NewLimitFlags(fs)
				return func(_ context.Context, env *cli.Env, args []string) error {
					l, err := limitFlags.Limits()
					if err != nil {
						return err
					}
					// A reason code is taken, too, since it is what stands in verdicts, and
					// may belong to several rows (see decision 10).
					rules := rulesNamed(args[0])
					if len(rules) == 0 {
						f := cli.Usage("there is no rule %q", args[0])
						if near := spelling.Nearest(args[0], ruleNames()); near != "" {
							return f.Advise("did you mean: weir rules show %s", near)
						}
						// Only when nothing is near, because a list of names is the worse hint.
						if like := rulesLike(args[0]); len(like) > 0 {
							return f.Advise("did you mean one of: %s", strings.Join(like, ", "))
						}
						return f.Advise("weir rules ls lists them")
					}
					return showRules(env, rules, &l)
				}
			},
		},
	}}
}

// rulesLike are the rules in whose names the word is, however it is spelled: for who remembers
// a part of a name, which is too far from the whole one to be a misspelling.
func rulesLike(word string) (out []string) {
	plain := strings.NewReplacer("_", "", "-", "", " ", "")
	for _, name := range ruleNames() {
		if strings.Contains(plain.Replace(name), plain.Replace(strings.ToLower(word))) {
			out = append(out, name)
		}
	}
	return out
}

// rulesNamed returns the rule with the name, or all that give the reason code; none when it is
// neither.
func rulesNamed(name string) (out []analyzer.Row) {
	if r, ok := analyzer.RowNamed(name); ok {
		return append(out, r)
	}
	for _, r := range analyzer.Rows() {
		if string(r.Reason) == name {
			out = append(out, r)
		}
	}
	return out
}

// listRules prints a line for each rule. A rule that does not enforce has its mode where the
// others have what they do.
func listRules(env *cli.Env, l *analyzer.Limits) error {
	// What a rule is about comes last, since it is the one column without a bound.
	lines := cli.NewLines(env, func(v *ruleView) []cli.Cell {
		number := func(s string) cli.Cell { return cli.Cell{Text: s, Right: true} }
		// What it would do is of no use where it does nothing.
		action := string(v.Action)
		if v.Mode != rules.ModeEnforce.String() {
			action = v.Mode
		}
		return []cli.Cell{{Text: v.Name}, {Text: string(v.Reason)}, {Text: string(v.Over)}, number(amount(v.Warn)), number(amount(v.Stop)), {Text: string(v.Unit)}, {Text: action}, {Text: v.About}}
	}, "RULE", "REASON", "PER", "WARN", "STOP", "UNIT", "ACTION", "ABOUT").Secondary("REASON", "PER", "UNIT")
	for _, r := range analyzer.Rows() {
		v := viewOfRule(&r, l)
		if err := lines.Print(&v); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// showRules prints rules in full: one of them as one document, several as a list.
func showRules(env *cli.Env, rules []analyzer.Row, l *analyzer.Limits) error {
	// Several rows give one reason where it has several thresholds.
	views := make([]ruleView, len(rules))
	for i := range rules {
		views[i] = viewOfRule(&rules[i], l)
	}
	if len(views) == 1 {
		return env.Value(views[0], func() error { return showRule(env, false, &views[0]) })
	}
	return env.Value(views, func() error {
		for i := range views {
			if err := showRule(env, i > 0, &views[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// showRule prints one rule; apart puts an empty line before it.
func showRule(env *cli.Env, apart bool, v *ruleView) error {
	if apart {
		fmt.Fprintln(env.Out)
	}
	// Without a head: the first column says what the second is.
	t := env.Table()
	never := func(f *float64) string {
		if f == nil {
			return "never"
		}
		// A rule about silence is judged when its time is over and not at a value that an
		// event reaches.
		if v.silence {
			return "above " + amount(f) + " " + string(v.Unit)
		}
		return "from " + amount(f) + " " + string(v.Unit)
	}
	// The scope that a stop begins with; attempts widen it (decision 8).
	order := fmt.Sprintf("%s, for the %s", v.Action, v.Scope)
	if v.held.calls {
		order = fmt.Sprintf("%s, for the refused calls alone", events.Hold)
	}
	if v.Status != 0 {
		order += fmt.Sprintf(", HTTP %d", v.Status)
	}
	if v.held.kinds != "" {
		order += ", of kinds " + v.held.kinds
	}
	rows := [][2]string{
		{"rule", v.Name}, {"reason code", string(v.Reason)}, {"measures", v.About}, {"per", string(v.Over)},
		{"after", strings.Join(v.On, ", ")},
		{"warns", never(v.Warn)}, {"stops", never(v.Stop)},
		{"order", order},
	}
	if v.held.waits != "" {
		rows = append(rows, [2]string{"waits", v.held.waits})
	}
	rows = append(rows, [2]string{"mode", v.Mode}, [2]string{"comes from", v.From})
	// Only some rules look back over a window.
	if v.Per != "" {
		rows = append(rows, [2]string{"window", fmt.Sprintf("%d %s", v.Window, v.Per)})
	}
	if v.Max != nil {
		rows = append(rows, [2]string{"limit", fmt.Sprintf("max: %s in the limits file; messages and weir explain name this value, which is still allowed", amount(v.Max))})
	}
	if v.Armed {
		rows = append(rows, [2]string{"armed", "the order goes out when the limit is used up: the next call is the first to be refused"})
	}
	if len(v.On) == 0 {
		// The line "after", which has no events to name.
		rows[4][1] = "no event: its time comes by itself"
	}
	for _, r := range rows {
		if err := t.Row(cli.Text(r[0], r[1])...); err != nil {
			return err
		}
	}
	return t.Flush()
}
