package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/internal/orders"
	"weir/cmd/weirtest"
	"weir/events"
	"weir/sink/guard"
	"weir/sink/guard/kafkaguard"
)

// byHand is a group with an admin token, and what is sent to its members.
type byHand struct {
	*members
	token string
	calls atomic.Int64
}

const byHandSecret = "0123456789012345678901234567890123456789"

func newByHand(t *testing.T) *byHand {
	t.Helper()
	h := &byHand{members: newGroup(t, startBroker(t), 4), token: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(h.token, []byte(byHandSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// member starts a member with an empty state.
func (h *byHand) member() *running {
	h.t.Helper()
	o := h.options(h.t.TempDir())
	o.Listen, o.AdminTokenFile = weirtest.Address(h.t), h.token
	o.Kafka.Advertise = "http://" + o.Listen
	return h.start(o)
}

// order sends a request of an operator.
func (h *byHand) order(m *running, method, path, body string) string {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, "http://"+m.Addr()+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+byHandSecret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		h.t.Fatalf("%s %s: %s %s (%v)", method, path, res.Status, text, err)
	}
	return string(text)
}

// ask asks for a call in a new flow, made by whom.
func (h *byHand) ask(m *running, origin events.Origin) int {
	h.t.Helper()
	n := h.calls.Add(1)
	ev := events.Event{ID: fmt.Sprint("ask-", n), Source: "test", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: fmt.Sprint("flow-", n), Origin: origin,
		From: events.Party{Agent: fmt.Sprint("a", n)}, To: events.Party{Agent: "b"}}
	if origin == events.OriginUser {
		ev.From = events.Party{}
	}
	res, err := http.Post("http://"+m.Addr()+"/v1/check", "application/json", strings.NewReader(string(ev.AppendJSON(nil))))
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// refuses waits until a member knows the order, and holds that it refuses calls from then on: of flows
// of each partition that begin now, of people and of schedulers.
func (h *byHand) refuses(m *running) {
	h.t.Helper()
	h.until("the order is known", func() bool { return h.ask(m, events.OriginAgent) == http.StatusForbidden })
	h.neverAdmits(m)
}

func (h *byHand) neverAdmits(m *running) {
	h.t.Helper()
	for range 16 {
		for _, origin := range []events.Origin{events.OriginAgent, events.OriginUser, events.OriginScheduler, events.OriginApplet} {
			if got := h.ask(m, origin); got != http.StatusForbidden {
				h.t.Fatalf("a call by %v is answered by %d", origin, got)
			}
		}
	}
}

// TestMemberOrdersByHand gives orders at one member, at another and in the topic. They hold at each
// member, through hand-overs, and for members that have lost their state.
func TestMemberOrdersByHand(t *testing.T) {
	h := newByHand(t)
	a, b := h.member(), h.member()
	h.until("both have partitions", func() bool { return len(a.Places()) == 2 && len(b.Places()) == 2 })
	if got := h.ask(b, events.OriginAgent); got != http.StatusOK {
		t.Fatalf("a call is answered by %d", got)
	}
	h.order(a, "POST", "/v1/orders", `{"scope":"all","reason":"a test","by":"ann","for_s":600}`)
	h.neverAdmits(a) // the order is in force where it was given when it is answered
	h.refuses(b)

	// A member whose state is new refuses its first check; so does one that takes partitions over.
	a.stop()
	h.neverAdmits(b)
	b.stop()
	c, d := h.member(), h.member()
	h.neverAdmits(c)
	h.neverAdmits(d)

	// A record of the topic releases, and stops.
	h.b.put(t, h.topics.Orders, 0, kafkago.Message{Key: []byte("all"), Value: []byte(`{"order":"release","scope":"all","reason":"over","by":"kafka"}`)})
	for _, m := range []*running{c, d} {
		h.until("the release is known", func() bool { return h.ask(m, events.OriginAgent) == http.StatusOK })
	}
	h.b.put(t, h.topics.Orders, 0, kafkago.Message{Key: []byte("agent:b*"), Value: []byte(`no order`)}, kafkago.Message{Key: []byte("agent:b*"), Value: []byte(`{"order":"stop","scope":"agent:b*","reason":"again","by":"kafka"}`)})
	h.refuses(c)
	h.refuses(d)
	if list := h.order(d, "GET", "/v1/orders", ""); !strings.Contains(list, `"scope":"agent:b*"`) || !strings.Contains(list, `"by":"kafka"`) {
		t.Errorf("the member lists %s", list)
	}
	h.order(d, "DELETE", "/v1/orders/agent:b*", `{"reason":"over","by":"bob"}`)
	h.until("the release is known", func() bool { return h.ask(c, events.OriginAgent) == http.StatusOK })
}

// TestReceiptOfAGroup has one guard follow a member by its heartbeats and another one the topics of Kafka.
// The order is given, and its receipt requested, at the other member. The receipt is complete when both
// guards enforce the order, and names the guard that is silent.
func TestReceiptOfAGroup(t *testing.T) {
	h := newByHand(t)
	a, b := h.member(), h.member()
	h.until("both have partitions", func() bool { return len(a.Places()) == 2 && len(b.Places()) == 2 })
	g, err := kafkaguard.New(kafkaguard.Options{Options: guard.Options{URL: "http://" + a.Addr(), Source: "kafka", Quiet: true}, Cluster: h.cluster, Topic: h.topics.Verdicts, Orders: h.topics.Orders})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	beat := func(held string) {
		t.Helper()
		body := fmt.Sprintf(`{"guard":"other","instance":"i","language":"go","held":[%s]}`, held)
		res, err := http.Post("http://"+a.Addr()+"/v1/guards", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
	receipt := func() (r orders.Receipt) {
		t.Helper()
		if err := json.Unmarshal([]byte(h.order(b, "GET", "/v1/orders/all/receipt", "")), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	missing := func(r orders.Receipt) bool {
		return len(r.Missing) == 1 && r.Missing[0].Guard == "other" && r.Guards == 1 && r.Members == 2 && !r.Complete
	}
	beat("")
	h.order(b, "POST", "/v1/orders", `{"scope":"all","reason":"a test","by":"ann","for_s":600}`)
	h.until("the guard of Kafka obeys", func() bool {
		d := g.Check(t.Context(), guard.Call{Flow: "f", FromAgent: "a", ToAgent: "b"})
		return d.Reason == events.OperatorStopped
	})
	h.until("the other guard is missing", func() bool { beat(""); return missing(receipt()) })
	id := receipt().Verdict
	h.until("the receipt is complete", func() bool {
		beat(strconv.Quote(id))
		r := receipt()
		return r.Complete && r.Guards == 2 && r.Members == 2
	})
	h.until("the guard that is silent is named", func() bool { return missing(receipt()) })
}
