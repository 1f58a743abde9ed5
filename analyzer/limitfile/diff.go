package limitfile

import (
	"fmt"
	"strings"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/analyzer/strictyaml"
)

// Change is one value that differs between two limits. Either side is empty where only one of
// the limits has the path, as with an override that one of them lacks.
type Change struct {
	Path     string // such as rules.max_turns.max
	From, To string // as the file writes it; empty where the path is not given
}

// Diff returns what differs from a to b, in the order of the file. Limits without
// a difference have the same version. Profiles are compared by what they say, so a file that
// spells its profile out differs in nothing from one that names it.
func Diff(a, b analyzer.Limits) []Change {
	// Against limits that are off everything is written, whichever profile the two name.
	base := none()
	for _, r := range analyzer.Rows() {
		// A mode is left out where both that and the base enforce.
		r.Setting(&base).Mode = rules.ModeOff // so that every mode is written
	}
	was, is := flatten(nil, "", describeLimits(&a, &base, false)), flatten(nil, "", describeLimits(&b, &base, false))
	stays := map[string]bool{}
	for _, x := range is {
		// To distinguish a path that is gone from one that only comes after new ones.
		stays[x.path] = true
	}
	var out []Change
	// Both lists are in the order of the file: a removed path is reported before the path in its
	// place.
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

// leaf is one value of a limits file and where it stands.
type leaf struct{ path, value string }

// flatten lists the values of a tree. Overrides and exemptions go by what they are for and not
// by their place in the list.
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
		if strings.HasPrefix(path, "forecast.") { // as describeForecasts writes them, by their calls
			for _, c := range v {
				o := c.(object)
				out = flatten(out, path+"["+inline(o[0].value)+"]", o[1:])
			}
			return out
		}
		// Any other list is one value: which of its members is new is plain to see.
		if path != "overrides" && path != "exempt" && path != "budgets" && path != "subagents" {
			break
		}
		for _, c := range v {
			o := c.(object)
			if path == "budgets" || path == "subagents" { // as describeBudgets writes them
				out = flatten(out, path+"["+o[0].value.(string)+"]", o[1:])
				continue
			}
			if path == "exempt" { // as describeExemption writes them
				out = flatten(out, path+"["+inline(o[0].value)+" "+inline(o[1].value)+"]", o[2:])
				continue
			}
			// As describeOverride writes them.
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
