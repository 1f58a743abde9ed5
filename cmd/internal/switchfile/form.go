package switchfile

import (
	"fmt"
	"slices"
	"strconv"
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
	"":                {"two-persons", "second-within", "drills", "runtimes", "approvals"},
	"drills":          {"scope", "every"},
	"runtimes":        {"name", "agent", "url", "url-file", "secret-file"},
	"approvals":       {"url", "unanswered", "grant", "for", "tiers", "smtp"},
	"approvals.tiers": {"name", "wait", "as", "slack", "slack-file", "teams", "teams-file", "email"},
	"approvals.smtp":  {"server", "from", "user", "password-file", "ca-file", "plain"},
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
	case "approvals", "approvals.smtp":
		f.mapping(path, n)
		return
	case "two-persons", "drills", "runtimes", "approvals.tiers", "approvals.tiers.email":
		if n.Kind != yaml.SequenceNode {
			f.fail(n, path, "write it in brackets", "want a list, got %s", strictyaml.Describe(n))
			return
		}
		for _, entry := range n.Content {
			switch path {
			case "two-persons":
				f.kind(path, entry)
			case "approvals.tiers.email":
				f.text(path, entry)
			default:
				f.mapping(path, entry)
			}
		}
		return
	}
	if !f.text(path, n) {
		return
	}
	switch path {
	case "second-within", "drills.every", "approvals.for", "approvals.tiers.wait":
		if _, err := time.ParseDuration(n.Value); err != nil {
			f.fail(n, path, "write a number with its unit, such as 15m or 24h", "%s is no duration", strictyaml.Describe(n))
		}
	case "drills.scope":
		if _, err := byhand.ParseScope(n.Value); err != nil {
			f.fail(n, path, "", "%v", err)
		}
	case "approvals.grant":
		if _, err := strconv.ParseFloat(n.Value, 64); err != nil {
			f.fail(n, path, "write the part of the limit that is granted, such as 0.5", "%s is no number", strictyaml.Describe(n))
		}
	case "approvals.smtp.plain":
		if n.Value != "true" && n.Value != "false" {
			f.fail(n, path, "write true or false", "%s is neither", strictyaml.Describe(n))
		}
	}
}

// text looks at a value that is one text.
func (f *form) text(path string, n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		f.fail(n, path, "", "want a text, got %s", strictyaml.Describe(n))
		return false
	}
	return true
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
