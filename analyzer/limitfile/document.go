package limitfile

import (
	"go.yaml.in/yaml/v4"

	"weir/analyzer/strictyaml"
)

// MaxSize is how many bytes a file may have.
const MaxSize = strictyaml.MaxSize

// Problem is one thing that is wrong with a file.
type Problem = strictyaml.Problem

// Problems is the error for a file that was refused: all that is wrong with it, in the
// order of its lines. A reader of limits files obtains it by errors.As, to show each problem
// at its line.
type Problems = strictyaml.Problems

// document reads a file that must be one document. It returns nil where p has a problem. Lines
// are counted from those above the data, for a file inside another one.
func document(data []byte, above int, p *Problems) *yaml.Node {
	roots := strictyaml.Documents(data, above, p)
	switch {
	case len(p.List) > 0:
		return nil
	// Which of two documents holds would be a guess.
	case len(roots) > 1:
		p.Add(Problem{Line: roots[1].Line, Column: roots[1].Column, Message: "a second document begins here", Hint: "a limits file is one document; delete the line --- before it"})
		return nil
	case len(roots) == 0 || roots[0].Kind == yaml.ScalarNode && roots[0].Value == "":
		// A file that is being written is empty for a moment: that must not mean defaults.
		p.Add(Problem{Message: "the file is empty", Hint: "write at least profile: balanced"})
		return nil
	}
	return roots[0]
}
