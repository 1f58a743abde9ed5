// Package guarded wraps calls with a check and a report, so that loops are found without telemetry. It is apart from
// package guard, which needs nothing but the standard library: hashes need xxhash.
package guarded

import (
	"bytes"
	"context"
	"errors"

	"weir/events"
	"weir/events/fingerprint"
	"weir/sink/guard"
)

// Tool checks the call of a tool with these arguments, which are JSON, runs it and reports what came
// of it. A refused call is not run, and its error is a *guard.Stop. Arguments and result are hashed
// here and do not leave the process. When an order by hand (weir stop) binds the call while it runs,
// the context of run is cancelled.
func Tool(ctx context.Context, g *guard.Guard, c guard.Call, arguments []byte, run func(context.Context) ([]byte, error)) ([]byte, error) {
	if c.ArgsHash == "" {
		c.ArgsHash, c.ArgsSim = fingerprint.Args(arguments, nil).String(), ArgsSim(arguments)
	}
	return finish(g.Begin(ctx, c), guard.Work{}, run)
}

// ArgsSim is Call.ArgsSim of arguments: the fingerprint of their canonical form, as the guards of all
// languages make it. "" for none.
func ArgsSim(arguments []byte) string {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return ""
	}
	return fingerprint.ArgsText(fingerprint.AppendCanonical(nil, arguments, nil)).String()
}

// Agent is Tool of an agent's call with a message. What run does with its context is done in the
// flow of the call, by its callee.
func Agent(ctx context.Context, g *guard.Guard, c guard.Call, message []byte, run func(context.Context) ([]byte, error)) ([]byte, error) {
	if c.ContentHash == "" {
		c.ContentHash = fingerprint.Content(message).String()
	}
	b := g.Begin(ctx, c)
	return finish(b, guard.Work{Flow: b.Call.Flow, Party: b.Call.To, Agent: b.Call.ToAgent, Root: b.Call.Root}, run)
}

// finish runs the call with a context that an order by hand cancels. The error is then that order, a
// *guard.Stop.
func finish(b *guard.Begun, w guard.Work, run func(context.Context) ([]byte, error)) ([]byte, error) {
	if err := b.Decision.Err(); err != nil {
		return nil, err
	}
	ctx := b.Context()
	if w.Flow != "" {
		ctx = guard.WithWork(ctx, w)
	}
	result, err := run(ctx)
	if stop, ok := errors.AsType[*guard.Stop](context.Cause(ctx)); ok && err != nil {
		err = stop
	}
	b.Finish(OutcomeOf(result, err))
	return result, err
}

// OutcomeOf is the outcome of a call that gave the result, or failed.
func OutcomeOf(result []byte, err error) guard.Outcome {
	text := result
	o := guard.Outcome{Err: err, Size: int64(len(result))}
	if err != nil {
		text = []byte(err.Error())
		o.ErrorType = fingerprint.Error(text)
		if _, stopped := errors.AsType[*guard.Stop](err); stopped {
			o.Status = events.StatusDenied
		}
	}
	o.Content, o.Sim = fingerprint.Content(text).String(), fingerprint.Text(text).String()
	return o
}
