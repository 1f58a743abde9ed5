package schemaregistry

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/linkedin/goavro/v2"
)

// avroDecoder returns a decoder of Avro. Unions are written as plain JSON, without their branch.
func avroDecoder(text string, named map[string]string) (func([]byte) ([]byte, error), error) {
	whole, err := inlined(text, named)
	if err != nil {
		return nil, err
	}
	codec, err := goavro.NewCodecForStandardJSONFull(whole)
	if err != nil {
		return nil, fmt.Errorf("schema in Avro: %w", err)
	}
	return func(value []byte) ([]byte, error) {
		native, rest, err := codec.NativeFromBinary(value)
		if err != nil {
			return nil, fmt.Errorf("value in Avro: %w", err)
		}
		if len(rest) > 0 {
			return nil, fmt.Errorf("value in Avro: %d bytes are left", len(rest))
		}
		return codec.TextualFromNative(nil, native)
	}, nil
}

// inlined puts the definitions of named types where a schema uses them first, since the codec takes
// one schema.
func inlined(text string, named map[string]string) (string, error) {
	if len(named) == 0 {
		return text, nil
	}
	var schema any
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		return "", fmt.Errorf("schema in Avro: %w", err)
	}
	in := inliner{named: named, done: map[string]bool{}}
	out, err := json.Marshal(in.place(schema, ""))
	return string(out), err
}

type inliner struct {
	named map[string]string
	done  map[string]bool
}

// place returns a schema with the first use of each named type replaced. namespace is that of the
// type around it.
func (in *inliner) place(schema any, namespace string) any {
	switch s := schema.(type) {
	case string:
		name := s
		if _, ok := in.named[name]; !ok && namespace != "" && !strings.Contains(name, ".") {
			name = namespace + "." + s
		}
		text, ok := in.named[name]
		if !ok || in.done[name] {
			return s
		}
		in.done[name] = true
		var definition any
		if json.Unmarshal([]byte(text), &definition) != nil {
			return s // the codec says that the type is unknown
		}
		return in.place(definition, "")
	case []any:
		for i := range s {
			s[i] = in.place(s[i], namespace)
		}
	case map[string]any:
		if own, ok := s["namespace"].(string); ok {
			namespace = own
		}
		for _, key := range []string{"type", "items", "values"} {
			if inside, ok := s[key]; ok {
				s[key] = in.place(inside, namespace)
			}
		}
		fields, _ := s["fields"].([]any)
		for i := range fields {
			if field, ok := fields[i].(map[string]any); ok {
				field["type"] = in.place(field["type"], namespace)
			}
		}
	}
	return schema
}
