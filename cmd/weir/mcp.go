package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/cmd/internal/admission"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/mcpserver"
)

// agentVariable says in whose name a call acts that names no agent.
const agentVariable = "WEIR_AGENT"

// mcpCommand is weir mcp: the tools of a running weir for agents and coding assistants. It keeps
// nothing and judges nothing, so any number of them may run beside one weir.
func mcpCommand() cli.Command {
	return cli.Command{
		Name: "mcp", Short: "serve weir to agents and coding assistants by MCP",
		Long: `Serves the tools of a running weir by the Model Context Protocol, on standard input and
output, or with --http as streamable HTTP. Agents ask why they were stopped and what is
left, find and free stuck agents, and leave and search notes. People in a coding
assistant explain a flow, try limits on a log, and have limits proposed.

Each call is a request to the HTTP API with the token of the caller: --token-file on
standard input, the header Authorization with --http. The role of the token decides what
a tool may do. admin_rescue_agent needs the role operate. The page MCP.md lists the
tools and how to add them to coding assistants.`,
		Examples: []string{
			"weir mcp",
			"claude mcp add weir -- weir mcp --server http://127.0.0.1:8080",
			"weir mcp --agent planner --token-file planner.token",
			"weir mcp --http 127.0.0.1:8090",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			flags := client.NewServerFlags(fs)
			agent := fs.String("agent", "", "act in the name of this `AGENT` where a call names none ("+agentVariable+")")
			address := fs.String("http", "", "serve streamable HTTP on this `ADDRESS`, at "+mcpserver.Path)
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				c, err := flags.Client(env)
				if err != nil {
					return err
				}
				info, ok := debug.ReadBuildInfo()
				o := mcpserver.Options{Client: c, Version: buildOf(info, ok, version, revision).Version, Agent: cmp.Or(*agent, env.Getenv(agentVariable)), Log: env.ServerLog(),
					Explain: func(ctx context.Context, c *client.Client, w io.Writer, v *analyzer.View) error {
						in := placeOf(ctx, c, v)
						in.changes = " --token-file FILE"
						return explain(&cli.Env{Out: w, Err: io.Discard, Quiet: true}, v, in)
					}}
				if *address == "" {
					return mcpserver.New(o).Stdio(ctx, env.In, env.Out)
				}
				// A client of this server must not act by a token that is not its own.
				if c.Token != "" || flags.Certified(env) {
					return cli.Usage("--http is given with a token or a certificate of its own").Advise("each client sends its own token as Authorization: Bearer TOKEN")
				}
				return serveMCP(ctx, env, *address, o)
			}
		},
	}
}

// mcpConnections is how many connections may be open at a time. When there are more, the one that is
// silent for the longest is closed.
const mcpConnections = 256

// serveMCP serves streamable HTTP until a signal comes.
func serveMCP(ctx context.Context, env *cli.Env, address string, o mcpserver.Options) error {
	signals := make(chan os.Signal, 1)
	defer env.Notify(signals, os.Interrupt, syscall.SIGTERM)()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return cli.Failure("%w", err).Advise("name another address: --http 127.0.0.1:PORT")
	}
	// A body has at most 4 MiB (the SDK's bound). A client that sends it in drips gives way to others.
	server := &http.Server{Handler: admission.Track(mcpserver.Handler(o)), ConnContext: admission.ConnContext,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	open := admission.Listen(l, admission.Places(mcpConnections), nil)
	env.Notice("MCP: http://%s%s, for weir at %s", l.Addr(), mcpserver.Path, o.Client.Base)
	served := make(chan error, 1)
	go func() { served <- server.Serve(open) }()
	select {
	case err = <-served:
		return err
	case <-signals:
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(end); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
