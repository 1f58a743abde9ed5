package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/analyzer/activity"
	"weir/events"
)

// Outcome is what was said of a case. It holds whole verdicts, of which the lines show a part:
// what a case does not name is not compared.
type Outcome struct {
	Said   []Said
	Flows  []FlowState // in the order in which the flows appeared
	Agents []FlowState // that reported or were reported on, likewise; the key is agent:a or project:p
	// Only the sums; what is counted by reason is not added up.
	Counts activity.Counts
}

// Said is one verdict or answer. Lines give At as the time since Start.
type Said struct {
	Event   int          // number of the event in the case, from 1; 0 when a deadline spoke
	At      events.Stamp // when a deadline spoke
	Ask     bool         // an answer to an ask
	Verdict events.Verdict
}

// FlowState is how a flow, or an agent, ended.
type FlowState struct {
	Key   string
	State string // lines of Engine.Explain, of this stage or of that of agents
}

// Lines returns the outcome as it stands in a file, without fields of verdicts.
func (o *Outcome) Lines() []string {
	lines, _ := o.lines()
	return lines
}

// lines returns the lines, and how many of them are said by verdicts. A flow's name stands
// before its state only where there are several flows.
func (o *Outcome) lines() (lines []string, said int) {
	for i := range o.Said {
		lines = append(lines, o.Said[i].String())
	}
	// Only lines of verdicts may have fields below them.
	said = len(lines)
	for _, f := range o.Flows {
		for _, state := range strings.Split(strings.TrimRight(f.State, "\n"), "\n") {
			// With one flow its name would say nothing, and most cases have one.
			if len(o.Flows) > 1 {
				state = f.Key + ": " + state
			}
			lines = append(lines, state)
		}
	}
	for _, a := range o.Agents {
		for state := range strings.SplitSeq(strings.TrimRight(a.State, "\n"), "\n") {
			lines = append(lines, state)
		}
	}
	if c := o.counts(); c != "" {
		lines = append(lines, "counts"+c)
	}
	return lines, said
}

// counts are those that are not 0, in a fixed order.
func (o *Outcome) counts() string {
	var b strings.Builder
	for _, c := range [...]struct {
		name string
		n    int64
	}{
		{"duplicates", o.Counts.Duplicates}, {"too_late", o.Counts.TooLate}, {"late", o.Counts.Late},
		{"refused", o.Counts.Refused}, {"attempts", o.Counts.Attempts}, {"leaked", o.Counts.Leaked}, {"strays", o.Counts.Strays}, {"rewritten_tokens", o.Counts.Rewritten[0]}, {"rewritten_micro_usd", o.Counts.Rewritten[1]},
	} {
		if c.n != 0 {
			fmt.Fprintf(&b, " %s=%d", c.name, c.n)
		}
	}
	return b.String()
}

// String is the line of the outcome that s stands in.
func (s *Said) String() string {
	v := &s.Verdict
	var b strings.Builder
	if s.Event > 0 {
		fmt.Fprintf(&b, "#%d ", s.Event)
	} else {
		b.WriteString("+" + events.DurationText(s.At.Sub(Start)) + " ")
	}
	if s.Ask {
		b.WriteString("ask ")
	}
	if v.Mode == events.ModeShadow {
		b.WriteString("shadow-")
	}
	switch {
	case s.Ask && v.Action == events.Allow:
		b.WriteString(string(v.Action))
		return b.String()
	case v.Action == events.Allow:
		b.WriteString("clear")
	// The action of an armed order is what it will do; that it is armed is what matters to a
	// case.
	case v.Effective == events.EffectiveNext:
		b.WriteString("arm")
	default:
		b.WriteString(string(v.Action))
	}
	b.WriteString(" " + string(v.Reason))
	if v.Observed != nil && v.Limit != nil {
		fmt.Fprintf(&b, " %s/%s", figure(*v.Observed), figure(*v.Limit))
	}
	b.WriteString(" " + string(v.Scope.Kind))
	if v.Scope.Kind != events.ScopeFlow {
		b.WriteString(":" + v.Scope.ID)
	}
	if v.CorrelationID != mainFlow && v.CorrelationID != "" {
		b.WriteString(" in " + v.CorrelationID)
	}
	return b.String()
}

// figure is a number without needless digits.
func figure(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// field is the value of a field of the verdict, as JSON; the name may have dots. What is not
// there is null, as a field that was left out of the JSON is.
func (s *Said) field(name string) string {
	// By its JSON, so that the names are those that dispatchers see.
	raw, err := json.Marshal(&s.Verdict)
	if err != nil {
		return err.Error()
	}
	for part := range strings.SplitSeq(name, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return "null"
		}
		if raw = object[part]; raw == nil {
			return "null"
		}
	}
	return string(raw)
}

// expected is the outcome in lines, with those fields of verdicts that the case
// names under the same verdict. Fields go with the first verdict that has the same line and
// comes after those before it.
func (c *Case) expected(o *Outcome) []string {
	lines, said := o.lines()
	out := make([]string, 0, len(lines))
	rest := c.Want
	for i, line := range lines {
		out = append(out, line)
		if i >= said {
			continue
		}
		// A line that is not there has no fields that could be wanted.
		at := slices.Index(rest, line)
		if at < 0 {
			continue
		}
		// Equal lines are distinguished by their order.
		rest = rest[at+1:]
		for len(rest) > 0 && strings.HasPrefix(rest[0], "  ") {
			name, _, _ := strings.Cut(rest[0][2:], " ")
			out = append(out, "  "+name+" "+o.Said[i].field(name))
			rest = rest[1:]
		}
	}
	return out
}

// Accept makes o the expected outcome of the case. Fields of verdicts that the case
// names stay, with their new values.
func (c *Case) Accept(o *Outcome) { c.Want = c.expected(o) }

// Diff compares o with what the case expects. It returns "" when they are the same,
// else all lines, those that are missing marked with - and those that are too many
// with +.
func (c *Case) Diff(o *Outcome) string {
	got := c.expected(o)
	if slices.Equal(c.Want, got) {
		return ""
	}
	var b strings.Builder
	for _, d := range Difference(c.Want, got) {
		b.WriteString(d)
		b.WriteByte('\n')
	}
	return b.String()
}

// Difference returns the lines of want and got in one list, each behind "  ", "- " or "+ ". It takes time and memory
// by the product of their lengths, so it is for short texts.
func Difference(want, got []string) (out []string) {
	// common[i][j] is how many lines want[i:] and got[j:] share.
	common := make([][]int, len(want)+1)
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			out = append(out, "  "+want[i])
			i, j = i+1, j+1
		// What is missing goes before what is too many, as in other tools that compare.
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+want[i])
			i++
		default:
			out = append(out, "+ "+got[j])
			j++
		}
	}
	return out
}
