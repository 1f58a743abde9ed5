package config

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/spf13/pflag"

	"weir/analyzer/spelling"
	"weir/cmd/internal/cli"
)

// Schema returns the JSON Schema (2020-12) of configuration files. What a setting
// makes of a value, such as an address that cannot be listened on, only the program
// sees.
//
// It is made of the flags, so it is never behind them, and the same for the same program:
// names of members are sorted.
func (t *Table) Schema() []byte {
	properties := map[string]any{
		schemaKey: map[string]any{"type": "string", "description": "For editors; not read."},
	}
	t.flags.VisitAll(func(f *pflag.Flag) { properties[f.Name] = property(f) })
	doc := struct {
		Schema      string         `json:"$schema"`
		ID          string         `json:"$id"`
		Title       string         `json:"title"`
		Description string         `json:"description"`
		Type        string         `json:"type"`
		Additional  bool           `json:"additionalProperties"`
		Properties  map[string]any `json:"properties"`
		Defs        map[string]any `json:"$defs"`
	}{
		"https://json-schema.org/draft/2020-12/schema", "urn:weir:schema:config:1", "weir configuration",
		"The settings of weir run. A flag goes before the environment (WEIR_ and the name in capitals), that before this file, that before the default.",
		"object", false, properties,
		map[string]any{"duration": map[string]any{"type": "string", "pattern": durationPattern}},
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		panic("config: " + err.Error()) // texts and maps of texts
	}
	return b.Bytes()
}

// property is the schema of one setting.
//
// Its description is the usage of the flag as a sentence. Defaults that say nothing, as 0
// and false, are left out, as in help.
func property(f *pflag.Flag) map[string]any {
	what, usage := pflag.UnquoteUsage(f)
	if what != "" && what != "value" {
		// Only the word in backquotes is changed.
		usage = strings.Replace(f.Usage, "`"+what+"`", what, 1)
	}
	p := map[string]any{"description": spelling.Capital(usage) + "."}
	switch kindOf(f.Value) {
	case textKind:
		p["type"] = "string"
	case wordKind:
		p["enum"] = f.Value.(*cli.Choice).Words
	case boolKind:
		p["type"] = "boolean"
	case integerKind:
		p["type"] = "integer"
	case durationKind:
		p["$ref"] = "#/$defs/duration"
	case listKind:
		p["type"], p["items"] = "array", map[string]any{"type": "string", "minLength": 1}
	}
	if d := f.DefValue; d != "" && d != "0" && d != "0s" && d != "false" {
		p["default"] = d
		if kindOf(f.Value) == integerKind {
			p["default"] = json.Number(d)
		}
	}
	return p
}
