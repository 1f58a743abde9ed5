package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weir/events"
	"weir/sink/check"
	"weir/sink/guard"
)

// driver checks calls by one guard in one way. All lanes make their next call at the same moments, so
// that this number is in flight.
type driver struct {
	name, way string
	lanes     int
	share     float64 // of all answers
	member    int     // that it asks
	run       func(ctx context.Context, d *driver) error
	program   func(a *answers) ([]string, error) // in another language

	answers *answers
	seen    *seen
	flows   *os.File
	command []string      // of the program
	every   time.Duration // between two calls of a lane
}

// answerDrivers are all of them. Most answers come by the ways that cost least.
var answerDrivers = []driver{
	{name: "Go guard", way: "stream", lanes: 300, share: 38, member: 0, run: goGuard},
	{name: "Go guard", way: "request", lanes: 64, share: 3, member: 1, run: goGuard},
	{name: "client", way: "stream", lanes: 1000, share: 26, member: 1, run: rawStream},
	{name: "client", way: "batch", lanes: 4 * check.MostAsks, share: 26, member: 2, run: rawBatches},
	{name: "client", way: "request", lanes: 32, share: 1, member: 0, run: rawRequests},
	{name: "Python guard", way: "batch and request", lanes: 150, share: 2, member: 1, run: runProgram, program: pythonGuard},
	{name: "TypeScript guard", way: "batch and request", lanes: 1000, share: 4, member: 2, run: runProgram, program: typescriptGuard},
}

// answerTimeout is how long a check waits, far longer than weir takes to say that it has no answer.
const answerTimeout = 30 * time.Second

// lane makes the n-th lane.
func (d *driver) lane(n int) *lane {
	name := fmt.Sprintf("%s-%s-%d", strings.ToLower(d.name[:2]), strings.ToLower(d.way[:1]), n)
	return &lane{seen: d.seen, name: name, random: rand.New(rand.NewPCG(d.answers.seed, uint64(n))), flows: d.flows, loops: d.answers.looping}
}

// moments calls fn at each moment of the driver until the time is over.
func (d *driver) moments(ctx context.Context, fn func()) {
	began := time.Now()
	for {
		at := began.Add((time.Since(began)/d.every + 1) * d.every)
		if at.After(d.answers.until) {
			return
		}
		select {
		case <-time.After(time.Until(at)):
			fn()
		case <-ctx.Done():
			return
		}
	}
}

// noStream answers for a gateway that lets no stream through, so that each check is a request.
type noStream struct{ http.RoundTripper }

func (n noStream) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != check.StreamPath {
		return n.RoundTripper.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusNotFound, Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}

// goGuard checks by goroutines that share a guard.
func goGuard(ctx context.Context, d *driver) error {
	o := guard.Options{URL: d.answers.weirs.url(d.member), Quiet: true, AskTimeout: answerTimeout}
	if d.way == "request" {
		o.Client = &http.Client{Transport: noStream{&http.Transport{MaxIdleConnsPerHost: d.lanes}}}
	}
	g, err := guard.New(o)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := g.Wait(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	for n := range d.lanes {
		all.Go(func() {
			l := d.lane(n)
			defer l.end()
			d.moments(ctx, func() {
				flow, from, to, loop := l.call()
				c := guard.Call{Flow: flow, From: from, To: to, HadWork: events.Yes, Tell: true}
				if loop {
					c.HadWork = events.No
				}
				d.seen.begin(1)
				a := answer{begun: time.Now()}
				got := g.Ask(ctx, c)
				a.ofWeir, a.stopped, a.left = got.Source == guard.FromWeir, got.Stopped(), leftOf(got.Remaining)
				if got.Verdict != nil && a.ofWeir {
					a.order, a.flow = orderOf(got.Verdict.ID), got.Verdict.CorrelationID
				}
				l.take(a)
			})
		})
	}
	all.Wait()
	if c := g.Counts(); c.Panics.Load()+c.Faults.Load() > 0 {
		return fmt.Errorf("the guard has %d panics and %d faults", c.Panics.Load(), c.Faults.Load())
	}
	return nil
}

// rawCheck is a check of a client without a guard, whose answer has to have its id.
type rawCheck struct {
	lane *lane
	id   string
	line []byte
}

// rawChecks makes the next check of each lane.
func rawChecks(lanes []*lane, serial *int) []rawCheck {
	out := make([]rawCheck, len(lanes))
	for i, l := range lanes {
		*serial++
		flow, from, to, loop := l.call()
		id := fmt.Sprintf("%s-%d", lanes[0].name, *serial)
		out[i] = rawCheck{l, id, append(checkOf(id, flow, from, to, loop).AppendJSON(nil), '\n')}
	}
	lanes[0].seen.begin(len(lanes))
	return out
}

// rawAnswer is one line of a stream or of a batch.
type rawAnswer struct {
	Line, Status int
	Body         rawBody
}

// rawBody is an allowance, which has a verdict, or a refusal.
type rawBody struct {
	ID       string
	Verdict  events.Verdict
	Instance string
	Flow     string `json:"correlation_id"`
	Detail   string
}

// take hands an answer to its lane.
func (c *rawCheck) take(status int, b *rawBody, begun time.Time) {
	verdict, stopped := strings.CutPrefix(b.Instance, "urn:weir:verdict:")
	a := answer{begun: begun, ofWeir: stopped || status == http.StatusOK, stopped: stopped}
	a.none = !a.ofWeir
	switch {
	case stopped:
		a.flow, a.order = b.Flow, orderOf(verdict)
	case a.ofWeir:
		a.flow, a.left = b.Verdict.CorrelationID, leftOf(b.Verdict.Remaining)
	}
	c.lane.take(a)
	if wrong := a.ofWeir && !a.stopped && b.ID != c.id; wrong || status >= 400 && status < 500 && !a.stopped {
		c.lane.seen.mu.Lock()
		defer c.lane.seen.mu.Unlock()
		c.lane.seen.wrong("the answer to %s has status %d and id %q: %s", c.id, status, b.ID, b.Detail)
	}
}

// silent says that weir has not answered these.
func silent(checks []rawCheck, answered []bool, begun time.Time) {
	for i := range checks {
		if !answered[i] {
			checks[i].lane.take(answer{none: true, begun: begun})
		}
	}
}

// rawStream sends the checks of all lanes together on one stream, cut anywhere, and reads their answers.
func rawStream(ctx context.Context, d *driver) error {
	lanes := d.makeLanes(0, d.lanes)
	var s *openedStream
	serial := 0
	d.moments(ctx, func() {
		checks, begun := rawChecks(lanes, &serial), time.Now()
		if s == nil {
			s = openStream(ctx, d.answers.weirs.url(d.member))
		}
		answered := make([]bool, len(checks))
		if s == nil || !s.volley(d, checks, answered, lanes[0].random) {
			silent(checks, answered, begun)
			s.close()
			s = nil
		}
	})
	s.close()
	endLanes(lanes)
	return nil
}

func (d *driver) makeLanes(from, count int) []*lane {
	lanes := make([]*lane, count)
	for i := range lanes {
		lanes[i] = d.lane(from + i)
	}
	return lanes
}

func endLanes(lanes []*lane) {
	for _, l := range lanes {
		l.end()
	}
}

// openedStream is a request to check.StreamPath.
type openedStream struct {
	out    *io.PipeWriter
	in     *json.Decoder
	body   io.Closer
	cancel context.CancelFunc
	lines  int // sent in volleys before
}

// openStream returns nil when there is none.
func openStream(ctx context.Context, url string) *openedStream {
	ctx, cancel := context.WithCancel(ctx)
	body, out := io.Pipe()
	// The client waits until its body is read no more, whatever becomes of the context.
	context.AfterFunc(ctx, func() { _ = out.Close() })
	defer time.AfterFunc(answerTimeout, cancel).Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+check.StreamPath, body)
	if err == nil {
		r.Header.Set("Content-Type", "application/x-ndjson")
		var resp *http.Response
		if resp, err = http.DefaultClient.Do(r); err == nil {
			s := &openedStream{out: out, in: json.NewDecoder(resp.Body), body: resp.Body, cancel: cancel}
			if resp.StatusCode == http.StatusOK {
				return s
			}
			s.close()
		}
	}
	cancel()
	return nil
}

func (s *openedStream) close() {
	if s != nil {
		_ = s.out.Close()
		s.cancel()
		_ = s.body.Close()
	}
}

// volley sends all checks and reads an answer to each; false when the stream is broken.
func (s *openedStream) volley(d *driver, checks []rawCheck, answered []bool, random *rand.Rand) bool {
	begun := time.Now()
	defer time.AfterFunc(answerTimeout, s.cancel).Stop()
	text := new(bytes.Buffer)
	for i := range checks {
		text.Write(checks[i].line)
	}
	sizes := make([]int, 0, 16)
	for n := text.Len(); n > 0; n -= sizes[len(sizes)-1] {
		sizes = append(sizes, min(n, 1+random.IntN(96<<10)))
	}
	go func() {
		for _, n := range sizes {
			if _, err := s.out.Write(text.Next(n)); err != nil {
				return
			}
		}
	}()
	for left := len(checks); left > 0; left-- {
		var got rawAnswer
		if err := s.in.Decode(&got); err != nil {
			return false
		}
		n := got.Line - s.lines - 1
		if n < 0 || n >= len(checks) || answered[n] {
			d.seen.doubled("line %d of %d to %d is answered again, or was never sent", got.Line, s.lines+1, s.lines+len(checks))
			return false
		}
		answered[n] = true
		checks[n].take(got.Status, &got.Body, begun)
	}
	s.lines += len(checks)
	return true
}

// rawBatches sends requests of check.MostAsks lines.
func rawBatches(ctx context.Context, d *driver) error {
	var all sync.WaitGroup
	for n := 0; n < d.lanes; n += check.MostAsks {
		all.Go(func() {
			lanes := d.makeLanes(n, check.MostAsks)
			defer endLanes(lanes)
			serial := 0
			d.moments(ctx, func() {
				checks, begun := rawChecks(lanes, &serial), time.Now()
				answered := make([]bool, len(checks))
				d.batch(ctx, checks, answered, begun)
				silent(checks, answered, begun)
			})
		})
	}
	all.Wait()
	return nil
}

// batch sends one, and notes which checks have an answer.
func (d *driver) batch(ctx context.Context, checks []rawCheck, answered []bool, begun time.Time) {
	var body []byte
	for i := range checks {
		body = append(body, checks[i].line...)
	}
	resp, err := d.post(ctx, "application/x-ndjson", body)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return
	}
	in := json.NewDecoder(resp.Body)
	for i := range checks {
		var got rawAnswer
		if err := in.Decode(&got); err != nil {
			return
		}
		answered[i] = true
		checks[i].take(got.Status, &got.Body, begun)
	}
	if in.More() {
		d.seen.doubled("a batch of %d has more answers than lines", len(checks))
	}
}

// batchClient keeps enough connections, and ends what takes too long.
var batchClient = &http.Client{Timeout: answerTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func (d *driver) post(ctx context.Context, kind string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.answers.weirs.url(d.member)+"/v1/check", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", kind)
	return batchClient.Do(r)
}

// rawRequests sends each check in a request of its own.
func rawRequests(ctx context.Context, d *driver) error {
	var all sync.WaitGroup
	for n := range d.lanes {
		all.Go(func() {
			lanes := d.makeLanes(n, 1)
			defer endLanes(lanes)
			serial := 0
			d.moments(ctx, func() {
				checks, begun := rawChecks(lanes, &serial), time.Now()
				var got rawBody
				resp, err := d.post(ctx, "application/json", checks[0].line)
				if err == nil {
					err = json.NewDecoder(resp.Body).Decode(&got)
					_ = resp.Body.Close()
				}
				if err != nil {
					silent(checks, make([]bool, 1), begun)
					return
				}
				checks[0].take(resp.StatusCode, &got, begun)
			})
		})
	}
	all.Wait()
	return nil
}

// runProgram runs a driver in another language, which prints what it has seen.
func runProgram(ctx context.Context, d *driver) error {
	command := d.command
	given, err := json.Marshal(map[string]any{"url": d.answers.weirs.url(d.member), "lanes": d.lanes, "until": unix(d.answers.until), "every": d.every.Seconds(),
		"flows": d.flows.Name(), "loops": d.answers.looping, "most": mostCalls, "stopped": stoppedFlows, "timeout": answerTimeout.Seconds(), "seed": d.answers.seed})
	if err != nil {
		return err
	}
	run := exec.CommandContext(ctx, command[0], append(command[1:], string(given))...)
	log, err := os.Create(filepath.Join(d.answers.dir, command[0]+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	run.Stderr = log
	out, err := run.Output()
	if err == nil {
		err = json.Unmarshal(out, d.seen)
	}
	if err != nil {
		return fmt.Errorf("%w: %.500s", err, out)
	}
	return nil
}

// pythonGuard is the command of the driver in Python.
func pythonGuard(*answers) ([]string, error) {
	root, err := module("weir")
	return []string{"python3", filepath.Join(root, "cmd/internal/app/e2e/trial/testdata/answers.py"), filepath.Join(root, "sink/guard/python")}, err
}

// typescriptGuard is the command of the driver in TypeScript, of which it compiles the guard.
func typescriptGuard(a *answers) ([]string, error) {
	root, err := module("weir")
	if err != nil {
		return nil, err
	}
	from, to := filepath.Join(root, "sink/guard/typescript"), filepath.Join(a.dir, "typescript")
	if text, err := exec.Command("node", filepath.Join(from, "node_modules/typescript/bin/tsc"), "-p", from, "--outDir", to).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("weir-guard.ts does not compile; install its compiler with npm ci --prefix sink/guard/typescript: %w\n%s", err, text)
	}
	err = os.WriteFile(filepath.Join(to, "package.json"), []byte(`{"type":"module"}`), 0o600)
	return []string{"node", filepath.Join(root, "cmd/internal/app/e2e/trial/testdata/answers.mjs"), filepath.Join(to, "weir-guard.js")}, err
}

// loops reports loops that weir stops.
func (a *answers) loops(ctx context.Context) {
	d := &driver{every: 50 * time.Millisecond, answers: a}
	n := 0
	d.moments(ctx, func() {
		var body []byte
		flow := fmt.Sprint("reported-", n)
		for i := range 14 {
			from, to := loopParties(flow, i)
			ev := checkOf(fmt.Sprintf("reported-%d-%d", n, i), flow, from, to, true)
			ev.Ask, ev.Tell = false, false
			body = append(ev.AppendJSON(body), '\n')
		}
		_, _, _ = a.weirs.post(ctx, 0, "/v1/events", "application/x-ndjson", body)
		n++
	})
}
