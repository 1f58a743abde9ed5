package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/app"
	"weir/cmd/internal/app/checktest"
	"weir/sink/guard/conformance"
)

// conforming is a group of two members that plays the suite. Checks go to both in turn, so about half are
// forwarded to the member that folds their flow.
func conforming(t *testing.T, text string) (*conformance.Weir, *members, []*running) {
	t.Helper()
	limits, err := limitfile.Parse("suite", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(byHandSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newGroup(t, startBroker(t), 4)
	members := g.two(func(o *app.Options) { o.Limits, o.AdminTokenFile = limits, token })
	w := &conformance.Weir{Token: byHandSecret, Now: time.Now, Runs: true}
	for _, m := range members {
		w.URLs = append(w.URLs, "http://"+m.Addr())
	}
	w.Give = func(verdict string) {
		var v struct{ ID string }
		if err := json.Unmarshal([]byte(verdict), &v); err != nil {
			t.Fatal(err)
		}
		shown := func(m *running) int {
			_, body := m.get("/v1/verdicts")
			return strings.Count(body, fmt.Sprintf("%q", v.ID))
		}
		before := make(map[*running]int)
		for _, m := range members {
			before[m] = shown(m)
		}
		// The first partition of the agent stage.
		g.b.put(t, g.topics.Verdicts, g.partitions, kafkago.Message{Value: []byte(verdict), Headers: []kafkago.Header{{Key: "weir-trigger", Value: []byte("1")}}})
		for _, m := range members {
			g.until("each member knows the order", func() bool { return shown(m) > before[m] })
		}
	}
	return w, g, members
}

// TestMemberConformanceDecisions makes the decisions of the suite by each way to check calls.
func TestMemberConformanceDecisions(t *testing.T) {
	t.Parallel()
	decisions, err := conformance.Decisions()
	if err != nil {
		t.Fatal(err)
	}
	w, _, _ := conforming(t, "profile: none\n")
	ways := conformance.HTTP()
	for i := range decisions {
		w.Decide(t, &decisions[i], ways...)
	}
}

// TestMemberConformanceDialogues plays the dialogues of the suite by each way to check calls. In the middle of the last
// ones a member leaves, and the other one folds its flows: the answers are the same.
func TestMemberConformanceDialogues(t *testing.T) {
	conformance.EachDialogues(t, func(t *testing.T, limits string, dialogues []conformance.Dialogue) {
		w, g, members := conforming(t, limits)
		for _, way := range append(conformance.HTTP(), checktest.NewGuard(t, w.URLs[0])) {
			for i := range dialogues {
				w.Play(t, &dialogues[i], way, fmt.Sprint(way.Name(), "-", i, "-"))
			}
		}
		var players []*conformance.Player
		for i := range dialogues {
			p := w.Player(t, &dialogues[i], conformance.Requests{}, fmt.Sprint("left-", i, "-"))
			p.First()
			players = append(players, p)
		}
		members[1].stop()
		w.URLs = w.URLs[:1]
		g.until("the other member has all partitions", func() bool {
			status, _ := members[0].get("/readyz")
			return status == http.StatusOK && len(members[0].Places()) == g.partitions && len(members[0].AgentPlaces()) == g.partitions
		})
		for _, p := range players {
			p.Rest()
		}
	})
}
