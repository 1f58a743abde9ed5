package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/runtimes"
	"weir/sink/webhook"
)

const runtimeSecret = "a secret of sixteen bytes and more"

// fakeRuntime is a program that runs agents. It fails so often before it answers.
type fakeRuntime struct {
	t     *testing.T
	fake  *clock.Fake
	fails int
	code  int    // of the failures
	text  string // of its answer

	mu  sync.Mutex
	got []runtimes.Request
}

func (f *fakeRuntime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	if err := webhook.Verify([]byte(runtimeSecret), r.Header.Get(webhook.SignatureHeader), body, f.fake.Now(), 1000*time.Hour); err != nil {
		f.t.Errorf("a request is not signed: %v", err)
	}
	var q runtimes.Request
	if err := json.Unmarshal(body, &q); err != nil || q.ID != r.Header.Get("Idempotency-Key") {
		f.t.Errorf("%s: %v", body, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.got = append(f.got, q); len(f.got) <= f.fails {
		w.WriteHeader(f.code)
		return
	}
	_, _ = io.WriteString(w, f.text)
}

func (f *fakeRuntime) requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.got)
}

// TestRuntimesAreRequestedToCancel has weir request the cancellation of work from the runtimes of an
// agent: signed, again until they take it, recorded, and once.
func TestRuntimesAreRequestedToCancel(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	billing := &fakeRuntime{t: t, fake: fake, fails: 2, code: 503, text: `{"cancelled":3,"not_cancelled":[{"flow":"f-9","why":"a payment is under way"}]}`}
	other := &fakeRuntime{t: t, fake: fake}
	sulks := &fakeRuntime{t: t, fake: fake, fails: 1 << 30, code: 410}
	dir := t.TempDir()
	file, state := filepath.Join(dir, "switch.yaml"), filepath.Join(dir, "state")
	text := "runtimes:\n"
	for _, r := range []struct {
		name, agent string
		serves      http.Handler
	}{{"billing", "billing-*", billing}, {"other", "crawler", other}, {"sulks", "", sulks}} {
		server := httptest.NewServer(r.serves)
		t.Cleanup(server.Close)
		text += fmt.Sprintf("- {name: %s, agent: %q, url: %q, secret-file: key}\n", r.name, r.agent, server.URL)
	}
	for path, text := range map[string]string{file: text, filepath.Join(dir, "key"): runtimeSecret + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Clock: fake, SwitchFile: file, StateDir: state}
	h := beginHand(t, o)
	h.stopped(`{"scope":"agent:billing-eu","reason":"a test","by":"ann"}`)
	// So little time passes with each answer of weir that no order expires before the requests end.
	pass := func() {
		h.do("GET", "/v1/orders", "")
		fake.Advance(100 * time.Millisecond)
	}
	until := func(fits func(map[string]orders.RuntimePart) bool) map[string]orders.RuntimePart {
		for {
			got := map[string]orders.RuntimePart{}
			for _, p := range h.receipt("agent:billing-eu").Runtimes {
				got[p.Runtime] = p
			}
			if fits(got) {
				return got
			}
			if t.Context().Err() != nil {
				t.Fatalf("the receipt has %+v", got)
			}
			pass()
		}
	}
	got := until(func(got map[string]orders.RuntimePart) bool {
		return got["billing"].State == orders.RuntimeCancelled && got["sulks"].State == orders.RuntimeFailed
	})
	if b := got["billing"]; b.Cancelled != 3 || len(b.NotCancelled) != 1 || b.NotCancelled[0].Flow != "f-9" || b.At == 0 || billing.requests() != 3 {
		t.Errorf("the receipt says %+v after %d requests", b, billing.requests())
	}
	if _, ok := got["other"]; ok || other.requests() > 0 {
		t.Errorf("a runtime of other agents got %d requests", other.requests())
	}
	if !strings.Contains(got["sulks"].Why, "410") {
		t.Errorf("%+v", got["sulks"])
	}
	audit, err := os.ReadFile(filepath.Join(state, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(audit), `"kind":"order.cancel"`); n != 4 || !strings.Contains(string(audit), `"peer":"runtime billing"`) {
		t.Errorf("the audit log has %d lines of cancelling: %s", n, audit)
	}
	// Another process of weir knows the answers, and requests nothing again. A second order is another
	// request.
	h.kill()
	h = beginHand(t, o)
	if got := until(func(got map[string]orders.RuntimePart) bool { return len(got) == 2 }); got["billing"].State != orders.RuntimeCancelled {
		t.Errorf("after a restart the receipt has %+v", got)
	}
	h.stopped(`{"scope":"all","except":["agent:billing-*"],"reason":"a test","by":"ann"}`)
	for other.requests() == 0 {
		pass()
	}
	h.stopped(`{"scope":"all","reason":"a test","by":"ann"}`)
	for billing.requests() < 4 {
		pass()
	}
	if q := billing.got[3]; q.Scope.String() != "all" || q.Agent != "billing-*" || q.By != "ann" {
		t.Errorf("the second request is %+v", q)
	}
}
