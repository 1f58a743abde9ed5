package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/intake"
	"weir/sink/prom"
	"weir/sink/webhook"
)

func appendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// followed waits until the journal holds as many events of the flow, and returns
// their ids in order.
func (r *running) followed(flow string, n int) []string {
	r.t.Helper()
	var ids []string
	r.passTime(func() {
		for {
			end := r.log().End()
			ids = ids[:0]
			for _, line := range r.journalLines() {
				var ev struct {
					ID   string
					Flow string `json:"correlation_id"`
				}
				if err := json.Unmarshal([]byte(line), &ev); err == nil && ev.Flow == flow {
					ids = append(ids, ev.ID)
				}
			}
			if len(ids) >= n {
				return
			}
			select {
			case <-r.log().Ready(end):
			case <-r.Done():
				r.t.Fatal(r.Err())
			}
		}
	})
	return ids
}

// ids are those of the first events of a flow.
func ids(flow string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", flow, i))
	}
	return out
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events.jsonl")
	o := Options{Clock: clock.NewFake(), StateDir: filepath.Join(dir, "state"), Follow: []intake.Follow{{Path: path}}}
	n := 0
	write := func() {
		t.Helper()
		appendFile(t, path, lines(call("f", n, "a", "b")))
		n++
	}
	rotate := func() {
		t.Helper()
		if err := os.Rename(path, fmt.Sprintf("%s.%d", path, n)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(r *running) {
		t.Helper()
		if got := r.followed("f", n); !slices.Equal(got, ids("f", n)) {
			t.Fatalf("the journal has %q, want %d in order", got, n)
		}
	}
	write()
	write()
	r := begin(t, o)
	check(r)
	write()
	check(r)
	appendFile(t, path, "garbage\n")
	write()
	rotate()
	write()
	check(r)
	// While no weir follows: more lines, a rotation, half a line.
	r.stop()
	write()
	rotate()
	write()
	half := lines(call("f", n, "a", "b"))
	appendFile(t, path, half[:20])
	r = begin(t, o)
	check(r)
	appendFile(t, path, half[20:])
	n++
	check(r)
	r.want(r.do("GET", "/v1/deadletters", ""), 200, `"count":1`, fmt.Sprintf(`"source":%q`, path), `"raw":"garbage"`)
	r.want(r.do("GET", "/readyz", ""), 200, `"format":"canonical"`)
	// Killed, not stopped.
	write()
	check(r)
	r.kill()
	write()
	r = begin(t, o)
	r.followed("f", n)
	var flow struct{ Events int }
	r.folded()
	if r.get("/v1/flows/f", &flow); flow.Events != n {
		t.Errorf("%d events were folded, want %d", flow.Events, n)
	}
}

// TestFollowPairs stops between a tool's call and its result, which the adapter has
// to pair.
func TestFollowPairs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "session.jsonl")
	o := Options{StateDir: filepath.Join(dir, "state"), Follow: []intake.Follow{{Path: path}}}
	const head = `"sessionId":"s","promptId":"p","version":"2.1.0","cwd":"/","isSidechain":false,"userType":"external",`
	appendFile(t, path, `{`+head+`"type":"user","uuid":"1","parentUuid":null,"timestamp":"2026-11-20T14:00:00Z","message":{"role":"user","content":"go"}}
{`+head+`"type":"assistant","uuid":"2","parentUuid":"1","timestamp":"2026-11-20T14:00:01Z","message":{"id":"m","role":"assistant","model":"x","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
`)
	r := begin(t, o)
	kinds := func(want string) {
		t.Helper()
		var got []string
		r.passTime(func() {
			for {
				end := r.log().End()
				got = got[:0]
				for _, line := range r.journalLines() {
					var ev struct {
						Kind string
						Tool struct{ Name string }
					}
					if err := json.Unmarshal([]byte(line), &ev); err == nil && strings.HasPrefix(ev.Kind, "tool.") {
						got = append(got, ev.Kind+" "+ev.Tool.Name)
					}
				}
				if len(got) > 0 && got[len(got)-1] == want {
					return
				}
				<-r.log().Ready(end)
			}
		})
		if n := len(got); n != map[string]int{"tool.call Bash": 1, "tool.result Bash": 2}[want] {
			t.Errorf("the journal has %q", got)
		}
	}
	kinds("tool.call Bash")
	r.stop()
	appendFile(t, path, `{`+head+`"type":"user","uuid":"3","parentUuid":"2","timestamp":"2026-11-20T14:00:02Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a b c"}]}}
`)
	r = begin(t, o)
	kinds("tool.result Bash")
}

// TestFollowPipe reads a pipe to its end, where the adapter gives away what it holds.
func TestFollowPipe(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := begin(t, Options{Follow: []intake.Follow{{Path: fmt.Sprintf("/dev/fd/%d", reader.Fd())}}})
	if _, err := writer.WriteString(lines(call("f", 0, "a", "b"), call("f", 1, "a", "b")) + strings.TrimSuffix(lines(call("f", 2, "a", "b")), "\n")); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if got := r.followed("f", 3); !slices.Equal(got, ids("f", 3)) {
		t.Errorf("the journal has %q", got)
	}
	r.passTime(func() {
		for !r.reading.States()[0].Ended {
			<-r.fake.Asked()
		}
	})
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if s := r.reading.States()[0]; s.Records != 3 || s.Bad != 0 || s.Format != "canonical" {
		t.Errorf("status %+v", s)
	}
}

func TestFollowUnknown(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "later.log")
	r := begin(t, Options{Follow: []intake.Follow{{Path: path}}})
	r.folded()
	r.want(r.do("GET", "/readyz", ""), 200)
	appendFile(t, path, "neither this\nnor that\n")
	r.passTime(func() {
		for r.reading.States()[0].Error == "" {
			<-r.fake.Asked()
		}
	})
	r.want(r.do("GET", "/readyz", ""), 200, "unknown format", "not followed any more")
}

// A file that is compressed does not grow: weir says so at the start, also where its format
// is named, and does not wait for the end of its first line.
func TestFollowCompressed(t *testing.T) {
	dir := t.TempDir()
	for name, head := range map[string]string{"a.jsonl.gz": "\x1f\x8b\x08", "b.jsonl.zst": "\x28\xb5\x2f\xfd"} {
		path := filepath.Join(dir, name)
		appendFile(t, path, head)
		for _, format := range []string{"", "canonical"} {
			a, err := New(Options{Listen: "127.0.0.1:0", Follow: []intake.Follow{{Path: path, Format: format}}})
			if err == nil {
				err = a.Start(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), name+": it is compressed") {
				t.Errorf("%s as %q: %v", name, format, err)
			}
		}
	}
}

func TestVerdictFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "verdicts.jsonl")
	o := Options{StateDir: filepath.Join(dir, "state"), VerdictFile: path}
	var want []string
	for i := range 4 {
		r := begin(t, o)
		r.asked = 100 * i
		r.want(r.do("POST", "/v1/events", lines(selfCall(fmt.Sprint("f", i), i))), 202)
		r.folded()
		want = r.verdictLines()
		if i == 1 {
			r.kill()
			continue
		}
		if i == 2 {
			if err := r.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		r.stop()
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); got != strings.Join(append(want, ""), "\n") {
		t.Errorf("the file holds %s\nwant %q", got, want)
	}
}

func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []string
	tries := 0
	arrived := make(chan int, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get(webhook.SignatureHeader) == "" {
			t.Error("a delivery is not signed")
		}
		got = append(got, r.Header.Get(webhook.PositionHeader))
		arrived <- len(got)
	}))
	defer server.Close()
	o := Options{StateDir: t.TempDir(), WebhookURL: server.URL, WebhookSecretFile: tokenFile(t, adminSecret)}
	r := begin(t, o)
	wait := func(n int) {
		r.passTime(func() {
			for n > <-arrived {
			}
		})
	}
	r.want(r.do("POST", "/v1/events", lines(selfCall("f1", 1), selfCall("f2", 2))), 202)
	wait(2)
	r.passTime(func() { // or the answer to the second may not have come, and it would be sent again
		name := fmt.Sprintf("webhook:%016x", xxhash.Sum64String(server.URL))
		for next := ""; next != "2"; {
			b, _, err := r.store.Cursor(name)
			if err != nil {
				t.Fatal(err)
			}
			next = string(b)
		}
	})
	var m prom.Reading
	r.api.Measure(&m)
	if want := []prom.Posted{{To: "webhook", Delivered: 2, Failures: 2}}; !slices.Equal(m.Posted, want) {
		t.Errorf("counted %v, want %v", m.Posted, want)
	}
	r.stop()
	r = begin(t, o)
	r.want(r.do("POST", "/v1/events", lines(selfCall("f3", 3))), 202)
	wait(3)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"0", "1", "2"}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}
