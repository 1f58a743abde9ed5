package schemas_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compile returns a schema that checks formats too.
func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:test", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// valid reports whether the schema accepts the text, which must be JSON.
func valid(s *jsonschema.Schema, text []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

// node is JSON with the order of its fields.
type node struct {
	names  []string         // of an object
	fields map[string]*node // of an object
	raw    json.RawMessage  // of anything else
}

func parse(t *testing.T, text []byte) *node {
	t.Helper()
	n := new(node)
	if err := json.Unmarshal(text, n); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return n
}

func (n *node) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		n.raw = bytes.Clone(text)
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return err
	}
	n.fields = map[string]*node{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		field := new(node)
		if err := dec.Decode(field); err != nil {
			return err
		}
		n.names = append(n.names, name.(string))
		n.fields[name.(string)] = field
	}
	return nil
}

func (n *node) MarshalJSON() ([]byte, error) {
	if n.fields == nil {
		return n.raw, nil
	}
	var b bytes.Buffer
	for i, name := range n.names {
		field, err := n.fields[name].MarshalJSON()
		if err != nil {
			return nil, err
		}
		b.WriteString([]string{"{", ","}[min(i, 1)] + `"` + name + `":`)
		b.Write(field)
	}
	if len(n.names) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// with returns the text of n with the field at the path set to raw, or left out when
// raw is nil, and under another name when rename is not empty.
func (n *node) with(t *testing.T, path []string, raw []byte, rename string) []byte {
	t.Helper()
	text, err := n.change(path, raw, rename).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (n *node) change(path []string, raw []byte, rename string) *node {
	out := &node{fields: map[string]*node{}}
	for _, name := range n.names {
		field := n.fields[name]
		switch {
		case name != path[0]:
		case len(path) > 1:
			field = field.change(path[1:], raw, rename)
		case raw != nil:
			field = &node{raw: raw}
		case rename == "":
			continue
		}
		if name == path[0] && len(path) == 1 && rename != "" {
			name = rename
		}
		out.names = append(out.names, name)
		out.fields[name] = field
	}
	return out
}

// property is a property of a schema, with its path from the root.
type property struct {
	path   []string
	schema *node
}

func (p property) String() string { return strings.Join(p.path, ".") }

// properties lists those of a schema and of all objects below it, in order. What is
// an array is looked into, so that the path of its elements' properties is its own.
func properties(root *node) []property {
	var out []property
	var walk func(n *node, path []string)
	walk = func(n *node, path []string) {
		n = resolve(root, n)
		if items := n.fields["items"]; items != nil {
			walk(items, path)
		}
		all := n.fields["properties"]
		if all == nil {
			return
		}
		for _, name := range all.names {
			at := append(append([]string(nil), path...), name)
			out = append(out, property{at, resolve(root, all.fields[name])})
			walk(all.fields[name], at)
		}
	}
	walk(root, nil)
	return out
}

// resolve follows a reference, also one that may be null instead.
func resolve(root, n *node) *node {
	if one := n.fields["oneOf"]; one != nil {
		var both []*node
		if json.Unmarshal(one.raw, &both) == nil && len(both) == 2 {
			n = both[1]
		}
	}
	ref := n.fields["$ref"]
	if ref == nil {
		return n
	}
	name := strings.TrimPrefix(strings.Trim(string(ref.raw), `"`), "#/$defs/")
	return root.fields["$defs"].fields[name]
}
