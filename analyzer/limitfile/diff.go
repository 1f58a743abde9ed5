package limitfile

import (
	"fmt"
	"strings"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/analyzer/strictyaml"
)

// Change is one value that differs between two limits.
type Change struct {
	Path     string // such as rules.max_turns.max
	From, To string // as the file writes it; empty where the path is not given
}

// Diff returns what differs from a to b, in the order of the file. Limits without
// a difference have the same version.
func Diff(a, b analyzer.Limits) []Change {
	base := none()
	for _, r := range analyzer.Rows() {
		r.Setting(&base).Mode = rules.ModeOff // so that every mode is written
	}
	was, is := flatten(nil, "", describeLimits(&a, &base, false)), flatten(nil, "", describeLimits(&b, &base, false))
	stays := map[string]bool{}
	for _, x := range is {
		stays[x.path] = true
	}
	var out []Change
	for len(was) > 0 || len(is) > 0 {
		switch {
		case len(was) > 0 && (len(is) == 0 || !stays[was[0].path]):
			out = append(out, Change{was[0].path, was[0].value, ""})
			was = was[1:]
		case len(was) == 0 || was[0].path != is[0].path:
			out = append(out, Change{is[0].path, "", is[0].value})
			is = is[1:]
		default:
			if was[0].value != is[0].value {
				out = append(out, Change{was[0].path, was[0].value, is[0].value})
			}
			was, is = was[1:], is[1:]
		}
	}
	return out
}

type leaf struct{ path, value string }

// flatten lists the values of a tree. Overrides go by what they are for and not by
// their place in the list.
func flatten(out []leaf, path string, v any) []leaf {
	switch v := v.(type) {
	case object:
		for _, p := range v {
			at := p.key
			if path != "" {
				at = path + "." + p.key
			}
			out = flatten(out, at, p.value)
		}
		return out
	case list:
		if path != "overrides" {
			break
		}
		for _, c := range v {
			o := c.(object)
			who, rule := o[0], o[1]
			out = flatten(out, path+"["+who.key+" "+who.value.(string)+" "+string(rule.value.(word))+"]", o[2:])
		}
		return out
	}
	return append(out, leaf{path, inline(v)})
}

// inline writes a value that holds no mapping.
func inline(v any) string {
	switch v := v.(type) {
	case list:
		var members []string
		for _, c := range v {
			members = append(members, inline(c))
		}
		return "[" + strings.Join(members, ", ") + "]"
	case string:
		return strictyaml.Quote(v)
	}
	return fmt.Sprint(v)
}
