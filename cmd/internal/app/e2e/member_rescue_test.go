package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/api"
)

// post sends an order to a member, and returns what is said of it.
func (r *running) post(path, body string) (a api.AgentAnswer) {
	r.t.Helper()
	res, err := http.Post("http://"+r.Addr()+path, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode == http.StatusAccepted {
		err = json.Unmarshal(text, &a)
	}
	if err != nil || res.StatusCode != http.StatusAccepted {
		r.t.Fatalf("%s: HTTP %d %s (%v)", path, res.StatusCode, text, err)
	}
	return a
}

// TestMemberRescue asks members about an agent that another one folds: who does not fold it
// says who does, and takes requests for help all the same.
func TestMemberRescue(t *testing.T) {
	g := newGroup(t, startBroker(t), 4)
	s := &story{name: "one"}
	s.ticks(g, 0, 0, time.Minute)
	s.reports(0, "planner")
	s.ticks(g, 5*time.Minute, 45*time.Minute, 5*time.Minute)
	g.produce(s.list...)
	var members []*running
	for i := range 2 {
		o := g.options(t.TempDir())
		o.Kafka.Advertise = fmt.Sprintf("http://member-%d", i)
		members = append(members, g.start(o))
	}
	g.until("both have partitions of both stages", func() bool {
		return !slices.ContainsFunc(members, func(m *running) bool { return len(m.Places()) != 2 || len(m.AgentPlaces()) != 2 })
	})
	g.folded(members...)

	owner := -1
	g.until("one of them folds the agent", func() bool {
		owner = slices.IndexFunc(members, func(m *running) bool {
			status, body := m.get("/v1/agents/planner")
			return status == http.StatusOK && strings.Contains(body, `"state":"stuck"`)
		})
		return owner >= 0
	})
	other := members[1-owner]
	for _, path := range []string{"/v1/agents/planner", "/v1/notes?agent=planner"} {
		g.until("the other says who folds it", func() bool {
			status, body := other.get(path)
			return status == http.StatusMisdirectedRequest && strings.Contains(body, fmt.Sprintf("folds this agent: ask http://member-%d", owner))
		})
	}
	stuck := 0
	for _, m := range members {
		if _, body := m.get("/v1/agents?stuck=1"); strings.Contains(body, `"agent":"planner"`) {
			stuck++
		}
	}
	if stuck != 1 {
		t.Errorf("%d members list the stuck agent", stuck)
	}
	a := other.post("/v1/agents/planner/rescue", `{"reason":"no answer","by":"ann"}`)
	if len(a.Verdicts) == 0 || !strings.Contains(string(a.Verdicts[0]), `"reason_code":"rescue_requested"`) {
		t.Errorf("answered %+v", a)
	}
	other.post("/v1/notes", `{"agent":"planner","author":"ann","tags":["keys"],"summary":"its key is lost"}`)
	g.until("the owner has the note", func() bool {
		_, body := members[owner].get("/v1/notes?tag=keys")
		return strings.Contains(body, fmt.Sprintf("%q", "its key is lost"))
	})
}
