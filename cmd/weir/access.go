package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"weir/cmd/internal/api"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
)

// accessCommand is weir access: the rights of a token at a running weir.
func accessCommand() cli.Command {
	return cli.Command{Name: "access", Short: "who you are for a running weir, and what you may do", Commands: []cli.Command{{
		Name: "whoami", Short: "print the name, the roles and the bounds of your token",
		Long: `Asks a running weir which principal has the token or the certificate, and what it may do.
Without either, it prints what a client of this machine may do. GET /v1/whoami is the
same for programs. The exit code is 1 for a token that weir does not know.`,
		Examples: []string{"weir access whoami --token-file my.token", "weir access whoami -o json"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			flags := client.NewServerFlags(fs)
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				c, err := flags.Client(env)
				if err != nil {
					return err
				}
				var me api.Whoami
				if err := c.Get(ctx, "/v1/whoami", &me); err != nil {
					return err
				}
				return env.Value(me, func() error { return printWhoami(env, &me) })
			}
		},
	}}}
}

// rights are what each role allows, for people.
var rights = map[string]string{
	"ingest":  "send events, spans and notes",
	"ask":     "check calls, and follow the verdicts",
	"observe": "read flows, verdicts, costs and limits",
	"operate": "stop, release, grant and override",
	"admin":   "have files read again",
}

func printWhoami(env *cli.Env, me *api.Whoami) error {
	name := me.Name
	switch {
	case name == "":
		name = "a client of this machine, without a token"
	case !me.Named:
		name = "the " + name + ", which has no name of a person or a program"
	}
	rows := [][2]string{{"you are", name}}
	for i, role := range me.Roles {
		first := "roles"
		if i > 0 {
			first = ""
		}
		rows = append(rows, [2]string{first, fmt.Sprintf("%-8s %s", role, rights[role])})
	}
	var scopes []string
	for _, s := range me.Orders {
		scopes = append(scopes, s.String())
	}
	for _, b := range []struct {
		name string
		list []string
	}{{"flows", me.Flows}, {"sources", me.Sources}, {"tenants", me.Tenants}, {"teams", me.Teams}, {"orders", scopes}} {
		if len(b.list) > 0 {
			rows = append(rows, [2]string{b.name, "only " + strings.Join(b.list, ", ")})
		}
	}
	if me.NoOrders != "" {
		rows = append(rows, [2]string{"no orders", me.NoOrders})
	}
	t := env.Table()
	for _, row := range rows {
		if err := t.Row(cli.Text(row[:]...)...); err != nil {
			return err
		}
	}
	return t.Flush()
}
