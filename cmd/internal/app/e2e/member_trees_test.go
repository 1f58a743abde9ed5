package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/weirtest"
	"weir/events"
)

// kill ends a member where it stands: nothing is folded to its end, and no last checkpoint
// is taken.
func (r *running) kill() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Stop(ctx) // says that it was not let finish
	r.App = nil
}

// inTree puts an event into one of the flows of a tree: every third names the root, the others
// only who opened them.
func inTree(ev *events.Event, f int64) {
	ev.CorrelationID = fmt.Sprint("flow-", f)
	if f%3 == 0 {
		ev.RootCorrelationID = "flow-0"
	}
	if f > 0 {
		ev.ParentCorrelationID = fmt.Sprint("flow-", f/4)
	}
}

// TestMembersShareATree asks for more calls than the root of a tree may make, of members that
// come and go and of which some lose their state: the flows lie in all partitions, and as
// many calls are allowed as the limit says, by asks of whichever member. A replay says the
// same.
func TestMembersShareATree(t *testing.T) {
	t.Parallel()
	const limit, asks, flows, askers = 400, 600, 60, 16
	g := newGroup(t, startBroker(t), 8)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	text := []byte(fmt.Sprintf("profile: none\nrules:\n  max_tree_calls: {max: %d}\n", limit))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	limits, err := limitfile.Parse("limits.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var addresses []string
	start := func(dir string) *running {
		o := g.options(dir)
		o.Listen, o.LimitsFile, o.AnswerTimeout = weirtest.Address(t), file, 10*time.Second
		// A machine that is busy beats late: who is put out for that after two seconds joins again, all
		// others let go meanwhile, and the next one beats late, so that nobody folds for minutes.
		o.Kafka.Advertise, o.Kafka.SessionTimeout = "http://"+o.Listen, 10*time.Second
		m := g.start(o)
		mu.Lock()
		defer mu.Unlock()
		addresses = append(addresses, o.Kafka.Advertise)
		return m
	}
	gone := func(m *running) {
		mu.Lock()
		defer mu.Unlock()
		addresses = slices.DeleteFunc(addresses, func(a string) bool { return a == "http://"+m.Addr() })
	}
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	first, second, third := start(dirs[0]), start(dirs[1]), start(dirs[2])
	g.until("all have partitions", func() bool {
		return len(first.Places()) > 0 && len(second.Places()) > 0 && len(third.Places()) > 0
	})

	var next, allowed, refused, again atomic.Int64
	var work sync.WaitGroup
	ask := func(n int64) {
		f := n % flows
		ev := events.Event{ID: fmt.Sprint("call-", n), Source: "test", Time: testStart.Add(time.Duration(n) * time.Millisecond), Kind: events.ToolCall, Ask: true,
			From: events.Party{Agent: "worker"}}
		inTree(&ev, f)
		ev.Tool.Name, ev.Tool.ArgsHash = "search", events.Hash{Algorithm: events.XXH64, Value: uint64(n) + 1}
		for try := n; ; try++ {
			mu.Lock()
			address := addresses[try%int64(len(addresses))]
			mu.Unlock()
			res, err := http.Post(address+"/v1/check", "application/json", bytes.NewReader(ev.AppendJSON(nil)))
			if err == nil {
				_ = res.Body.Close()
				switch res.StatusCode {
				case http.StatusOK:
					allowed.Add(1)
					return
				case http.StatusPaymentRequired:
					refused.Add(1)
					return
				case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
				default:
					t.Errorf("call %d: %s", n, res.Status)
					return
				}
			}
			if again.Add(1) > 1_000_000 || t.Context().Err() != nil {
				t.Errorf("call %d is never answered", n)
				return
			}
		}
	}
	// Each flow says first who opened it: until that is known it counts for itself.
	for f := range int64(flows) {
		ev := events.Event{ID: "start", Source: "test", Time: testStart, Kind: events.FlowStart, From: events.Party{Agent: "worker"}}
		inTree(&ev, f)
		g.produce(kafkago.Message{Key: []byte(ev.CorrelationID), Value: ev.AppendJSON(nil)})
	}
	g.folded(first, second, third)
	g.folded(first, second, third) // and what trees passed on
	for range askers {
		work.Go(func() {
			for n := next.Add(1); n <= asks; n = next.Add(1) {
				ask(n)
			}
		})
	}
	reached := func(n int64) func() bool { return func() bool { return allowed.Load() >= n } }
	g.until("some calls are allowed", reached(60))
	gone(second)
	second.kill()
	g.until("calls are allowed without it", reached(120))
	second = start(dirs[1])
	g.until("calls are allowed with it", reached(180))
	gone(third)
	third.kill()
	third = start(t.TempDir()) // its state is lost
	g.until("calls are allowed beside a member without state", reached(260))
	gone(first)
	first.stop()
	work.Wait()
	// A call counts when it is allowed. If that answer was lost with a member, and the call is checked
	// again when the budget is used up, it is refused. Each member that ends loses one answer of each
	// caller at most.
	if n := allowed.Load(); n > limit || n < limit-3*askers || n+refused.Load() != asks {
		t.Errorf("%d calls are allowed and %d refused, want %d and %d", allowed.Load(), refused.Load(), limit, asks-limit)
	}
	g.folded(second, third)
	for _, m := range []*running{second, third} {
		if status, body := m.get("/v1/flows?limit=1"); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
	}
	second.stop()
	third.stop()
	g.checkTree(limits)
	t.Logf("%d allowed, %d refused, %d tries again", allowed.Load(), refused.Load(), again.Load())
}

// checkTree compares the verdicts about trees with what the one fold says of the activity.
func (g *members) checkTree(limits analyzer.Limits) {
	g.t.Helper()
	want := g.wantedOfAgents(limits)
	slices.Sort(want)
	if got := g.verdicts(); len(want) == 0 || !slices.Equal(got, want) {
		g.t.Errorf("the group said\n%q\na replay says\n%q", got, want)
	}
}
