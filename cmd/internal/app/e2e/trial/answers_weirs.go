package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/events"
	"weir/sink/check"
)

// weirs is one weir, or three members of a group beside a broker.
type weirs struct {
	group, real bool

	members []*member
	storm   *storm // of a group: its server, topics and comparison
	away    []interval
	probes  int
}

// interval is from when to when, in seconds since 1970.
type interval [2]float64

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// mostCalls is how many calls of a flow weir allows.
const mostCalls = 60

// answersLimits leaves two rules. Rules about time would stop flows in a way that depends on
// how busy the machine is, and a flow without answers for long would begin anew.
const answersLimits = `profile: none
flow: {idle: 1h}
degraded: {after: 0s}
rules:
  max_total_calls: {max: 60}
  ping_pong_other: {stop: 4}
`

const answersToken = "token-of-the-trial-of-answers-0123456789"

// begin starts them, and returns when they have caught up.
func (w *weirs) begin(ctx context.Context, dir string) error {
	token, limits := filepath.Join(dir, "token"), filepath.Join(dir, "limits.yaml")
	if err := errors.Join(os.WriteFile(token, []byte(answersToken+"\n"), 0o600), os.WriteFile(limits, []byte(answersLimits), 0o600)); err != nil {
		return err
	}
	binary, err := build(dir)
	if err != nil {
		return err
	}
	brokers, count := "", 1
	w.storm = &storm{real: w.real, partitions: 6, dir: dir, soak: &soak{}, topics: defaultTopics(), binary: binary, out: io.Discard}
	if w.group {
		if err := w.storm.startBroker(ctx); err != nil {
			return err
		}
		brokers, count = w.storm.server.addr, 3
	}
	for n := range count {
		m, err := newMember(binary, dir, fmt.Sprintf("weir-%d", n), brokers, groupName, "--admin-token-file", token, "--limits", limits)
		if err != nil {
			return err
		}
		if w.group {
			m.flags = append(m.flags, "--advertise", "http://"+m.listen)
		}
		w.members = append(w.members, m)
		if err := m.start(); err != nil {
			return err
		}
	}
	return w.ready(ctx)
}

// ready waits until all have caught up.
func (w *weirs) ready(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	why := ""
	err := eventually(ctx, 3*time.Minute, "weir to be ready", func() (bool, error) {
		for _, m := range w.members {
			resp, err := client.Get("http://" + m.listen + "/readyz")
			if err != nil {
				return false, nil
			}
			var state struct{ Why []string }
			err = json.NewDecoder(resp.Body).Decode(&state)
			_ = resp.Body.Close()
			// The loop by which weir tests itself is not what is waited for.
			if err != nil || slices.ContainsFunc(state.Why, func(why string) bool { return !strings.Contains(why, "own loop") }) {
				why = fmt.Sprint(m.name, state.Why)
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, why)
	}
	// On a machine that is too busy some have no answer in time, on any member.
	_ = eventually(ctx, time.Minute, "checks to be answered", func() (bool, error) { return w.answers(ctx), nil })
	return nil
}

// answers reports whether each member has an answer to checks of flows in all partitions. A member
// that was killed may be ready before others know the owners of its partitions.
func (w *weirs) answers(ctx context.Context) bool {
	w.probes++
	for n := range w.members {
		var body []byte
		for i := range check.MostAsks {
			id := fmt.Sprintf("probe-%d-%d-%d", w.probes, n, i)
			body = append(checkOf(id, id, "a-"+id, "b-"+id, false).AppendJSON(body), '\n')
		}
		status, text, err := w.post(ctx, n, "/v1/check", "application/x-ndjson", body)
		if err != nil || status != http.StatusOK || bytes.Count(text, []byte(`{"status":200,`)) != check.MostAsks {
			return false
		}
	}
	return true
}

// kill ends the n-th by SIGKILL, starts it again, and notes how long not all were ready.
func (w *weirs) kill(ctx context.Context, n int) error {
	m := w.members[n%len(w.members)]
	from := time.Now()
	if err := m.kill(); err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	err := w.ready(ctx)
	w.away = append(w.away, interval{unix(from), unix(time.Now())})
	return err
}

// url is that of the n-th, by number of drivers.
func (w *weirs) url(n int) string { return "http://" + w.members[n%len(w.members)].listen }

// post sends a body to the n-th with the admin token, and returns status and answer.
func (w *weirs) post(ctx context.Context, n int, path, kind string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url(n)+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "Bearer "+answersToken)
	return answerTo(http.DefaultClient, r)
}

func stoppedFlow(n int) string { return fmt.Sprintf("stopped-%d", n) }

// stopFlow stops a flow as an operator does, and waits until a check of it is refused.
func (w *weirs) stopFlow(ctx context.Context, flow string) error {
	status, text, err := w.post(ctx, 0, "/v1/flows/"+flow+"/stop", "application/json", []byte(`{"reason":"trial","by":"trial"}`))
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("stop %s: status %d: %.300s", flow, status, text)
	}
	if err != nil {
		return err
	}
	n := 0
	return eventually(ctx, time.Minute, flow+" to be stopped", func() (bool, error) {
		n++
		status, _, err := w.post(ctx, 0, "/v1/check", "application/json", checkOf(flow+"-waits-"+fmt.Sprint(n), flow, "a-"+flow, "b-"+flow, false).AppendJSON(nil))
		return status == http.StatusForbidden, err
	})
}

// countLoop returns how many calls of a loop are allowed.
func (w *weirs) countLoop(ctx context.Context) (int, error) {
	for n := range mostCalls {
		from, to := loopParties("loop", n)
		status, text, err := w.post(ctx, 0, "/v1/check", "application/json", checkOf(fmt.Sprint("loop-", n), "loop", from, to, true).AppendJSON(nil))
		switch {
		case err != nil:
			return 0, err
		case status == http.StatusForbidden:
			return n, nil
		case status != http.StatusOK:
			return 0, fmt.Errorf("a check of a loop has status %d: %.300s", status, text)
		}
	}
	return 0, errors.New("weir stops no loop")
}

// checkOf returns a check of a call.
func checkOf(id, flow, from, to string, loop bool) *events.Event {
	work := events.Yes
	if loop {
		work = events.No
	}
	return &events.Event{ID: id, Source: "answers", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: flow, Ask: true, Tell: true,
		From: events.Party{Agent: from}, To: events.Party{Agent: to}, HadWork: work}
}

// loopParties are those of the n-th call of a loop of two.
func loopParties(flow string, n int) (from, to string) {
	if n%2 == 0 {
		return "a-" + flow, "b-" + flow
	}
	return "b-" + flow, "a-" + flow
}

// abandon ends what still runs, for a trial that could not go on.
func (w *weirs) abandon() (err error) {
	for _, m := range w.members {
		if m.current() != nil {
			_ = m.kill()
		}
	}
	if w.storm != nil && w.storm.server != nil {
		err = w.storm.server.stop()
	}
	return err
}
