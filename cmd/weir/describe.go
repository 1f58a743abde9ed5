package main

import (
	"fmt"
	"strings"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/rules"
	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/operate"
	"weir/events/adapter"
	"weir/events/adapter/mapped"
	"weir/events/adapter/registry"
)

// sourceView is what is known of a source.
//
// The words from Tools to Tasks are levels: a log of this source reports it always, sometimes
// or never. Set, Run, Flow, Sees and Blind are sentences for people, and are not in the
// table of sources.
type sourceView struct {
	Name    string     `json:"name"`
	Format  string     `json:"format"`
	Title   string     `json:"title"`
	Known   []string   `json:"known_as,omitempty"` // what else its users may call it
	Framing string     `json:"framing"`
	Tools   string     `json:"tools"`
	Args    string     `json:"args"`
	Results string     `json:"results"`
	Caller  string     `json:"caller"`
	Turn    string     `json:"turn"`
	Tokens  string     `json:"tokens"`
	Time    string     `json:"time"`
	Starts  string     `json:"starts"`
	Work    string     `json:"work"`
	Tasks   string     `json:"tasks"`
	Set     string     `json:"set"`
	Run     string     `json:"run"`
	Flow    string     `json:"flow"`
	Sees    string     `json:"sees"`
	Blind   string     `json:"blind"`
	Rules   []silenced `json:"rules,omitempty"` // that are not on
}

// viewOfSource takes a source out of the registry, with the rules that what it gives leaves
// without a word. The order of the fields is that of sourceView.
func viewOfSource(s *adapter.Source) sourceView {
	f, _ := registry.Lookup(s.Format) // the table of sources is tested
	g := &s.Gives
	// Without names, so that a field that is added has to be filled in here.
	return sourceView{s.Name, s.Format, s.Title, s.Known, f.Framing.String(), g.Tools.String(), g.Args.String(), g.Results.String(), g.Caller.String(), g.Turn.String(),
		g.Tokens.String(), g.Time.String(), g.Starts.String(), g.Work.String(), g.Tasks.String(), s.Set, s.Run, s.Flow, s.Sees, s.Blind, silencedBy(g)}
}

// sourceNames are all words by which a source can be asked for, what its users call it
// included, for completion and for the word that was meant.
func sourceNames() (out []string) {
	out = append(out, passedName)
	for _, s := range registry.Sources() {
		out = append(append(out, s.Name), s.Known...)
	}
	return out
}

// describeSources prints one source in full or all of them as a table. The argument may also
// be the name of a format or a mapping (map:...), which registry.Source treats as a source of
// its own. So the author of a mapping sees which rules get no data from it.
func describeSources(env *cli.Env, args []string) error {
	if len(args) == 1 && args[0] == passedName {
		return describePassed(env)
	}
	if len(args) == 1 {
		s, err := registry.Source(args[0])
		if err != nil {
			// A name of a format is as good as that of a source, so both are looked through
			// for the word that was meant.
			fault := cli.Usage("%w", err)
			if near := spelling.Nearest(args[0], append(sourceNames(), operate.FormatNames()...)); near != "" {
				return fault.Advise("did you mean: weir events describe %s", near)
			}
			return fault.Advise("weir events describe lists all sources")
		}
		return describeSource(env, viewOfSource(&s))
	}
	// Only levels fit into a table; the sentences are for one source at a time, and in JSON.
	lines := cli.NewLines(env, func(v *sourceView) []cli.Cell {
		return []cli.Cell{{Text: v.Name}, {Text: formatOf(v)}, level(v.Tools), level(v.Args), level(v.Results), level(v.Caller), level(v.Turn), level(v.Tokens),
			level(v.Time), level(v.Starts), level(v.Work), {Text: v.Title}}
	}, "SOURCE", "FORMAT", "TOOLS", "ARGS", "RESULTS", "CALLER", "TURNS", "TOKENS", "TIMES", "STARTS", "WORK", "WHAT IT IS").Secondary("STARTS", "TIMES", "WORK", "TURNS", "TOKENS", "FORMAT")
	all := registry.Sources()
	for i := range all {
		v := viewOfSource(&all[i])
		if err := lines.Print(&v); err != nil {
			return err
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	env.Notice("%s", sourcesAndFormats())
	return nil
}

// sourcesAndFormats says how the number of sources and that of formats belong together.
func sourcesAndFormats() string {
	formats := map[string]bool{}
	all := registry.Sources()
	for i := range all {
		formats[all[i].Format] = true
	}
	return fmt.Sprintf("%d kinds of sources write %d formats: several write the same one, such as OpenTelemetry spans (otlp).", len(all), len(formats))
}

// passedName asks what a caller of a guard or of the API passes, instead of what a log has.
const passedName = "guard"

// describePassed prints which rules can judge by what a caller passes.
func describePassed(env *cli.Env) error {
	lines := cli.NewLines(env, func(p *coverage.Passed) []cli.Cell {
		return cli.Text(p.Guard, p.Event, strings.Join(p.Rules, ", "))
	}, "PASS ALSO", "FIELD OF THE EVENT", "RULES THAT CAN THEN JUDGE")
	fields := coverage.Fields()
	return lines.All(fields)
}

// formatOf is the name of the format, without the fields of a mapping.
func formatOf(v *sourceView) string {
	if strings.HasPrefix(v.Format, mapped.Prefix) {
		return mapped.Prefix + "..."
	}
	return v.Format
}

// fieldsOf lists what a mapping can fill; "" for what is no mapping.
func fieldsOf(v *sourceView) string {
	if !strings.HasPrefix(v.Format, mapped.Prefix) {
		return ""
	}
	return strings.Join(mapped.Fields(), ", ")
}

// level is how often a log reports something. Only the two ends have colours: in between it
// depends.
func level(s string) cli.Cell {
	return cli.Cell{Text: s, Paint: map[string]cli.Paint{"always": cli.Good, "never": cli.Faint}[s]}
}

// describeSource says in words what to do, and what the levels mean for the rules.
func describeSource(env *cli.Env, v sourceView) error {
	return env.Value(v, func() error {
		// A table without a head: what it is, the level, and what that means.
		t := env.Table()
		// The rows say in words what the level means for rules. One with neither level nor
		// text is left out.
		for _, row := range [][3]string{
			{"source", v.Name, v.Title},
			{"also", "", strings.Join(v.Known, ", ")},
			{"format", formatOf(&v), map[string]string{"lines": "one JSON value per line", "documents": "a JSON value may span many lines"}[v.Framing]},
			{"set", "", v.Set},
			{"run", "", v.Run},
			{"flow", "", v.Flow},
			{"fields", "", fieldsOf(&v)},
			{"sees", "", v.Sees},
			{"does not see", "", v.Blind},
			{"tools", v.Tools, "calls of tools"},
			{"args", v.Args, "their arguments: rules about repetition compare them"},
			{"results", v.Results, "results and answers: without them repetition only warns late, by the calls alone"},
			{"caller", v.Caller, "who called an agent: depth, pairs, delegations"},
			{"turns", v.Turn, "goal turns: max_turns, max_chain_depth"},
			{"tokens", v.Tokens, "tokens spent: budgets, and what a stop saves"},
			{"times", v.Time, "when things happened: rates and durations; never means that times are made up"},
			{"starts", v.Starts, "calls are told when they begin: a live guard can come before the next one"},
			{"work", v.Work, "whether a hop came without work: ping-pong and empty talk"},
			{"tasks", v.Tasks, "tasks, and how often one was begun again"},
		} {
			if row[1]+row[2] == "" {
				continue
			}
			if err := t.Row(cli.Text(row[:]...)...); err != nil {
				return err
			}
		}
		for _, r := range grouped(v.Rules) {
			if err := t.Row(cli.Text("rules "+r.State, "", r.Why+": "+r.Rule)...); err != nil {
				return err
			}
		}
		return t.Flush()
	})
}

// grouped joins rules that are in one state for one reason, those that are off first.
func grouped(rules []silenced) (out []silenced) {
	// The worst first. Within a state the rules keep the order of their table.
	for _, state := range []string{ruleOff, ruleUnfit, ruleWarns, ruleDepends} {
		first := len(out)
	next:
		for _, r := range rules {
			if r.State != state {
				continue
			}
			for i := range out[first:] {
				// Each reason stands once, with all the rules that it is about.
				if g := &out[first+i]; g.Why == r.Why {
					g.Rule += ", " + r.Rule
					continue next
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// needs says how well a log that gives so much meets each need, and what it is that may be
// missing. Without what it needs a rule is silent; only times are made up where a log has
// none.
func needs(g *adapter.Gives) []need {
	return []need{
		{rules.NeedTools, g.Tools, "calls of tools"},
		{rules.NeedArgs, g.Args, "arguments of tools"},
		{rules.NeedResults, g.Results, "results"},
		{rules.NeedCaller, g.Caller, "who called an agent"},
		{rules.NeedWork, g.Work, "whether a hop came without work"},
		{rules.NeedTurn, g.Turn, "goal turns"},
		{rules.NeedTokens, g.Tokens, "tokens and money"},
		{rules.NeedTime, g.Time, madeUp},
		{rules.NeedTasks, g.Tasks, "tasks"},
	}
}

// need is one thing that rules may need, and how well a log gives it.
type need struct {
	of    rules.Need
	level adapter.Level
	what  string // that is missing, or reported at times only
}

// madeUp is what is made up where a log does not report it.
const madeUp = "times"

// silenced is a rule that a source keeps from saying anything, at times or always.
type silenced struct {
	Rule  string `json:"rule"`
	State string `json:"state"` // off, unfit, warn or depends
	Why   string `json:"why"`
}

// The states of a rule for a source.
const (
	ruleOff     = "off"     // it cannot say anything
	ruleUnfit   = "unfit"   // what it says stands on times that are made up
	ruleWarns   = "warn"    // it warns of more of the same, and stops nothing
	ruleDepends = "depends" // on what the log happens to report
)

// silencedBy lists the rules that are off for a source, and those that depend on what
// its logs happen to report, in the order of the table of rules.
func silencedBy(g *adapter.Gives) (out []silenced) {
	// Only rules about flows: rules about agents need what agents report, not what sources
	// report.
	for i := range analyzer.Rules {
		state, why := "", ""
		// A rule may need several things; the worst of them decides.
		for _, n := range needs(g) {
			// Needs is a set of bits, one for each need.
			if analyzer.Rules[i].Needs&n.of == 0 {
				continue
			}
			// One need that is never met is enough to silence a rule, so off is final, and
			// worse states replace lighter ones. Made-up times silence no rule: it speaks, and
			// should not be believed.
			switch level := n.level; {
			case state == ruleOff:
			case level == adapter.Never && n.what == madeUp:
				state, why = ruleUnfit, "made up, 2 s from record to record: "+madeUp
			case level == adapter.Never && analyzer.Rules[i].OnlyWarns&n.of != 0:
				state, why = ruleWarns, "never reported: "+n.what
			case level == adapter.Never:
				state, why = ruleOff, "never reported: "+n.what
			case level == adapter.Sometimes && state == "":
				state, why = ruleDepends, "at times only: "+n.what
			}
		}
		if state != "" {
			out = append(out, silenced{analyzer.Rules[i].Name, state, why})
		}
	}
	return out
}
