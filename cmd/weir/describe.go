package main

import (
	"strings"

	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
	"weir/events/adapter"
	"weir/events/adapter/mapped"
	"weir/events/adapter/registry"
)

// sourceView is what is known of a source.
type sourceView struct {
	Name    string     `json:"name"`
	Format  string     `json:"format"`
	Title   string     `json:"title"`
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

func viewOfSource(s *adapter.Source) sourceView {
	f, _ := registry.Lookup(s.Format) // the table of sources is tested
	g := &s.Gives
	return sourceView{s.Name, s.Format, s.Title, f.Framing.String(), g.Tools.String(), g.Args.String(), g.Results.String(), g.Caller.String(), g.Turn.String(),
		g.Tokens.String(), g.Time.String(), g.Starts.String(), g.Work.String(), g.Tasks.String(), s.Set, s.Run, s.Flow, s.Sees, s.Blind, silencedBy(g)}
}

func sourceNames() (out []string) {
	for _, s := range registry.Sources() {
		out = append(out, s.Name)
	}
	return out
}

func describeSources(env *cli.Env, args []string) error {
	if err := cli.Want(args, 0, 1, "the name of one SOURCE"); err != nil {
		return err
	}
	if len(args) == 1 {
		s, err := registry.Source(args[0])
		if err != nil {
			fault := cli.Usage("%w", err)
			if near := spelling.Nearest(args[0], append(sourceNames(), formatNames()...)); near != "" {
				return fault.Advise("did you mean: weir events describe %s", near)
			}
			return fault.Advise("weir events describe lists all sources")
		}
		return describeSource(env, viewOfSource(&s))
	}
	lines := cli.NewLines(env, func(v *sourceView) []cli.Cell {
		return []cli.Cell{{Text: v.Name}, {Text: formatOf(v)}, level(v.Tools), level(v.Args), level(v.Results), level(v.Caller), level(v.Turn), level(v.Tokens),
			level(v.Time), level(v.Starts), level(v.Work), {Text: v.Title}}
	}, "SOURCE", "FORMAT", "TOOLS", "ARGS", "RESULTS", "CALLER", "TURNS", "TOKENS", "TIMES", "STARTS", "WORK", "WHAT IT IS")
	all := registry.Sources()
	for i := range all {
		v := viewOfSource(&all[i])
		if err := lines.Print(&v); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// formatOf is the name of the format, without the fields of a mapping.
func formatOf(v *sourceView) string {
	if strings.HasPrefix(v.Format, mapped.Prefix) {
		return mapped.Prefix + "..."
	}
	return v.Format
}

func level(s string) cli.Cell {
	return cli.Cell{Text: s, Paint: map[string]cli.Paint{"always": cli.Good, "never": cli.Faint}[s]}
}

// describeSource says in words what to do, and what the levels mean for the rules.
func describeSource(env *cli.Env, v sourceView) error {
	return env.Value(v, func() error {
		t := env.Table()
		for _, row := range [][3]string{
			{"source", v.Name, v.Title},
			{"format", v.Format, map[string]string{"lines": "one JSON value per line", "documents": "a JSON value may span many lines"}[v.Framing]},
			{"set", "", v.Set},
			{"run", "", v.Run},
			{"flow", "", v.Flow},
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
	for _, state := range []string{ruleOff, ruleUnfit, ruleDepends} {
		first := len(out)
	next:
		for _, r := range rules {
			if r.State != state {
				continue
			}
			for i := range out[first:] {
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
