package events

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/schemas"
)

// shape is what of a JSON Schema is compared with the lists here.
type shape struct {
	Ref         string           `json:"$ref"`
	Enum        []string         `json:"enum"`
	Default     any              `json:"default"`
	Description string           `json:"description"`
	Examples    []any            `json:"examples"`
	Properties  map[string]shape `json:"properties"`
	Defs        map[string]shape `json:"$defs"`
}

func readShape(t *testing.T, text []byte) (s shape) {
	t.Helper()
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDecoderKnowsNoFieldThatTheSchemaLacks(t *testing.T) {
	schema := readShape(t, schemas.Event())
	for where, fs := range objects() {
		properties := schema.Properties
		switch where {
		case "":
		case "party":
			properties = schema.Defs[where].Properties
		default:
			properties = properties[where].Properties
		}
		if len(properties) != len(fs.names)-1 {
			t.Errorf("%q: %d properties, %d fields", where, len(properties), len(fs.names)-1)
		}
		for _, name := range fs.names[1:] {
			if _, ok := properties[name]; !ok {
				t.Errorf("%q: no property %s", where, name)
			}
		}
	}
}

func TestTheSchemaSaysHowLongAStopStands(t *testing.T) {
	said := readShape(t, schemas.Event()).Properties["operator"].Properties["for_s"].Description
	if want := fmt.Sprintf("0 or absent: a stop stands for %.0f hours", DefaultStop.Hours()); !strings.Contains(said, want) {
		t.Errorf("for_s: %q, want %q in it", said, want)
	}
}

func TestWordsAreThoseOfTheSchema(t *testing.T) {
	event, verdict := readShape(t, schemas.Event()).Properties, readShape(t, schemas.Verdict()).Properties
	f := func(what string, s shape, words []string) {
		t.Helper()
		if words[0] == "" {
			words = words[1:]
		} else if s.Default != words[0] {
			t.Errorf("%s: the default is %v, want %s", what, s.Default, words[0])
		}
		if !slices.Equal(s.Enum, words) {
			t.Errorf("%s: in the schema\n%q\nhere\n%q", what, s.Enum, words)
		}
	}
	f("kind", event["kind"], kindNames[:])
	f("origin", event["origin"], originNames[:])
	f("correlation_source", event["correlation_source"], correlationNames[:])
	f("transfer_mode", event["transfer_mode"], transferNames[:])
	f("status", event["status"], statusNames[:])
	f("usage.scope", event["usage"].Properties["scope"], usageNames[:])
	f("party.type", readShape(t, schemas.Event()).Defs["party"].Properties["type"], partyNames[:])
	f("review.decision", event["review"].Properties["decision"], append([]string{""}, decisions[:]...))
	f("override.scope", event["override"].Properties["scope"], append([]string{""}, overrideScopes[:]...))
	f("override.mode", event["override"].Properties["mode"], append([]string{""}, overrideModes[:]...))
	f("verdict scope.kind", verdict["scope"].Properties["kind"], texts(scopes[:]))
	f("verdict action", verdict["action"], texts(actions[:]))
	f("verdict unit", verdict["unit"], append([]string{""}, constants(t, "verdict.go", "Unit")...))
	var reasons []string
	for _, r := range verdict["reason_code"].Examples {
		reasons = append(reasons, r.(string))
	}
	f("verdict reason_code", shape{Enum: reasons}, append([]string{""}, constants(t, "reasons.go", "Reason")...))
}

// constants returns the values of the constants of a type in a file, in order.
func constants(t *testing.T, in, typ string) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), in, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typ {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, value)
		}
		return true
	})
	return out
}

// texts are words of a type as the schema has them.
func texts[T ~string](words []T) (out []string) {
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}
