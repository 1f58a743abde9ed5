package main

import (
	"cmp"
	"fmt"
	"slices"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/cli"
)

// stoppedWho is a caller and what it called when its flows were stopped, by one rule.
type stoppedWho struct {
	Who        string `json:"who"` // "" where the log names neither
	Rule       string `json:"rule"`
	Flows      int    `json:"flows"`
	CallsAfter int64  `json:"calls_after"` // the first stop of each flow
}

// whoStopped counts the flows that were stopped, and puts those first that went on longest after their stops.
func whoStopped(stopped []*backtest.Flow) (list []stoppedWho) {
	type key struct{ who, rule string }
	at := map[key]int{}
	for _, f := range stopped {
		k := key{f.Stopped.Who(), cmp.Or(f.Stopped.Rule, string(f.Stopped.Reason))}
		i, known := at[k]
		if !known {
			i, at[k] = len(list), len(list)
			list = append(list, stoppedWho{Who: k.who, Rule: k.rule})
		}
		list[i].Flows++
		list[i].CallsAfter += f.Calls - f.Stopped.Call
	}
	slices.SortStableFunc(list, func(a, b stoppedWho) int {
		return cmp.Or(cmp.Compare(b.CallsAfter, a.CallsAfter), cmp.Compare(b.Flows, a.Flows), cmp.Compare(a.Who, b.Who))
	})
	return list
}

// printStopped names the first of them; JSON has all.
func printStopped(env *cli.Env, list []stoppedWho) error {
	const shown = 5
	for i := range list[:min(shown, len(list))] {
		s := &list[i]
		after := ""
		if s.CallsAfter > 0 {
			after = fmt.Sprintf(", %s after it", cli.Count(s.CallsAfter, "call"))
		}
		if _, err := cli.Fprintf(env.Out, "stopped: %s by %s in %s%s\n", cmp.Or(s.Who, "a caller without a name"), s.Rule, cli.Count(int64(s.Flows), "flow"), after); err != nil {
			return err
		}
	}
	if more := len(list) - shown; more > 0 {
		_, err := cli.Fprintf(env.Out, "stopped: %s more, see -o json\n", cli.Grouped(int64(more)))
		return err
	}
	return nil
}
