// Package conformance has the suite of decisions and dialogues that guards, one process of weir and a group have to
// play alike.
package conformance

import (
	"bytes"
	_ "embed" // for the suite
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

//go:embed conformance.json
var suite []byte

// Row is a row of the suite, as JSON: a Decision, a Dialogue, or a dialogue that guards alone play.
type Row json.RawMessage

// Rows returns all rows, in their order.
func Rows() ([]Row, error) {
	var rows []json.RawMessage
	if err := json.Unmarshal(suite, &rows); err != nil {
		return nil, fmt.Errorf("conformance.json: %w", err)
	}
	list := make([]Row, len(rows))
	for i, row := range rows {
		list[i] = Row(row)
	}
	return list, nil
}

// Decode decodes a row. A member that into does not have is an error.
func (r Row) Decode(into any) error {
	in := json.NewDecoder(bytes.NewReader(r))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return fmt.Errorf("%w: %.200s", err, r)
	}
	return nil
}

// Kind returns what the row is, and whether weir plays it: one with a member local is about what only a guard does.
func (r Row) Kind() (dialogue, local bool) {
	var row struct {
		Steps json.RawMessage
		Local string
	}
	return json.Unmarshal(r, &row) == nil && row.Steps != nil, row.Local != ""
}

// Holds reports whether a value has all that is wanted. Of an object these are the members, where null is a member that
// is missing and {"any": true} one that is not. Of a list they are the lines with the text of "has", "count" times.
// "has" of a text is a part of it.
func Holds(want, got any) bool {
	members, ok := want.(map[string]any)
	if !ok {
		return reflect.DeepEqual(want, got)
	}
	if part, ok := members["has"].(string); ok {
		text, _ := got.(string)
		list, _ := got.([]any)
		for _, line := range list {
			text += fmt.Sprintln(line)
		}
		count, ok := members["count"].(float64)
		return strings.Contains(text, part) && (!ok || strings.Count(text, part) == int(count))
	}
	if members["any"] == true {
		return got != nil && got != ""
	}
	value, ok := got.(map[string]any)
	if !ok {
		return false
	}
	for name, w := range members {
		if g := value[name]; w == nil && g != nil || w != nil && !Holds(w, g) {
			return false
		}
	}
	return true
}
