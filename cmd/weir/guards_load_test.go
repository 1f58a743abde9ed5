//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/cmd/weirtest"
	"weir/events"
	"weir/sink/check"
	"weir/sink/guard"
)

var (
	guardsLoad    = flag.Duration("guards-load", 0, "how long TestGuardsUnderLoad runs, with the guards of Python and TypeScript; 0: some seconds, Go alone")
	guardsBrokers = flag.String("guards-brokers", "", "brokers of a Kafka cluster: TestGuardsUnderLoad kills one of two members of a group there")
	guardsKill    = flag.Duration("guards-kill", 10*time.Second, "time between kills of weir in TestGuardsUnderLoad")
)

// loadResult is what a driver has seen. Times are Unix seconds.
type loadResult struct {
	Answers int          `json:"answers"` // of weir
	Memory  [][2]float64 `json:"memory"`  // checks that weir did not answer: from, to
	Wrong   []string     `json:"wrong"`
	mu      sync.Mutex
}

// guardsUnderLoad is a weir that is killed beside guards that check calls.
type guardsUnderLoad struct {
	*testing.T
	address string
	state   string
	token   string // file
	until   time.Time
	away    [][2]float64 // from each kill until weir was ready again
}

const loadToken = "token-of-the-load-test-0123456789"

// loadTimeout is how long a guard waits for an answer, far longer than weir takes to say that it has none.
const loadTimeout = 30 * time.Second

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func (l *guardsUnderLoad) start() *weirtest.Weir {
	return l.member(l.address, l.state)
}

// member starts a weir, which with brokers is a member of a group.
func (l *guardsUnderLoad) member(address, state string) *weirtest.Weir {
	args := []string{"--state", state, "--listen", address, "--admin-token-file", l.token, "--limits", l.token + ".yaml"}
	if *guardsBrokers != "" {
		args = append(args, "--brokers", *guardsBrokers, "--advertise", "http://"+address)
	}
	weir := weirtest.Run(l, args...)
	weir.Ready()
	return weir
}

// TestGuardsUnderLoad checks calls by each guard with hundreds in flight, and by batches, beside loops that
// weir stops and kills of weir. No answer may be wrong, lost or doubled. Calls of stopped flows are
// refused and others allowed, and each call of a flow lowers the remaining part of its limit by one. Each
// check has an answer of weir, or weir is unreachable or says that it has none in time.
func TestGuardsUnderLoad(t *testing.T) {
	folder, lasts := t.TempDir(), *guardsLoad
	if lasts == 0 {
		lasts, *guardsKill = 4*time.Second, 2*time.Second
	}
	l := &guardsUnderLoad{T: t, address: weirtest.Address(t), state: filepath.Join(folder, "state"), token: filepath.Join(folder, "token")}
	for file, text := range map[string]string{l.token: loadToken + "\n", l.token + ".yaml": "degraded: {after: 0s}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if *guardsBrokers != "" {
		if out, err := exec.Command(weirtest.Binary(t), "topics", "create", "--brokers", *guardsBrokers, "--partitions", "8").CombinedOutput(); err != nil {
			t.Fatalf("no topics: %v: %s", err, out)
		}
		peer := l.member(weirtest.Address(t), filepath.Join(folder, "peer"))
		defer func() {
			if code := peer.End(syscall.SIGTERM); code != 0 {
				t.Errorf("the other member exits with %d", code)
			}
		}()
	}
	weir := l.start()
	for n := range 20 {
		if code := l.post(fmt.Sprintf("/v1/flows/stopped-%d/stop", n), `{"reason":"load","by":"test"}`, "application/json"); code != http.StatusAccepted {
			t.Fatalf("a flow is not stopped: status %d", code)
		}
	}
	l.until = time.Now().Add(lasts)
	results, all := make(map[string]*loadResult), new(sync.WaitGroup)
	drive := func(name string, fn func(*loadResult)) {
		r := new(loadResult)
		results[name] = r
		all.Go(func() { fn(r) })
	}
	drive("Go guard, 300 in flight", l.goGuard)
	drive("batches of 64", l.batches)
	if *guardsLoad > 0 {
		root, seconds := weirtest.Root(), fmt.Sprint(lasts.Seconds())
		drive("Python guard, 150 threads", func(r *loadResult) {
			l.program(r, "python3", "testdata/guards_load.py", filepath.Join(root, "sink/guard/python"), "http://"+l.address, "150", seconds)
		})
		module := l.compileGuard(root)
		drive("TypeScript guard, 1,000 in flight", func(r *loadResult) {
			l.program(r, "node", "testdata/guards_load.mjs", module, "http://"+l.address, "1000", seconds)
		})
	}
	all.Go(l.loops)
	kills := 0
	for next := time.Now().Add(*guardsKill); next.Before(l.until.Add(-time.Second)); next = time.Now().Add(*guardsKill) {
		<-time.After(time.Until(next))
		from := time.Now()
		weir.Signal(syscall.Signal(0)) // it has not ended by itself
		weir.Kill()
		weir = l.start()
		l.away = append(l.away, [2]float64{unix(from), unix(time.Now())})
		kills++
	}
	all.Wait()
	if code := weir.End(syscall.SIGTERM); code != 0 {
		t.Errorf("weir exits with %d", code)
	}
	total := 0
	for name, r := range results {
		late, lost := l.unanswered(r)
		t.Logf("%-34s %9d answers of weir, %d from memory in %d kills and %d beside them, %d wrong or doubled, %d lost",
			name, r.Answers, len(r.Memory)-late-lost, kills, late, len(r.Wrong), lost)
		if total += r.Answers; len(r.Wrong) > 0 || lost > 0 || late >= r.Answers { // also without any answer
			t.Errorf("%s: wrong: %.600q", name, r.Wrong[:min(3, len(r.Wrong))])
		}
	}
	t.Logf("%d answers in %s, %.0f a second", total, lasts, float64(total)/lasts.Seconds())
}

// unanswered counts the checks that weir did not answer though it was there from their beginning to
// their end: late, if weir said that it has no answer in time, as on a busy machine, and lost, if nothing came.
func (l *guardsUnderLoad) unanswered(r *loadResult) (late, lost int) {
	for _, m := range r.Memory {
		excused := false
		for _, a := range l.away {
			excused = excused || m[0] <= a[1] && m[1] >= a[0]
		}
		switch {
		case excused:
		case m[1]-m[0] > (loadTimeout - 5*time.Second).Seconds():
			lost++
		default:
			late++
		}
	}
	return late, lost
}

func (l *guardsUnderLoad) post(path, body, kind string) int {
	r, err := http.NewRequestWithContext(l.Context(), http.MethodPost, "http://"+l.address+path, strings.NewReader(body))
	if err != nil {
		l.Error(err)
		return 0
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "Bearer "+loadToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// goGuard checks calls by 300 goroutines, which share a stream of checks while weir is there.
func (l *guardsUnderLoad) goGuard(r *loadResult) {
	g, err := guard.New(guard.Options{URL: "http://" + l.address, Quiet: true, AskTimeout: loadTimeout})
	if err != nil {
		l.Error(err)
		return
	}
	defer g.Close()
	var all sync.WaitGroup
	for n := range 300 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for flows := 0; time.Now().Before(l.until); flows++ {
				flow, stopped := fmt.Sprintf("go-%d-%d", n, flows), random.IntN(8) == 0
				if stopped {
					flow = fmt.Sprintf("stopped-%d", random.IntN(20))
				}
				l.goFlow(g, r, flow, stopped, 3+random.IntN(6))
			}
		})
	}
	all.Wait()
	if n := g.Counts(); n.Panics.Load()+n.Faults.Load() > 0 {
		l.Errorf("the guard has %d panics and %d faults", n.Panics.Load(), n.Faults.Load())
	}
}

// goFlow makes the calls of one flow.
func (l *guardsUnderLoad) goFlow(g *guard.Guard, r *loadResult, flow string, stopped bool, calls int) {
	last, missing := -1.0, 0.0
	for range calls {
		begun := time.Now()
		d := g.Ask(l.Context(), guard.Call{Flow: flow, From: "a-" + flow, To: "b-" + flow, HadWork: events.Yes, Tell: true})
		ofWeir, wrong := d.Source == guard.FromWeir, ""
		if d.Stopped() != stopped && (ofWeir || stopped) {
			wrong = fmt.Sprintf("%s: %s by %s", flow, d.Action, d.Source)
		}
		if ofWeir && stopped && (d.Verdict == nil || d.Verdict.CorrelationID != flow) {
			wrong = fmt.Sprintf("%s: refused by %+v", flow, d.Verdict)
		}
		if ofWeir && !stopped {
			left := -1.0
			for _, rest := range d.Remaining {
				if rest.RuleID == "max_total_calls" {
					left = rest.Left
				}
			}
			if left < 0 || last >= 0 && (left > last-1 || left < last-1-missing) {
				wrong = fmt.Sprintf("%s: %v left after %v and %v from memory", flow, left, last, missing)
			}
			last, missing = left, 0
		}
		r.mu.Lock()
		if wrong != "" {
			r.Wrong = append(r.Wrong, wrong)
		}
		if ofWeir {
			r.Answers++
		} else {
			r.Memory = append(r.Memory, [2]float64{unix(begun), unix(time.Now())})
		}
		r.mu.Unlock()
		if !ofWeir {
			missing++
			<-time.After(100 * time.Millisecond)
		}
	}
}

// batches sends checks in requests of 64, of which each answer names its flow.
func (l *guardsUnderLoad) batches(r *loadResult) {
	random := rand.New(rand.NewPCG(2, 2))
	for n := 0; time.Now().Before(l.until); n++ {
		var body []byte
		flows := make([]string, check.MostAsks)
		for i := range flows {
			if flows[i] = fmt.Sprintf("batch-%d-%d", n, i); random.IntN(8) == 0 {
				flows[i] = fmt.Sprintf("stopped-%d", random.IntN(20))
			}
			ev := events.Event{ID: fmt.Sprintf("batch-%d-%d", n, i), Source: "load", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: flows[i],
				From: events.Party{Agent: "a-" + flows[i]}, To: events.Party{Agent: "b-" + flows[i]}, HadWork: events.Yes}
			body = append(ev.AppendJSON(body), '\n')
		}
		begun := time.Now()
		missing, wrong := l.batch(body, flows)
		r.Wrong = append(r.Wrong, wrong...)
		if r.Answers += len(flows) - missing; missing > 0 {
			r.Memory = append(r.Memory, [2]float64{unix(begun), unix(time.Now())})
			<-time.After(100 * time.Millisecond)
		}
	}
}

// batch sends one, and returns how many answers are missing and which are wrong.
func (l *guardsUnderLoad) batch(body []byte, flows []string) (missing int, wrong []string) {
	resp, err := http.Post("http://"+l.address+"/v1/check", "application/x-ndjson", bytes.NewReader(body))
	if err != nil {
		return len(flows), nil
	}
	defer resp.Body.Close()
	in := json.NewDecoder(resp.Body)
	for i, flow := range flows {
		var got struct {
			Status int
			Body   json.RawMessage
		}
		if err := in.Decode(&got); err != nil || got.Status == http.StatusServiceUnavailable {
			missing++
			continue
		}
		stopped := strings.HasPrefix(flow, "stopped-")
		if (got.Status != http.StatusOK) != stopped || !strings.Contains(string(got.Body), `"correlation_id":"`+flow+`"`) {
			wrong = append(wrong, fmt.Sprintf("line %d of %s: %d %.200s", i+1, flow, got.Status, got.Body))
		}
	}
	if in.More() {
		wrong = append(wrong, "more answers than lines")
	}
	return missing, wrong
}

// loops reports loops that weir stops.
func (l *guardsUnderLoad) loops() {
	for n := 0; time.Now().Before(l.until); n++ {
		var body []byte
		for i := range 14 {
			ev := events.Event{ID: fmt.Sprintf("loop-%d-%d", n, i), Source: "loops", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: fmt.Sprintf("loop-%d", n),
				From: events.Party{Agent: "ab"[i%2 : i%2+1]}, To: events.Party{Agent: "ba"[i%2 : i%2+1]}, HadWork: events.No}
			body = append(ev.AppendJSON(body), '\n')
		}
		l.post("/v1/events", string(body), "application/x-ndjson")
		<-time.After(20 * time.Millisecond)
	}
}

// program runs a driver in another language, which prints what it has seen.
func (l *guardsUnderLoad) program(r *loadResult, command ...string) {
	run := exec.CommandContext(l.Context(), command[0], command[1:]...)
	run.Stderr = os.Stderr
	out, err := run.Output()
	if err == nil {
		err = json.Unmarshal(out, r)
	}
	if err != nil {
		l.Errorf("%s: %v: %.500s", command[1], err, out)
	}
}

// compileGuard makes a module of JavaScript of the TypeScript guard.
func (l *guardsUnderLoad) compileGuard(root string) string {
	from, to := filepath.Join(root, "sink/guard/typescript"), l.TempDir()
	if text, err := exec.Command("node", filepath.Join(from, "node_modules/typescript/bin/tsc"), "-p", from, "--outDir", to).CombinedOutput(); err != nil {
		l.Fatalf("weir-guard.ts does not compile; install its compiler with npm ci --prefix sink/guard/typescript: %v\n%s", err, text)
	}
	if err := os.WriteFile(filepath.Join(to, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		l.Fatal(err)
	}
	return filepath.Join(to, "weir-guard.js")
}
