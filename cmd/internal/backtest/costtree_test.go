package backtest

import (
	"fmt"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
	"weir/cmd/internal/costs"
	"weir/events"
)

// planted folds a tree of flows: lead calls writer in flow top, and two flows descend from it, of which
// one names its root alone. Beside them is a flow of its own.
func planted(t *testing.T, most int) *Trial {
	t.Helper()
	trial, err := NewTrial(t.Context(), limitfile.WithPrices(limits(t, "profile: none\n"), prices.Table{{Name: "m", Price: prices.Plain(1_000_000, 2_000_000)}}))
	if err != nil {
		t.Fatal(err)
	}
	trial.Trees = costs.NewForest(most)
	const call = `"kind":"llm.call","model":"m","usage":{"input_tokens":100,"output_tokens":50}` // 200 millionths
	for i, line := range []string{
		`"correlation_id":"top","from":{"agent":"lead"},` + call,
		`"correlation_id":"top","from":{"agent":"lead"},"to":{"agent":"writer"},"kind":"agent.call"`,
		`"correlation_id":"top","from":{"agent":"writer","session":"w-1"},` + call,
		`"correlation_id":"top","from":{"agent":"writer","session":"w-1"},"kind":"tool.call","tool":{"name":"read","call_id":"1"}`,
		`"correlation_id":"top","from":{"agent":"writer","session":"w-1"},"kind":"tool.result","tool":{"name":"read","call_id":"1"},"usage":{"input_tokens":10,"output_tokens":0,"cost_usd":0.00003}`,
		`"correlation_id":"top","from":{"agent":"lead"},"to":{"agent":"writer"},"kind":"agent.call"`,
		`"correlation_id":"top","from":{"agent":"writer","session":"w-2"},` + call,
		`"correlation_id":"mid","parent_correlation_id":"top","root_correlation_id":"top","from":{"agent":"lead"},` + call,
		`"correlation_id":"leaf","parent_correlation_id":"mid","root_correlation_id":"top","from":{"agent":"helper"},` + call,
		`"correlation_id":"lone","root_correlation_id":"top","from":{"agent":"helper"},` + strings.Replace(call, `"m"`, `"unknown"`, 1),
		`"correlation_id":"other","from":{"agent":"lead"},` + call,
		// The sum of what was reported before adds nothing.
		`"correlation_id":"top","from":{"agent":"lead"},"kind":"agent.return","model":"m","usage":{"scope":"aggregate","input_tokens":310,"output_tokens":150}`,
	} {
		var ev events.Event
		line = fmt.Sprintf(`{"id":"p-%d","source":"s1","time":"2026-11-27T12:00:%02d.000Z",%s}`, i, i, line)
		if err := events.Decode([]byte(line), &ev); err != nil {
			t.Fatal(err, line)
		}
		trial.Fold(&ev)
	}
	return trial
}

// outline is the tree as text: each node with its own and with all calls, tokens and millionths.
func outline(tree costs.Tree) (out string) {
	for _, n := range tree.Nodes {
		out += fmt.Sprintf("%s%s: %d/%d calls, %d/%d tokens, %d/%d\n", strings.Repeat(" ", n.Depth), n.Title(), n.Own.Calls, n.All.Calls, n.Own.Tokens, n.All.Tokens, n.Own.Cost(), n.All.Cost())
	}
	return out
}

// TestCostTree adds up a tree of flows by hand: each call and each token is in one node's own.
func TestCostTree(t *testing.T) {
	tree, ok := planted(t, costs.MostNodes).Trees.Tree("top")
	want := `flow top: 0/3 calls, 0/910 tokens, 0/1030
 agent lead: 2/3 calls, 150/460 tokens, 200/630
  agent writer (w-1): 0/1 calls, 150/160 tokens, 200/230
   tool read: 1/1 calls, 10/10 tokens, 30/30
  agent writer (w-2): 0/0 calls, 150/150 tokens, 200/200
 flow mid: 0/0 calls, 0/300 tokens, 0/400
  agent lead: 0/0 calls, 150/150 tokens, 200/200
  flow leaf: 0/0 calls, 0/150 tokens, 0/200
   agent helper: 0/0 calls, 150/150 tokens, 200/200
 flow lone: 0/0 calls, 0/150 tokens, 0/0
  agent helper: 0/0 calls, 150/150 tokens, 0/0
`
	if got := outline(tree); !ok || got != want {
		t.Errorf("top:\n%s\nwant:\n%s", got, want)
	}
	if tree, ok = planted(t, costs.MostNodes).Trees.Tree("mid"); !ok || tree.Nodes[0].All.Cost() != 400 || len(tree.Nodes) != 4 {
		t.Errorf("mid: %v\n%s", ok, outline(tree))
	}
	if _, ok = planted(t, costs.MostNodes).Trees.Tree("absent"); ok {
		t.Error("a flow without events has a tree")
	}
	// Where there is no room, the node above has what was spent.
	if tree, _ = planted(t, 3).Trees.Tree("top"); !tree.Truncated || len(tree.Nodes) != 3 || tree.Nodes[0].All.Cost() != 630 {
		t.Errorf("three nodes:\n%s", outline(tree))
	}
}
