package main

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer/agents"
	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/pump"
)

// notesCommand is weir notes. A note is an event, so all of them stand in the log; what is
// listed is the last eight of each agent, which its state keeps. See decision 46.
func notesCommand() cli.Command {
	return cli.Command{Name: "notes", Short: "list and add notes about agents", Commands: []cli.Command{
		{
			Name: "ls", Short: "list notes, the newest first",
			Long: `Lists the last eight notes about each agent, from a running weir, a state folder
(--state) or logs (--log). weir leaves notes itself when it frees a stuck agent. All
notes are in the log.`,
			Examples: []string{"weir notes ls --tag auto-recovery", "weir notes ls --agent planner-3 -o json"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				p := newTarget(fs, true)
				// All and not any: a list is narrowed by each tag.
				tags := cli.NewList(fs, "tag", "only notes with this `TAG`; may be given many times, then all are wanted")
				agent := fs.String("agent", "", "only notes about this `AGENT`")
				limit := fs.Int("limit", 20, "list at most this many `NOTES`")
				return func(ctx context.Context, env *cli.Env, _ []string) error {
					k, done, err := p.open(ctx, env)
					if err != nil {
						return err
					}
					defer done()
					// The newest over all agents that were looked at.
					list, err := k.Notes(ctx, pump.NoteQuery{Agent: *agent, Tags: *tags, Limit: *limit})
					if err != nil {
						return err
					}
					return listNotes(env, &list)
				}
			},
		},
		{
			Name: "add", Args: "SUMMARY", Wants: cli.Wants(1, 1, "the SUMMARY in one argument"), Short: "add a note about an agent",
			Long: `Writes a note to the log of a running weir. With the tags stuck and help it requests
help for the agent, as weir agents rescue does, with the same exit codes. An agent may
request help for itself this way.`,
			Examples: []string{`weir notes add "waits for a key that nobody has" --agent planner-3 --tag stuck --tag help`},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				// A note needs no --reason: it is one itself. So hand.reason is nil here, and
				// signed must not be called.
				h := &hand{client.NewServerFlags(fs), nil, fs.String("by", "", "say `WHO` you are; by default the name that you are logged in with")}
				tags := cli.NewList(fs, "tag", "add `TAG`; repeatable")
				agent := fs.String("agent", "", "it is about this `AGENT`; without it about who leaves it")
				return func(ctx context.Context, env *cli.Env, args []string) error {
					// Without --agent the note is about its author: an agent that asks for
					// help says only what is wrong.
					author, err := h.who(env)
					if err != nil {
						return err
					}
					return h.note(ctx, env, api.NoteOrder{Agent: *agent, Author: author, Tags: *tags, Summary: args[0]})
				}
			},
		},
	}}
}

// listNotes prints notes, and says when agents were not looked at whose notes may fit.
func listNotes(env *cli.Env, list *pump.NoteList) error {
	lines := cli.NewLines(env, func(n *agents.NoteView) []cli.Cell {
		return []cli.Cell{{Text: n.Time.String()}, {Text: n.Agent}, {Text: n.Author}, {Text: orDash(strings.Join(n.Tags, " "))}, {Text: n.Summary}}
	}, "TIME", "AGENT", "AUTHOR", "TAGS", "NOTE")
	if err := lines.All(list.Notes); err != nil {
		return err
	}
	// Said, because a misspelled tag finds nothing either.
	if len(list.Notes) == 0 {
		env.Notice("there are no such notes")
	}
	if list.Truncated {
		env.Notice("only the %s agents used last were looked at", cli.Grouped(int64(list.Scanned)))
	}
	return nil
}

// note sends a note. One with the tags stuck and help is a request for help at the same time,
// and is answered and ends as that of rescue does.
func (h *hand) note(ctx context.Context, env *cli.Env, o api.NoteOrder) error {
	var a api.AgentAnswer
	if err := h.inform(ctx, env, "/v1/notes", false, o, &a); err != nil {
		return err
	}
	// Orders that the note has brought about, if it was a request for help.
	said := decoded(a.Verdicts)
	err := env.Value(a, func() error {
		// A plain note brings no verdict about.
		if len(said) > 0 {
			return sayRescue(env, &a, said)
		}
		env.Notice("noted about %s: event %s by %s", a.Agent, a.ID, a.By)
		return nil
	})
	if err != nil {
		return err
	}
	return refusedHelp(said)
}
