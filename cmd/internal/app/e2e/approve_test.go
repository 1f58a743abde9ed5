package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/weirtest"
	"weir/events"
)

// TestApprovalInAGroup holds flows of all partitions. One member asks about each of them, once, and each member
// accepts each link. When a member is gone, the one that takes its partitions over asks about its flows.
func TestApprovalInAGroup(t *testing.T) {
	h := newByHand(t)
	var mu sync.Mutex
	var got []string
	slack := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(body))
	}))
	defer slack.Close()
	messages := func(flow string) (out []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range got {
			if strings.Contains(m, "*Flow*\\n"+flow+`"`) {
				out = append(out, m)
			}
		}
		return out
	}
	settings := filepath.Join(t.TempDir(), "switch.yaml")
	if err := os.WriteFile(settings, []byte("approvals: {url: https://weir.example, grant: 100, tiers: [{name: ops, wait: 1h, slack: \""+slack.URL+"\"}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	limits, err := limitfile.Parse("test", []byte("profile: none\nrules: {max_total_calls: {max: 1, action: hold}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *running {
		o := h.options(t.TempDir())
		o.Listen, o.AdminTokenFile, o.SwitchFile, o.Limits = weirtest.Address(t), h.token, settings, limits
		o.Kafka.Advertise = "http://" + o.Listen
		return h.start(o)
	}
	a, b := begin(), begin()
	h.until("both have partitions", func() bool { return len(a.Places()) == 2 && len(b.Places()) == 2 })
	n := 0
	ask := func(flow string) int {
		t.Helper()
		n++
		ev := events.Event{ID: fmt.Sprint("ask-", n), Source: "test", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: flow, From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
		res, err := http.Post("http://"+b.Addr()+"/v1/check", "application/json", strings.NewReader(string(ev.AppendJSON(nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	link := regexp.MustCompile(`https://weir\.example(/v1/approvals/[A-Za-z0-9_.-]+)`)
	answer := func(m *running, message string) int {
		t.Helper()
		res, err := http.Post("http://"+m.Addr()+link.FindStringSubmatch(message)[1], "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	const flows = 8
	for i := range flows {
		flow := fmt.Sprint("held-", i)
		h.until("a call is allowed", func() bool { return ask(flow) == http.StatusOK })
		if got := ask(flow); got != http.StatusPaymentRequired {
			t.Fatalf("the second call of %s is answered by %d", flow, got)
		}
	}
	for i := range flows - 2 {
		flow, m, other := fmt.Sprint("held-", i), a, b
		if i%2 == 0 {
			m, other = b, a
		}
		h.until("the message about "+flow, func() bool { return len(messages(flow)) > 0 })
		message := messages(flow)[0]
		// A member knows a hold once it has copied its verdict.
		h.until("the link of "+flow+" is accepted", func() bool { return answer(m, message) == http.StatusOK })
		if got := answer(m, message); got != http.StatusGone {
			t.Errorf("the link of %s is accepted twice: %d", flow, got)
		}
		h.until("the other member knows the answer", func() bool { return answer(other, message) == http.StatusGone })
		if got := ask(flow); got != http.StatusOK {
			t.Errorf("a call of %s is answered by %d after the approval", flow, got)
		}
	}
	for i := range flows {
		if got := messages(fmt.Sprint("held-", i)); len(got) != 1 {
			t.Errorf("%d messages about held-%d", len(got), i)
		}
	}
	a.stop()
	h.until("the other member has all partitions", func() bool { return len(b.Places()) == 4 })
	for i := flows - 2; i < flows; i++ {
		flow := fmt.Sprint("held-", i)
		h.until("an answer for "+flow, func() bool { all := messages(flow); return answer(b, all[len(all)-1]) == http.StatusOK })
		if got := len(messages(flow)); got > 2 {
			t.Errorf("%d messages about %s", got, flow)
		}
	}
}

// TestSwitchTestsItselfInAGroup holds that each member throws its switch and is obeyed, and that no other member
// and no topic sees anything of it.
func TestSwitchTestsItselfInAGroup(t *testing.T) {
	h := newByHand(t)
	begin := func() *running {
		o := h.options(t.TempDir())
		o.Listen, o.AdminTokenFile, o.SelfTest = weirtest.Address(t), h.token, time.Minute
		o.Kafka.Advertise = "http://" + o.Listen
		return h.start(o)
	}
	a, b := begin(), begin()
	ready := func(m *running) string {
		res, err := http.Get("http://" + m.Addr() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return string(text)
	}
	for _, m := range []*running{a, b} {
		h.until("the switch is obeyed", func() bool { return strings.Contains(ready(m), `"switch_obeyed"`) })
		if got := strings.TrimSpace(h.order(m, "GET", "/v1/orders?all=1", "")); got != `{"orders":[]}` {
			t.Errorf("a member lists %s", got)
		}
	}
	bounds := func() int64 {
		_, end, err := h.cluster.Bounds(t.Context(), h.topics.Orders, 0)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	if end := bounds(); end != 0 {
		t.Errorf("the topic of orders has %d records", end)
	}
}
