package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/events"
	"weir/sink/guard"
	"weir/state"
)

// kept are the verdicts that a member that has ended has in its own log.
func (g *members) kept(dir string) (out []events.Verdict) {
	g.t.Helper()
	s, err := state.Open(dir, state.Options{MemTableSize: 8 << 20})
	if err != nil {
		g.t.Fatal(err)
	}
	defer s.Close()
	entries, err := s.Verdicts(0).Read(0, 1<<20, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := range entries {
		out = append(out, events.Verdict{})
		if err := events.DecodeVerdict(entries[i].Value, &out[i]); err != nil {
			g.t.Fatal(err)
		}
	}
	return out
}

// A member keeps the verdicts that somebody asks it for, whoever folds their flows, and not those
// of the whole group.
func TestMemberKeepsWhatIsFollowed(t *testing.T) {
	g := newGroup(t, startBroker(t), 4)
	g.produce(loops("f", 8, 14)...)
	dirs := []string{t.TempDir(), t.TempDir()}
	members := []*running{g.start(g.options(dirs[0])), g.start(g.options(dirs[1]))}
	g.until("both have partitions", func() bool { return len(members[0].Places()) == 2 && len(members[1].Places()) == 2 })
	g.folded(members...)
	for _, m := range members {
		status, body := m.get("/v1/verdicts?flow=f-3")
		if status != http.StatusOK || !strings.Contains(body, `"correlation_id":"f-3"`) {
			t.Errorf("the verdicts of f-3: %d %s", status, body)
		}
	}
	asked := g.partitionOf("f-3")
	for i, m := range members {
		m.stop()
		kept := g.kept(dirs[i])
		if len(kept) == 0 {
			t.Error("nothing is kept")
		}
		for _, v := range kept {
			if v.CorrelationID != "" && g.partitionOf(v.CorrelationID) != asked {
				t.Errorf("member %d keeps verdicts of %s, which nobody asked it for", i, v.CorrelationID)
			}
		}
	}
}

// A guard that begins to follow a member that nobody has followed before, and that folds none or some
// of its flows, allows nothing that a standing order refuses once it says that it knows the orders; and neither
// does one that hears of an order that is given later.
func TestMemberGuards(t *testing.T) {
	t.Parallel()
	const flows = 16
	g := newGroup(t, startBroker(t), 4)
	now := events.StampOf(time.Now())
	// A guard goes by the clock of today.
	recent := func(name string, flows int) {
		calls := loops(name, flows, 14)
		for i := range calls {
			var ev events.Event
			if events.Decode(calls[i].Value, &ev) == nil {
				ev.Time += now - testStart - 60_000
				calls[i].Value = ev.AppendJSON(nil)
			}
		}
		g.produce(calls...)
	}
	recent("f", flows)
	members := g.two()
	stopped := map[string]bool{}
	for _, line := range g.verdicts() {
		var v events.Verdict
		if err := events.DecodeVerdict([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		if v.Action == events.Deny || v.Action == events.Halt {
			stopped[v.CorrelationID] = true
		}
	}
	if len(stopped) != flows {
		t.Fatalf("%d flows are stopped, want %d", len(stopped), flows)
	}
	for i, m := range members {
		d, err := guard.Dial("http://" + m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for flow := range stopped {
			for _, c := range []guard.Call{{Flow: flow, From: "a", To: "b"}, {Flow: flow, From: "b", To: "a"}} {
				if decision := d.Check(t.Context(), c); !decision.Stopped() {
					t.Errorf("a guard at member %d allows %+v", i, c)
				}
			}
		}
		// Orders that are given now, about flows that either of them folds.
		late := fmt.Sprintf("late-%d", i)
		recent(late, 4)
		g.folded(members...)
		for f := range 4 {
			g.until("the guard hears of the order", func() bool {
				decision := d.Check(t.Context(), guard.Call{Flow: fmt.Sprintf("%s-%d", late, f), From: "a", To: "b"})
				return decision.Stopped()
			})
		}
	}
	// Who wants all gets all, also after somebody wanted what comes from a moment on.
	want := g.verdicts()
	for i, m := range members {
		var got []string
		g.until("all verdicts are there", func() bool {
			_, body := m.get("/v1/verdicts")
			got = strings.Split(strings.TrimSuffix(body, "\n"), "\n")
			slices.Sort(got)
			got = slices.Compact(got)
			return len(got) >= len(want)
		})
		if !slices.Equal(got, slices.Compact(slices.Clone(want))) {
			t.Errorf("member %d shows %d verdicts, want %d", i, len(got), len(want))
		}
	}
}
