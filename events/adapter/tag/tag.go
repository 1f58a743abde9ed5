// Package tag reads tags and labels of runs.
//
// A label is a tag such as env=batch. A tracer's notes for itself are no tags: no user has chosen them,
// and a flow keeps only its first few tags.
package tag

import (
	"encoding/json"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// Read returns the tags of a value that is one, several behind commas, or a list in JSON, which may
// itself stand in the quotes of JSON.
func Read(value []byte) (out []string) {
	value = unquoted(value)
	var list []string
	if json.Unmarshal(value, &list) != nil {
		list = strings.Split(string(value), ",")
	}
	for _, tag := range list {
		out = add(out, tag)
	}
	return out
}

// add keeps a tag that is new. One that is too long is no tag of anybody, for a part of it might be
// another's.
func add(to []string, tag string) []string {
	tag = adapter.Word([]byte(strings.TrimSpace(tag)), events.MaxID)
	if tag == "" || len(tag) > events.MaxTag || len(to) >= events.MaxTags || slices.Contains(to, tag) {
		return to
	}
	return append(to, tag)
}

// steps begin the tags by which LangChain names the place of a run in a chain, and those that it
// hides runs by.
var steps = [...]string{"seq:step:", "graph:step:", "map:key:", "branch:", "condition:", "langsmith:"}

// OfRun returns the tags of a value as Read does, without those that LangChain gives by itself.
func OfRun(value []byte) []string {
	return slices.DeleteFunc(Read(value), func(tag string) bool {
		return slices.ContainsFunc(steps[:], func(step string) bool { return strings.HasPrefix(tag, step) })
	})
}

// own begin the names of metadata that tracers, frameworks and their settings write; ids are as
// good as none, since no two runs share them.
var own = [...]string{"ls_", "lc_", "langgraph_", "checkpoint_", "langfuse_", "LANGSMITH_", "LANGCHAIN_", "LANGFUSE_", "__"}

// Labels returns the members of an object of metadata that are texts, numbers or truths, as labels.
func Labels(object []byte) (out []string) {
	c := jsonwalk.New(object)
	if c.Peek() != '{' {
		return nil
	}
	for c.Object(); c.Member(); {
		name := string(c.Key())
		switch c.Peek() {
		case '{', '[', 'n': // null
			c.Skip()
		default:
			out = Label(out, name, c.Scalar())
		}
	}
	return out
}

// Label adds one member of metadata. A value in the quotes of JSON is what stands in them.
func Label(to []string, name string, value []byte) []string {
	value = unquoted(value)
	if name == "" || len(value) == 0 || value[0] == '{' || value[0] == '[' || name == "id" || strings.HasSuffix(name, "_id") ||
		slices.ContainsFunc(own[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return to
	}
	return add(to, name+"="+string(value))
}

// unquoted returns what stands in the quotes of JSON, and what has none as it is.
func unquoted(value []byte) []byte {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return []byte(text)
	}
	return value
}

// Join returns those of both, without doubles.
func Join(a, b []string) []string {
	for _, tag := range b {
		a = add(a, tag)
	}
	return a
}

// Without returns the tags that are not among others: runs inherit the tags of what they are part
// of, which has them already.
func Without(list, others []string) (out []string) {
	for _, tag := range list {
		if !slices.Contains(others, tag) {
			out = append(out, tag)
		}
	}
	return out
}
