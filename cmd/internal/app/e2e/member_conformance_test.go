package e2e

import (
	"encoding/json"
	"fmt"
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
func conforming(t *testing.T, text string) *conformance.Weir {
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
	return w
}

// TestMemberConformanceDecisions makes the decisions of the suite by each way to check calls.
func TestMemberConformanceDecisions(t *testing.T) {
	t.Parallel()
	decisions, err := conformance.Decisions()
	if err != nil {
		t.Fatal(err)
	}
	w, ways := conforming(t, "profile: none\n"), conformance.HTTP()
	for i := range decisions {
		w.Decide(t, &decisions[i], ways...)
	}
}

// TestMemberConformanceDialogues plays the dialogues of the suite by each way to check calls.
func TestMemberConformanceDialogues(t *testing.T) {
	t.Parallel()
	byLimits, err := conformance.Dialogues()
	if err != nil {
		t.Fatal(err)
	}
	for limits, dialogues := range byLimits {
		t.Run(fmt.Sprint(len(limits)), func(t *testing.T) {
			t.Parallel()
			w := conforming(t, limits)
			for _, way := range append(conformance.HTTP(), checktest.NewGuard(t, w.URLs[0])) {
				for i := range dialogues {
					w.Play(t, &dialogues[i], way, fmt.Sprint(way.Name(), "-", i, "-"), nil)
				}
			}
		})
	}
}
