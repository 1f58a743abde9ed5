package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/events"
	"weir/schemas"
)

// examples returns the files of a folder of examples by their names.
func examples(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := fs.WalkDir(schemas.FS, "examples/"+folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := schemas.FS.ReadFile(path)
		out[d.Name()] = text
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d examples: %v", len(out), err)
	}
	return out
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return b.String()
}

func TestEventExamplesAreGoodAndCanonical(t *testing.T) {
	schema := compile(t, schemas.Event())
	kinds := events.Kinds()
	for name, text := range examples(t, "event") {
		if err := valid(schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var e, again events.Event
		if err := events.Decode(text, &e); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		encoded := e.AppendJSON(nil)
		if want := compact(t, text); want != string(encoded) {
			if err := events.Decode([]byte(want), &again); err != nil || string(again.AppendJSON(nil)) != want {
				t.Errorf("%s is encoded\n%s\nwant\n%s", name, encoded, want)
			}
		}
		if err := valid(schema, encoded); err != nil {
			t.Errorf("%s, encoded: %v", name, err)
		}
		if err := events.Decode(encoded, &again); err != nil || again.Kind != e.Kind || again.ID != e.ID {
			t.Errorf("%s, encoded and decoded: %v", name, err)
		}
		kinds = slices.DeleteFunc(kinds, func(k events.Kind) bool { return k == e.Kind })
	}
	if len(kinds) > 0 {
		t.Errorf("no examples of %v", kinds)
	}
}

func TestRefusedExamplesAreRefused(t *testing.T) {
	type refusal struct {
		Code   events.Code `json:"code"`
		Field  string      `json:"field"`
		Schema bool        `json:"schema"`
	}
	files := examples(t, "refused")
	var index map[string]refusal
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	delete(files, "index.json")
	schema := compile(t, schemas.Event())
	codes := events.Codes()
	for name, text := range files {
		want, ok := index[name]
		if !ok || !strings.HasPrefix(name, string(want.Code)+".") {
			t.Errorf("%s is not in index.json, or has another code there", name)
			continue
		}
		delete(index, name)
		codes = slices.DeleteFunc(codes, func(c events.Code) bool { return c == want.Code })
		var e events.Event
		err := events.Decode(text, &e)
		if err == nil {
			err = e.FromProducer()
		}
		fault, ok := errors.AsType[*events.DecodeError](err)
		if !ok || fault.Code != want.Code || fault.Field != want.Field {
			t.Errorf("%s: got %v, want %s, field %q", name, err, want.Code, want.Field)
		}
		if err := valid(schema, text); want.Schema && err == nil {
			t.Errorf("%s: the schema accepts it, against index.json", name)
		} else if !want.Schema && err != nil && json.Valid(text) {
			t.Errorf("%s: the schema refuses it, against index.json: %v", name, err)
		}
	}
	if len(index) > 0 || len(codes) > 0 {
		t.Errorf("missing: examples %v, examples of codes %v", index, codes)
	}
}

// everyField is the example that has all fields, and the schema that says which.
func everyField(t *testing.T) (example, schema *node) {
	t.Helper()
	return parse(t, examples(t, "event")["every_field.json"]), parse(t, schemas.Event())
}

func TestEncodedEventsHaveThePropertiesOfTheSchemaInItsOrder(t *testing.T) {
	example, schema := everyField(t)
	var e events.Event
	if err := events.Decode(example.with(t, []string{"no such field"}, nil, ""), &e); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for _, name := range n.names {
			got = append(got, path+name)
			walk(n.fields[name], path+name+".")
		}
	}
	walk(parse(t, e.AppendJSON(nil)), "")
	got = slices.DeleteFunc(got, func(path string) bool {
		return strings.HasPrefix(path, "limits.") || strings.HasPrefix(path, "attributes.") || strings.HasPrefix(path, "tool.args.")
	})
	for _, p := range properties(schema) {
		if p.String() != "schema_version" { // 1 is what its absence means
			want = append(want, p.String())
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("encoded\n%q\nin the schema\n%q", got, want)
	}
}

func TestDecodeUnderstandsEveryPropertyOfTheSchema(t *testing.T) {
	example, schema := everyField(t)
	for _, p := range properties(schema) {
		if p.String() == "schema_version" {
			continue
		}
		name := strings.ToUpper(p.path[len(p.path)-1])
		text := example.with(t, p.path, nil, name)
		fault, ok := errors.AsType[*events.DecodeError](events.Decode(text, new(events.Event)))
		if !ok || fault.Code != events.CodeMisspelledField || !strings.HasSuffix(fault.Reason, " "+strings.ToLower(name)) {
			t.Errorf("%s is not known: %v", p, fault)
		}
	}
}

// TestSchemaAndDecodeAgree puts many values into every property and asks both. The
// schema is opened for unknown fields, which Decode ignores.
func TestSchemaAndDecodeAgree(t *testing.T) {
	example, root := everyField(t)
	schema := compile(t, bytes.ReplaceAll(schemas.Event(), []byte(`"additionalProperties": false`), []byte(`"additionalProperties": true`)))
	accepted, refused := 0, 0
	for _, p := range properties(root) {
		f := func(raw []byte) {
			text := example.with(t, p.path, raw, "")
			if p.String() == "schema_version" {
				text = append([]byte(`{"schema_version":`+string(raw)+`,`), text[1:]...)
			}
			decoded, validated := events.Decode(text, new(events.Event)), valid(schema, text)
			if (decoded == nil) != (validated == nil) {
				t.Errorf("%s = %s: decoder %v, schema %v", p, raw, decoded, validated)
			}
			if decoded == nil {
				accepted++
			} else {
				refused++
			}
		}
		if p.String() != "schema_version" {
			f(nil)
		}
		for _, raw := range values(t, p.schema) {
			f([]byte(raw))
		}
	}
	if accepted < 500 || refused < 2000 {
		t.Errorf("%d accepted, %d refused; the test wants many of both", accepted, refused)
	}
}

// values are worth trying for a property: of all types, and around its own bounds.
// Values that only one of the two can distinguish are omitted, such as 1 and 1.0 for the decoder
// and 2^53 and 2^53+1 of milliseconds for the schema.
func values(t *testing.T, schema *node) []string {
	t.Helper()
	out := []string{"null", "true", "false", "{}", "[]", `[1]`, `["a"]`, `[null]`, `{"a":{}}`, `{"session":"s"}`, `{"name":"n"}`, `{"a":null,"b":"c"}`,
		"0", "1", "2", "0.5", "1.5", "-1", "-0.5", "1e-7", "9007199254740992", "9007199254740994", "1000000000", "1000000000.0000001",
		"31622400", "31622401",
		`""`, `"a"`, `"ü"`, `"a\nb"`, `"\u0000"`, `"2026-11-20T14:00:00Z"`, `"2026-11-20T14:00:00.123456+02:00"`, `"2026-11-20"`,
		`"2026-02-30T14:00:00Z"`, `"2026-11-20t14:00:00z"`, `"1969-12-31T23:00:00Z"`, `"2026-11-20T14:00:00.1234567890Z"`,
		`"xxh64:0123456789abcdef"`, `"xxh64:0123456789ABCDEF"`, `"xxh64:0123456789abcde"`, `"sha999:0123456789abcdef"`,
		`"simhash64:0123456789abcdef"`, `"simhash64:0123456789abcdef0"`, `"0123456789abcdef"`, `"0123456789abcdef0123456789abcdef"`,
		`"0123456789ABCDEF"`, `"blake3:` + strings.Repeat("0", 128) + `"`, `"blake3:` + strings.Repeat("0", 129) + `"`,
		`[` + strings.Repeat(`"a",`, 31) + `"a"]`, `[` + strings.Repeat(`"a",`, 32) + `"a"]`,
		`["` + strings.Repeat("a", 64) + `"]`, `["` + strings.Repeat("a", 65) + `"]`}
	if most := schema.fields["maxLength"]; most != nil {
		var n int
		if err := json.Unmarshal(most.raw, &n); err != nil {
			t.Fatal(err)
		}
		for _, letter := range []string{"a", "ü", "😀"} {
			out = append(out, `"`+strings.Repeat(letter, n)+`"`, `"`+strings.Repeat(letter, n+1)+`"`)
		}
	}
	if enum := schema.fields["enum"]; enum != nil {
		var words []string
		if err := json.Unmarshal(enum.raw, &words); err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			out = append(out, `"`+word+`"`, `"`+strings.ToUpper(word)+`"`)
		}
	}
	return out
}
