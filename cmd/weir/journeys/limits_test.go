package journeys

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestLimits goes from a log to limits, applies them, and has a flow stopped by them.
func TestLimits(t *testing.T) {
	j := follow(t, "J15 limits", "cmd/weir/TUTORIAL.md", "From a log to limits", "suggested limits stop no flow of the log, but a longer one")
	if err := os.WriteFile(filepath.Join(j.dir, "agents.jsonl"), honestLog(), 0o644); err != nil {
		t.Fatal(err)
	}
	j.has(j.run(), "of 120 flows", "would be stopped: 0", "the report is in backtest.html")
	j.has(j.run(), "would be stopped: 0")
	limits, err := os.ReadFile(filepath.Join(j.dir, "limits.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	j.has(string(limits), "max_tool_calls: {warn: off, stop: 14}")
	j.serve()
	out := j.run()
	j.has(out, `"accepted":60`, "max_tool_calls")
	j.Saw("0 of 120 flows stopped; the longer one is")
	j.done()
}

// honestLog is a log of 120 flows, each of 4 to 10 calls that all differ.
func honestLog() []byte {
	var log []byte
	for flow := range 120 {
		at := time.Date(2026, 11, 20, 9, 5*flow, 0, 0, time.UTC)
		for n := range 4 + flow%7 {
			at = at.Add(8 * time.Second)
			hash := events.Hash{Algorithm: events.XXH64, Value: uint64(flow*100+n+1) * 0x9E3779B97F4A7C15}
			call := events.Event{ID: fmt.Sprintf("c-%d-%d", flow, n), Time: events.StampOf(at), Kind: events.ToolCall, CorrelationID: fmt.Sprint("flow-", flow), From: events.Party{Agent: "planner"}}
			call.Tool.Name, call.Tool.CallID, call.Tool.ArgsHash = "search", strings.TrimPrefix(call.ID, "c-"), hash
			result := call
			result.ID, result.Kind, result.Time, result.Status, result.Content, result.Tool.ArgsHash = "r"+call.ID[1:], events.ToolResult, events.StampOf(at.Add(2*time.Second)), events.StatusOK, hash, events.Hash{}
			log = append(call.AppendJSON(log), '\n')
			log = append(result.AppendJSON(log), '\n')
		}
	}
	return log
}
