package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/phase"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

// running is an app under test, on a port of its own and a clock that stands still.
type running struct {
	*App
	t     *testing.T
	fake  *clock.Fake
	asked int
}

func (r *running) log() *state.Log { return r.store.Journal(0) }

func (r *running) pump() *pump.Pump { return r.backend.Pumps(pump.FlowStage)[0] }

// begin starts an app, after change has changed it.
func begin(t *testing.T, o Options, change ...func(*App)) *running {
	t.Helper()
	fake, given := o.Clock.(*clock.Fake)
	if !given {
		fake = clock.NewFake()
	}
	if o.Clock == nil {
		o.Clock = fake
	}
	o.Listen = "127.0.0.1:0"
	o.State.MemTableSize = 8 << 20
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range change {
		fn(a)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &running{App: a, t: t, fake: fake}
	t.Cleanup(r.stop)
	// What the start has put into the log is folded before a test moves the clock: otherwise the fold
	// looks as if it were behind.
	for p := a.backend.Progress()[0]; p.Next < p.End; p = a.backend.Progress()[0] {
		runtime.Gosched()
	}
	return r
}

// stop may be called twice.
func (r *running) stop() {
	r.t.Helper()
	if r.App == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		r.t.Error(err)
	}
	if err := r.Err(); err != nil {
		r.t.Error(err)
	}
	r.App = nil
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r *running) do(method, path, body string, header ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.Addr()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (r *running) want(got reply, status int, parts ...string) {
	r.t.Helper()
	if got.status != status {
		r.t.Fatalf("status %d, want %d: %s", got.status, status, got.body)
	}
	for _, p := range parts {
		if !strings.Contains(got.body, p) {
			r.t.Fatalf("%s does not hold %s", got.body, p)
		}
	}
}

// folded waits until the pump is past everything that was sent before, by asking. An
// answer comes before the verdicts of its batch are published, so it asks twice.
func (r *running) folded() {
	r.t.Helper()
	for range 2 {
		r.asked++
		ev := call(fmt.Sprint("barrier", r.asked), r.asked, "a", "b")
		r.want(r.do("POST", "/v1/check", string(ev.AppendJSON(nil))), 200)
	}
}

func (r *running) get(path string, v any) {
	r.t.Helper()
	got := r.do("GET", path, "")
	r.want(got, 200)
	if err := json.Unmarshal([]byte(got.body), v); err != nil {
		r.t.Fatalf("%s: %v", got.body, err)
	}
}

func lines(evs ...*events.Event) string {
	var out []byte
	for _, ev := range evs {
		out = append(ev.AppendJSON(out), '\n')
	}
	return string(out)
}

func (r *running) journalLines() (out []string) {
	r.t.Helper()
	for from := int64(0); ; {
		entries, err := r.log().Read(from, 1<<20, nil) // as much as one read may bring
		if err != nil {
			r.t.Fatal(err)
		}
		if len(entries) == 0 {
			return out
		}
		for _, e := range entries {
			out = append(out, string(e.Value))
		}
		from = entries[len(entries)-1].Offset + 1
	}
}

func (r *running) verdictLines() (out []string) {
	r.t.Helper()
	got := r.do("GET", "/v1/verdicts", "")
	r.want(got, 200)
	for line := range strings.Lines(got.body) {
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

func TestEndToEnd(t *testing.T) {
	dir := t.TempDir()
	r := begin(t, Options{StateDir: dir})
	r.want(r.do("GET", "/healthz", ""), 200, `"ok":true`)
	r.want(r.do("POST", "/v1/events", lines(selfCall("f1", 1), call("f1", 2, "a", "b"), selfCall("f/2", 1))), 202, `"accepted":3`, `"refused":[]`)
	r.folded()
	r.want(r.do("GET", "/readyz", ""), 200, `"ready":true`, `"why":[]`, `"disk_free_mib":`)
	verdicts := r.verdictLines()
	if len(verdicts) < 2 || !strings.Contains(verdicts[0], `"reason_code":"self_call"`) {
		t.Fatalf("verdicts %q", verdicts)
	}
	var flows pump.FlowList
	r.get("/v1/flows?limit=2", &flows)
	if len(flows.Flows) != 2 || flows.Scanned != 4 || flows.Truncated {
		t.Errorf("flows %+v", flows)
	}
	r.get("/v1/flows?sort=near", &flows)
	if len(flows.Flows) != 4 || flows.Flows[0].Nearest == nil || flows.Flows[3].Nearest != nil && flows.Flows[0].Nearest.Near < flows.Flows[3].Nearest.Near {
		t.Errorf("flows by nearness %+v", flows)
	}
	r.want(r.do("GET", "/v1/flows/f1", ""), 200, `"flow":"f1"`, `"events":2`, `"counters":[`, `"status":"stopped"`)
	r.want(r.do("GET", "/v1/flows/f%2F2", ""), 200, `"flow":"f/2"`)
	r.want(r.do("GET", "/v1/flows/none", ""), 404, `"detail":"nothing is known of flow`)
	if got := r.do("GET", "/v1/flows/f1/events", ""); got.body != lines(selfCall("f1", 1), call("f1", 2, "a", "b")) {
		t.Errorf("events of the flow: %s", got.body)
	}
	if got := r.do("GET", "/v1/flows/f1/events?all=1&limit=1", ""); got.body != lines(selfCall("f1", 1)) {
		t.Errorf("first event of the flow: %s", got.body)
	}
	r.want(r.do("GET", "/v1/flows?sort=size", ""), 400, "newest or near")
	r.want(r.do("GET", "/v1/flows?limit=-1", ""), 400, "not a number")

	// All of it is there after a restart, and nothing is said twice.
	r.stop()
	r = begin(t, Options{StateDir: dir})
	r.want(r.do("GET", "/v1/flows/f1", ""), 200, `"events":2`)
	r.get("/v1/flows", &flows)
	if len(flows.Flows) != 4 {
		t.Errorf("flows after a restart %+v", flows)
	}
	if got := r.verdictLines(); !slices.Equal(got, verdicts) {
		t.Errorf("verdicts after a restart %q", got)
	}
	r.want(r.do("POST", "/v1/events", lines(selfCall("f1", 1))), 202)
	r.asked = 10
	r.folded()
	if got := r.verdictLines(); !slices.Equal(got, verdicts) {
		t.Errorf("verdicts after a repeat %q", got)
	}
}

// TestKilled leaves the app as a kill would, at many moments, and compares what is
// left with an undisturbed fold of the journal.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	n := 0
	for range 12 {
		r := begin(t, Options{StateDir: dir})
		for range 5 {
			r.want(r.do("POST", "/v1/events", lines(selfCall(fmt.Sprint("f", n%3), n), call(fmt.Sprint("f", n%3), n+1, "a", "b"), selfCall(fmt.Sprint("g", n), n+2))), 202)
			n += 3
		}
		r.kill()
	}
	r := begin(t, Options{StateDir: dir})
	r.asked = n
	r.folded()
	entries, err := r.log().Read(0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pump.NewReplay(t.Context(), pump.Options{Limits: *r.limits.Current(), Parse: pump.ParseLimits})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	accepted := 0
	for _, e := range entries {
		var ev events.Event
		if err := events.Decode(e.Value, &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Kind == events.AgentCall && !strings.HasPrefix(ev.CorrelationID, "barrier") {
			accepted++
		}
		ev.Appended = e.Appended
		for _, v := range p.Fold(&ev, e.Offset) {
			want = append(want, string(v.AppendJSON(nil)))
		}
	}
	if accepted != n {
		t.Errorf("%d of %d acknowledged events are in the journal", accepted, n)
	}
	if got := r.verdictLines(); !slices.Equal(pumptest.ByStage(got), pumptest.ByStage(want)) {
		t.Errorf("%d verdicts, an undisturbed fold gives %d", len(got), len(want))
	}
}

// kill closes the store under the running app, so that what is under way fails as it
// does when the process ends.
func (r *running) kill() {
	r.t.Helper()
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Stop(ctx)                  // fails, for there is no store
	_ = r.Stop(context.Background()) // waits for goroutines that were asked to leave
	r.pump().CloseWithoutCheckpoint()
	r.App = nil
}

func TestTicksFireDeadlines(t *testing.T) {
	r := begin(t, Options{LimitsFile: limitsFile(t, "profile: balanced\nrules:\n  max_flow_duration: {warn: 60, stop: 120}\n")})
	r.want(r.do("POST", "/v1/events", lines(call("f", 1, "a", "b"))), 202)
	r.folded()
	// Nothing comes, but time passes.
	stream := r.follow("/v1/verdicts?flow=f", "Accept", "text/event-stream")
	r.passTime(func() {
		stream.until(`"action":"warn"`)
		stream.until(`"action":"halt"`)
	})
	if n := r.counts.Sum(); n.Ticks == 0 || n.Deadlines == 0 {
		t.Errorf("%d ticks, %d deadlines", n.Ticks, n.Deadlines)
	}
}

func limitsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// passTime lets time pass until fn returns.
func (r *running) passTime(fn func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
				r.fake.Advance(5 * time.Second)
				runtime.Gosched()
			}
		}
	}()
	fn()
	close(done)
	<-ended
}

// viewerOf is a stream that is read line by line.
type viewerOf struct {
	t      *testing.T
	lines  *bufio.Scanner
	cancel context.CancelFunc
	seen   []string
}

func (r *running) follow(path string, header ...string) *viewerOf {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addr()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	v := &viewerOf{t: r.t, lines: bufio.NewScanner(resp.Body), cancel: cancel}
	v.lines.Buffer(nil, 1<<20)
	r.t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	return v
}

// until reads to the first line with the text, and returns it.
func (v *viewerOf) until(text string) string {
	v.t.Helper()
	for v.lines.Scan() {
		v.seen = append(v.seen, v.lines.Text())
		if strings.Contains(v.lines.Text(), text) {
			return v.lines.Text()
		}
	}
	v.t.Fatalf("the stream ended (%v) before %q; it had %q", v.lines.Err(), text, v.seen)
	return ""
}

func TestDiskLowRefusesIntake(t *testing.T) {
	dir := t.TempDir()
	first := begin(t, Options{StateDir: dir})
	first.want(first.do("POST", "/v1/events", lines(selfCall("f", 1))), 202)
	first.stop()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	// Enough to open, too little to write.
	r := begin(t, Options{StateDir: dir, State: state.Options{MinFree: int64(st.Bavail) * int64(st.Bsize) / 2 * 3}})
	got := r.do("POST", "/v1/events", lines(selfCall("f", 2)))
	r.want(got, 503, "free disk space")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.want(r.do("POST", "/v1/check", lines(selfCall("f", 3))), 503, "free disk space")
	r.want(r.do("GET", "/readyz", ""), 503, "too little free disk space")
	r.want(r.do("GET", "/healthz", ""), 200)
	r.want(r.do("GET", "/v1/flows/f", ""), 200, `"events":1`)
}

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "token")
	if err := os.WriteFile(short, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "limits.yaml")
	if err := os.WriteFile(bad, []byte("profile: balanced\nmax_depth: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(o Options, want string) {
		t.Helper()
		a, err := New(o)
		if err == nil {
			err = a.Start(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(Options{Listen: "0.0.0.0:0"}, "no token")
	f(Options{Listen: ":0"}, "no token")
	f(Options{Listen: "127.0.0.1"}, "host:port")
	f(Options{AdminTokenFile: short}, "at least 32")
	f(Options{AdminTokenFile: filepath.Join(dir, "none")}, "no such file")
	f(Options{LimitsFile: bad}, "max_depth")
	f(Options{Listen: "127.0.0.1:0", WebhookURL: "example.com"}, "http://")
	f(Options{Listen: "127.0.0.1:0", Follow: []intake.Follow{{Path: short}}}, "unknown format")
	f(Options{Listen: "127.0.0.1:0", Follow: []intake.Follow{{Path: short, Format: "csv"}}}, "csv")
	f(Options{Listen: "127.0.0.1:0", Follow: []intake.Follow{{Path: dir, Format: "csv"}}}, "csv")
	f(Options{Follow: []intake.Follow{{Path: short}, {Path: short}}}, "twice")
	f(Options{Tick: -1}, "negative")
	taken := begin(t, Options{})
	f(Options{Listen: taken.Addr()}, "choose another address")
}

var call, selfCall = pumptest.Call, pumptest.SelfCall

// TestStartFailsLate takes the address of the gateways: everything runs by then, and has
// to end before what it works with is closed.
func TestStartFailsLate(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	for range 3 {
		a, err := New(Options{Listen: "127.0.0.1:0", StateDir: dir, AuthzGRPC: taken.Addr().String(), Clock: clock.NewFake()})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another address") {
			t.Fatalf("started: %v", err)
		}
		for _, p := range []*phase.Phase{a.intake, a.leaving} {
			if p.Over().Err() == nil {
				t.Fatal("the store was closed under what runs")
			}
		}
		if err := a.Err(); err != nil {
			t.Errorf("it failed on a store that was closed: %v", err)
		}
	}
	begin(t, Options{StateDir: dir})
}
