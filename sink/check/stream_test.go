package check

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/events"
)

// streamed is a stream of asks to a server of its own.
type streamed struct {
	t    testing.TB
	out  *io.PipeWriter
	in   *bufio.Reader
	resp *http.Response
}

func openStream(t testing.TB, s *Stream, query string) *streamed {
	t.Helper()
	if s.Fail == nil {
		s.Fail = func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusBadRequest
			if e, ok := errors.AsType[*Error](err); ok {
				status = e.Status
			}
			if _, ok := errors.AsType[*Panic](err); ok {
				status = http.StatusInternalServerError
			}
			w.Header().Set("Connection", "close") // or the server waits for the rest of the request
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"detail":%q}`, err)
		}
	}
	if s.End == nil {
		s.End = t.Context()
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	body, out := io.Pipe()
	t.Cleanup(func() { _ = out.Close() })
	resp, err := http.Post(server.URL+StreamPath+query, "application/x-ndjson", body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return &streamed{t, out, bufio.NewReader(resp.Body), resp}
}

func (s *streamed) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.out, text); err != nil {
		s.t.Fatal(err)
	}
}

// want reads the answer to one line.
func (s *streamed) want(line, status int, part string) {
	s.t.Helper()
	text, err := s.in.ReadString('\n')
	var got struct {
		Line, Status int
		Body         json.RawMessage
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &got)
	}
	if err != nil || got.Line != line || got.Status != status || !strings.Contains(string(got.Body), part) {
		s.t.Fatalf("got %s (%v), want line %d, status %d, %s", text, err, line, status, part)
	}
}

func (s *streamed) wantEnd() {
	s.t.Helper()
	if text, err := s.in.ReadString('\n'); !errors.Is(err, io.EOF) || text != "" {
		s.t.Fatalf("got %q (%v), want the end", text, err)
	}
}

func allow() *events.Verdict {
	return &events.Verdict{ID: "v2", Mode: "enforce", Action: "allow", Reason: "allowed"}
}

// TestStreamAnswersAsItJudges gives an answer while the request goes on, does not let one that is
// slow hold up the others, and gives every answer when the request has ended.
func TestStreamAnswersAsItJudges(t *testing.T) {
	slow := make(chan struct{})
	s := openStream(t, &Stream{Handler: Handler{Check: oneByOne(func(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
		var again events.Event
		if err := events.Decode(raw, &again); err != nil || !again.Ask || again.ID != ev.ID {
			t.Errorf("asked with %s (%v)", raw, err)
		}
		switch ev.ID {
		case "slow":
			<-slow
		case "refused":
			return &events.Verdict{ID: "v1", Mode: "enforce", Action: "throttle", Reason: "call_rate_exceeded", RetryAfterS: 7}, nil
		case "late":
			return nil, ErrTimeout
		}
		return allow(), nil
	})}}, "")
	if got := s.resp.Header.Get("Content-Type"); s.resp.StatusCode != http.StatusOK || got != "application/x-ndjson" {
		t.Errorf("status %s, type %q", s.resp.Status, got)
	}
	s.send(lineOfMany("1") + "\n")
	s.want(1, 200, `{"verdict":{"id":"v2"`)
	s.send(lineOfMany("slow") + "\n\n{}\r\n")
	s.want(4, 400, "missing_field")
	s.send(lineOfMany("refused") + "\n")
	s.want(5, 429, `"retry_after_s":7`)
	s.send(lineOfMany("late")) // the last line needs no end
	if err := s.out.Close(); err != nil {
		t.Fatal(err)
	}
	s.want(6, 400, "takes too long")
	close(slow)
	s.want(2, 200, `"v2"`)
	s.wantEnd()
}

// TestStreamAsksTogether asks together for what has come together, and lets one that is
// answered late hold up neither its companions nor who comes after it.
func TestStreamAsksTogether(t *testing.T) {
	late := make(chan struct{})
	var several []int
	s := openStream(t, &Stream{Handler: Handler{Check: func(asks []*Request) {
		several = append(several, len(asks))
		for _, q := range asks {
			var again events.Event
			if err := events.Decode(q.Raw, &again); err != nil || !again.Ask || again.ID != q.Event.ID {
				t.Errorf("asked with %s (%v)", q.Raw, err)
			}
			verdict := allow()
			verdict.ID = q.Event.ID
			switch q.Event.ID {
			case "late":
				q.Wait = func() (*events.Verdict, error) { <-late; return verdict, nil }
			case "wrong":
				q.Err = ErrTimeout
			default:
				q.Verdict = verdict
			}
		}
	}}}, "")
	s.send(lineOfMany("late") + "\n\n" + lineOfMany("wrong") + "\n{}\n" + lineOfMany("quick") + "\n")
	s.want(3, 400, "takes too long")
	s.want(4, 400, "missing_field")
	s.want(5, 200, `{"verdict":{"id":"quick"`)
	s.send(lineOfMany("again") + "\n")
	s.want(6, 200, `{"verdict":{"id":"again"`)
	close(late)
	s.want(1, 200, `{"verdict":{"id":"late"`)
	if err := s.out.Close(); err != nil {
		t.Fatal(err)
	}
	s.wantEnd()
	if fmt.Sprint(several) != "[3 1]" {
		t.Errorf("asked for %v together", several)
	}
}

// TestStreamIsRefused answers as any request what cannot be a stream of asks.
func TestStreamIsRefused(t *testing.T) {
	s := openStream(t, &Stream{}, "?deny=what")
	if s.resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %s", s.resp.Status)
	}
}

// TestStreamReadsNoMoreThanItMayHold reads on when answers have gone out.
func TestStreamReadsNoMoreThanItMayHold(t *testing.T) {
	asked, judged := make(chan struct{}, 4*MostAsks), make(chan struct{})
	s := openStream(t, &Stream{Handler: Handler{Check: oneByOne(func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
		asked <- struct{}{}
		<-judged
		return allow(), nil
	})}}, "")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range 2 * MostAsks {
			if _, err := io.WriteString(s.out, lineOfMany(fmt.Sprint(i))+"\n"); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range MostAsks {
		<-asked
	}
	select {
	case <-asked:
		t.Error("more is asked for than may wait")
	default:
	}
	close(judged)
	for range 2 * MostAsks {
		if _, err := s.in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	<-sent
}

// TestStreamRefusesALineThatIsTooLong and reads no more: where the next begins is not known.
func TestStreamRefusesALineThatIsTooLong(t *testing.T) {
	s := openStream(t, &Stream{}, "")
	go func() { _, _ = io.WriteString(s.out, strings.Repeat(" ", events.MaxEventBytes+8<<10)) }()
	s.want(1, http.StatusRequestEntityTooLarge, "1048576 bytes")
	s.wantEnd()
}

// TestStreamEndsWithTheProgram gives the answers that wait, and no more.
func TestStreamEndsWithTheProgram(t *testing.T) {
	ending, end := context.WithCancel(t.Context())
	asked, judged := make(chan struct{}), make(chan struct{})
	s := openStream(t, &Stream{End: ending, Handler: Handler{Check: oneByOne(func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
		close(asked)
		<-judged
		return allow(), nil
	})}}, "")
	s.send(lineOfMany("1") + "\n")
	<-asked
	end()
	close(judged)
	s.want(1, 200, `"v2"`)
	s.wantEnd()
}

// TestStreamAsksInTurn holds that each ask is let in by itself.
func TestStreamAsksInTurn(t *testing.T) {
	n, ended := 0, make(chan struct{}, 3)
	s := openStream(t, &Stream{
		Begin: func(stream context.Context) (context.Context, func(), error) {
			if n++; n == 2 {
				return nil, nil, &Error{http.StatusUnauthorized, "the token was taken out"}
			}
			return stream, func() { ended <- struct{}{} }, nil
		},
		Handler: Handler{Check: oneByOne(func(context.Context, *events.Event, []byte) (*events.Verdict, error) { return allow(), nil })}}, "")
	for i, status := range []int{200, 401, 200} {
		s.send(lineOfMany(fmt.Sprint(i)) + "\n")
		part := `"v2"`
		if status != 200 {
			part = "taken out"
		}
		s.want(i+1, status, part)
	}
	<-ended
	<-ended
}
