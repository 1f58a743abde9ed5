package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/schemas"
	"weir/sink/prom"
	"weir/state"
)

// tested gives an app a self-test whose loops the test makes itself.
func tested(a *App) {
	a.selfTest = &selftest.Prober{Every: time.Minute, Clock: a.clock, Logger: a.logger}
}

func TestSelfTest(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "verdicts.jsonl")
	sent := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		sent <- string(b)
	}))
	defer hook.Close()
	r := begin(t, Options{StateDir: filepath.Join(dir, "state"), VerdictFile: file, WebhookURL: hook.URL, Metrics: "127.0.0.1:0"}, tested)
	s := r.selfTest
	for m := (prom.Reading{}); m.Restored == 0; r.api.Measure(&m) {
		runtime.Gosched()
	}
	r.want(r.do("GET", "/readyz", ""), 503, "own loops")
	for i := range 3 {
		if i > 0 {
			r.fake.Advance(time.Minute)
		}
		if err := s.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.want(r.do("GET", "/readyz", ""), 200, `"self_test":{"ok":true,"last_stopped":"2026-11-20T14:02:00.000Z"`)

	// Users see their own flow, and nothing of all that.
	r.want(r.do("POST", "/v1/events", lines(selfCall("theirs", 1))), 202)
	r.folded()
	var flows pump.FlowList
	r.get("/v1/flows", &flows)
	for _, f := range flows.Flows {
		if selftest.OwnFlow(f.Flow) {
			t.Errorf("the list has %s", f.Flow)
		}
	}
	if got := r.verdictLines(); len(got) == 0 || strings.Contains(strings.Join(got, ""), events.SelfTestFlows) {
		t.Errorf("verdicts %q", got)
	}
	// The log of verdicts has both; by contract the id of the flow distinguishes them.
	entries, err := r.verdicts.Read(0, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for i := range entries {
		var v events.Verdict
		if err := events.DecodeVerdict(entries[i].Value, &v); err != nil {
			t.Fatal(err)
		}
		if of := v.CorrelationID != "theirs"; v.OfSelfTest() != of || selftest.OwnVerdict(entries[i].Value) != of {
			t.Errorf("not told apart: %s", entries[i].Value)
		}
		if v.OfSelfTest() {
			own++
		}
	}
	if own < 3 || len(entries) != own+1 {
		t.Errorf("%d of %d verdicts are weir's own, want all but one", own, len(entries))
	}
	if schema := string(schemas.Verdict()); !strings.Contains(schema, events.SelfTestFlows) {
		t.Error("the schema of verdicts does not say by what they are told")
	}
	counted := r.counts.Sum()
	for code, n := range counted.DeadLetters() {
		if n != 0 {
			t.Errorf("%d dead letters: %s", n, code)
		}
	}
	if n := &counted.Fold; n.Episodes != 3 || r.counts.Verdicts(events.Deny) != 1 || n.Attempts != 0 || n.Leaked != 0 {
		t.Errorf("%d episodes, %d denials, %d attempts, %d leaked", n.Episodes, r.counts.Verdicts(events.Deny), n.Attempts, n.Leaked)
	}
	var m prom.Reading
	r.api.Measure(&m)
	if m.Events[events.AgentCall][prom.Folded] != counted.Fold.Events || m.SelfTest.Runs != [2]int64{3, 0} || !m.Ready {
		t.Errorf("%d calls, %d events, self-test %+v, ready %v", m.Events[events.AgentCall][prom.Folded], counted.Fold.Events, m.SelfTest, m.Ready)
	}
	if got := <-sent; !strings.Contains(got, "theirs") {
		t.Errorf("the webhook got %s", got)
	}
	r.stop()
	b, err := os.ReadFile(file)
	if err != nil || strings.Count(string(b), "\n") != 1 || !strings.Contains(string(b), "theirs") {
		t.Errorf("the file has %s (%v)", b, err)
	}

	// The next process finds the loop of this one stopped already, and clears it.
	// Its clock goes on where the other one ended: one that begins behind the log and is then
	// set is another matter, and may have the log turned back in the middle of the loop.
	r.fake.Advance(time.Second)
	r = begin(t, Options{StateDir: filepath.Join(dir, "state"), Clock: r.fake}, tested)
	if err := r.selfTest.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSelfTestOfManyStarts makes as many loops within what is remembered of one as a program that
// is started again and again: none is stopped for what those before it have added up to.
func TestSelfTestOfManyStarts(t *testing.T) {
	r := begin(t, Options{}, tested)
	// The clock of weir stands still while it waits, so that its own patience has no end.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 100 {
		if err := r.selfTest.Once(ctx); err != nil {
			t.Fatalf("loop %d: %v", i, err)
		}
		r.fake.Advance(60 * time.Millisecond)
	}
}

// TestSelfTestWithoutLimits shows that what users set has no say in the self-test.
func TestSelfTestWithoutLimits(t *testing.T) {
	var limits strings.Builder
	limits.WriteString("profile: balanced\nrules:\n")
	for i := range analyzer.Rules {
		if analyzer.RuleID(i) != analyzer.RuleOperator {
			fmt.Fprintf(&limits, "  %s: {mode: \"off\"}\n", analyzer.Rules[i].Name)
		}
	}
	r := begin(t, Options{LimitsFile: limitsFile(t, limits.String())}, tested)
	if err := r.selfTest.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSelfTestMisses lets the fold hang: no order comes, and weir says so.
func TestSelfTestMisses(t *testing.T) {
	r := begin(t, Options{}, tested)
	s := r.selfTest
	if err := s.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	release := r.pump().Hold()
	missed := make(chan error, 1)
	end := r.log().End()
	go func() { missed <- s.Once(t.Context()) }()
	for r.log().End() == end {
		runtime.Gosched()
	}
	r.fake.Advance(selftest.Patience) // the wait has begun when the events are there
	err := <-missed
	release()
	if err == nil || !strings.Contains(err.Error(), "no order was given") {
		t.Errorf("got %v", err)
	}
	r.want(r.do("GET", "/readyz", ""), 200, `"error":"no order was given`) // one miss may be chance
	r.fake.Advance(3 * time.Minute)
	r.want(r.do("GET", "/readyz", ""), 503, "none of weir's own loops was stopped lately")
	var m prom.Reading
	r.api.Measure(&m)
	if m.SelfTest.Runs != [2]int64{1, 1} || m.Ready {
		t.Errorf("%+v, ready %v", m.SelfTest, m.Ready)
	}
}

func TestSelfTestEnds(t *testing.T) {
	r := begin(t, Options{}, tested)
	s := r.selfTest
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err == nil {
		t.Error("it goes on when it is told to end")
	}
}

// TestOwnFlowsAreReserved holds that no caller can hide in a flow that is not shown.
func TestOwnFlowsAreReserved(t *testing.T) {
	r := begin(t, Options{})
	hidden := call(events.SelfTestFlows+"1", 1, "a", "b")
	r.want(r.do("POST", "/v1/events", lines(hidden)), 400, "reserved_kind", "correlation_id")
	r.want(r.do("POST", "/v1/check", lines(hidden)), 400, "weir's own")
	// Past the intake, as on Kafka.
	if err := r.backend.Append(t.Context(), []state.Entry{{Value: hidden.AppendJSON(nil)}}); err != nil {
		t.Fatal(err)
	}
	r.folded()
	counted := r.counts.Sum()
	if n := counted.DeadLetters()[events.CodeReservedKind]; n != 2 {
		t.Errorf("%d dead letters, want those of the intake and of the log", n)
	}
	if selftest.OwnVerdict([]byte(`{"correlation_id":"f","message":"\"correlation_id\":\"` + events.SelfTestFlows + `1\""}`)) {
		t.Error("a text about a flow of weir's own is taken for one")
	}
}

// TestSelfTestOfTheSwitch throws the switch for an agent of weir's own: its checks are refused, others pass, and
// neither users nor guards see anything of it. A switch that is not obeyed, or does not let go, is reported.
func TestSelfTestOfTheSwitch(t *testing.T) {
	t.Parallel()
	h := beginHand(t, Options{Metrics: "127.0.0.1:0"}, tested)
	if err := h.selfTest.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.want(h.do("GET", "/readyz", ""), 200, `"self_test":{"ok":true`, `"switch_obeyed":"2026-11-20T14:00:00.000Z"`)
	h.want(h.do("GET", "/v1/orders?all=1", ""), 200, `{"orders":[]}`)
	if got := strings.Join(h.verdictLines(), ""); strings.Contains(got, events.SelfTestFlows) || strings.Contains(got, "by_hand") {
		t.Errorf("a stream shows %s", got)
	}
	if _, kept, err := h.store.Cursor("byhand.ids"); kept || err != nil {
		t.Errorf("an order of the self-test is recorded: %v, %v", kept, err)
	}
	h.want(h.order("/v1/orders", `{"scope":"flow:weir-selftest/*","reason":"a test","by":"ann"}`), 400, "weir's own")
	// During a stop of all calls it passes: all checks are refused.
	h.stopped(`{"scope":"all","reason":"a test","by":"ann"}`)
	h.fake.Advance(time.Minute)
	if err := h.selfTest.Once(t.Context()); err != nil {
		t.Error(err)
	}
	h.released("all")
	works := h.hand.book.Enforce
	for why, enforce := range map[string]func(*events.Verdict){
		"a check of selftest-stopped was answered by allow": func(*events.Verdict) {},
		"a check of selftest-other was refused by": func(v *events.Verdict) {
			wide := *v.ByHand
			wide.Within = nil
			c := *v
			c.ByHand = &wide
			works(&c)
		},
		"a check of selftest-stopped was refused by": func(v *events.Verdict) {
			if v.Stops() {
				works(v)
			}
		},
	} {
		h.fake.Advance(2 * time.Minute) // what the one before has left has expired
		h.hand.book.Enforce = enforce
		if err := h.selfTest.Once(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %s", err, why)
		}
		if got := h.do("GET", "/readyz", ""); !strings.Contains(got.body, `"error":"the switch: `) {
			t.Errorf("readyz says %s", got.body)
		}
	}
	h.fake.Advance(5 * time.Minute)
	h.want(h.do("GET", "/readyz", ""), 503, "the switch: ")
	h.hand.book.Enforce = works
	if err := h.selfTest.Once(t.Context()); err != nil {
		t.Error(err)
	}
}
