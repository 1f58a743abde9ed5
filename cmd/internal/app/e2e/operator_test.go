package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/api"
	"weir/cmd/weirtest"
	"weir/events"
)

// TestMemberOrders gives orders to one member about flows that both fold.
func TestMemberOrders(t *testing.T) {
	const flows, secret = 8, "0123456789012345678901234567890123456789"
	g := newGroup(t, startBroker(t), 4)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	var members []*running
	for range 2 {
		o := g.options(t.TempDir())
		o.Listen, o.AdminTokenFile = weirtest.Address(t), token
		o.Kafka.Advertise = "http://" + o.Listen
		members = append(members, g.start(o))
	}
	g.until("both have partitions", func() bool { return len(members[0].Places()) == 2 && len(members[1].Places()) == 2 })
	var calls []kafkago.Message
	for f := range flows {
		ev := events.Event{ID: "1", Source: "test", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: fmt.Sprintf("f-%d", f),
			From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
		calls = append(calls, kafkago.Message{Key: []byte(ev.CorrelationID), Value: ev.AppendJSON(nil)})
	}
	g.produce(calls...)
	g.folded(members...)

	order := func(path, body string, said any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+members[0].Addr()+path, strings.NewReader(body))
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
		if err != nil || res.StatusCode != http.StatusAccepted || json.Unmarshal(b, said) != nil {
			t.Fatalf("%s: %s %s (%v)", path, res.Status, b, err)
		}
	}
	for f := range flows {
		var a api.OperatorAnswer
		order(fmt.Sprintf("/v1/flows/f-%d/stop", f), `{"reason":"a test","by":"ann"}`, &a)
		order(fmt.Sprintf("/v1/flows/f-%d/release", f), `{"reason":"a test","by":"bob"}`, &a)
		if len(a.Verdicts) != 1 {
			t.Errorf("released f-%d: %+v", f, a)
		}
		order(fmt.Sprintf("/v1/flows/f-%d/stop", f), `{"reason":"a test","by":"carol","for_s":60}`, &a)
		if len(a.Verdicts) != 1 {
			t.Errorf("stopped f-%d: %+v", f, a)
		}
	}
	g.folded(members...)
	if got, want := g.verdicts(), g.wanted(limitfile.Default()); !slices.Equal(got, want) {
		t.Errorf("%d verdicts, the one fold gives %d", len(got), len(want))
	}
	if n := len(g.verdicts()); n != 3*flows {
		t.Errorf("%d verdicts, want %d", n, 3*flows)
	}
}

// TestMemberBacktest asks one member what limits would have done, and what was spent: it reads
// the partitions of the others, too.
func TestMemberBacktest(t *testing.T) {
	const flows = 8
	g := newGroup(t, startBroker(t), 4)
	g.produce(loops("f", flows, 14)...)
	members := g.two()
	for i, m := range members {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for _, part := range [][2]string{{"a", "profile: none"}, {"b", "profile: balanced"}, {"since", "0s"}} {
			if err := form.WriteField(part[0], part[1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := form.Close(); err != nil {
			t.Fatal(err)
		}
		res, err := http.Post("http://"+m.Addr()+"/v1/inspect/backtest", form.FormDataContentType(), &body)
		if err != nil {
			t.Fatal(err)
		}
		told, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		var out struct {
			B struct {
				Flows   int `json:"flows"`
				Stopped int `json:"flows_stopped"`
			}
		}
		if err := json.Unmarshal(told, &out); err != nil || out.B.Flows != flows || out.B.Stopped != flows {
			t.Errorf("member %d tried %d flows and would stop %d, want %d of %d: %v", i, out.B.Flows, out.B.Stopped, flows, flows, err)
		}
		var spent struct {
			Total struct {
				All struct {
					Calls int64 `json:"calls"`
				} `json:"all"`
			} `json:"total"`
		}
		if status, body := m.get("/v1/costs"); status != http.StatusOK || json.Unmarshal([]byte(body), &spent) != nil || spent.Total.All.Calls != flows*14 {
			t.Errorf("member %d: %d calls were spent, want %d: %.300s", i, spent.Total.All.Calls, flows*14, body)
		}
	}
}
