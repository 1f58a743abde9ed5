// Command openapi writes the description of the HTTP API, OpenAPI 3.1, from openapi.yaml, the Go types
// of answers, and the schemas of events and verdicts. Run it in this folder: go run .
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v4"

	"weir/cmd/internal/api"
	"weir/events"
	"weir/events/byhand"
	"weir/schemas"
)

//go:embed openapi.yaml
var source []byte

// target is where the description is, seen from this folder.
const target = "../../../../schemas/openapi.v1.json"

func main() {
	text, err := describe()
	if err == nil {
		err = os.WriteFile(target, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// object is an object of JSON.
type object = map[string]any

// describe returns the description as JSON.
func describe() ([]byte, error) {
	var doc object
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return nil, err
	}
	components := doc["components"].(object)
	all := components["schemas"].(object)
	if err := addStored(all, "Event", schemas.Event(), "id", "time"); err != nil {
		return nil, err
	}
	if err := addStored(all, "Verdict", schemas.Verdict()); err != nil {
		return nil, err
	}
	all["Remaining"] = all["Verdict"].(object)["properties"].(object)["remaining"].(object)["items"]
	all["Verdict"].(object)["properties"].(object)["remaining"].(object)["items"] = object{"$ref": schemaRef("Remaining")}
	if err := addTypes(all); err != nil {
		return nil, err
	}
	components["securitySchemes"] = object{"token": object{"type": "http", "scheme": "bearer", "description": "A token of the access file, or the intake or admin token. On loopback weir needs none by default, except for orders."}}
	for path, item := range doc["paths"].(object) {
		for method, op := range item.(object) {
			addCommon(op.(object), method, strings.HasPrefix(path, "/v1/check"))
		}
	}
	text, err := json.MarshalIndent(doc, "", " ")
	return append(text, '\n'), err
}

func schemaRef(name string) string { return "#/components/schemas/" + name }

// addCommon adds what every operation has that takes a role.
func addCommon(op object, method string, check bool) {
	problem := object{"$ref": "#/components/responses/Problem"}
	if check {
		problem = object{"$ref": "#/components/responses/Refused"}
	}
	roles := op["x-roles"].([]any)
	statuses := []string{"421"}
	if method != "get" {
		statuses = append(statuses, "403") // a page of another origin
	}
	if len(roles) > 0 {
		statuses = append(statuses, "401", "403", "429")
		op["security"] = []any{object{"token": []any{}}, object{}}
		words := make([]string, len(roles))
		for i, r := range roles {
			words[i] = r.(string)
		}
		text, _ := op["description"].(string)
		op["description"] = strings.TrimSpace(text + "\n\nRole: " + strings.Join(words, " or ") + ".")
	}
	// The map may be shared with another operation.
	responses := object{"default": problem}
	for status, response := range op["responses"].(object) {
		responses[status] = response
	}
	for _, status := range statuses {
		if responses[status] == nil {
			responses[status] = problem
		}
	}
	op["responses"] = responses
}

// addStored adds the schema of what is stored, as generators of code can read it: without conditions,
// with a type beside each list of words, and open for members of later versions. Its definitions
// become schemas of their own. optional are members that a sender may leave out.
func addStored(all object, name string, text []byte, optional ...string) error {
	var schema object
	if err := json.Unmarshal(text, &schema); err != nil {
		return err
	}
	for _, member := range []string{"$schema", "$id", "title", "allOf"} {
		delete(schema, member)
	}
	var required []any
	for _, member := range schema["required"].([]any) {
		if !contains(optional, member) {
			required = append(required, member)
		}
	}
	schema["required"] = required
	defs := schema["$defs"].(object)
	delete(schema, "$defs")
	for def, s := range defs {
		title := strings.ToUpper(def[:1]) + def[1:]
		all[title] = plain(s)
	}
	all[name] = plain(schema)
	return nil
}

func contains(list []string, v any) bool {
	for _, s := range list {
		if s == v {
			return true
		}
	}
	return false
}

// plain turns one schema, and those inside, into what generators of code read.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case object:
		return plainObject(v)
	}
	return v
}

func plainObject(v object) object {
	for name, inner := range v {
		if name == "properties" {
			for member, s := range inner.(object) {
				inner.(object)[member] = plain(s)
			}
			continue
		}
		v[name] = plain(inner)
	}
	if ref, ok := v["$ref"].(string); ok {
		def := strings.TrimPrefix(ref, "#/$defs/")
		v["$ref"] = schemaRef(strings.ToUpper(def[:1]) + def[1:])
	}
	if constant, ok := v["const"]; ok {
		delete(v, "const")
		v["type"] = "integer" // generators take a list of numbers for one of texts
		if _, text := constant.(string); text {
			v["type"], v["enum"] = "string", []any{constant}
		}
	}
	if words, ok := v["enum"].([]any); ok && v["type"] == nil {
		if _, text := words[0].(string); text {
			v["type"] = "string"
		}
	}
	if v["type"] == "integer" && v["enum"] == nil && v["format"] == nil { // without it code has 32 bits
		v["format"] = "int64"
	}
	if v["additionalProperties"] == false {
		delete(v, "additionalProperties")
	}
	if v["type"] == "object" { // what one of several forms needs, code cannot say
		delete(v, "anyOf")
	}
	return v
}

// addTypes adds a schema for each type of an answer.
func addTypes(all object) error {
	reflector := jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true, DoNotReference: true, Mapper: known}
	for name, body := range api.Bodies() {
		text, err := json.Marshal(reflector.Reflect(body))
		if err != nil {
			return err
		}
		var schema object
		if err := json.Unmarshal(text, &schema); err != nil {
			return err
		}
		delete(schema, "$schema")
		all[name] = schema
	}
	return nil
}

// known are the types that write themselves.
func known(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[events.RFC3339]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[byhand.Scope]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[events.Verdict](), reflect.TypeFor[*events.Verdict]():
		return &jsonschema.Schema{Ref: schemaRef("Verdict")}
	case reflect.TypeFor[[]json.RawMessage]():
		return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Ref: schemaRef("Verdict")}}
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[float64]():
		return &jsonschema.Schema{Type: "number", Format: "double"}
	case reflect.TypeFor[int64]():
		return &jsonschema.Schema{Type: "integer", Format: "int64"}
	}
	return nil
}
