package schemas_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/schemas"
)

func TestVerdictExamplesAreGoodAndCanonical(t *testing.T) {
	schema := compile(t, schemas.Verdict())
	for name, text := range examples(t, "verdict") {
		if err := valid(schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var v events.Verdict
		if err := events.DecodeVerdict(text, &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := string(v.AppendJSON(nil)), compact(t, text); got != want {
			t.Errorf("%s is encoded\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestVerdictSchemaRefuses(t *testing.T) {
	schema := compile(t, schemas.Verdict())
	good := parse(t, examples(t, "verdict")["depth.next.json"])
	f := func(path, raw string) {
		t.Helper()
		text := good.with(t, strings.Split(path, "."), []byte(raw), "")
		if valid(schema, text) == nil {
			t.Errorf("accepted %s", text)
		}
	}
	f("controlled_cutoff", `false`)
	f("action", `"allow"`)
	f("action", `"throttle"`)
	f("action", `"explode"`)
	f("scope.kind", `"galaxy"`)
	f("scope.id", `""`)
	f("unit", `"parsecs"`)
	f("reason_code", `"Because"`)
	f("revision", `-1`)
	f("match.not_to", `"a"`)
	f("trigger", `{"offset":1}`)
	f("time", `"yesterday"`)
	if text := good.with(t, []string{"message"}, nil, ""); valid(schema, text) == nil {
		t.Errorf("accepted %s", text)
	}
}

// TestVerdictSchemaHasTheFieldsOfTheType compares names, order, types and what is required.
func TestVerdictSchemaHasTheFieldsOfTheType(t *testing.T) {
	root := parse(t, schemas.Verdict())
	var compare func(typ reflect.Type, schema *node, path string)
	compare = func(typ reflect.Type, schema *node, path string) {
		var names, required []string
		all := schema.fields["properties"]
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
			if option == "" {
				required = append(required, name)
			}
			property := all.fields[name]
			if property == nil {
				t.Errorf("%s%s is not in the schema", path, name)
				continue
			}
			property = resolve(root, property)
			kind, inner := jsonType(field.Type)
			if got := schemaType(property); got != kind {
				t.Errorf("%s%s is %s in the schema, %s in the type", path, name, got, kind)
			}
			if items := property.fields["items"]; items != nil {
				property = items
			}
			if inner.Kind() == reflect.Struct && kind != "string" {
				compare(inner, property, path+name+".")
			}
		}
		if !reflect.DeepEqual(names, all.names) {
			t.Errorf("%s: in the schema\n%q\nin the type\n%q", path, all.names, names)
		}
		var wanted []string
		if r := schema.fields["required"]; r != nil {
			if err := json.Unmarshal(r.raw, &wanted); err != nil {
				t.Fatal(err)
			}
		}
		if slices.Sort(wanted); !slices.Equal(wanted, slices.Sorted(slices.Values(required))) {
			t.Errorf("%s: the schema requires %q, the type always writes %q", path, wanted, required)
		}
	}
	compare(reflect.TypeFor[events.Verdict](), root, "")
}

// jsonType is the type that encoding/json writes for a Go type, and the Go type
// without pointers and slices.
func jsonType(typ reflect.Type) (string, reflect.Type) {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == reflect.TypeFor[events.RFC3339]():
		return "string", typ
	case typ.Kind() == reflect.Slice:
		return "array", typ.Elem()
	}
	switch typ.Kind() {
	case reflect.String:
		return "string", typ
	case reflect.Bool:
		return "boolean", typ
	case reflect.Float64:
		return "number", typ
	case reflect.Struct:
		return "object", typ
	}
	return "integer", typ
}

func schemaType(n *node) string {
	if typ := n.fields["type"]; typ != nil {
		return strings.Trim(string(typ.raw), `"`)
	}
	if n.fields["const"] != nil {
		return "integer"
	}
	if n.fields["enum"] != nil {
		return "string"
	}
	return "none"
}
