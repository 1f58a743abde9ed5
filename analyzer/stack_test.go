package analyzer_test

import (
	"fmt"
	"slices"
	"testing"

	"weir/analyzer"
	"weir/analyzer/scenario"
	"weir/events"
)

// collapseChain is the list that the delegation system keeps: a return to a member
// cuts it back to that member.
func collapseChain(chain []string) (stack []string) {
	for _, id := range chain {
		if i := slices.Index(stack, id); i >= 0 {
			stack = stack[:i+1]
		} else {
			stack = append(stack, id)
		}
	}
	return stack
}

func FuzzStackIsCollapsedChain(f *testing.F) {
	f.Add([]byte("\x01\x02\x01\x02\x01"))
	f.Add([]byte("abcabdacbaddcabdefghhgfeabcd"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		w := newFold(analyzer.Balanced())
		var chain []string
		for i, b := range data[:min(len(data), 200)] {
			ev := events.Event{ID: fmt.Sprint(i), Kind: events.AgentCall, Time: scenario.Start + events.Stamp(i*1000), CorrelationID: "main"}
			if i > 0 {
				ev.From.Session = chain[i-1]
			}
			ev.To.Session = string(rune('a' + b%26))
			chain = append(chain, ev.To.Session)
			if b >= 128 && i > 0 { // an answer moves control as a call does
				ev.Kind = events.AgentReturn
				stack := collapseChain(chain[:i])
				ev.To.Session = stack[int(b)%len(stack)]
				chain[i] = ev.To.Session
			}
			w.step(t, ev)
			if got, want := w.flows["main"].Stack(), collapseChain(chain); !slices.Equal(got, want) {
				t.Fatalf("after %v the stack is %v, want %v", chain, got, want)
			}
		}
	})
}
