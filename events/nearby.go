package events

import (
	"encoding/json"
	"slices"
	"strings"
)

// Nearby is a name in an event that means nothing, and the known one that it is a slip away from.
type Nearby struct {
	Name  string // as it stands there, with the object that it stands in
	Meant string
}

// otherWords are names that producers give to a field of an event, beside those that differ from
// it by "_id" alone. A name that the events of others use for something else is not among them.
var otherWords = map[string]string{
	"flow": "correlation_id", "flow_id": "correlation_id", "run_id": "correlation_id", "workflow_id": "correlation_id",
	"caller": "from", "sender": "from", "callee": "to", "target": "to", "recipient": "to",
	"timestamp": "time", "ts": "time", "event": "kind", "event_type": "kind", "labels": "tags",
	"tool_name": "tool.name", "arguments": "tool.args", "cost": "usage.cost_usd", "tokens": "usage.total_tokens",
	"prompt_tokens": "usage.input_tokens", "completion_tokens": "usage.output_tokens",
}

// Misnamed lists the names of an event that are not known, each with the known one that is probably
// meant and that is not there: one that differs by one letter, by two that changed places, or by
// "_id"; one of an object in the event; or another word for it. What they say is lost, for names
// that are not known are ignored. It is for authors of producers, and reads the event once more.
//
// A record that is no JSON object has none.
func Misnamed(record []byte) (out []Nearby) {
	var top map[string]json.RawMessage
	if json.Unmarshal(record, &top) != nil {
		return nil
	}
	out = misnamed(out, "", top, eventFields)
	// Only the objects that rules read most are looked into.
	for name, known := range map[string]*fields{"from": partyFields, "to": partyFields, "tool": toolFields, "usage": usageFields} {
		var inner map[string]json.RawMessage
		if json.Unmarshal(top[name], &inner) == nil {
			out = misnamed(out, name+".", inner, known)
		}
	}
	// Maps have no order, and equal records are to be told of in equal words.
	slices.SortFunc(out, func(a, b Nearby) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// misnamed looks at one object; path is what its names are told with.
func misnamed(out []Nearby, path string, object map[string]json.RawMessage, known *fields) []Nearby {
	for name := range object {
		if known.exact.find(name) > 0 {
			continue
		}
		// A known name that is there as well was meant by nobody, and names of two letters are
		// a slip away from too much.
		i := slices.IndexFunc(known.names, func(meant string) bool {
			_, there := object[meant]
			return !there && len(meant) > 2 && (slip(name, meant) || name+"_id" == meant)
		})
		if i >= 0 {
			out = append(out, Nearby{path + name, path + known.names[i]})
		} else if meant := misplaced(name); path == "" && meant != "" && !has(object, meant) {
			out = append(out, Nearby{name, meant})
		}
	}
	return out
}

// misplaced returns the field that a name of an event means which is not known: one that belongs into
// an object of it, or another word.
func misplaced(name string) string {
	if meant := otherWords[name]; meant != "" {
		return meant
	}
	// Shorter names, such as type and scope, mean other things elsewhere.
	switch {
	case !strings.Contains(name, "_"):
	case toolFields.exact.find(name) > 0:
		return "tool." + name
	case usageFields.exact.find(name) > 0:
		return "usage." + name
	}
	return ""
}

// has reports whether the object has the field at a path of one or two names.
func has(object map[string]json.RawMessage, path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	value, there := object[name]
	if !deeper || !there {
		return there
	}
	var inner map[string]json.RawMessage
	return json.Unmarshal(value, &inner) == nil && has(inner, rest)
}

// slip reports whether a becomes b when one letter is left out, put in or changed, or when two
// neighbours change places. Equal ends are cut off first, so that what is left is the slip
// alone.
func slip(a, b string) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	switch {
	case len(a) <= 1 && len(b) <= 1:
		return len(a)+len(b) > 0
	case len(a) == 2 && len(b) == 2:
		return a[0] == b[1] && a[1] == b[0]
	}
	return false
}

// Lacks reports whether an event says less than rules need, as one with a misnamed field does.
// Events that lack nothing are not read again to look for slips.
func (e *Event) Lacks() bool {
	isCall := e.Kind == AgentCall || e.Kind == ToolCall
	return e.CorrelationID == "" || isCall && e.From.IsZero() || e.Kind == AgentCall && e.To.IsZero() ||
		e.Kind == ToolCall && e.Tool.ArgsHash.IsZero() && len(e.Tool.Args) == 0
}
