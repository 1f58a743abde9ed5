package browser

import (
	"strings"
	"testing"

	"weir/events"
)

// TestCostTree opens the costs of a flow: a bar for each node, as wide as its share, and the same
// figures as a table.
func TestCostTree(t *testing.T) {
	w, b := start(t), openTab(t)
	spend := func(flow, agent string, usd float64) events.Event {
		ev := w.call(flow, "", "")
		ev.Kind, ev.HadWork, ev.From.Agent = events.LLMCall, events.Unknown, agent
		ev.Usage = events.Usage{Known: true, Input: 1000, Output: 100, CostMicroUSD: int64(usd * 1e6)}
		return ev
	}
	child := spend("part", "helper", 3)
	child.ParentCorrelationID, child.RootCorrelationID = "whole", "whole"
	w.send(append(w.tool("whole", "planner", "read", 1), spend("whole", "planner", 6), child)...)
	b.open(w.url + "/ui/flow?id=whole")
	b.until(`document.querySelector("#costs") !== null`)
	eval[bool](b, `(document.querySelector("#costs summary").click(), true)`)
	b.until(`document.querySelectorAll("#costs svg rect").length === 4`)
	if got := eval[string](b, `[...document.querySelectorAll("#costs svg rect")].map(r => r.getAttribute("class") + " " + Math.round(r.getAttribute("width"))).join(", ")`); got != "flow 999, agent 666, flow 332, agent 332" {
		t.Errorf("bars: %s", got)
	}
	if got := eval[string](b, `document.querySelector("#costs p").textContent`); got != "$9.00, 2,200 tokens, 1 call" {
		t.Errorf("in all: %s", got)
	}
	eval[bool](b, `(document.querySelector("#costs details summary").click(), true)`)
	if n := eval[int](b, `document.querySelectorAll("#costs tbody tr").length`); n != 5 { // the tool has spent nothing
		t.Errorf("%d rows, want 5", n)
	}
	b.quiet("the costs of a flow")
	b.shoot("costs")

	// A model without a price is named, with what the dollars lack.
	own := spend("own", "planner", 0)
	own.Model = "own-model"
	w.send(own)
	b.open(w.url + "/ui/flow?id=own")
	b.until(`document.querySelector("#costs") !== null`)
	eval[bool](b, `(document.querySelector("#costs summary").click(), true)`)
	b.until(`document.querySelector("#costs details tbody td") !== null`)
	if got := eval[string](b, `document.querySelector("#costs details").innerText + [...document.querySelectorAll("#costs details:first-of-type tbody tr > *")].map(c => c.textContent).join("|")`); !strings.HasPrefix(got, "No price is known for 1 model") || !strings.HasSuffix(got, "own-model||1|1,100") {
		t.Errorf("without a price: %s", got)
	}
}
