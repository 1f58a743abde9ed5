package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"weir/cmd/internal/cli"
	"weir/events/adapter"
	"weir/sink/check"
)

// hookTimeout is how long a hook waits for its input and for weir, together. An agent
// that gives the hook up makes the call, so this is far below the limit of every agent.
const hookTimeout = 3 * time.Second

// codeHookRefused is the exit code by which hooks refuse where the agent goes by it.
const codeHookRefused = 2

// runHook hands the input of a hook to weir and answers as the agent wants to be told.
// It ends with 0 unless it refuses: some agents take any other code for a refusal.
func runHook(ctx context.Context, env *cli.Env, p *place, closed bool) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	body, err := readHook(ctx, env.In)
	var answer check.HookAnswer
	if err == nil {
		answer, err = askHook(ctx, env, p, body, closed)
	}
	if err != nil {
		if closed {
			answer = check.RefuseHook(body, "The flow guard does not answer, and calls are refused until it does. Try again later.")
		}
		if !answer.Refuses() {
			_, err = fmt.Fprintf(env.Err, "weir did not answer, so this goes on without it: %v\n", err)
			return err
		}
	}
	if answer.Empty() {
		return nil
	}
	object, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(env.Out, "%s\n", object); err != nil {
		return err
	}
	reason := answer.ByCode()
	if reason == "" {
		return nil
	}
	if _, err := fmt.Fprintln(env.Err, reason); err != nil {
		return err
	}
	return cli.Exit(codeHookRefused)
}

// readHook reads one JSON value, and returns what there is of it when the time is over.
// It does not wait for the end of the input, which an agent may leave open. What is no
// JSON is left for weir to complain of.
func readHook(ctx context.Context, in io.Reader) ([]byte, error) {
	var got keptInput
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var value json.RawMessage
		_ = json.NewDecoder(io.TeeReader(io.LimitReader(in, adapter.MaxRecord+1), &got)).Decode(&value)
	}()
	select {
	case <-ended:
		return got.bytes(), nil
	case <-ctx.Done():
		return got.bytes(), errors.New("the input of the hook does not end")
	}
}

// keptInput keeps what was read by somebody who may still be reading.
type keptInput struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (k *keptInput) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.got.Write(b)
}

func (k *keptInput) bytes() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.got.Bytes())
}

func askHook(ctx context.Context, env *cli.Env, p *place, body []byte, closed bool) (answer check.HookAnswer, err error) {
	c, err := p.client(env)
	if err != nil {
		return answer, err
	}
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
