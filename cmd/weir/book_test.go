package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rulebook"
	"weir/analyzer/scenario"
	"weir/events"
)

// TestReplayOfTheRuleBook replays the cases of the rule book in which agents are judged,
// and holds what both pumps say of agents against what the runner of scenarios says, by
// id and revision. Between the events of a case a flow of its own lets time pass, as the
// clock of a live weir does.
func TestReplayOfTheRuleBook(t *testing.T) {
	files, err := rulebook.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	dir, played := t.TempDir(), 0
	log, limits := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "limits.yaml")
	for _, file := range files {
		text, err := rulebook.Files.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		cases, err := scenario.Parse(file.Name(), text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cases {
			c := &cases[i]
			l := c.Limits(analyzer.Balanced())
			out := c.Run(l)
			if len(out.Agents) == 0 || saysMore(c) {
				continue
			}
			played++
			if err := os.WriteFile(log, withTime(c), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(limits, limitfile.Format(l), 0o600); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i := range out.Said {
				if out.Said[i].Ask { // an answer, which a replay does not print
					continue
				}
				want = appendOfAgents(want, &out.Said[i].Verdict, c)
			}
			code, lines, errs := weir(t, "", "replay", "--quiet", "-o", "json", "--limits", limits, log)
			if code != 0 {
				t.Fatalf("%s:%d: exit code %d: %s", c.File, c.Line, code, errs)
			}
			var got []string
			for line := range strings.Lines(lines) {
				var v events.Verdict
				if events.DecodeVerdict([]byte(line), &v) == nil {
					got = appendOfAgents(got, &v, c)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				t.Errorf("%s:%d: %s\nthe book says\n%s\nthe replay says\n%s", c.File, c.Line, c.Title(), strings.Join(want, "\n"), strings.Join(got, "\n"))
			}
		}
	}
	t.Logf("%d cases", played)
	if played < 100 {
		t.Errorf("only %d cases were played", played)
	}
}

// saysMore reports whether the case says what its events alone do not: which verdict is
// acknowledged, and when what came late was delivered.
func saysMore(c *scenario.Case) bool {
	for _, ev := range c.Events() {
		if ev.Kind == events.VerdictAck {
			return true
		}
	}
	return strings.Contains(c.String(), "late=")
}

// withTime is the events of the case, and after them the time in which flows report to the
// agent stage.
func withTime(c *scenario.Case) (log []byte) {
	at := scenario.Start
	add := func(ev *events.Event) { log = append(ev.AppendJSON(log), '\n') }
	pass := func(to events.Stamp) {
		const step = 30_000
		for at = at/step*step + step; at <= to; at += step {
			add(&events.Event{ID: strconv.FormatInt(int64(at), 10), Source: "clock", Time: at, Kind: events.FlowStart, CorrelationID: "clock"})
		}
		at = to
	}
	for _, ev := range c.Events() {
		pass(ev.Time)
		add(&ev)
	}
	pass(c.End().Add(3 * time.Minute))
	return log
}

// appendOfAgents adds a verdict about an agent or a project while the case lasts.
func appendOfAgents(said []string, v *events.Verdict, c *scenario.Case) []string {
	if v.CorrelationID != "" || events.Stamp(v.Time) > c.End() {
		return said
	}
	return append(said, v.ID+" "+string(v.Action)+" "+string(v.Reason))
}
