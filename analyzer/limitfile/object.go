package limitfile

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v4"
)

// object is a mapping in a fixed order, to be printed as YAML or JSON. Its values
// are objects, lists, strings, words, numbers and bools. A map would be printed in another
// order each time, and the order is part of what Version hashes.
type object []pair

// pair is a key with its value.
type pair struct {
	key   string
	value any
}

// list is a list of values, printed in one line where it holds no mapping.
type list []any

// word is text that needs no quotes in YAML: a mode, a duration, a time.
type word string

// number is written as it is.
type number string

// put adds a key behind the others; it does not look whether it is there.
func (o *object) put(key string, value any) { *o = append(*o, pair{key, value}) }

// MarshalJSON writes the object with its keys in their order. It is written by hand, because a
// map of Go's would be sorted by its keys.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, p := range o {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := encode(p.key)
		if err != nil {
			return nil, err
		}
		value, err := encode(p.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// MarshalJSON writes the list; one without members is [].
func (l list) MarshalJSON() ([]byte, error) { return encode(append([]any{}, l...)) }

// MarshalJSON writes the digits.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// encode is json.Marshal that leaves <, > and & as they are. Version hashes what it writes, so
// it must not change with how HTML is escaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// node returns the value as a YAML tree. What holds no mapping is written in one line. A value
// of any other type is a fault of this package, and a panic.
func node(v any) *yaml.Node {
	// Without a tag the text decides what it is read as, so words and numbers are never
	// quoted.
	scalar := func(tag, s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: s} }
	switch v := v.(type) {
	case object:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for _, p := range v {
			// A mapping that holds mappings has a line for each of its keys.
			if _, deep := p.value.(object); deep {
				n.Style = 0
			}
			n.Content = append(n.Content, scalar("!!str", p.key), node(p.value))
		}
		return n
	case list:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, c := range v {
			if _, deep := c.(object); deep {
				n.Style = 0
			}
			n.Content = append(n.Content, node(c))
		}
		return n
	case bool:
		if v {
			return scalar("!!bool", "true")
		}
		return scalar("!!bool", "false")
	case number:
		return scalar("", string(v))
	case word:
		return scalar("", string(v))
	case string:
		return scalar("!!str", v)
	}
	panic("limitfile: a value that a limits file does not have")
}

// printYAML writes the object as a file that begins with the comment. Sections are
// mappings of their own, also where they would fit in one line. Lines are never folded, so
// that grep finds a rule in one line.
func printYAML(comment string, o object) []byte {
	root := node(o)
	root.Style, root.HeadComment = 0, comment
	b, err := yaml.Dump(root, yaml.WithLineWidth(-1))
	if err != nil {
		panic("limitfile: " + err.Error()) // the tree was made above
	}
	return b
}
