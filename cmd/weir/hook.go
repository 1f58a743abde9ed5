package main

import (
	"context"
	"os"
	"path/filepath"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/hook"
)

// runHook answers the hook of a coding agent.
func runHook(ctx context.Context, env *cli.Env, p *target, closed bool) error {
	s := hook.Server{Closed: closed}
	c, err := p.client(env)
	if err != nil && !closed {
		return err
	}
	if err == nil {
		s.URL, s.Token = c.base, c.token
	}
	code, err := hook.Run(ctx, s, env.In, env.Out, env.Err)
	if err != nil || code == 0 {
		return err
	}
	return cli.Exit(code)
}

// hookCommand is how the shell of an agent runs the hook: by weir-hook where that lies beside
// this program, because it starts sooner.
func hookCommand(env *cli.Env) []string {
	weir := weirCommand(env)
	self, err := os.Executable()
	if err != nil {
		return []string{weir, "check", "--hook"}
	}
	beside := filepath.Join(filepath.Dir(self), "weir-hook")
	info, err := os.Stat(beside)
	switch {
	case err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return []string{weir, "check", "--hook"}
	case weir == "weir": // found by its name, so what lies beside it is, too
		return []string{"weir-hook"}
	}
	return []string{quotedForShell(beside)}
}
