package e2e

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/internal/pump/pumptest"
	"weir/cmd/weirtest"
	"weir/events"
)

// TestMemberDegraded holds up the fold of one member: asks of its flows are answered all the
// same, whichever member is asked, say so, and are counted when the fold goes on.
func TestMemberDegraded(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startBroker(t), 2)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	text := "profile: delegation\nrules: {max_total_calls: {max: 10}, call_rate_per_flow: off}\ndegraded: {after: 1s, until: 2s, percent: 50, scale: [max_total_calls]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := pumptest.NewStuckLog()
	var members []*running
	for i := range 2 {
		o := g.options(t.TempDir())
		o.Listen, o.LimitsFile = weirtest.Address(t), file
		o.Kafka.Advertise = "http://" + o.Listen
		if i == 0 {
			o.Logger = slog.New(h)
		}
		members = append(members, g.start(o))
	}
	g.until("both have a partition", func() bool { return len(members[0].Places()) == 1 && len(members[1].Places()) == 1 })
	g.folded(members...)
	// named returns a name of a flow that the first member folds.
	named := func(name string) string {
		for i := 0; ; i++ {
			key := fmt.Sprintf("%s-%d", name, i)
			if (kafkago.Murmur2Balancer{Consistent: true}).Balance(kafkago.Message{Key: []byte(key)}, 0, 1) == members[0].Places()[0].Partition {
				return key
			}
		}
	}
	flow, stalls := named("f"), named("stall")
	h.At(stalls)
	asked := 0
	ask := func(m *running, status int, parts ...string) {
		t.Helper()
		asked++
		ev := events.Event{ID: fmt.Sprint("ask-", asked), Source: "test", Time: testStart.Add(time.Duration(asked) * time.Second), Kind: events.AgentCall, Ask: true,
			CorrelationID: flow, From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
		res, err := http.Post("http://"+m.Addr()+"/v1/check", "application/json", bytes.NewReader(ev.AppendJSON(nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status {
			t.Fatalf("ask %d: %s %s %v, want %d", asked, res.Status, body, err, status)
		}
		for _, part := range parts {
			if !strings.Contains(string(body), part) {
				t.Errorf("ask %d: %s, want %s", asked, body, part)
			}
		}
	}
	ask(members[0], 200)
	ask(members[1], 200)
	stall := events.Event{ID: "s", Source: "test", Time: testStart, Kind: events.AgentCall, CorrelationID: stalls, From: events.Party{Agent: "a"}, To: events.Party{Agent: "a"}}
	g.produce(kafkago.Message{Key: []byte(stalls), Value: stall.AppendJSON(nil)})
	<-h.Stuck
	more := stall
	more.ID, more.To.Agent = "more", "b"
	g.produce(kafkago.Message{Key: []byte(stalls), Value: more.AppendJSON(nil)})
	g.until("the member is in degraded mode", func() bool {
		status, body := members[0].get("/readyz")
		return status == http.StatusOK && strings.Contains(body, `"reason":"behind"`)
	})
	ask(members[0], 200, `"degraded":"behind"`)
	ask(members[1], 200, `"degraded":"behind"`)
	ask(members[1], 200, `"degraded":"behind"`)
	ask(members[1], http.StatusPaymentRequired, `"degraded":"behind"`, `"limit":5`)
	ask(members[0], http.StatusPaymentRequired)
	h.Free()
	g.until("the mode has ended", func() bool {
		_, body := members[0].get("/readyz")
		return !strings.Contains(body, "degraded")
	})
	g.folded(members...)
	if status, body := members[0].get("/v1/flows/" + flow); status != http.StatusOK || !strings.Contains(body, `"hops":5`) {
		t.Errorf("%d %s, want the five calls that were allowed", status, body)
	}
	for range 5 {
		ask(members[1], 200)
	}
	ask(members[1], http.StatusPaymentRequired, `"limit":10`)
}
