package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"weir/analyzer/spelling"
	"weir/analyzer/strictyaml"
	"weir/cmd/internal/cli"
)

// schemaKey may stand in the file, for editors.
//
// It is the one key that is no setting, and its value is not looked at.
const schemaKey = "$schema"

// file is the contents of a configuration file.
//
// Settings that it does not name have no entry. Without a configuration file there are no entries at
// all.
type file struct {
	name    string
	entries map[string]entry
}

// entry is what the file says of one setting, as a flag would be given it, and where.
type entry struct {
	values       []string // more than one of a list only
	line, column int
}

// read reads a configuration file. The error lists all its faults, a line each, in the order of the
// file.
func (t *Table) read(name string, data []byte) (*file, error) {
	r := reader{table: t, file: file{name: name, entries: map[string]entry{}}, lines: map[string]int{}, problems: strictyaml.Problems{Name: name}}
	r.document(data)
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return &r.file, nil
}

// reader reads one file and gathers what is wrong with it, so that a person mends all of it at
// once.
type reader struct {
	table    *Table
	file     file
	lines    map[string]int // where each key stands
	problems strictyaml.Problems
}

// fail notes what is wrong at a node. Reading goes on.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.problems.Add(strictyaml.Problem{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)})
}

// document reads what must be one document with one mapping. An empty file says nothing and is
// good.
func (r *reader) document(data []byte) {
	for _, n := range strictyaml.Documents(data, 0, &r.problems) {
		switch {
		case strictyaml.IsNull(n):
			// Nothing but comments says nothing.
		case len(r.lines) > 0:
			r.fail(n, "a second document begins here; delete the line --- before it")
		case n.Kind != yaml.MappingNode:
			r.fail(n, "want lines such as state: /var/lib/weir, got %s", strictyaml.Describe(n))
		default:
			r.mapping(n)
		}
	}
}

// mapping reads the settings. A key counts as given also when its value is wrong, so that a second one
// is reported as well.
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
			r.fail(key, "want the name of a setting, got %s", strictyaml.Describe(key))
		case f == nil:
			r.fail(key, "%s: %s", name, r.unknown(name))
		case strictyaml.IsNull(value):
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
//
// Names of variables are taken for those of settings, as WEIR_KAFKA_USER is often copied
// without its beginning.
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
//
// It is strict only about lists in brackets; what a value must look like is said by the
// flag that takes it.
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
//
// It is found by the type of the flag, so that flags, file and schema agree without a
// table.
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
//
// Types have to be those of YAML: a number where text is wanted is refused, because what
// YAML makes of 0123 or 1e3 is not what was written.
func (k kind) texts(n *yaml.Node) (values []string, at *yaml.Node, why string) {
	if k == listKind {
		if n.Kind != yaml.SequenceNode {
			return nil, n, "want a list such as [a, b], got " + strictyaml.Describe(n)
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
		why = "want " + want + ", got " + strictyaml.Describe(n)
		if n.Kind == yaml.ScalarNode && want == "text" {
			why += "; write it in quotes"
		}
		return nil, n, why
	}
	return []string{n.Value}, nil, ""
}

// durationPattern is what a length of time looks like, for this reader and for others.
//
// It is what time.ParseDuration takes but for a plain 0 and the sign for micro, and stands
// in the schema as well.
const durationPattern = `^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|ms|s|m|h))+$`

func isDuration(s string) bool {
	like, err := regexp.MatchString(durationPattern, s)
	return like && err == nil
}
