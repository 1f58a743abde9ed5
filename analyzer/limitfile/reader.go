package limitfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/spelling"
	"weir/analyzer/strictyaml"
	"weir/events"
)

// nodeReader takes values out of a tree and notes what is wrong with them. Every
// method does nothing for a nil node, which is a key that was not given. A key with a problem
// leaves the value as it was, and reading goes on.
type nodeReader struct {
	// problems are all that were found, so that a person mends a file once and not once for
	// each.
	problems Problems
	at       map[string]place // where each path stands
}

// reader reads the sections of a limits file.
type reader struct {
	nodeReader
	recorded bool // the file is a record of weir's own log
}

// place is a line and a column, from 1.
type place struct{ line, column int }

// newReader returns a reader for a file of that name, which is for messages alone.
func newReader(name string) *reader {
	return &reader{nodeReader: nodeReader{problems: Problems{Name: name}, at: map[string]place{"": {1, 1}}}}
}

// fail notes what is wrong at the node. The path is where a person finds it, the hint how to
// go on; it may be empty.
func (r *nodeReader) fail(n *yaml.Node, path, hint, format string, args ...any) {
	r.problems.Add(Problem{Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// plain refuses what a limits file does without: anchors, aliases, merge keys, tags. With them
// a value would stand at another line than where it counts, and two readers might not agree.
// Children of what is refused are looked at, too, since they may hold more of it.
func (r *nodeReader) plain(n *yaml.Node) {
	const hint = "write the values out"
	switch {
	case n.Kind == yaml.AliasNode:
		r.fail(n, "", hint, "aliases are not read")
	case n.Anchor != "":
		r.fail(n, "", hint, "anchors are not read")
	case n.Kind == yaml.ScalarNode && n.Tag == "!!merge":
		r.fail(n, "", hint, "merge keys are not read")
	// Also a tag that changes nothing, such as !!str on text.
	case n.Style&yaml.TaggedStyle != 0:
		r.fail(n, "", "delete the tag", "tags such as %s are not read", pathKey(n.Tag))
	}
	for _, c := range n.Content {
		r.plain(c)
	}
}

// fields returns the values of a mapping by key. Keys that are not known are
// problems. It is for mappings whose keys are fixed; those named by people are read by pairs.
func (r *nodeReader) fields(path string, n *yaml.Node, known ...string) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	for key, v := range r.pairs(path, n) {
		if slices.Contains(known, key.Value) {
			out[key.Value] = v
			continue
		}
		// Rules are known by name, and a version by its place, because their hints are better
		// than a near word.
		message, hint := "there is no such key", ""
		_, isRule := analyzer.RowNamed(key.Value)
		switch {
		case path == "" && key.Value == "version":
			hint = "the version is computed from the limits; delete the key"
		// The commonest mistake in a first file.
		case path == "" && isRule:
			hint = "rules stand under the key rules"
		default:
			hint = meant(key.Value, known)
		}
		r.fail(key, join(path, key.Value), hint, "%s", message)
	}
	return out
}

// pairs yields keys and values of a mapping, in the order of the file. A key that
// is given twice or has no value is a problem and is left out. It also notes where each value
// stands, for problems that are found later.
func (r *nodeReader) pairs(path string, n *yaml.Node) func(func(*yaml.Node, *yaml.Node) bool) {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		if n == nil || n.Kind == yaml.AliasNode {
			return
		}
		if n.Kind != yaml.MappingNode {
			r.fail(n, path, "", "want a mapping, got %s", describe(n))
			return
		}
		// By key, the line in which it was given first.
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			switch {
			case k.Tag == "!!merge" || k.Kind == yaml.AliasNode:
				continue // refused by plain
			case k.Kind != yaml.ScalarNode:
				r.fail(k, path, "", "want a name as key, got %s", describe(k))
				continue
			// A tool called 5 or true has to be written in quotes.
			case k.Tag != "!!str":
				r.fail(k, join(path, k.Value), "write it in quotes", "want a name as key, got %s", describe(k))
				continue
			}
			here := join(path, k.Value)
			// Most readers of YAML take one of the two without a word.
			if line, twice := seen[k.Value]; twice {
				r.fail(k, here, "keep one of them", "is given twice, first in line %d", line)
				continue
			}
			seen[k.Value] = k.Line
			r.at[here] = place{v.Line, v.Column}
			// It may mean off, the default, or a line that was not finished.
			if strictyaml.IsNull(v) {
				r.fail(k, here, "write a value or delete the key", "has no value")
				continue
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

// items returns the members of a list. A single value is no list of one.
func (r *nodeReader) items(path string, n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind == yaml.AliasNode {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, path, "write it in brackets", "want a list, got %s", describe(n))
		return nil
	}
	for i, c := range n.Content {
		// check reports members by their index.
		r.at[index(path, i)] = place{c.Line, c.Column}
	}
	return n.Content
}

// scalar reports whether the node is a single value; if not, it is a problem. Aliases are
// refused by plain already.
func (r *nodeReader) scalar(path, want string, n *yaml.Node) bool {
	if n == nil || n.Kind == yaml.AliasNode {
		return false
	}
	if n.Kind != yaml.ScalarNode {
		r.fail(n, path, "", "want %s, got %s", want, describe(n))
		return false
	}
	return true
}

// text reads a name or a sentence. Numbers and the like are refused, for YAML would have
// changed them.
func (r *nodeReader) text(path string, n *yaml.Node) (string, bool) {
	if !r.scalar(path, "text", n) {
		return "", false
	}
	if n.Tag != "!!str" {
		r.fail(n, path, "write it in quotes", "want text, got %s", describe(n))
		return "", false
	}
	return n.Value, true
}

// choice reads one of the names and returns its index. Case matters; the hint says how it is
// spelled.
func (r *nodeReader) choice(path string, n *yaml.Node, names []string) (int, bool) {
	if !r.scalar(path, "one of "+strings.Join(names, ", "), n) {
		return 0, false
	}
	i := slices.Index(names, n.Value)
	if i < 0 {
		hint := ""
		if near := spelling.Nearest(n.Value, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.fail(n, path, hint, "%s is none of %s", describe(n), strings.Join(names, ", "))
	}
	return i, i >= 0
}

// boolean reads true or false and none of the other words that YAML once had for them.
func (r *nodeReader) boolean(path string, n *yaml.Node, set *bool) {
	if !r.scalar(path, "true or false", n) {
		return
	}
	// YAML 1.1 had yes, no, on and off as well.
	if n.Tag != "!!bool" || n.Value != "true" && n.Value != "false" {
		r.fail(n, path, "", "want true or false, got %s", describe(n))
		return
	}
	*set = n.Value == "true"
}

// either reads one of two words; set receives whether it is the second. The first word is the
// usual one.
func (r *nodeReader) either(path string, n *yaml.Node, words []string, set *bool) {
	if i, ok := r.choice(path, n, words); ok {
		*set = i == 1
	}
}

// share reads a part of one, as hundredths.
func (r *nodeReader) share(path string, n *yaml.Node, set *int64) {
	if !r.scalar(path, "a number from 0 to 1", n) {
		return
	}
	v, ok := hundredths(n)
	if !ok {
		r.fail(n, path, "", "want a number from 0 to 1 with two decimals at most, got %s", describe(n))
		return
	}
	*set = v
}

// integer reads a whole number that is not negative.
func (r *nodeReader) integer(path string, n *yaml.Node, set *int64) {
	if !r.scalar(path, "a number", n) {
		return
	}
	v, ok := wholeNumber(n)
	if !ok {
		r.fail(n, path, numberHint(n), "want a whole number, got %s", describe(n))
		return
	}
	*set = v
}

// duration reads a duration as Go writes it. A bare number is refused: its unit is unknown.
func (r *nodeReader) duration(path string, n *yaml.Node, set *time.Duration) {
	if !r.scalar(path, "a duration", n) {
		return
	}
	d, err := time.ParseDuration(n.Value)
	_, bare := digits(n.Value)
	switch {
	// 0 without a unit is read by Go and is refused here with all other bare numbers.
	case err == nil && d >= 0 && !bare:
		*set = d
	case err == nil && d < 0:
		r.fail(n, path, "", "want a duration that is not negative, got %s", describe(n))
	default:
		r.fail(n, path, durationHint(n), "want a duration such as 90s, 10m or 1h30m, got %s", describe(n))
	}
}

// time reads a point in time; 0 for one that was not given.
func (r *nodeReader) time(path string, n *yaml.Node) events.Stamp {
	if !r.scalar(path, "a time", n) {
		return 0
	}
	at, ok := events.ParseStamp(n.Value)
	if !ok {
		r.fail(n, path, "", "want a time such as 2026-12-01T00:00:00Z, got %s", describe(n))
	}
	return at
}

// sources reads a list of correlation sources into a bit set. The list replaces the profile's,
// also when it is empty.
func (r *nodeReader) sources(path string, n *yaml.Node, set *uint16) {
	if n == nil {
		return
	}
	var bits uint16
	names := correlationSources()
	for i, c := range r.items(path, n) {
		if s, ok := r.choice(index(path, i), c, names); ok {
			if bits>>s&1 == 1 {
				r.fail(c, index(path, i), "keep one of them", "%s is listed twice", names[s])
			}
			// A bit set of 1<<CorrelationSource, as limits hold it.
			bits |= 1 << s
		}
	}
	*set = bits
}

// amount reads a threshold in the unit of its rule: a number or off, dollars for
// money, a number of seconds or a duration for time.
func (r *nodeReader) amount(path string, n *yaml.Node, unit events.Unit) (int64, bool) {
	want := "a whole number or off"
	switch unit {
	case events.UnitUSD:
		want = "dollars such as 2.50, or off"
	case events.UnitSeconds:
		want = "a duration such as 5m, a number of seconds, or off"
	}
	if !r.scalar(path, want, n) {
		return 0, false
	}
	v, ok := parseAmount(n, unit)
	if !ok {
		r.fail(n, path, numberHint(n), "want %s, got %s", want, describe(n))
	}
	return v, ok
}

// follows reports whether a fault at the path only follows from a problem that is already
// reported, because a value that could not be read was left as it was. One mistake would
// otherwise be reported three times, twice where nothing has to be changed.
func follows(path string, found []Problem) bool {
	holder, key := split(path)
	for i := range found {
		at := found[i].Path
		if at == "" {
			continue
		}
		above, last := split(at)
		switch {
		// The value itself could not be read, or what holds it.
		case at == path, at == holder:
			return true
		// The override has a fault inside, which is reported there.
		case above == path && slices.Contains([]string{"rule", "project", "agent", "tool", "flow"}, last):
			return true // an override
		case above == path && (strings.HasPrefix(path, "exempt[") || strings.HasPrefix(path, "budgets[") || strings.HasPrefix(path, "subagents[")):
			return true // a member of its lists
		case above == holder && slices.Contains(dependsOn(key), last):
			return true
		}
	}
	return false
}

// dependsOn lists the keys beside key that decide whether its value makes sense. It names what
// check looks at together.
func dependsOn(key string) []string {
	switch key {
	case "warn":
		return []string{"stop", "max", "window", "rule"}
	case "stop", "max":
		return []string{"window", "rule"}
	case "tell", "reserve":
		return []string{"stop", "max", "rule"}
	case "window", "ignore_results", "paced", "count", "extend_on_progress":
		return []string{"rule"}
	case "idle":
		return []string{"max_age"}
	case "grace":
		return []string{"ttl"}
	case "low":
		return []string{"high"}
	case "agent", "flow":
		return []string{"pair", "agent"}
	}
	return nil
}

// place returns the place of the path, or of what contains it. A path may be missing in the file
// because its value is the profile's. It is then reported at what contains it, finally at the beginning
// of the file.
func (r *nodeReader) place(path string) place {
	for {
		// It ends at the file itself, whose place is always known.
		if at, ok := r.at[path]; ok || path == "" {
			return at
		}
		path, _ = split(path)
	}
}

// join is the path of a key in what the path leads to.
func join(path, key string) string {
	if path == "" {
		return pathKey(key)
	}
	return path + "." + pathKey(key)
}

// index is the path of a member of a list; members count from 0.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// split returns the path of what holds the path, empty for the file, and the key in it.
func split(path string) (holder, key string) {
	i := strings.LastIndexAny(path, ".[")
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// describe says what stands at a node: a number or a word as it is, a text in quotes.
func describe(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!str" && !strictyaml.IsNull(n) {
		return pathKey(n.Value)
	}
	return strictyaml.Describe(n)
}
