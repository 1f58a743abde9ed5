// Package hooksettings adds weir's hooks to the settings files of coding agents and changes nothing else in them.
package hooksettings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Merge returns the settings with the wanted ones added. The groups of hooks for each moment replace
// those that weir put there before. Other members are added where there are none of their name. The
// order of members and comments stay. Settings that have all of it already are returned unchanged; empty
// settings become wanted.
//
// It is a pure function: the caller reads and writes the file. settings may be JSON with
// comments and trailing commas, as some agents accept it. A second merge of the same changes
// nothing, so it may be run at each update. Groups that weir put there before are found by
// their command.
func Merge(settings, wanted []byte) ([]byte, error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		return append(bytes.TrimSpace(wanted), '\n'), nil
	}
	file, err := hujson.Parse(settings)
	if err != nil {
		return nil, fmt.Errorf("they are no JSON: %w", err)
	}
	// The clone is for reading by encoding/json; the file itself keeps comments and is what is
	// patched.
	plain := file.Clone()
	plain.Standardize()
	var have, want map[string]json.RawMessage
	if err := json.Unmarshal(plain.Pack(), &have); err != nil {
		return nil, fmt.Errorf("they are no JSON object: %w", err)
	}
	if err := json.Unmarshal(wanted, &want); err != nil {
		return nil, err
	}
	var p patch
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch {
		// A member that is there by its name belongs to the person, whatever it says; hooks
		// alone are merged.
		case have[name] == nil:
			p.add("add", "/"+name, want[name])
		case name == "hooks":
			if err := p.hooks(have[name], want[name]); err != nil {
				return nil, err
			}
		}
	}
	if len(p) == 0 {
		return settings, nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	// Settings without comments are laid out anew, because what a patch inserts has no layout.
	isPlain := bytes.Equal(plain.Pack(), file.Pack())
	if err := file.Patch(text); err != nil {
		return nil, err
	}
	if !isPlain { // only hujson writes comments, and as they were
		return file.Pack(), nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(file.Pack()), "", indentOf(settings)); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}

// patch is one of RFC 6902.
type patch []operation

// operation is one step of a patch. Each is applied to what those before it have left.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

func (p *patch) add(op, path string, value json.RawMessage) {
	*p = append(*p, operation{op, path, value})
}

// hooks adds what makes the wanted hooks out of those that are there, by moment, such as
// before the use of a tool. The moments of weir have one group each.
func (p *patch) hooks(have, want json.RawMessage) error {
	var old, wanted map[string][]json.RawMessage
	if err := json.Unmarshal(have, &old); err != nil {
		return fmt.Errorf("its hooks are not as they should be: %w", err)
	}
	if err := json.Unmarshal(want, &wanted); err != nil {
		return err
	}
	for _, moment := range slices.Sorted(maps.Keys(wanted)) {
		path := "/hooks/" + moment
		if old[moment] == nil {
			value, err := json.Marshal(wanted[moment])
			if err != nil {
				return err
			}
			p.add("add", path, value)
			continue
		}
		p.moment(path, old[moment], wanted[moment][0])
	}
	return nil
}

// moment puts the group in the place of weir's first, and takes weir's others away. They
// go from the last to the first, so that the places of those before stay.
//
// A hook of weir's in a group with others is taken out of it, and the others stay.
func (p *patch) moment(path string, old []json.RawMessage, group json.RawMessage) {
	first := slices.IndexFunc(old, alone)
	for i := len(old) - 1; i >= 0; i-- {
		at := fmt.Sprintf("%s/%d", path, i)
		switch {
		case i == first && equal(old[i], group):
		case i == first:
			p.add("replace", at, group)
		case alone(old[i]):
			p.add("remove", at, nil)
		default:
			inner := members(old[i])
			for j := len(inner) - 1; j >= 0; j-- {
				if ours(inner[j]) {
					p.add("remove", fmt.Sprintf("%s/hooks/%d", at, j), nil)
				}
			}
		}
	}
	if first < 0 {
		p.add("add", path+"/-", group)
	}
}

// ours reports whether a hook runs or calls weir.
//
// Agents name the command or the address differently, and case is ignored. A foreign hook that
// runs weir's hook is treated as weir's.
func ours(hook json.RawMessage) bool {
	var h struct{ Command, Bash, URL string }
	_ = json.Unmarshal(hook, &h)
	for _, command := range []string{h.Command, h.Bash} {
		if strings.Contains(command, "weir") && strings.Contains(command, " check --hook") || strings.Contains(command, "weir-hook") {
			return true
		}
	}
	return strings.HasSuffix(h.URL, "/v1/hook")
}

// alone reports whether a group, or a hook without a group, contains weir's hooks and no
// others.
func alone(group json.RawMessage) bool {
	inner := members(group)
	if inner == nil {
		return ours(group)
	}
	return len(inner) > 0 && !slices.ContainsFunc(inner, func(h json.RawMessage) bool { return !ours(h) })
}

// members are the hooks of a group; nil for a hook that stands without one.
func members(group json.RawMessage) []json.RawMessage {
	var g struct{ Hooks []json.RawMessage }
	_ = json.Unmarshal(group, &g)
	return g.Hooks
}

// equal compares values and not how they are written.
func equal(a, b json.RawMessage) bool {
	canonical := func(raw json.RawMessage) string {
		var v any
		_ = json.Unmarshal(raw, &v)
		text, _ := json.Marshal(v)
		return string(text)
	}
	return canonical(a) == canonical(b)
}

// indentOf returns what the first member is indented by.
//
// Two blanks where the first member stands on the line of the brace.
func indentOf(settings []byte) string {
	_, rest, _ := bytes.Cut(settings, []byte("{"))
	rest = bytes.TrimLeft(rest, "\r\n")
	if n := len(rest) - len(bytes.TrimLeft(rest, " \t")); n > 0 {
		return string(rest[:n])
	}
	return "  "
}
