// Package hook is the hook of a coding agent: it sends the agent's question to weir and prints the answer in the
// agent's form. An agent starts a process for each question and waits for it, so this package imports little, and
// neither do what it imports: what every package of a program does before main is what a person waits for.
package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/events/adapter"
	"weir/sink/check"
)

// DefaultServer is the URL of the server when none is given.
const DefaultServer = "http://127.0.0.1:8080"

// Timeout is how long a hook waits for its input and for weir, together. An agent that gives
// the hook up makes the call, so this is far below the limit of every agent.
const Timeout = 3 * time.Second

// CodeRefused is the exit code by which hooks refuse where the agent goes by it. Any other
// end has 0, because some agents take every other code for a refusal.
const CodeRefused = 2

// Server is the weir that is asked.
//
// It has no client of its own that is kept: the process ends after one question.
type Server struct {
	URL    string // without a slash at the end
	Token  string // empty for none
	Closed bool   // refuse the use of tools when weir does not answer
	Silent bool   // do not read the tokens of model calls from the transcript

	Transport http.RoundTripper // nil: the usual one
}

// Run reads the question of one hook, answers it, and returns the exit code. Only an answer
// that cannot be written is an error.
//
// An answer is an object on out, for agents that read it, and where the agent goes by the exit
// code, the reason on errs. Where nothing refuses and weir has nothing to say, nothing is
// written to out, which all agents take for going on.
func Run(ctx context.Context, s Server, in io.Reader, out, errs io.Writer) (code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	body, err := read(ctx, in)
	var answer check.HookAnswer
	if err == nil {
		var unread string
		if answer, unread, err = s.ask(ctx, body); unread != "" && err == nil && !answer.Refuses() {
			_, _ = fmt.Fprintf(errs, "weir cannot read the transcript of this session, so the tokens of its model calls do not count: %s\n", unread)
		}
	}
	if err != nil {
		if s.Closed {
			answer = check.RefuseHook(body, "The flow guard does not answer, and calls are refused until it does. Try again later.")
		}
		// RefuseHook refuses the use of tools alone. What a person says goes on also with
		// Closed.
		if !answer.Refuses() {
			_, err = fmt.Fprintf(errs, "weir did not answer, so this goes on without it: %v\n", err)
			return 0, err
		}
	}
	if answer.Empty() {
		return 0, nil
	}
	object, err := json.Marshal(answer)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(out, "%s\n", object); err != nil {
		return 0, err
	}
	reason := answer.ByCode()
	if reason == "" {
		return 0, nil
	}
	_, err = fmt.Fprintln(errs, reason)
	return CodeRefused, err
}

// read reads one JSON value, and returns what there is of it when the time is over. It does
// not wait for the end of the input, which an agent may leave open. What is no JSON is left
// for weir to complain of.
func read(ctx context.Context, in io.Reader) ([]byte, error) {
	var got kept
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

// kept keeps what was read by a reader that may still be reading.
//
// The reader goes on in its goroutine when the time is over, until the process ends.
type kept struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.got.Write(b)
}

func (k *kept) bytes() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.got.Bytes())
}

// ask posts the question. Whatever else may answer at the URL, only a weir says that it does:
// the empty object of another program is no permission. unread is why a transcript was not read, the first time that
// weir hears of it in a session.
func (s Server) ask(ctx context.Context, body []byte) (answer check.HookAnswer, unread string, err error) {
	if !s.Silent {
		body, unread = withCalls(body, os.Environ())
	}
	url := s.URL + check.HookPath
	if s.Closed {
		url += "?closed=1"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return answer, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	if unread != "" {
		r.Header.Set(check.TranscriptHeader, unread)
	}
	if o := openerOf(body, ancestors); o.header != "" {
		r.Header.Set(o.header, o.value)
	}
	if s.Token != "" {
		r.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := (&http.Client{Transport: s.Transport}).Do(r)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return answer, "", fmt.Errorf("no weir answers at %s", s.URL)
	case err != nil:
		return answer, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return answer, "", err
	case resp.StatusCode != http.StatusOK:
		return answer, "", fmt.Errorf("%s answers HTTP %s %.200s", s.URL, resp.Status, strings.TrimSpace(string(text)))
	// Some other server, behind the same port, may answer everything with 200.
	case resp.Header.Get(check.HookHeader) == "":
		return answer, "", fmt.Errorf("what answers at %s is no weir, or an older one", s.URL)
	case resp.Header.Get(check.TranscriptHeader) == "":
		unread = "" // it was said before
	}
	err = json.Unmarshal(text, &answer)
	return answer, unread, err
}
