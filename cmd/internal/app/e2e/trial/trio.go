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
	"sync/atomic"
	"time"

	"weir/events"
)

// trio is a group of three members that clients ask, beside a broker. Members are killed meanwhile.
type trio struct {
	*storm
	client *http.Client
	turn   atomic.Int64 // which member is asked next
}

// newTrio starts the broker, creates the topics and starts three members with further flags: those of all,
// and those of each, which say where the others reach it. The caller calls end, also after an error.
func newTrio(ctx context.Context, s *storm, prefix string, flags func(dir string) ([]string, error), each func(m *member) ([]string, error)) (t *trio, err error) {
	s.soak, s.topics = &soak{}, defaultTopics()
	t = &trio{storm: s, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if s.dir, err = os.MkdirTemp("", prefix); err != nil {
		return t, err
	}
	if s.binary, err = build(s.dir); err != nil {
		return t, err
	}
	more, err := flags(s.dir)
	if err != nil {
		return t, err
	}
	if err = s.startBroker(ctx); err != nil {
		return t, err
	}
	for n := range 3 {
		m, err := newMember(s.binary, s.dir, fmt.Sprintf("member-%d", n+1), s.server.addr, groupName, more...)
		if err != nil {
			return t, err
		}
		own, err := each(m)
		if err != nil {
			return t, err
		}
		m.flags = append(m.flags[:len(m.flags):len(m.flags)], own...)
		s.members = append(s.members, m)
		if err := m.start(); err != nil {
			return t, err
		}
	}
	return t, t.ready(ctx)
}

// itself has the others reach a member at its own address.
func itself(m *member) ([]string, error) { return []string{"--advertise", "http://" + m.listen}, nil }

// ready waits until all members have caught up.
func (t *trio) ready(ctx context.Context) error {
	return eventually(ctx, 3*time.Minute, "all members to be ready", func() (bool, error) {
		for _, m := range t.members {
			if _, ready := m.current().times(); ready == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// end ends the remaining members and the broker. ok removes the folder.
func (t *trio) end(ok bool) (err error) {
	t.abandon()
	if t.server != nil {
		err = t.server.stop()
	}
	if ok && !t.keep {
		return errors.Join(err, os.RemoveAll(t.dir))
	}
	fmt.Fprintf(t.out, "logs and data are in %s\n", t.dir)
	return err
}

// strikeAt kills a member each time when count reaches the next mark, and starts it again. The state of
// every second one is lost.
func (t *trio) strikeAt(ctx context.Context, marks []int64, count func() int64) error {
	for i, mark := range marks {
		if err := eventually(ctx, 5*time.Minute, fmt.Sprintf("%d calls", mark), func() (bool, error) { return count() >= mark, nil }); err != nil {
			return err
		}
		m := t.members[i%len(t.members)]
		if err := m.kill(); err != nil {
			return err
		}
		if i%2 == 1 {
			if err := m.lose(); err != nil {
				return err
			}
		}
		if err := m.start(); err != nil {
			return err
		}
	}
	return nil
}

// post sends a body to one member after the other until one accepts it or refuses the call. It returns
// the status and the body.
func (t *trio) post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error) {
	for ctx.Err() == nil {
		m := t.members[int(t.turn.Add(1))%len(t.members)]
		status, answer, err = t.once(ctx, "http://"+m.listen+path, body)
		if err == nil && status < 500 && status != http.StatusTooManyRequests {
			return status, answer, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): // a member is away
		}
	}
	return 0, nil, context.Cause(ctx)
}

func (t *trio) once(ctx context.Context, url string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return answerTo(t.client, req)
}

// answerTo sends a request and returns status and body of the answer.
func answerTo(client *http.Client, req *http.Request) (status int, body []byte, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// may checks a call and reports whether it may be made.
func (t *trio) may(ctx context.Context, ev *events.Event) (bool, error) {
	status, text, err := t.post(ctx, "/v1/check", ev.AppendJSON(nil))
	switch {
	case err != nil:
		return false, err
	case status == http.StatusOK:
		return true, nil
	case status == http.StatusPaymentRequired, status == http.StatusForbidden:
		return false, nil
	}
	return false, fmt.Errorf("check of %s: status %d: %.300s", ev.ID, status, text)
}

// report sends events that happened.
func (t *trio) report(ctx context.Context, list ...*events.Event) error {
	var body []byte
	for _, ev := range list {
		body = append(ev.AppendJSON(body), '\n')
	}
	status, text, err := t.post(ctx, "/v1/events", body)
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("report %s: status %d: %.300s", list[0].ID, status, text)
	}
	return err
}

// get reads JSON of a member.
func (t *trio) get(ctx context.Context, m *member, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.listen+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}
