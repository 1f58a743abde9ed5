package analyzer

import "strings"

// enoughToMiss is from how many calls of tools on it says something that none reports a field.
const enoughToMiss = 6

// missingFields names the fields that none of the remembered calls of tools of the flow reports, as
// the end of a sentence. It is "" where nothing is missing, or too few calls are known. Rules that
// compare calls could have warned earlier with these fields.
func (f *cast) missingFields() string {
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
		return ""
	}
	var missing []string
	if args == 0 {
		missing = append(missing, "arguments of tool calls (tool.args_hash)")
	}
	if results == 0 {
		missing = append(missing, "results of tool calls (content_hash)")
	}
	if unnamedCalls == calls {
		missing = append(missing, "callers of tools (from)")
	}
	if len(missing) == 0 {
		return ""
	}
	return "; the log does not report " + strings.Join(missing, ", ")
}
