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

// addStopped counts a flow that was stopped.
func addStopped(list []stoppedWho, f *backtest.Flow) []stoppedWho {
	who, rule := f.Stopped.Who(), cmp.Or(f.Stopped.Rule, string(f.Stopped.Reason))
	i := slices.IndexFunc(list, func(s stoppedWho) bool { return s.Who == who && s.Rule == rule })
	if i < 0 {
		i = len(list)
		list = append(list, stoppedWho{Who: who, Rule: rule})
	}
	list[i].Flows++
	list[i].CallsAfter += f.Calls - f.Stopped.Call
	return list
}

// sortStopped puts those first that went on longest after their stops.
func sortStopped(list []stoppedWho) {
	slices.SortStableFunc(list, func(a, b stoppedWho) int {
		return cmp.Or(cmp.Compare(b.CallsAfter, a.CallsAfter), cmp.Compare(b.Flows, a.Flows), cmp.Compare(a.Who, b.Who))
	})
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
