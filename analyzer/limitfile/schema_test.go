package limitfile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/schemas"
)

const schemaFile = "../../schemas/limits.v1.json"

func TestSchemaFileIsGenerated(t *testing.T) {
	want := limitfile.JSONSchema()
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("schemas/limits.v1.json is not what the table of rules gives (%v): run go test ./analyzer/limitfile -update", err)
	}
	if !*update && !bytes.Equal(schemas.Limits(), want) {
		t.Error("the schema in the binary is not the one in the file")
	}
}

func TestSchemaNamesEveryRuleAndSection(t *testing.T) {
	var doc struct {
		Properties map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal(limitfile.JSONSchema(), &doc); err != nil {
		t.Fatal(err)
	}
	rules := doc.Properties["rules"].Properties
	for _, row := range analyzer.Rows() {
		if r, ok := rules[row.Name]; ok == row.Fixed || ok && r.Description == "" {
			t.Errorf("%s: %v %q", row.Name, ok, r.Description)
		}
	}
	l, err := limitfile.Profile("balanced")
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(limitfile.FormatJSON(l), &record); err != nil {
		t.Fatal(err)
	}
	delete(record, "version") // of records alone
	for section := range record {
		if _, ok := doc.Properties[section]; !ok {
			t.Errorf("the schema does not know %s", section)
		}
	}
}
