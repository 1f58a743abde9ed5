package analyzer

import (
	"strings"

	"weir/analyzer/rules"
)

// enoughToMiss is from how many calls of tools on it says something that none reports a field.
const enoughToMiss = 6

// lack is what none of the remembered calls of tools reports, and the need of rules that it is; 0 for none.
type lack struct {
	need rules.Need
	what string
}

// missing lists what none of the remembered calls of tools of the flow reports; none where too few calls
// are known.
func missing(f *cast) (out []lack) {
	calls, args, results, unnamedCalls := 0, 0, 0, 0
	for i := range f.parties {
		p := &f.parties[i]
		for j := range p.calls {
			c := &p.calls[j]
			calls++
			if c.flags&callArgs != 0 {
				args++
			}
			// A call that still runs has no result yet.
			if c.known() || c.flags&callError != 0 {
				results++
			}
		}
		if p.name == unnamed {
			unnamedCalls += len(p.calls)
		}
	}
	if calls < enoughToMiss {
		return nil
	}
	if args == 0 {
		out = append(out, lack{rules.NeedArgs, "arguments of tool calls (tool.args_hash)"})
	}
	if results == 0 {
		out = append(out, lack{rules.NeedResults, "results of tool calls (content_hash)"})
	}
	if unnamedCalls == calls {
		out = append(out, lack{0, "callers of tools (from)"})
	}
	return out
}

// missingFields is what missing lists, as the end of a sentence; "" where nothing is missing. Rules that
// compare calls could have warned earlier with these fields.
func (f *cast) missingFields() string {
	var what []string
	for _, x := range missing(f) {
		what = append(what, x.what)
	}
	if len(what) == 0 {
		return ""
	}
	return "; the log does not report " + strings.Join(what, ", ")
}
