package chat

import (
	"bytes"

	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// sharegpt is a trajectory in the form of ShareGPT, as Hermes writes it: calls and results stand
// in the texts, between tags.
func sharegpt() *dialect {
	return &dialect{name: "sharegpt", title: "trajectories in the form of ShareGPT (Hermes), one document per run", program: "hermes", framing: adapter.Documents,
		score:  has("conversations"),
		tokens: adapter.Never, time: adapter.Never, isDocument: isList, unfold: unfoldShareGPT,
		// Runs of the same prompt differ by the time at which they were saved.
		record: &level{names: map[string]field{"id": session, "timestamp": session, "model": model}, within: map[string]*level{"metadata": {names: map[string]field{"timestamp": session, "model": model}}},
			lists: map[string]*level{"conversations": {names: map[string]field{"from": role, "role": role, "value": text, "content": text}}}}}
}

// unfoldShareGPT names the roles as others do, and makes parts of what stands between tags.
func unfoldShareGPT(n *node) {
	switch n.role {
	case "human":
		n.role = "user"
	case "gpt":
		n.role = "assistant"
	case "tool":
		n.role = "results" // a part for each result, and not the message itself
	}
	if n.role != "assistant" && n.role != "results" {
		return // the system message shows how a call looks
	}
	rest := n.text
	n.text = nil
	for len(rest) > 0 {
		i := bytes.Index(rest, []byte("<tool_"))
		if i < 0 {
			break
		}
		n.add(bytes.TrimSpace(rest[:i]))
		name, after, ok := bytes.Cut(rest[i+1:], []byte(">"))
		inside, behind, closed := bytes.Cut(after, append(append([]byte("</"), name...), '>'))
		if !ok || !closed {
			break
		}
		p := node{}
		part := &level{names: map[string]field{"name": tool, "arguments": args, "content": said}} // a call has no id, so its result is found by the tool
		if w := (&walker{c: jsonwalk.New(bytes.TrimSpace(inside))}); w.c.Peek() == '{' {
			w.object(part, &p)
		}
		if string(name) == "tool_response" && p.said == nil {
			p.said = append([]byte{}, bytes.TrimSpace(inside)...)
		}
		n.nodes = append(n.nodes, p)
		rest = behind
	}
	n.add(bytes.TrimSpace(rest))
}
