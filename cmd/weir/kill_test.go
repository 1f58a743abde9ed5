//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/cmd/weirtest"
	"weir/events"
	"weir/sink/check"
	"weir/state"
)

var (
	kills    = flag.Int("kills", 0, "how often TestKill kills weir; 0 kills it 3 times, and once with -short")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the moments; 0 takes one by the clock and prints it")
)

// TestKill kills the real program with SIGKILL at random moments while producers send
// loops and ask on a stream, and then holds the verdict log against an undisturbed fold of
// the journal: none lost, none doubled by id, equal byte for byte; and every acknowledged
// event and every ask that was allowed must be in the journal.
func TestKill(t *testing.T) {
	t.Parallel()
	times := *kills
	switch {
	case times == 0 && testing.Short():
		times = 1
	case times == 0:
		times = 3
	}
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (again: -kill-seed %d)", seed, seed)
	random := rand.New(rand.NewPCG(seed, 1))

	folder := filepath.Join(t.TempDir(), "state")
	address := weirtest.Address(t)
	producers := newProducers("http://" + address)

	t.Logf("%-5s %10s %12s %12s", "kill", "after", "ready in", "acknowledged")
	for n := range times {
		started := time.Now()
		weir := weirtest.Run(t, "--state", folder, "--listen", address)
		weir.Ready()
		ready := time.Since(started)
		producers.start()
		moment := 20*time.Millisecond + time.Duration(random.IntN(400))*time.Millisecond
		// Some come before anything is answered; the first does not, or a short test shows nothing.
		if n > 0 && random.IntN(4) == 0 {
			moment /= 200
		} else if n == 0 {
			<-producers.first
		}
		<-time.After(moment)
		weir.Kill()
		producers.stop()
		t.Logf("%-5d %10s %12s %12d", n+1, moment, ready.Round(time.Millisecond), len(producers.acknowledged))
	}

	weir := weirtest.Run(t, "--state", folder, "--listen", address)
	weir.Ready()
	if code := weir.End(syscall.SIGTERM); code != 0 {
		t.Fatalf("the last weir exits with %d:\n%s", code, weir.Log())
	}
	compareLogs(t, folder, producers.acknowledged)
}

// TestUsedIDsAfterKill uses an id for another call after weir was killed. The state has the check, so no fold brings
// it again, or brings it after the first check.
func TestUsedIDsAfterKill(t *testing.T) {
	t.Parallel()
	flags := []string{"--state", filepath.Join(t.TempDir(), "state"), "--self-test", "0"}
	check := func(w *weirtest.Weir, to string) int {
		t.Helper()
		line := fmt.Sprintf(`{"id":"one","source":"s","kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":%q}}`, to)
		resp, err := http.Post(w.URL+"/v1/check", "application/json", strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	w := weirtest.Run(t, flags...)
	w.Ready()
	if status := check(w, "b"); status != http.StatusOK {
		t.Fatalf("the first call: HTTP %d", status)
	}
	if code := w.End(syscall.SIGTERM); code != 0 { // with a checkpoint
		t.Fatalf("exit code %d:\n%s", code, w.Log())
	}
	for range 2 {
		w = weirtest.Run(t, flags...) // it answers before it is ready
		if another, same := check(w, "c"), check(w, "b"); another != http.StatusConflict || same != http.StatusOK {
			t.Errorf("another call with the same id: HTTP %d, want 409; the same call: HTTP %d, want 200", another, same)
		}
		w.Kill()
	}
}

func compareLogs(t *testing.T, folder string, acknowledged []string) {
	t.Helper()
	store, err := state.Open(folder, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	journal, verdicts := readAll(t, store.Journal(0)), readAll(t, store.Verdicts(0))

	again, err := pump.NewReplay(context.Background(), pump.Options{Limits: limitfile.Default(),
		Parse: func(b []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", b) }})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	var want []string
	for _, entry := range journal {
		var ev events.Event
		if err := events.Decode(entry.Value, &ev); err != nil {
			t.Fatalf("journal %d: %v", entry.Offset, err)
		}
		ev.Appended = entry.Appended
		stored[strings.Clone(ev.ID)] = true
		for _, v := range again.Fold(&ev, entry.Offset) {
			want = append(want, string(v.AppendJSON(nil)))
		}
	}
	lost, asks := 0, 0
	for _, id := range acknowledged {
		if !stored[id] {
			lost++
		}
		if strings.HasPrefix(id, "ask-") {
			asks++
		}
	}
	ids := map[string]int{}
	for _, entry := range verdicts {
		var v events.Verdict
		if err := events.DecodeVerdict(entry.Value, &v); err != nil {
			t.Fatal(err)
		}
		ids[v.ID]++
	}
	doubled := 0
	for _, n := range ids {
		doubled += n - 1
	}
	got := make([]string, len(verdicts))
	for i := range verdicts {
		got[i] = string(verdicts[i].Value)
	}
	// How those about flows and those about agents stand among each other depends on batches.
	about := func(line string) int { return strings.Count(line[:min(len(line), 1000)], `"correlation_id":`) }
	for _, lines := range [][]string{got, want} {
		slices.SortStableFunc(lines, func(a, b string) int { return about(a) - about(b) })
	}
	t.Logf("events in the journal %d, acknowledged %d (asks: %d), of these lost %d", len(journal), len(acknowledged), asks, lost)
	t.Logf("verdicts in the log %d, of an undisturbed fold %d, doubled by id %d, equal byte for byte: %v", len(got), len(want), doubled, slices.Equal(got, want))
	if lost > 0 || doubled > 0 || !slices.Equal(got, want) {
		t.Error("the crash shows: see above")
	}
	if len(acknowledged) == 0 || len(want) == 0 {
		t.Error("nothing was sent or nothing was said: the test shows nothing")
	}
}

func readAll(t *testing.T, log *state.Log) (all []state.Entry) {
	t.Helper()
	for {
		batch, err := log.Read(int64(len(all)), 1000, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			return all
		}
		for i := range batch {
			batch[i].Value = slices.Clone(batch[i].Value)
		}
		all = append(all, batch...)
	}
}

// producers send loops of agents and of tools until they are stopped, and note what
// was acknowledged.
type producers struct {
	url    string
	cancel context.CancelFunc
	group  sync.WaitGroup

	first        chan struct{} // closed with the first acknowledgement
	mu           sync.Mutex
	acknowledged []string
	serial       int
}

func newProducers(url string) *producers { return &producers{url: url, first: make(chan struct{})} }

// answered notes what was acknowledged; p.mu is held.
func (p *producers) answered(ids ...string) {
	if len(p.acknowledged) == 0 {
		close(p.first)
	}
	p.acknowledged = append(p.acknowledged, ids...)
}

func (p *producers) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	for range 4 {
		p.group.Go(func() {
			for ctx.Err() == nil {
				p.flow(ctx)
			}
		})
	}
	p.group.Go(func() { p.ask(ctx) })
}

// ask asks for sixteen calls at a time on a stream, and notes which were allowed: those have to
// be in the journal, whenever the program is killed.
func (p *producers) ask(ctx context.Context) {
	body, out := io.Pipe()
	defer out.Close()
	// The client waits for the body of a request that has failed, whatever its context says.
	// Nothing is written to that body before there is an answer.
	defer context.AfterFunc(ctx, func() { _ = out.Close() })()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+check.StreamPath, body)
	if err != nil {
		return
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil { // weir was killed
		return
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	var ids []string // by line
	for ctx.Err() == nil {
		var lines []byte
		for range 16 {
			p.mu.Lock()
			p.serial++
			id := fmt.Sprintf("ask-%d", p.serial)
			p.mu.Unlock()
			ids = append(ids, id)
			ev := events.Event{ID: id, Source: "kill", Kind: events.AgentCall, Time: events.StampOf(time.Now()), CorrelationID: "of-" + id,
				From: events.Party{Agent: "asks-" + id}, To: events.Party{Agent: "asked-" + id}}
			lines = append(ev.AppendJSON(lines), '\n')
		}
		if _, err := out.Write(lines); err != nil {
			return
		}
		for range 16 {
			var answer struct{ Line, Status int }
			text, err := in.ReadBytes('\n')
			if err != nil || json.Unmarshal(text, &answer) != nil {
				return
			}
			if answer.Status == http.StatusOK {
				p.mu.Lock()
				p.answered(ids[answer.Line-1])
				p.mu.Unlock()
			}
		}
	}
}

func (p *producers) stop() {
	p.cancel()
	p.group.Wait()
}

// flow sends one flow in three requests, so that kills fall into the middle of flows.
func (p *producers) flow(ctx context.Context) {
	p.mu.Lock()
	p.serial++
	flow := fmt.Sprintf("flow-%d", p.serial)
	p.mu.Unlock()
	start := time.Now().Add(-time.Minute)
	var ids []string
	var body bytes.Buffer
	for i := range 36 {
		ev := events.Event{ID: fmt.Sprintf("%s-%d", flow, i), Source: "/kill-test", Time: events.StampOf(start).Add(time.Duration(i) * time.Second), CorrelationID: flow}
		content := events.Hash{Algorithm: events.XXH64, Value: uint64(i%2) + 1}
		switch {
		case i == 0:
			ev.Kind, ev.Origin, ev.To = events.AgentCall, events.OriginUser, events.Party{Agent: "a"}
		case i%3 == 2:
			ev.Kind, ev.From, ev.Tool = events.ToolCall, events.Party{Agent: "c"}, events.Tool{Name: "search", ArgsHash: content}
		case i%2 == 0:
			ev.Kind, ev.From, ev.To, ev.HadWork, ev.Content = events.AgentCall, events.Party{Agent: "b"}, events.Party{Agent: "a"}, events.No, content
		default:
			ev.Kind, ev.From, ev.To, ev.HadWork, ev.Content = events.AgentCall, events.Party{Agent: "a"}, events.Party{Agent: "b"}, events.No, content
		}
		ids = append(ids, ev.ID)
		body.Write(append(ev.AppendJSON(nil), '\n'))
		if i%12 == 11 {
			if !p.post(ctx, &body, ids) {
				return
			}
			ids = nil
			body.Reset()
		}
	}
}

func (p *producers) post(ctx context.Context, body *bytes.Buffer, ids []string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/events", bytes.NewReader(body.Bytes()))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false // killed: nothing is promised
	}
	defer resp.Body.Close()
	var answer struct{ Accepted int }
	if resp.StatusCode/100 != 2 || json.NewDecoder(resp.Body).Decode(&answer) != nil || answer.Accepted != len(ids) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered(ids...)
	return true
}
