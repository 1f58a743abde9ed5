// Package demo is `weir demo`: recorded runs of agents played against limits.
package demo

import (
	"context"
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/scenario"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/guard"
)

// Files are scenarios, and recordings as the frameworks wrote them.
//
//go:embed recordings/scenarios.flow recordings/*.txt recordings/*.gz
var Files embed.FS

// Recordings are the recorded runs of the demonstration.
//
// Those that are not honest are runaways as their framework let them go on. They are events
// of other people's programs, so what weir can judge depends on what their logs report.
// They are the same files as the adapters are tested by, which a test holds.
var Recordings = [...]struct {
	File, title string
	honest      bool
}{
	{"agent_framework_handoff_pingpong", "Agent Framework: two agents hand over to each other", false},
	{"agent_framework_tool_loop", "Agent Framework: the same lookup again and again", false},
	{"openai_agents_tool_loop", "OpenAI Agents: the same lookup again and again", false},
	{"vercel_ai_sdk_tool_loop", "Vercel AI SDK: the same lookup again and again", false},
	{"pydantic_ai_delegation_pingpong", "Pydantic AI: two agents ask each other", false},
	{"agent_framework_honest", "Agent Framework: two lookups and a refund", true},
	{"langgraph_honest", "LangGraph: the weather of two cities", true},
	{"google_adk_honest", "Google ADK: two turns, a transfer, a refund", true},
}

// Command is weir demo.
//
// It needs no file, no network and no setting, so it is the first command to
// try.
func Command() cli.Command {
	return cli.Command{
		Name: "demo", Short: "show runaways being stopped and honest work pass",
		Long: `Plays agent runs through a dispatcher that asks weir before each call. The runs are
scenarios of existing guards and recordings of real agent frameworks. It prints which
runs were stopped, at which call and why, and what that saved. A refused run ends there.
The saving is what the recorded run spent afterwards.

Then it starts a weir in memory, feeds it slowly, and prints what to look at, until it
is terminated. --once skips that. --live shows instead two agents that talk through a
dispatcher of ten lines, and what the model reads when weir stops them.`,
		Setup: func(fs *pflag.FlagSet) cli.Run {
			// Tests and scripts use it: without it the command ends by a signal alone.
			once := fs.Bool("once", false, "end after the runs, without starting a server")
			agents := fs.Bool("live", false, "let two real agents talk through a dispatcher until weir stops them")
			live := newLiveFlags(fs)
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				if *agents {
					return playPair(ctx, env, *live.pace)
				}
				runs, err := Runs()
				if err != nil {
					return err
				}
				// The runs are read once and played twice: against a fold in this process, and
				// against a weir.
				if err := playDemo(ctx, env, runs, *once); err != nil || *once {
					return err
				}
				return live.serve(ctx, env, runs)
			}
		},
	}
}

// Run is one run to play.
// It is read once and never changed; a player copies the events that it changes.
type Run struct {
	title  string
	name   string // of its flow in the live part
	honest bool
	// A scenario may have limits of its own; recordings are judged by the default ones.
	limits analyzer.Limits
	events []events.Event // they own their strings
}

// Runs reads what is embedded, the runaways first.
//
// They are in the order in which they are shown: scenarios, then recordings, all runaways
// before all honest ones. They are embedded, so an error is a fault of the build.
func Runs() (runs []Run, err error) {
	text, err := Files.ReadFile("recordings/scenarios.flow")
	if err != nil {
		return nil, err
	}
	// The word before the title is the only sign that a scenario is of honest work.
	cases, err := scenario.Parse("scenarios.flow", text)
	if err != nil {
		return nil, err
	}
	var honest []Run
	// The honest ones are shown last.
	add := func(r Run) {
		if r.honest {
			honest = append(honest, r)
		} else {
			runs = append(runs, r)
		}
	}
	for i := range cases {
		c := &cases[i]
		title, isHonest := strings.CutPrefix(c.Title(), "honest: ")
		// What a scenario says goes over the default.
		limits := c.Limits(limitfile.Default())
		add(Run{title, nameOf(title), isHonest, limits, c.Events()})
	}
	for _, rec := range Recordings {
		evs, err := recorded(rec.File)
		if err != nil {
			return nil, fmt.Errorf("recording %s: %w", rec.File, err)
		}
		add(Run{rec.title, nameOf(rec.File), rec.honest, limitfile.Default(), evs})
	}
	return append(runs, honest...), nil
}

// nameOf makes a word of a title.
//
// It becomes a part of ids of flows, which people type: small letters, digits and dashes.
func nameOf(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }), "-")
}

// recorded reads an embedded recording as replay would.
//
// The events are decoded into memory of their own, because those of the reader are good for
// one call only and a run is played many times.
func recorded(name string) (out []events.Event, err error) {
	f, err := Files.Open("recordings/" + name + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// A recording goes through the adapters that logs of users go through.
	in, err := logs.From(name, f)
	if err != nil {
		return nil, err
	}
	if err := in.Recognize(""); err != nil {
		return nil, err
	}
	rd := &logs.Reader{
		Inputs: []*logs.Input{in},
		// A recording that cannot be read whole is a fault of the build, so the run is not
		// shown with less.
		Bad: func(b logs.BadRecord) { err = fmt.Errorf("line %d: %s", b.Line, b.Reason) },
		Event: func(ev *events.Event) error {
			var own events.Event
			fault := events.Decode(ev.AppendJSON(nil), &own)
			out = append(out, own)
			return fault
		},
	}
	// Reading goes on behind a record that is bad; err has the last of these.
	if fault := rd.Read(); fault != nil {
		return nil, fault
	}
	return out, err
}

// Result is the outcome of a run.
//
// Saved is what the recorded run went on to spend after the first refused call, that call
// included; tokens are counted only where the log reports each use by itself.
// It is also what programs read (-o json). StoppedAt 0 means that nothing was refused.
type Result struct {
	Run         string        `json:"run"`
	Honest      bool          `json:"honest"`
	Profile     string        `json:"profile"`
	Calls       int64         `json:"calls"`                // of agents and tools, in the run as it was
	StoppedAt   int64         `json:"stopped_at,omitempty"` // the first call that was refused
	Rule        string        `json:"rule,omitempty"`
	Action      events.Action `json:"action,omitempty"`
	Observed    float64       `json:"observed,omitempty"`
	Limit       float64       `json:"limit,omitempty"`
	Why         string        `json:"why,omitempty"`
	SavedCalls  int64         `json:"saved_calls,omitempty"`
	SavedTokens int64         `json:"saved_tokens,omitempty"`
}

// play sends a run through a dispatcher. The first refused call ends its flow.
//
// Orders take effect as they do for a dispatcher that reads the verdict stream: a verdict
// counts from the next event on. A run of several flows goes on in those that were not
// refused.
func (r *Run) play(ctx context.Context) (Result, error) {
	res := Result{Run: r.title, Honest: r.honest, Profile: r.limits.Profile}
	// Each run has a fold of its own, because runs have limits of their own and must not count
	// for each other.
	fold, err := pump.NewReplay(ctx, pump.Options{Limits: r.limits})
	if err != nil {
		return res, err
	}
	// The table of orders is the one that guards use, so what is shown is what a dispatcher
	// does.
	standing, ended := new(guard.Table), map[string]bool{}
	for i := range r.events {
		ev := r.events[i]
		ev.Ask = false // this dispatcher asks nothing, it knows the orders
		counts := ev.Refusable()
		if counts {
			res.Calls++
		}
		if flow := ev.FlowKey(); !ended[flow] {
			v := refusing(standing, &ev)
			if v == nil {
				for _, given := range fold.Fold(&ev, int64(i)) {
					standing.Take(&given)
				}
				continue
			}
			// Later events of an ended flow are never folded: a dispatcher would not have sent
			// them.
			ended[flow] = true
			if res.StoppedAt == 0 {
				res.StoppedAt, res.Rule, res.Action, res.Why = res.Calls, v.RuleID, v.Action, v.Message
				if v.Observed != nil && v.Limit != nil {
					res.Observed, res.Limit = *v.Observed, *v.Limit
				}
			}
		}
		if counts {
			res.SavedCalls++
		}
		res.SavedTokens += tokens(&ev.Usage)
	}
	return res, nil
}

// refusing returns the order that refuses the event, if it is a call.
func refusing(standing *guard.Table, ev *events.Event) *events.Verdict {
	call, ok := guard.CallOf(ev)
	if !ok {
		return nil
	}
	return standing.Refusing(&call, ev.Time)
}

// tokens is what one event spent. Figures that grow through a run would be counted again with
// each event, so they count nothing here.
func tokens(u *events.Usage) int64 {
	switch {
	case !u.Known || u.Scope != events.UsageDelta:
		return 0
	case u.Total > 0:
		return u.Total
	}
	return u.Input + u.Output
}

// playDemo plays all runs and prints what became of them.
//
// last is true when nothing follows, so that this is where to say what to do next.
func playDemo(ctx context.Context, env *cli.Env, runs []Run, last bool) error {
	// Playing costs next to nothing, so there is no pace here.
	results := make([]Result, len(runs))
	for i := range runs {
		var err error
		if results[i], err = runs[i].play(ctx); err != nil {
			return err
		}
	}
	return env.Value(results, func() error {
		p := &demoPrinter{env: env}
		if !last {
			p.line("First recorded runs, then a live weir until Ctrl-C. weir demo --once ends after the runs.\n")
		}
		p.results(results)
		if last {
			p.client()
			p.line("What next: weir replay FILE judges a log of your own agents, weir demo shows a live weir, too.")
		}
		_, err := io.WriteString(env.Out, p.text.String())
		return err
	})
}

// demoPrinter writes the results for people. It gathers all text first, since the width of the
// first column is known only when all runs are.
type demoPrinter struct {
	env   *cli.Env
	width int // of the longest title
	text  strings.Builder
}

func (p *demoPrinter) line(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

// results writes a line for each run and the sums below them. What was saved is that of
// runaways alone: nothing should be saved in honest work.
func (p *demoPrinter) results(results []Result) {
	// all sums the runaways.
	var all Result
	var runaways, stopped, honest, untouched int
	for i := range results {
		p.width = max(p.width, len(results[i].Run))
	}
	p.line("Runs of agents, through a dispatcher that honors weir's orders: the first refused call ends a run.\n")
	for i := range results {
		r := &results[i]
		p.result(r)
		if r.Honest {
			honest++
			if r.StoppedAt == 0 {
				untouched++
			}
			continue
		}
		runaways++
		if r.StoppedAt > 0 {
			stopped++
		}
		all.Calls += r.Calls
		all.SavedCalls += r.SavedCalls
		all.SavedTokens += r.SavedTokens
		// An empty line between the runaways and the others.
		if i+1 < len(results) && results[i+1].Honest {
			p.line("")
		}
	}
	p.line("\nrunaways: %d of %d stopped; %s of %s calls and %s tokens were never spent", stopped, runaways,
		cli.Grouped(all.SavedCalls), cli.Grouped(all.Calls), cli.Grouped(all.SavedTokens))
	p.line("honest:   %d of %d went through untouched", untouched, honest)
}

// client writes the outcome of a run of a real client with weir as its hook. Tests of the real program
// have recorded it (package clients). It writes the client's name, the calls that ran, the calls that
// were refused, and the beginning of the message that its model received. Then it writes the messages of
// a run that was held and granted more.
func (p *demoPrinter) client() {
	text, _ := Files.ReadFile("recordings/claude_code.txt") // it is embedded
	said := strings.SplitN(strings.TrimSpace(string(text)), "\n", 3)
	text, _ = Files.ReadFile("recordings/claude_code_held.txt")
	held := strings.SplitN(strings.TrimSpace(string(text)), "\n", 2)
	if len(said) < 3 || len(held) < 2 {
		return
	}
	_, told, _ := strings.Cut(said[2], ": ") // behind the name of the rule, which comes again
	told, _, _ = strings.Cut(told, ". ")
	p.line("\nrecorded %s, weir its hook: calls that ran / were refused of those asked for: %s;", said[0], said[1])
	p.wrapped("the model was told: " + told + " ...")
	p.wrapped("five calls for it and an agent that it starts: " + held[1])
}

// wrapped writes what was said, in lines as wide as the longest above it.
func (p *demoPrinter) wrapped(text string) {
	line := "        "
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > 106 {
			p.line("%s", p.env.Painted(line, cli.Faint))
			line = "         "
		}
		line += " " + word
	}
	p.line("%s", p.env.Painted(line, cli.Faint))
}

// result writes what became of one run: a line, and below it why it was stopped.
func (p *demoPrinter) result(r *Result) {
	if r.StoppedAt == 0 {
		p.line("%s   %-*s  all %d calls", p.env.Painted("passed", cli.Good), p.width, r.Run, r.Calls)
		return
	}
	saved := "saved " + cli.Count(r.SavedCalls, "call")
	// Logs without tokens say nothing about them.
	if r.SavedTokens > 0 {
		saved += fmt.Sprintf(", %s tokens", cli.Grouped(r.SavedTokens))
	}
	p.line("%s  %-*s  at call %d of %d, %s", p.env.Painted("stopped", cli.Bad), p.width, r.Run, r.StoppedAt, r.Calls, saved)
	// The figures stand beside the rule, so the limit at the end of the message is left out.
	why, _, _ := strings.Cut(because(r.Why), " (limit ")
	p.line("  %s", p.env.Painted(fmt.Sprintf("%s %v/%v: %s", r.Rule, r.Observed, r.Limit, why), cli.Faint))
}

// because is the message without its head, which says that a call was refused.
func because(message string) string {
	if head, rest, ok := strings.Cut(message, ": "); ok && strings.Contains(head, "reject") {
		return rest
	}
	return message
}
