package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer/agents"
	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/pump"
	"weir/events"
)

// agentsCommand is weir agents: what the second stage of the fold keeps of agents, projects
// and trees of flows, over all flows (see decisions 27 and 41), and requests to help one that
// is stuck. Reading works on a running weir, a state folder and logs alike; see target.
func agentsCommand() cli.Command {
	return cli.Command{Name: "agents", Short: "list and show agents; help stuck ones", Commands: []cli.Command{
		{
			Name: "ls", Short: "list agents, stuck ones first",
			Long: `Lists agents of a running weir, of a state folder (--state) or of logs (--log), over all
their flows. An agent is stuck if it has reported its status (agent.status) and is
silent for longer than its limits allow. An agent that is known to wait is not stuck.`,
			Examples: []string{"weir agents ls", "weir agents ls --stuck -o json | jq -r .agent", "weir agents ls --projects"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				target := newTarget(fs, true)
				q := pump.AgentQuery{}
				// The process that has the agents evaluates the query, so that a long list is not sent
				// to be thrown away here.
				fs.BoolVar(&q.Stuck, "stuck", false, "list only agents that are or may be stuck, or were archived")
				fs.IntVar(&q.Limit, "limit", 20, "list at most this many `AGENTS`")
				projects := fs.Bool("projects", false, "list projects instead, of which messages are counted")
				trees := fs.Bool("trees", false, "list trees of flows instead, each with its total")
				return func(ctx context.Context, env *cli.Env, _ []string) error {
					switch {
					// Projects and trees lie in the same index as agents, so all three are one
					// query of another kind. An empty kind means agents.
					case *projects:
						q.Kind = events.ScopeProject
					case *trees:
						q.Kind = events.ScopeTree
					}
					return listAgents(ctx, env, target, q)
				}
			},
		},
		showAgentCommand(),
		rescueCommand(),
	}}
}

// showAgentCommand is weir agents show.
func showAgentCommand() cli.Command {
	return cli.Command{
		Name: "show", Args: "AGENT", Wants: cli.Wants(1, 1, "the id of an AGENT"), Short: "print the state of one agent",
		Setup: func(fs *pflag.FlagSet) cli.Run {
			target := newTarget(fs, true)
			project := fs.Bool("project", false, "AGENT is the id of a project")
			tree := fs.Bool("tree", false, "AGENT is the correlation id of the root of a tree of flows")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				k, done, err := target.open(ctx, env)
				if err != nil {
					return err
				}
				defer done()
				// The same id may be an agent's, a project's and a flow's: only the kind
				// shows which is meant.
				kind := events.ScopeAgent
				switch {
				case *project:
					kind = events.ScopeProject
				case *tree:
					kind = events.ScopeTree
				}
				v, ok, err := k.Agent(ctx, kind, args[0])
				if err != nil {
					return err
				}
				// An agent that is not known is a failure and not an empty answer, so that
				// a misspelled name does not look like a healthy agent.
				if !ok {
					return cli.Failure("nothing is known of %s %s", kind, args[0]).Advise("weir agents ls lists those that are")
				}
				return env.Value(v, func() error { return showAgent(env, &v) })
			}
		},
	}
}

// rescueCommand is weir agents rescue. The request goes into the log as an event, and the fold
// answers it by what it knows of the agent: folding the log again gives the same answer. The
// command itself decides nothing. See decision 46.
func rescueCommand() cli.Command {
	return cli.Command{
		Name: "rescue", Args: "AGENT", Wants: cli.Wants(1, 1, "the id of an AGENT"), Short: "request help for an agent",
		Long: `Writes a request to the log of a running weir. If the agent is or may be stuck, weir
gives the orders that free it. It is resumed if that is safe, else reviewed by another
agent, else archived. Otherwise the request is refused. The log records author and
reason.

--admin skips the check that the agent is stuck. The running weir must have an admin
token, and requires it. The exit code is 3 if the request is refused.`,
		Examples: []string{
			`weir agents rescue planner-3 --reason "has not answered since noon"`,
			`weir agents rescue planner-3 --admin --reason "its host is gone" --token-file admin.token`,
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			// It has the flags of all orders: the server, the token, the author and the reason.
			h := newHand(fs)
			// It is part of the request and not of the token, so that it is never used by
			// accident.
			admin := fs.Bool("admin", false, "skip the check that it is stuck; needs the admin token")
			return func(ctx context.Context, env *cli.Env, args []string) error {
				// A person's request is signed by a name and a reason, as orders are, because
				// it may bring orders about.
				by, err := h.signed(env)
				if err != nil {
					return err
				}
				return h.rescue(ctx, env, args[0], api.RescueOrder{Reason: *h.reason, By: by, Admin: *admin})
			}
		},
	}
}

// statePaint is how the states of agents are painted; the others are plain.
var statePaint = [...]struct {
	state string
	paint cli.Paint
}{{"stuck", cli.Bad}, {"potentially_stuck", cli.Caution}, {"archived", cli.Caution}, {"active", cli.Good}, {"in_tool", cli.Good}, {"unwatched", cli.Faint}}

// stateCell is the state of an agent in its colour, with how long it has been waiting for what
// it waits for, where that is known. A state that the table above does not name is plain.
func stateCell(state, waiting string) cli.Cell {
	c := cli.Cell{Text: state}
	for _, s := range statePaint {
		if s.state == state {
			c.Paint = s.paint
		}
	}
	if waiting != "" {
		c.Text += " for " + waiting
	}
	return c
}

// lasting is a number of seconds for people: whole seconds, and for long times no
// fractions of a minute.
func lasting(seconds float64) string {
	// Seconds come as a fraction from the server; a duration writes them as people do.
	d := time.Duration(seconds * float64(time.Second))
	// The seconds of hours are of no use to anybody.
	if d >= time.Hour {
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return d.Truncate(time.Second).String()
}

// orDash writes a dash for an empty value, so that a row has a word in each column
// and can be cut by programs that split at blanks.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// listAgents prints the agents that the query finds, in the order in which the target gives
// them. The remarks below the list go to standard error, where they do not disturb programs
// that read the list.
func listAgents(ctx context.Context, env *cli.Env, target *target, q pump.AgentQuery) error {
	k, done, err := target.open(ctx, env)
	if err != nil {
		return err
	}
	defer done()
	// At most q.Limit of them; those that most need a person come first.
	list, err := k.Agents(ctx, q)
	if err != nil {
		return err
	}
	lines := cli.NewLines(env, func(a *pump.AgentSummary) []cli.Cell {
		// No time of a last event is no silence since the beginning of time.
		last, silent := "-", "-"
		if a.Last != 0 {
			last, silent = a.Last.String(), lasting(a.AgeS)
		}
		return []cli.Cell{{Text: a.Agent}, stateCell(a.State, a.Waiting), {Text: orDash(string(a.Reason))}, {Text: silent, Right: true},
			{Text: last}, {Text: orDash(string(a.Step))}, {Text: cli.Grouped(int64(a.Flows)), Right: true}}
	}, "AGENT", "STATE", "REASON", "SILENT", "LAST EVENT", "STEP", "FLOWS").Secondary("STEP", "LAST EVENT", "FLOWS")
	if err := lines.All(list.Agents); err != nil {
		return err
	}
	switch {
	case len(list.Agents) == 0 && q.Stuck:
		env.Notice("no agent is stuck")
	case len(list.Agents) == 0 && q.Kind == events.ScopeTree:
		env.Notice("there are no trees yet")
	case len(list.Agents) == 0 && q.Kind != "":
		env.Notice("there are no projects yet")
	case len(list.Agents) == 0:
		env.Notice("there are no agents yet")
	// A list that is just as long as the limit may have been cut there.
	case len(list.Agents) == q.Limit && list.Scanned > q.Limit:
		env.Notice("%s listed, there may be more; --limit shows more", cli.Count(int64(q.Limit), "agent"))
	}
	// The search looks at a limited number of agents, those that were at work last. An agent that
	// is not in the list may still be known then.
	if list.Truncated {
		env.Notice("only the %s agents used last were looked at", cli.Grouped(int64(list.Scanned)))
	}
	return nil
}

// showAgent says how an agent stands, and prints what is counted, what stands against it
// and what was noted.
func showAgent(env *cli.Env, v *agents.View) error {
	var b strings.Builder
	state := stateCell(v.State, v.Waiting)
	// One sentence first, which answers the question.
	cli.Fprintf(&b, "%s is %s", v.Agent, env.Painted(state.Text, state.Paint))
	if v.Reason != "" {
		cli.Fprintf(&b, " (%s)", v.Reason)
	}
	if v.Since != 0 {
		cli.Fprintf(&b, " since %s", v.Since)
	}
	b.WriteString(".\n")
	// Everything goes into one text first: a value that is not known has no line at all, and
	// an error of writing is looked at in one place.
	row := func(name, format string, args ...any) {
		cli.Fprintf(&b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("events", "%s, %s of its own; at work in %s lately", cli.Count(v.Events, "event"), cli.Count(v.Reports, "report"), cli.Count(int64(v.Flows), "flow"))
	if v.Last != 0 {
		row("last", "%s", v.Last)
	}
	if v.SilentS > 0 {
		row("silent", "for %s", lasting(v.SilentS))
	}
	if reported := reportOf(v); reported != "" {
		row("tells", "%s", reported)
	}
	if v.MeanGapS > 0 {
		row("reports", "every %s in the mean", lasting(v.MeanGapS))
	}
	// The step of the ladder on which it is, who takes it, and when it is over.
	if v.Step != "" {
		step := string(v.Step)
		if v.Reviewer != "" {
			step += " by " + v.Reviewer
		}
		if v.StepDue != 0 {
			step += " until " + v.StepDue.String()
		}
		row("step", "%s", step)
	}
	// A request for help began this, not silence alone.
	if v.RequestedBy != "" {
		row("asked by", "%s", v.RequestedBy)
	}
	// Silence is judged when its time is over and not before; this is when.
	if v.Due != 0 {
		// In the time of the log, as everything here.
		row("looked at", "again at %s", v.Due)
	}
	for i := range v.Orders {
		b.WriteByte('\n')
		// In the same form as weir explain prints orders about flows.
		writeOrder(env, &b, &v.Orders[i])
	}
	if len(v.Notes) > 0 {
		b.WriteString("\nNotes:\n")
	}
	for i := range v.Notes {
		n := &v.Notes[i]
		cli.Fprintf(&b, "  %s %s [%s] %s\n", n.Time, n.Author, strings.Join(n.Tags, " "), n.Summary)
	}
	if _, err := io.WriteString(env.Out, b.String()); err != nil {
		return err
	}
	return counters(env, v.Counters, "\n")
}

// reportOf is what the agent reports about itself.
func reportOf(v *agents.View) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	// An agent may report 0, which is the worst of figures, so a missing report is nil and not 0.
	number := func(f *float64) string {
		if f == nil {
			return ""
		}
		return fmt.Sprintf("%.2f", *f)
	}
	add("status", v.Status)
	// In the words of the agent: some of them decide which rule about silence speaks.
	add("margin", v.Margin)
	add("health", v.Health)
	add("coherence", number(v.Coherence))
	add("risk", number(v.Risk))
	if v.VoidActive {
		parts = append(parts, "void active")
	}
	return strings.Join(parts, ", ")
}

// rescue sends the request. Whether it needs the admin token depends on the request: any sender
// of events may ask for help. Only the admin token helps an agent that weir does not consider
// stuck.
func (h *hand) rescue(ctx context.Context, env *cli.Env, agent string, o api.RescueOrder) error {
	var a api.AgentAnswer
	if err := h.inform(ctx, env, "/v1/agents/"+url.PathEscape(agent)+"/rescue", o.Admin, o, &a); err != nil {
		return err
	}
	// The verdicts are kept as they came for JSON and YAML, and read for people.
	said := decoded(a.Verdicts)
	if err := env.Value(a, func() error { return sayRescue(env, &a, said) }); err != nil {
		return err
	}
	// After it was printed: a refusal is an answer, and its code is that of a finding.
	return refusedHelp(said)
}

// refusedHelp is the exit code of a request for help that was refused.
func refusedHelp(said []events.Verdict) error {
	if slices.ContainsFunc(said, func(v events.Verdict) bool { return v.Reason == events.RescueRefusedNotStuck }) {
		return cli.Exit(cli.CodeFinding)
	}
	return nil
}

// sayRescue prints the result of asking for help.
func sayRescue(env *cli.Env, a *api.AgentAnswer, said []events.Verdict) error {
	// The request is in the log; the stream of verdicts will report its result.
	if len(said) == 0 {
		if _, err := cli.Fprintf(env.Out, "%s: help is asked for, and weir has not answered yet\n", a.Agent); err != nil {
			return err
		}
	}
	// One agent may get several verdicts at once, such as that it is reviewed, with the name of the
	// reviewer.
	for i := range said {
		v := &said[i]
		// The agent, the action, and the reviewer.
		line := a.Agent + ": " + actionCell(v).Text
		if r := v.Recovery; r != nil && r.Reviewer != "" {
			line += " by " + r.Reviewer
		}
		if _, err := cli.Fprintf(env.Out, "%s  %s\n", line, v.Message); err != nil {
			return err
		}
	}
	// Nothing stops a request for an agent that is yet to be heard of; most likely the name is
	// misspelled.
	if a.New {
		env.Notice("this weir has not heard of %s before", a.Agent)
	}
	env.Notice("event %s by %s", a.ID, a.By)
	return nil
}
