package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/weirtest"
	"weir/events"
)

// rogue is a member without a key: a program that may join the consumer group, and says that it
// is reached at an address of its own.
type rogue struct {
	kafkago.RoundRobinGroupBalancer
	address string
}

func (*rogue) ProtocolName() string { return "weir-holds" }

func (r *rogue) UserData() ([]byte, error) {
	return append(append([]byte{1, byte(len(r.address))}, r.address...), 0), nil
}

// join stays in a group until the test ends.
func (r *rogue) join(t *testing.T, g *members, group, topic string) {
	in, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{Brokers: []string{g.b.Addr}, ID: group, Topics: []string{topic},
		GroupBalancers: []kafkago.GroupBalancer{r}, HeartbeatInterval: 100 * time.Millisecond, SessionTimeout: 10 * time.Second, JoinGroupBackoff: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = in.Next(ctx)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = in.Close()
	})
}

// TestMemberWithoutKey lets a program without a token join both groups of a member. It is given
// partitions, is sent checks and an order, and allows everything.
func TestMemberWithoutKey(t *testing.T) {
	const secret = "0123456789012345678901234567890123456789"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, with := range map[string]func(admin, intake *string){
		"admin token":  func(admin, _ *string) { *admin = token },
		"intake token": func(_, intake *string) { *intake = token },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, startBroker(t), 4)
			var mu sync.Mutex
			var got []string // paths that came to the rogue
			evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				got = append(got, r.URL.Path)
				mu.Unlock()
				for name, values := range r.Header {
					if strings.Contains(fmt.Sprint(values), secret) {
						t.Errorf("%s: %s has the token", r.URL, name)
					}
				}
				if r.URL.Path != "/v1/asks" || r.URL.RawQuery != "" {
					w.WriteHeader(http.StatusAccepted)
					_, _ = w.Write([]byte(`{"id":"x","by":"x","stopped":0,"more":false}`))
					return
				}
				v := events.Verdict{ID: "0123456789abcdef", Time: events.RFC3339(events.StampOf(time.Now())), Action: events.Allow, Scope: events.Scope{Kind: events.ScopeFlow, ID: "forged"}, CorrelationID: "forged"}
				_, _ = w.Write(v.AppendJSON(nil))
			}))
			t.Cleanup(evil.Close)
			o := g.options(t.TempDir())
			o.Listen = weirtest.Address(t)
			o.Kafka.Advertise = "http://" + o.Listen
			with(&o.AdminTokenFile, &o.IntakeTokenFile)
			m := g.start(o)
			g.until("it has all partitions", func() bool { return len(m.Places()) == 4 })
			r := &rogue{address: evil.URL}
			r.join(t, g, g.name, g.topics.Events)
			r.join(t, g, g.name+"-agents", g.topics.Activity)
			g.until("the rogue has some", func() bool { return len(m.Places()) == 2 })
			send := func(path, body string) (int, string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+m.Addr()+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+secret)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				return res.StatusCode, string(b)
			}
			statuses := make(map[int]int)
			n := 0
			ask := func() {
				n++
				ev := events.Event{ID: "1", Source: "test", Time: events.StampOf(time.Now()), Kind: events.AgentCall, Ask: true, CorrelationID: fmt.Sprintf("f-%d", n),
					From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
				status, body := send("/v1/check", string(ev.AppendJSON(nil)))
				statuses[status]++
				if strings.Contains(body, "forged") || status == http.StatusOK && strings.Contains(body, "0123456789abcdef") {
					t.Fatalf("f-%d: a forged answer is passed on: %s", n, body)
				}
			}
			// Right after the group has changed, the partitions of the rogue have no known owner.
			g.until("the rogue is sent a check", func() bool {
				ask()
				mu.Lock()
				defer mu.Unlock()
				return slices.Contains(got, "/v1/asks")
			})
			for range 64 {
				ask()
			}
			if statuses[http.StatusOK] == 0 || statuses[http.StatusServiceUnavailable] == 0 || len(statuses) != 2 {
				t.Errorf("statuses %v, want 200 for own flows and 503 for those of the rogue", statuses)
			}
		})
	}
}
