package switchfile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/analyzer/spelling"
	"weir/analyzer/strictyaml"
	"weir/events"
	"weir/events/byhand"
)

// keys are those of a mapping, by its path; "" is the whole file.
var keys = map[string][]string{
	"":         {"two-persons", "second-within", "drills", "runtimes"},
	"drills":   {"scope", "every"},
	"runtimes": {"name", "agent", "url", "url-file", "secret-file"},
}

// form finds what is wrong with the form of a file, before it is decoded.
type form struct{ problems *strictyaml.Problems }

func (f *form) fail(n *yaml.Node, path, hint, format string, args ...any) {
	f.problems.Add(strictyaml.Problem{Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// mapping looks at the file, or at an entry of a list.
func (f *form) mapping(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		f.fail(n, path, "", "want a mapping, got %s", strictyaml.Describe(n))
		return
	}
	known, seen := keys[path], make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		here := strings.TrimPrefix(path+"."+k.Value, ".")
		switch {
		case k.Kind != yaml.ScalarNode || !slices.Contains(known, k.Value):
			hint := "the keys are " + strings.Join(known, ", ")
			if near := spelling.Nearest(k.Value, known); near != "" {
				hint = "did you mean " + near + "?"
			}
			f.fail(k, path, hint, "there is no key %s", strictyaml.Describe(k))
		case seen[k.Value]:
			f.fail(k, here, "keep one of them", "is given twice")
		case strictyaml.IsNull(v):
			f.fail(k, here, "write a value or delete the key", "has no value")
		default:
			f.value(here, v)
		}
		seen[k.Value] = true
	}
}

// value looks at the value of a known key.
func (f *form) value(path string, n *yaml.Node) {
	switch path {
	case "two-persons", "drills", "runtimes":
		if n.Kind != yaml.SequenceNode {
			f.fail(n, path, "write it in brackets", "want a list, got %s", strictyaml.Describe(n))
			return
		}
		for _, entry := range n.Content {
			if path == "two-persons" {
				f.kind(path, entry)
			} else {
				f.mapping(path, entry)
			}
		}
		return
	}
	if n.Kind != yaml.ScalarNode {
		f.fail(n, path, "", "want a text, got %s", strictyaml.Describe(n))
		return
	}
	switch path {
	case "second-within", "drills.every":
		if _, err := time.ParseDuration(n.Value); err != nil {
			f.fail(n, path, "write a number with its unit, such as 15m or 24h", "%s is no duration", strictyaml.Describe(n))
		}
	case "drills.scope":
		if _, err := byhand.ParseScope(n.Value); err != nil {
			f.fail(n, path, "", "%v", err)
		}
	}
}

// kind looks at a kind of scopes.
func (f *form) kind(path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && byhand.Known(events.ScopeKind(n.Value)) {
		return
	}
	words := make([]string, len(byhand.Kinds))
	for i, k := range byhand.Kinds {
		words[i] = string(k)
	}
	hint := "the kinds are " + strings.Join(words, ", ")
	if near := spelling.Nearest(n.Value, words); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	f.fail(n, path, hint, "%s is no kind of scope", strictyaml.Describe(n))
}
