package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/approvals"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/pump"
)

// approvalsCommand is weir approvals: the work that waits for a person.
func approvalsCommand() cli.Command {
	return cli.Command{
		Name: "approvals", Short: "list the work that waits for a person",
		Long: `Lists the holds that weir asks people about, the oldest first. The approvals of
--switch-file say which tiers are asked. weir flows grant and weir flows stop answer
a hold of a flow as its links do.

A rule or a budget with action: hold in the limits file makes work wait. The check of a
held call gets HTTP 402 or 403, the action hold and held_until. weir flows grant, weir
flows release and weir budgets grant let the work go on. weir flows stop and weir stop
tree:ROOT deny it. If no person decides within orders.hold (1h by default), a flow or a
tree is halted, and held calls are denied. A budget refuses until its window ends.`,
		Examples: []string{"weir approvals", "weir approvals --all -o json"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			server := client.NewServerFlags(fs)
			all := fs.Bool("all", false, "also those that have ended lately")
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				c, err := server.Client(env)
				if err != nil {
					return err
				}
				var list api.ApprovalList
				if err := c.Get(ctx, approvals.Path, &list); err != nil {
					return err
				}
				if !*all {
					list.Decided = nil
				}
				if err := printApprovals(env, &list); err != nil || list.Asks {
					return err
				}
				return noticeUnasked(ctx, env, c, server)
			}
		},
	}
}

func printApprovals(env *cli.Env, list *api.ApprovalList) error {
	lines := cli.NewLines(env, approvalCells, "ORDER", "SUBJECT", "STATE", "SINCE", "UNTIL", "WHY")
	for i := range list.Decided {
		if err := lines.Print(new(any(&list.Decided[i]))); err != nil {
			return err
		}
	}
	for i := range list.Waiting {
		if err := lines.Print(new(any(&list.Waiting[i]))); err != nil {
			return err
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if len(list.Waiting) == 0 && list.Asks {
		env.Notice("no work waits for a person")
	}
	return nil
}

// noticeUnasked says that no person is asked, and which flows wait all the same.
func noticeUnasked(ctx context.Context, env *cli.Env, c *client.Client, server *client.ServerFlags) error {
	env.Notice("this weir asks no person: it runs without approvals in a --switch-file")
	list, err := c.Flows(ctx, pump.FlowQuery{Limit: mostAccounts})
	if err != nil {
		return err
	}
	reads, _ := server.Again(env, quoted)
	for i := range list.Flows {
		if f := &list.Flows[i]; f.Status == "held" {
			env.Notice("flow %s is held: weir explain %s%s says why, and what lets it go on", f.Flow, quoted(f.Flow), reads)
		}
	}
	return nil
}

// approvalCells is the row of a hold, or of how one ended.
func approvalCells(v *any) []cli.Cell {
	if d, ended := (*v).(*approvals.Decision); ended {
		state := d.Outcome
		if state == approvals.Over {
			state = "ended without a link" // by a grant, a release, a stop, or its time
		}
		if d.Did != "" {
			state += ", " + d.Did
		}
		if d.By != "" {
			state += " by " + d.By
		}
		since := ""
		if !d.Since.IsZero() {
			since = d.Since.String()
		}
		return cli.Text(d.Hold, strings.TrimPrefix(d.Kind+" "+d.Subject, " "), state, since, d.Time.String(), d.Text)
	}
	h := (*v).(*approvals.Hold)
	return cli.Text(h.ID, h.Kind+" "+h.Subject, askedText(h), h.Since.String(), h.Until.String(), h.Text)
}

// askedText says how the asking goes.
func askedText(h *approvals.Hold) string {
	switch {
	case h.Asked == 0:
		return "not asked yet"
	case h.Lapsed:
		return "unanswered, waits on"
	case !h.Delivered:
		return fmt.Sprintf("tier %d asked, message not delivered", h.Asked)
	}
	return fmt.Sprintf("tier %d asked", h.Asked)
}
