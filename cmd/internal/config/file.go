package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
)

// maxSize is how many bytes a configuration file may have.
const maxSize = 1 << 20

// schemaKey may stand in the file, for editors.
const schemaKey = "$schema"

// file is what a configuration file says.
type file struct {
	name    string
	entries map[string]entry
}

type entry struct {
	values       []string // more than one of a list only
	line, column int
}

// problem is one thing that is wrong with a file.
type problem struct {
	line, column int
	text         string
}

// read reads a configuration file. The error tells all that is wrong with it, a line
// each, in the order of the file.
func (t *Table) read(name string, data []byte) (*file, error) {
	r := reader{table: t, file: file{name: name, entries: map[string]entry{}}, lines: map[string]int{}}
	r.document(data)
	if len(r.problems) == 0 {
		return &r.file, nil
	}
	slices.SortStableFunc(r.problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	var faults []error
	for _, p := range r.problems {
		where := name
		if p.line > 0 {
			where = fmt.Sprintf("%s:%d:%d", name, p.line, p.column)
		}
		faults = append(faults, fmt.Errorf("%s: %s", where, p.text))
	}
	return nil, errors.Join(faults...)
}

type reader struct {
	table    *Table
	file     file
	lines    map[string]int // where each key stands
	problems []problem
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, problem{n.Line, n.Column, fmt.Sprintf(format, args...)})
}

func (r *reader) document(data []byte) {
	whole := &yaml.Node{}
	if len(data) > maxSize {
		r.fail(whole, "the file is larger than %d bytes", maxSize)
		return
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments(), yaml.WithPlugin(shallow{})); err != nil {
		p := problem{text: "is not YAML: " + strings.Join(strings.Fields(err.Error()), " ")}
		if at, ok := errors.AsType[*yaml.LoadError](err); ok {
			p = problem{at.Mark.Line, at.Mark.Column, "is not YAML: " + strings.Join(strings.Fields(at.Message), " ")}
		}
		r.problems = append(r.problems, p)
		return
	}
	for i := range docs {
		switch n := &docs[i]; {
		case n.Kind != yaml.DocumentNode || len(n.Content) != 1 || isNull(n.Content[0]):
			// Nothing but comments says nothing.
		case len(r.lines) > 0:
			r.fail(n.Content[0], "a second document begins here; delete the line --- before it")
		case n.Content[0].Kind != yaml.MappingNode:
			r.fail(n.Content[0], "want lines such as state: /var/lib/weir, got %s", describe(n.Content[0]))
		default:
			r.mapping(n.Content[0])
		}
	}
}

func (r *reader) mapping(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		if first, twice := r.lines[name]; twice && key.Kind == yaml.ScalarNode {
			r.fail(key, "%s: is given twice, first in line %d; keep one of them", name, first)
			continue
		}
		r.lines[name] = key.Line
		if name == schemaKey {
			continue
		}
		f := r.table.flags.Lookup(name)
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fail(key, "want the name of a setting, got %s", describe(key))
		case f == nil:
			r.fail(key, "%s: %s", name, r.unknown(name))
		case isNull(value):
			r.fail(key, "%s: has no value; write one or delete the line", name)
		default:
			values, at, why := kindOf(f.Value).texts(value)
			if why != "" {
				r.fail(at, "%s: %s", name, why)
				continue
			}
			r.file.entries[name] = entry{values, key.Line, key.Column}
		}
	}
}

// unknown says what may have been meant by a key that is no setting.
func (r *reader) unknown(name string) string {
	if f := r.table.flags.Lookup(name + fileSuffix); f != nil {
		if _, ok := f.Value.(*Secret); ok {
			return fmt.Sprintf("secrets do not stand in this file; name a file with %s, or set %s", f.Name, Variable(name))
		}
	}
	var names []string
	r.table.flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	spelled := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if near := spelling.Nearest(spelled, names); near != "" {
		return "there is no such setting; did you mean " + near
	}
	return "there is no such setting; weir run --help lists them"
}

// fromText returns the values in the text of a variable: of a list that is written as
// in the file its members, else the text itself.
func fromText(v pflag.Value, text string) ([]string, error) {
	if kindOf(v) != listKind || !strings.HasPrefix(text, "[") {
		return []string{text}, nil
	}
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil || len(n.Content) != 1 {
		return nil, fmt.Errorf("want a list such as [a, b], got %q", text)
	}
	values, _, why := listKind.texts(n.Content[0])
	if why != "" {
		return nil, errors.New(why)
	}
	return values, nil
}

// kind is what values a setting takes.
type kind uint8

const (
	textKind kind = iota
	wordKind      // one of a few
	boolKind
	integerKind
	durationKind
	listKind // of texts
)

func kindOf(v pflag.Value) kind {
	switch v.(type) {
	case *cli.List:
		return listKind
	case *cli.Choice:
		return wordKind
	}
	switch v.Type() {
	case "bool":
		return boolKind
	case "int", "int64":
		return integerKind
	case "duration":
		return durationKind
	}
	return textKind
}

// texts returns what stands at the node as a flag is given it, or where and why not.
func (k kind) texts(n *yaml.Node) (values []string, at *yaml.Node, why string) {
	if k == listKind {
		if n.Kind != yaml.SequenceNode {
			return nil, n, "want a list such as [a, b], got " + describe(n)
		}
		for _, c := range n.Content {
			member, at, why := textKind.texts(c)
			if why != "" {
				return nil, at, why
			}
			if member[0] == "" {
				return nil, c, "a member of the list is empty"
			}
			values = append(values, member[0])
		}
		return values, nil, ""
	}
	tag, want := "!!str", "text"
	switch k {
	case boolKind:
		tag, want = "!!bool", "true or false"
	case integerKind:
		tag, want = "!!int", "a whole number"
	case durationKind:
		want = "a time such as 90s, 10m or 168h"
	}
	if n.Kind != yaml.ScalarNode || n.Tag != tag || k == durationKind && !isDuration(n.Value) {
		why = "want " + want + ", got " + describe(n)
		if n.Kind == yaml.ScalarNode && want == "text" {
			why += "; write it in quotes"
		}
		return nil, n, why
	}
	return []string{n.Value}, nil, ""
}

// durationPattern is what a length of time looks like, for this reader and for others.
const durationPattern = `^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|ms|s|m|h))+$`

func isDuration(s string) bool {
	like, err := regexp.MatchString(durationPattern, s)
	return like && err == nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe says what stands at a node.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if isNull(n) {
		return "nothing"
	}
	if len(n.Value) > 60 {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(n.Value[:60], ""))
	}
	return fmt.Sprintf("%q", n.Value)
}

// shallow stops the YAML parser at a depth that no configuration has.
type shallow struct{}

func (shallow) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > 8 {
		return errors.New("nested too deep")
	}
	return nil
}

// CheckAlias allows all: aliases are refused as values, where they have a line.
func (shallow) CheckAlias(int, int) error { return nil }
