package analyzer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
)

// The cases of other guards: sequences of calls with what those guards say of
// them, in a file that is not part of this repository. It is looked for beside the
// repository, or below $WEIR_SHARED. WEIR_CASES names another file of the same
// shape, whose outcome is printed and not compared.

// peerCase is one case of the file. Index counts from 1 within the peer: a case is
// spoken of as peer#index here and nowhere by its name.
type peerCase struct {
	Peer   string          `json:"peer"`
	Scope  string          `json:"scope"`
	Config json.RawMessage `json:"cfg"`
	Events []peerOp        `json:"events"`
	Expect []peerExpect    `json:"expect"`
	Index  int             `json:"-"`
}

func (c *peerCase) key() string { return fmt.Sprintf("%s#%d", c.Peer, c.Index) }

// peerExpect is what the peer says at a point: after so many expanded events, at
// the "end", or at "any" of them.
type peerExpect struct {
	After  json.RawMessage `json:"after"`
	Says   level           `json:"v"`
	Rule   string          `json:"rule"`
	Stack  []string        `json:"stack"`
	Depth  int             `json:"depth"`
	Unique int             `json:"unique"`
}

// level is how far a guard goes at a point.
type level string

const (
	levelOK   level = "ok"
	levelWarn level = "warn"
	levelStop level = "stop"
)

func (l level) rank() int { return slices.Index([]level{levelOK, levelWarn, levelStop}, l) }

func higher(a, b level) level {
	if a.rank() < b.rank() {
		return b
	}
	return a
}

func highest(all []level) level {
	most := levelOK
	for _, l := range all {
		most = higher(most, l)
	}
	return most
}

func readPeerCases(t *testing.T) (cases []peerCase, pinned bool) {
	t.Helper()
	name := os.Getenv("WEIR_CASES")
	pinned = name == ""
	if pinned {
		name = filepath.Join("..", "..", "shared", "cases", "peer_cases.json")
		if dir := os.Getenv("WEIR_SHARED"); dir != "" {
			name = filepath.Join(dir, "cases", "peer_cases.json")
		}
	}
	data, err := os.ReadFile(name)
	if pinned && errors.Is(err, fs.ErrNotExist) {
		t.Skipf("NOT RUN: the other guards' cases are missing: there is no file %s; set WEIR_SHARED to the directory that holds cases/peer_cases.json", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	cases = slices.DeleteFunc(cases, func(c peerCase) bool { return strings.HasPrefix(c.Peer, "_") })
	seen := map[string]int{}
	for i := range cases {
		seen[cases[i].Peer]++
		cases[i].Index = seen[cases[i].Peer]
	}
	return cases, pinned
}

// tally is the outcome of one peer's cases.
type tally struct{ cases, judged, agree, disagree, unjudged int }

func (t *tally) add(o tally) {
	t.cases, t.judged, t.agree = t.cases+o.cases, t.judged+o.judged, t.agree+o.agree
	t.disagree, t.unjudged = t.disagree+o.disagree, t.unjudged+o.unjudged
}

// TestPeerCases runs the cases with the peer's own thresholds where weir has the
// rule (limitsOf), and with the default limits where people say what must be
// stopped and what must not.
func TestPeerCases(t *testing.T) {
	cases, pinned := readPeerCases(t)
	tallies := map[string]tally{}
	got := map[string]string{} // disagreement by case
	for i := range cases {
		c := &cases[i]
		n := tallies[c.Peer]
		n.cases++
		if why := c.unjudged(); why != "" {
			n.unjudged++
			t.Logf("%s not judged: %s", c.key(), why)
		} else if said := c.disagreement(c.play(c.limits(t), peerHabits[c.Peer])); said != "" {
			n.judged, n.disagree = n.judged+1, n.disagree+1
			got[c.key()] = said
		} else {
			n.judged, n.agree = n.judged+1, n.agree+1
		}
		tallies[c.Peer] = n
	}
	t.Log(peerTable(tallies, got))
	if !pinned {
		return
	}
	comparePins(t, got, peerDisagreements)
	if !maps.Equal(tallies, peerTallies) {
		for _, peer := range slices.Sorted(maps.Keys(tallies)) {
			if tallies[peer] != peerTallies[peer] {
				t.Errorf("tally of %s is %+v, pinned %+v", peer, tallies[peer], peerTallies[peer])
			}
		}
	}
}

// comparePins fails for every case that disagrees and is not pinned, and for every
// pin whose case agrees now.
func comparePins(t *testing.T, got, pins map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if pins[key] == "" {
			t.Errorf("%s disagrees, which is new: %s", key, got[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pins)) {
		if got[key] == "" {
			t.Errorf("%s agrees now: take its pin out", key)
		}
	}
}

func peerTable(tallies map[string]tally, got map[string]string) string {
	var b strings.Builder
	row := func(name string, n tally) {
		fmt.Fprintf(&b, "%-20s %6d %7d %6d %9d %11d\n", name, n.cases, n.judged, n.agree, n.disagree, n.unjudged)
	}
	fmt.Fprintf(&b, "\n%-20s %6s %7s %6s %9s %11s\n", "peer", "cases", "judged", "agree", "disagree", "not judged")
	var all tally
	for _, peer := range slices.Sorted(maps.Keys(tallies)) {
		row(peer, tallies[peer])
		all.add(tallies[peer])
	}
	row("all", all)
	for _, key := range slices.Sorted(maps.Keys(got)) {
		fmt.Fprintf(&b, "%s: %s", key, got[key])
		if why := peerDisagreements[key]; why != "" {
			fmt.Fprintf(&b, " (%s)", why)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestPeerCasesUnderDefaults holds the default limits to what must be true of them:
// what people say must be stopped is stopped, what they say must not is not, and no
// case that a peer lets pass is stopped, but for the pinned ones.
func TestPeerCasesUnderDefaults(t *testing.T) {
	cases, pinned := readPeerCases(t)
	complain := t.Errorf
	if !pinned {
		complain = t.Logf
	}
	stopped := map[string]string{}
	var honest, warned, noticed, positives int
	for i := range cases {
		c := &cases[i]
		if c.unjudged() != "" {
			continue
		}
		run := c.play(analyzer.Balanced(), peerHabits[c.Peer])
		most := highest(run.levels)
		switch {
		case c.Peer == "field-must-stop":
			if most == levelOK && endsBeforeTheLimit[c.key()] == "" {
				complain("%s: not even warned", c.key())
			}
			if most != levelStop && c.wants(levelStop) && endsBeforeTheLimit[c.key()] == "" {
				complain("%s: %s, want stop", c.key(), most)
			}
		case c.Peer == "field-must-not-stop" && most == levelStop:
			complain("%s: stopped by %s", c.key(), run.reasons())
		case c.Peer == "openclaw" && !c.staysOK():
			positives++
			if most != levelOK {
				noticed++
			} else if silentPositives[c.key()] == "" {
				complain("%s: not even warned", c.key())
			}
		}
		if c.staysOK() {
			honest++
			if most == levelStop {
				stopped[c.key()] = "stopped by " + run.reasons()
			} else if most == levelWarn {
				warned++
			}
		}
	}
	t.Logf("of %d cases that must stay ok %d are stopped and %d warned; of %d positives of openclaw %d are noticed", honest, len(stopped), warned, positives, noticed)
	for _, key := range slices.Sorted(maps.Keys(stopped)) {
		t.Logf("%s: %s (%s)", key, stopped[key], stoppedByChoice[key])
	}
	if pinned {
		comparePins(t, stopped, stoppedByChoice)
	}
}

// staysOK reports whether the peer says nothing but ok.
func (c *peerCase) staysOK() bool {
	return !slices.ContainsFunc(c.Expect, func(x peerExpect) bool { return x.Says != levelOK })
}

func (c *peerCase) wants(l level) bool {
	return slices.ContainsFunc(c.Expect, func(x peerExpect) bool { return x.Says == l })
}

// unjudged says why the case is not about anything that this package judges, or is
// empty.
func (c *peerCase) unjudged() string {
	switch c.Scope {
	case "text":
		return "repeated text: no text reaches weir"
	case "llm":
		return "the opinion of a judge model"
	case "stat":
		return "statistics over kinds and rates of actions"
	case "drift":
		return "a plan that grows: no text reaches weir"
	case "progress":
		return "outcomes that an agent reports of itself: agent stage"
	case "stuck":
		return "silence of an agent: agent stage"
	}
	seen := false
	for _, op := range expandOps(c.Events, 0) {
		seen = seen || op.seen()
	}
	for _, x := range c.Expect {
		switch {
		case x.Rule == "monologue" || x.Rule == "context_window" || !seen && x.Says != levelOK:
			return "what an agent says to itself: no text reaches weir"
		case c.Peer == "seed-001" && x.Says != levelOK:
			return "a rate per target over all flows: agent stage"
		}
	}
	return ""
}

// disagreement tells the first point at which weir and the peer differ, or is empty.
func (c *peerCase) disagreement(run playedCase) string {
	for _, x := range c.Expect {
		var said level
		var point int
		switch where := string(x.After); {
		case json.Unmarshal(x.After, &point) == nil:
			said = run.levels[point-1]
		case where == `"any"` || len(c.Expect) == 1 && x.Says == levelOK:
			said = highest(run.levels)
		case len(run.levels) > 0:
			said = run.levels[len(run.levels)-1]
		default:
			said = levelOK
		}
		agree := said == x.Says
		switch {
		case c.Peer == "field-must-stop":
			agree = said.rank() >= x.Says.rank() // the reports say what at least must happen
		case c.Peer == "field-must-not-stop":
			agree = said != levelStop
		case c.Peer == "openclaw" && !c.staysOK():
			agree = highest(run.levels) != levelOK // its thresholds are not ours: to be noticed is enough
		}
		if !agree {
			return fmt.Sprintf("after %s weir says %s %s, the peer %s %s", x.After, said, run.reasons(), x.Says, x.Rule)
		}
		if x.Stack != nil && (!slices.Equal(run.stack, x.Stack) || len(run.stack) != x.Depth || run.unique != x.Unique) {
			return fmt.Sprintf("stack %v of %d parties, the peer has %v of %d", run.stack, run.unique, x.Stack, x.Unique)
		}
	}
	return ""
}
