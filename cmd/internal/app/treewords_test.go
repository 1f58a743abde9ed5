package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// TestTreeRefusesInOneWay requires that a call beyond a limit of a tree is refused in the same words and with
// the same figures, whether the tree judges it or weir refuses it by the order that the tree has given.
func TestTreeRefusesInOneWay(t *testing.T) {
	for _, text := range []string{
		"profile: none\nrules: {max_tree_calls: {max: 3}}\n",
		"profile: none\nrules: {max_tree_calls: {max: 3, action: hold}}\n",
		"profile: none\nrules: {max_tree_calls: {stop: 3}}\n",
		"profile: none\nrules: {max_tree_calls: {max: 3}}\ntexts: {max_tree_calls: \"{head}{n} of {limit} used\"}\n",
		"profile: none\nrules: {max_tree_depth: {max: 0}}\n",
		"profile: none\nrules: {max_tree_children: {max: 1}}\n",
		"profile: none\nrules: {max_tree_spawns: {max: 1}}\n",
		"profile: none\nrules: {max_tree_spawns: {max: 1, action: hold}}\n",
	} {
		limits, err := limitfile.Parse("limits.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r := begin(t, Options{Limits: limits})
		n := 0
		of := func(tree, flow string) *events.Event {
			n++
			ev := pumptest.Call(flow, n, "a", fmt.Sprint("b", n))
			ev.RootCorrelationID = tree
			return ev
		}
		// A batch is sifted as a whole before any of it is folded, so the tree judges all of it.
		var batch []string
		for i := range 6 {
			batch = append(batch, strings.TrimSpace(lines(of("top", fmt.Sprint("f", i)))))
		}
		got := r.do("POST", "/v1/check", strings.Join(batch, "\n")+"\n", "Content-Type", "application/x-ndjson")
		r.want(got, 200)
		byTree := map[string]bool{}
		for line := range strings.Lines(got.body) {
			if said := refusalIn(t, line); said != "" {
				byTree[said] = true
			}
		}
		// These come one after the other, when the order is known.
		byOrder := map[string]bool{}
		single := func(tree, flow string) {
			if said := refusalIn(t, `{"body":`+r.do("POST", "/v1/check", lines(of(tree, flow))).body+`}`); said != "" {
				byOrder[said] = true
			}
		}
		for _, flow := range []string{"f5", "f5", "f4"} {
			single("top", flow)
		}
		for i := range 6 {
			single("another", fmt.Sprint("g", i))
		}
		if len(byTree) != 1 || len(byOrder) != 1 || fmt.Sprint(byTree) != fmt.Sprint(byOrder) {
			t.Errorf("%s\nthe tree: %v\nthe order: %v", text, byTree, byOrder)
		}
	}
}

// refusalIn is what a refusal says of its limit; "" for another answer.
func refusalIn(t *testing.T, line string) string {
	t.Helper()
	var a struct {
		Body struct {
			Allowed         bool
			Status          int
			Action          string
			Limit, Observed float64
			Detail          string
			Agent           string `json:"agent_message"`
		}
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatal(err, line)
	}
	b := a.Body
	if b.Allowed {
		return ""
	}
	if b.Action == string(events.Hold) && strings.Contains(b.Detail, "from the next call on") {
		t.Errorf("a refused call is not held: %s", b.Detail)
	}
	return fmt.Sprintf("%d %s %v/%v %s %s", b.Status, b.Action, b.Observed, b.Limit, b.Detail, b.Agent)
}
