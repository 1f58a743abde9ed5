package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/cmd/internal/cli"
	"weir/events/adapter"
	"weir/sink/check"
)

// hookTimeout is how long a hook waits for weir. It must be shorter than the time after
// which the agent gives the hook up.
const hookTimeout = 4 * time.Second

// codeHookRefused is the exit code by which hooks refuse. All others let the agent go on.
const codeHookRefused = 2

// runHook hands the input of a hook to weir and answers as hooks do.
func runHook(ctx context.Context, env *cli.Env, p *place, closed bool) error {
	body, err := io.ReadAll(io.LimitReader(env.In, adapter.MaxRecord+1))
	if err != nil {
		return err
	}
	answer, err := askHook(ctx, env, p, body, closed)
	if err != nil {
		if !closed {
			_, err = fmt.Fprintf(env.Err, "weir did not answer, so this goes on without it: %v\n", err)
			return err
		}
		answer.Decision, answer.Reason = "deny", "The flow guard does not answer, and calls are refused until it does. Try again later."
	}
	reason := answer.Refusal()
	if reason == "" {
		return nil
	}
	// OpenHands reads the object, Claude Code the text.
	object, err := json.Marshal(check.HookAnswer{Decision: "deny", Reason: reason})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(env.Out, "%s\n", object); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(env.Err, reason); err != nil {
		return err
	}
	return cli.Exit(codeHookRefused)
}

func askHook(ctx context.Context, env *cli.Env, p *place, body []byte, closed bool) (answer check.HookAnswer, err error) {
	c, err := p.client(env)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	path := check.HookPath
	if closed {
		path += "?closed=1"
	}
	resp, err := c.do(ctx, http.MethodPost, path, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	return answer, json.NewDecoder(resp.Body).Decode(&answer)
}

// printHookConfig prints the settings for a program.
func printHookConfig(env *cli.Env, p *place, program string, closed bool) error {
	c, err := p.client(env)
	if err != nil {
		return err
	}
	command := []string{"weir", "check", "--hook"}
	if *p.url != "" {
		command = append(command, "--server", *p.url)
	}
	if closed {
		command = append(command, "--closed")
	}
	text, err := check.HookConfig(program, strings.Join(command, " "), c.base)
	if err != nil {
		return cli.Usage("--hook-config: %v", err)
	}
	_, err = fmt.Fprintf(env.Out, "%s\n", text)
	return err
}
