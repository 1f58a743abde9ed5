package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestReplayAgents replays a log in which one agent falls silent at work and another is
// flooded by calls that belong to no flow. Both are reported as agents, and neither makes
// a flow look stopped.
func TestReplayAgents(t *testing.T) {
	begun := events.Stamp(1_795_000_000_000)
	var log strings.Builder
	n := 0
	add := func(after time.Duration, ev events.Event) {
		n++
		ev.ID, ev.Time = fmt.Sprint("e", n), begun.Add(after)
		log.Write(append(ev.AppendJSON(nil), '\n'))
	}
	add(0, events.Event{Kind: events.AgentStatus, From: events.Party{Agent: "planner"}, AgentState: &events.AgentState{Status: "active"}})
	for i := range 12 {
		add(time.Duration(i)*time.Second, events.Event{Kind: events.AgentCall, From: events.Party{Agent: "scout"}, To: events.Party{Agent: "clerk"}, CorrelationID: fmt.Sprint("derived-", i),
			CorrelationSource: events.CorrelationDerived})
	}
	for i := range 50 {
		add(time.Duration(i+1)*time.Minute, events.Event{Kind: events.ToolResult, From: events.Party{Agent: "worker"}, CorrelationID: "f", Tool: events.Tool{Name: "search"}})
	}
	code, out, told := weir(t, log.String(), "replay", "-o", "json", "-")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, told)
	}
	about := make(map[string]string)
	var summary replaySummary
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, `{"summary"`) {
			if err := json.Unmarshal([]byte(line), &struct{ Summary *replaySummary }{&summary}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var v events.Verdict
		if err := events.DecodeVerdict([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		about[subjectOf(&v)] += string(v.Action) + " "
	}
	if got := about["agent:planner"]; got != "warn notify " {
		t.Errorf("the silent agent: %q", got)
	}
	if got := about["agent:clerk"]; !strings.Contains(got, "warn") {
		t.Errorf("the flooded agent: %q", got)
	}
	if summary.Agents != 2 || summary.Flows != 13 || summary.FlowsStopped != 0 {
		t.Errorf("%d agents, %d of %d flows stopped", summary.Agents, summary.FlowsStopped, summary.Flows)
	}
	if code, out, _ = weir(t, log.String(), "replay", "--summary", "-"); code != 0 || !strings.Contains(out, "(of agents, projects, trees) rules fired for 2") || !strings.Contains(out, "AGENTS") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestReplayOfRefusedAsks holds that what was refused when it was asked for is no call that a
// stop would have saved: it was never made.
func TestReplayOfRefusedAsks(t *testing.T) {
	var log strings.Builder
	for i := range 5 {
		ev := events.Event{ID: fmt.Sprint("e", i), Time: events.Stamp(1_795_000_000_000).Add(time.Duration(i) * time.Second), Kind: events.ToolCall, Ask: true, CorrelationID: "f",
			From: events.Party{Agent: "worker"}, Tool: events.Tool{Name: "search", ArgsHash: events.Hash{Algorithm: events.XXH64, Value: uint64(i + 1)}}}
		log.Write(append(ev.AppendJSON(nil), '\n'))
	}
	code, out, told := weir(t, log.String(), "replay", "--summary", "--set", "rules.max_tool_calls=2", "-o", "json", "-")
	if code != 0 || !strings.Contains(out, `"calls":2,"calls_saved":0`) {
		t.Errorf("exit code %d: %s%s", code, out, told)
	}
}

// TestWrongMappings says to who maps wrongly what was not understood.
func TestWrongMappings(t *testing.T) {
	log := filepath.Join(t.TempDir(), "home.jsonl")
	text := `{"run":"r","ev":"msg","who":"a","whom":"b"}
{"run":"r","ev":"tick"}
{"run":"r","ev":"tick"}
{"run":"r"}
`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"replay", "backtest"} {
		code, _, said := weir(t, "", command, log, "--map", "flow=.run,kind=.ev,kind.msg=agent.call,from=.sendr,to=.whom")
		for _, want := range []string{
			`2 of 4 records are of kinds that the mapping does not explain: "tick" (2); kind.TEXT=tool.call says what TEXT means`,
			"1 of 4 records name neither a kind that is known, nor who is called, nor a tool",
			"no record has what the mapping takes for from: is the path right?",
		} {
			if code != 0 || !strings.Contains(said, want) {
				t.Errorf("%s: exit %d, %q; want %q", command, code, said, want)
			}
		}
		code, _, said = weir(t, "", command, log, "--map", "flow=.run,kind=.type,to=.whom")
		if code == 0 || !strings.Contains(said, "no record has what the mapping takes for kind") {
			t.Errorf("%s: exit %d, %q", command, code, said)
		}
	}
}

// TestLinesWithoutRecords counts what stands between the records that something else carries.
func TestLinesWithoutRecords(t *testing.T) {
	log := filepath.Join(t.TempDir(), "pod.log")
	text := "2026-11-20T14:00:00Z stdout F Listening\n" +
		`2026-11-20T14:00:00Z stdout F {"id":"m","time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":"b"}}` + "\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, said := weir(t, "", "backtest", log)
	if code != 0 || !strings.Contains(said, "as canonical behind other text on each line (detected)") || !strings.Contains(said, "1 line without a record passed over") {
		t.Errorf("exit %d, %q", code, said)
	}
}

// TestWrongFiles says of files that are no logs what they are, and of one that was cut off that it
// was.
func TestWrongFiles(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(strings.Repeat(`{"id":"m","time":"2026-11-20T14:00:00Z","kind":"tick"}`+"\n", 50)))
	_ = z.Close()
	for name, f := range map[string]struct{ text, want string }{
		"a.zip":    {"PK\x03\x04\x14\x00\x00", "it is packed with zip"},
		"a.png":    {"\x89PNG\r\n\x1a\n\x00\x00", "it is an image"},
		"cut.gz":   {packed.String()[:packed.Len()-12], "was it copied whole?"},
		"begun.gz": {packed.String()[:6], "was it copied whole?"},
		"a.txt":    {"some words\n", "it is nearest to lines of text"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, said := weir(t, "", "backtest", path); code != 1 || !strings.Contains(said, f.want) {
			t.Errorf("%s: exit %d, %q; want %q", name, code, said, f.want)
		}
	}
}
