package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// MaxSize is how many bytes a file may have. It is looked at before anything is parsed.
const MaxSize = 1 << 20

// maxDepth is how deep a file may nest. Limits need four levels, settings two.
const maxDepth = 16

// Documents reads the YAML documents of a file as trees, or adds to p why it cannot. Trees
// keep lines, counted from those above the data, and aliases in them are not expanded. It adds
// one problem at most, since nothing is known behind it. above is how many lines stand before
// the data in the file that a person sees. The trees are the caller's.
func Documents(data []byte, above int, p *Problems) []*yaml.Node {
	if len(data) > MaxSize {
		p.Add(Problem{Message: fmt.Sprintf("the file has %d bytes", len(data)), Hint: fmt.Sprintf("at most %d are read", MaxSize)})
		return nil
	}
	// The parser would report it without a line, or treat it as text.
	if at := unreadable(data); at >= 0 {
		line := 1 + above + bytes.Count(data[:at], []byte{'\n'})
		p.Add(Problem{Line: line, Column: at - bytes.LastIndexByte(data[:at], '\n'), Message: fmt.Sprintf("byte %#02x is not text", data[at]), Hint: "save the file as UTF-8"})
		return nil
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments(), yaml.WithPlugin(bounds{})); err != nil {
		p.Add(syntax(err, data, above))
		return nil
	}
	var roots []*yaml.Node
	for i := range docs {
		// One without content is a file of comments, and counts as none.
		if n := &docs[i]; n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
			shift(n, above)
			roots = append(roots, n.Content[0])
		}
	}
	return roots
}

// shift moves lines on, for data that stands inside another file.
func shift(n *yaml.Node, lines int) {
	n.Line += lines
	for _, c := range n.Content {
		shift(c, lines)
	}
}

// unreadable returns where text stops being text, or -1. Control characters count as well, except
// tabs and line ends: in a limit or a name they are an invisible mistake.
func unreadable(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return i
		}
		i += n
	}
	return -1
}

// syntax is what the parser says, at its line, with a way out where it is known, as for a line
// that is indented with tabs.
func syntax(err error, data []byte, above int) Problem {
	q := Problem{Message: "is not YAML: " + oneLine(err.Error())}
	var at *yaml.LoadError
	if errors.As(err, &at) {
		q.Line, q.Column = at.Mark.Line, at.Mark.Column
		q.Message = "is not YAML: " + oneLine(at.Message)
		// What began earlier is mostly where the mistake is, such as a quotation that does not
		// end.
		if c := at.ContextMark; c.Line > 0 && c.Line != at.Mark.Line {
			q.Hint = fmt.Sprintf("%s that begins at line %d", at.ContextMsg, c.Line+above)
		}
		lines := bytes.SplitN(data, []byte{'\n'}, q.Line+1)
		if q.Line > 0 && q.Line <= len(lines) && bytes.HasPrefix(bytes.TrimLeft(lines[q.Line-1], " "), []byte{'\t'}) {
			q.Hint = "indent with spaces, not with tabs"
		}
		if q.Line > 0 {
			q.Line += above
		}
	}
	return q
}

// oneLine keeps messages of the parser from breaking the lists of problems.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// bounds stops the YAML parser at a depth that no file of ours has. A file of brackets alone
// would else nest as deep as it is long.
type bounds struct{}

func (bounds) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	return nil
}

// CheckAlias allows all: aliases are refused in the tree, where they have a line.
func (bounds) CheckAlias(int, int) error { return nil }

// IsNull reports whether a node is empty. An empty value and a written null are the
// same here, and different from an empty text.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Describe says what stands at a node, for a message.
func Describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case IsNull(n):
		return "nothing"
	}
	return Quote(n.Value)
}
