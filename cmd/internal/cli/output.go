package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Format is how data are printed.
//
// A change that adds one has to look at each place that compares with TableFormat: all others
// are for programs.
type Format string

// The formats.
const (
	TableFormat Format = "table"
	JSONFormat  Format = "json"
	YAMLFormat  Format = "yaml"
)

// Value prints v to Out as one JSON or YAML document, or calls table for people.
//
// v says all there is to say, for programs; table is called for people only and may say
// less. Nothing of table is run for other formats, so a command must not do work in it.
func (e *Env) Value(v any, table func() error) error {
	switch e.Format {
	case JSONFormat:
		return writeJSON(e.Out, v, "  ")
	case YAMLFormat:
		return writeYAML(e.Out, v)
	}
	return table()
}

// Lines prints values one after the other, each on a line of its own: as rows of a
// table, as JSON lines, or as YAML documents.
//
// It is for lists that may be long: nothing is kept but the first rows of a table. In YAML
// each value is a document of its own.
type Lines[T any] struct {
	env   *Env
	table *Table
	row   func(*T) []Cell
	any   bool
}

// NewLines returns a printer of values of which row makes the cells of the table.
func NewLines[T any](e *Env, row func(*T) []Cell, columns ...string) *Lines[T] {
	return &Lines[T]{env: e, table: e.Table(columns...), row: row}
}

// Secondary names columns that are left out where a terminal has no room, the first one first.
func (l *Lines[T]) Secondary(columns ...string) *Lines[T] {
	l.table.Secondary(columns...)
	return l
}

// Print prints one value. Rows of a table are held back until their widths are
// known, or Flush.
//
// v is not kept, so the next value may be made in the same place.
func (l *Lines[T]) Print(v *T) error {
	defer func() { l.any = true }()
	switch l.env.Format {
	case JSONFormat:
		return writeJSON(l.env.Out, v, "")
	case YAMLFormat:
		if l.any {
			if err := write(l.env.Out, "---\n"); err != nil {
				return err
			}
		}
		return writeYAML(l.env.Out, v)
	}
	return l.table.Row(l.row(v)...)
}

// All prints values, and what is held back.
func (l *Lines[T]) All(vs []T) error {
	for i := range vs {
		if err := l.Print(&vs[i]); err != nil {
			return err
		}
	}
	return l.Flush()
}

// Flush prints the rows that are held back.
func (l *Lines[T]) Flush() error { return l.table.Flush() }

// Any reports whether something was printed.
func (l *Lines[T]) Any() bool { return l.any }

// Apart says that something else was printed before.
//
// The first YAML document then begins with its mark.
func (l *Lines[T]) Apart() { l.any = true }

// Last prints v after lines: as one more line of JSON, one more YAML document, or by
// table after an empty line. Apart says whether there were lines.
//
// In JSON it is one line like the others, so that a stream of lines stays one.
func (e *Env) Last(apart bool, v any, table func() error) error {
	switch {
	case e.Format == JSONFormat:
		return writeJSON(e.Out, v, "")
	case e.Format == YAMLFormat && apart:
		if err := write(e.Out, "---\n"); err != nil {
			return err
		}
	case e.Format == TableFormat && apart:
		if err := write(e.Out, "\n"); err != nil {
			return err
		}
	}
	return e.Value(v, table)
}

// writeJSON writes one value and a line end. Characters of HTML are left alone, since this is
// for terminals and programs. indent is "" for one line.
func writeJSON(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	return nil
}

// oldBooleans are words that YAML 1.1 takes for booleans, and many readers are of that
// version.
var oldBooleans = [...]string{"y", "n", "yes", "no", "on", "off"}

// writeYAML goes by way of JSON, so that names and order are the same in both.
func writeYAML(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(b, &node); err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	plain(&node)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	return enc.Close()
}

// plain takes JSON's brackets and quotes out of a document. The encoder puts quotes
// back where a text would be read as something else; the words that older readers
// take for booleans keep theirs.
func plain(n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && slices.Contains(oldBooleans[:], strings.ToLower(n.Value)):
	case len(n.Content) > 0 || n.Kind == yaml.ScalarNode:
		n.Style = 0
	}
	for _, sub := range n.Content {
		plain(sub)
	}
}
