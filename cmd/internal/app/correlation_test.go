package app

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/app/checktest"
	"weir/cmd/internal/ask"
	"weir/cmd/internal/clock"
	"weir/sink/check"
)

var correlations = flag.Int("correlations", 6, "rounds of the law of correlation")

// faulty panics while it is waited for some answers, whose requests are not in the log.
type faulty struct{ ask.Log }

func (f faulty) AppendChecks(ctx context.Context, batch []*check.Request) error {
	var good []*check.Request
	for _, q := range batch {
		if strings.Contains(q.Event.CorrelationID, checktest.Panic) {
			q.Context = planted{q.Context, q.Event.CorrelationID}
		} else {
			good = append(good, q)
		}
	}
	if len(good) == 0 {
		return nil
	}
	return f.Log.AppendChecks(ctx, good)
}

// planted is the context of a request whose answer panics.
type planted struct {
	context.Context
	flow string
}

func (p planted) Done() <-chan struct{} { panic("planted in " + p.flow) }

// sharedLog is a log that is read while it is written.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestEachCheckGetsItsOwnAnswer sends streams, batches and requests, and checks of a guard, at the same
// time, and holds that each check has one answer, which is its own.
func TestEachCheckGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	limits, err := limitfile.Parse("test", []byte(checktest.HeldLimits))
	if err != nil {
		t.Fatal(err)
	}
	r := begin(t, Options{Clock: clock.System{}, Limits: limits, AnswerTimeout: 5 * time.Minute})
	for round := range *correlations {
		var all sync.WaitGroup
		count := []int{1, check.MostAsks - 1, check.MostAsks, check.MostAsks + 1, 1000, 5000}[round%6]
		for side := range 3 {
			random := rand.New(rand.NewPCG(uint64(round), uint64(side)))
			name := fmt.Sprintf("r%d-s%d", round, side)
			kinds := []string{checktest.Allowed, checktest.Refused, checktest.Held, checktest.Wrong}[:1+(round+side)%4]
			stream := checktest.New(random, name+"-stream", max(1, count/(side+1)), kinds...)
			batch := checktest.New(random, name+"-batch", 1+random.IntN(check.MostAsks), kinds...)
			single := checktest.New(random, name+"-single", 20, kinds...)
			all.Go(func() { stream.Stream(t, r.Addr(), random, nil) })
			all.Go(func() { batch.Batch(t, r.Addr()) })
			all.Go(func() { single.Requests(t, r.Addr()) })
		}
		guarded := checktest.New(rand.New(rand.NewPCG(uint64(round), 3)), fmt.Sprintf("r%d-guard", round), count, checktest.Allowed, checktest.Held)
		all.Go(func() { guarded.Guard(t, r.Addr()) })
		all.Wait()
	}
}

// panickingFollow panics in what waits for verdicts of other members.
type panickingFollow struct{ backend }

func (panickingFollow) Follow(string, bool) (reached func(context.Context) bool, leave func()) {
	return func(ctx context.Context) bool {
		if ctx.Err() == nil {
			panic("planted in Follow")
		}
		return false
	}, func() {}
}

// TestAPanicOfAViewerEndsNoProcess plants a panic in the goroutine that waits for a viewer of the
// verdicts: the viewer goes on, and the panic is counted.
func TestAPanicOfAViewerEndsNoProcess(t *testing.T) {
	t.Parallel()
	r := begin(t, Options{Clock: clock.System{}, Heartbeat: 50 * time.Millisecond, Metrics: "127.0.0.1:0"}, func(a *App) {
		a.openBackend = func() (backend, error) {
			b, err := a.newBackend()
			return panickingFollow{b}, err
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addr()+"/v1/verdicts", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for range 3 { // heartbeats
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	r.scraped("weir_request_panics_total 1")
}

// TestAPanicCostsOneAnswer plants panics: each costs the answer to its own check, and is logged with
// its stack and counted.
func TestAPanicCostsOneAnswer(t *testing.T) {
	t.Parallel()
	log := new(sharedLog)
	r := begin(t, Options{Clock: clock.System{}, Metrics: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))})
	r.checks.Log = faulty{r.checks.Log}
	random := rand.New(rand.NewPCG(3, 3))
	kinds := []string{checktest.Allowed, checktest.Panic, checktest.Refused}
	stream, batch := checktest.New(random, "stream", 200, kinds...), checktest.New(random, "batch", check.MostAsks, kinds...)
	single := checktest.New(random, "single", 10, kinds...)
	stream.Stream(t, r.Addr(), random, nil)
	batch.Batch(t, r.Addr())
	single.Requests(t, r.Addr())
	if text := log.String(); !strings.Contains(text, "planted in stream-panic") || !strings.Contains(text, "planted.Done") {
		t.Errorf("the log has no stack of the panic:\n%.2000s", text)
	}
	r.scraped(fmt.Sprintf("weir_request_panics_total %d", stream.Count(checktest.Panic)+batch.Count(checktest.Panic)+single.Count(checktest.Panic)))
}
