package limitfile

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/strictyaml"
)

// Import reads the limits file of one of the systems that have a profile here. It returns a limits file
// with the same limits, as far as weir has the rules. A comment in the returned file names those without
// a rule. The keys identify the system:
//
//   - delegation: recursion-limits.json, with maxDepth, maxCallsPerMinute and the like
//   - team: the protection block of settings.json
//   - task: system_caps.json, with max_loops_per_task and max_delegation_depth
//   - gateway: budgets.yaml, with maxToolCalls and the like, also inside its ConfigMap
//
// Keys may be in camel case or in snake case. An unknown key is a problem, because a limit must not get
// lost on the way. The error is a *Problems. The name is for messages alone. The returned file has been
// parsed once, so Parse accepts it.
func Import(name string, data []byte) ([]byte, error) {
	r := newReader(name)
	out := r.importFile(data)
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// system is one whose file can be imported. The keys distinguish it from the others; the profile is
// what the file changes.
type system struct {
	profile string
	file    string
	keys    []systemKey
}

// systemKey says what a key of a system means in a limits file.
type systemKey struct {
	// A file with two of them says one thing twice, which is a problem.
	names []string // in snake case; the system's own first
	// The path also selects the field of the rule: max and stop are not the same figure
	// (decision 3).
	path string // where it goes: flow.idle, or rules.<rule>.<key>
	// It makes the value of weir's key of the number, in its unit.
	write func(int64) any
	also  string // where it goes as well, unless the file has a key for that
	unset bool   // zero means the system's default
}

// systems is the table of what can be imported. It is made anew each time, because its functions
// are made with it; calls are rare.
func systems() []system {
	as := func(v int64) any { return integer(v) }
	// Bounded, so that the product cannot run over.
	seconds := func(v int64) any { return duration(time.Duration(min(v, 1e9)) * time.Second) } // 32 years are refused like more
	// A window here has the call at hand in it.
	next := func(v int64) any { return integer(v + 1) }
	return []system{
		{"delegation", "recursion-limits.json", []systemKey{
			{names: []string{"max_stack_depth", "max_depth"}, path: "rules.max_stack_depth.max", write: as},
			{names: []string{"max_unique_sessions"}, path: "rules.max_unique_sessions.max", write: as},
			{names: []string{"max_duration", "max_flow_duration", "max_duration_seconds"}, path: "rules.max_flow_duration.max", write: seconds},
			{names: []string{"max_calls_per_minute", "max_calls_per_window", "max_calls"}, path: "rules.call_rate_per_flow.max", write: as},
			{names: []string{"rate_window", "rate_window_seconds"}, path: "rules.call_rate_per_flow.window", write: seconds},
			{names: []string{"max_total_calls"}, path: "rules.max_total_calls.max", write: as},
			{names: []string{"max_revisits"}, path: "rules.max_revisits.warn", write: as},
		}},
		{"team", "settings.json", []systemKey{
			{names: []string{"max_agent_messages_per_minute"}, path: "rules.agent_message_rate.max", write: as},
			{names: []string{"max_conversation_messages", "max_messages_per_conversation", "max_messages", "max_chain_depth"}, path: "rules.max_conversation_messages.max", write: as},
		}},
		{"task", "system_caps.json", []systemKey{
			{names: []string{"max_loops_per_task", "max_loops"}, path: "rules.max_loops.stop", also: "rules.max_reflect_loops.stop", write: as},
			{names: []string{"max_reflect_loops", "max_reflect_loops_per_task", "max_reflections"}, path: "rules.max_reflect_loops.stop", write: as},
			{names: []string{"max_delegation_depth"}, path: "rules.max_delegation_depth.stop", write: as},
		}},
		{"gateway", "budgets.yaml", []systemKey{
			{names: []string{"max_tool_calls"}, path: "rules.max_tool_calls.max", write: as, unset: true},
			{names: []string{"max_turns"}, path: "rules.max_turns.max", write: as, unset: true},
			{names: []string{"max_chain_depth"}, path: "rules.max_chain_depth.max", write: as, unset: true},
			{names: []string{"repetition_max_dups"}, path: "rules.repetition_blind.max", write: as, unset: true},
			// That system looks at the calls before the one at hand, weir's window has it too.
			{names: []string{"repetition_window"}, path: "rules.repetition_blind.window", write: next, unset: true},
			{names: []string{"session_ttl_sec", "session_ttl_seconds", "session_ttl"}, path: "flow.idle", write: seconds, unset: true},
		}},
	}
}

// key returns the key that is called so in snake case; nil for none.
func (s *system) key(name string) *systemKey {
	for i := range s.keys {
		if slices.Contains(s.keys[i].names, name) {
			return &s.keys[i]
		}
	}
	return nil
}

// names lists the keys as the system writes them, for hints.
func (s *system) names() []string {
	var names []string
	for i := range s.keys {
		names = append(names, s.keys[i].names[0])
	}
	return names
}

// importFile returns the file, or nil with problems. It goes on after a problem, so that all
// of them are reported at once.
func (r *reader) importFile(data []byte) []byte {
	root, path := r.importRoot(data)
	if root == nil {
		return nil
	}
	// The same strictness as for limits files: what is read must be what stands there.
	r.plain(root)
	s := r.detect(path, root)
	if s == nil {
		return nil
	}
	x := carrier{reader: r, s: s, from: map[string]*yaml.Node{}}
	x.carry(path, root)
	// What the file does not say is as that system has it by itself.
	doc := object{{"profile", word(s.profile)}}
	if len(x.flow) > 0 {
		doc.put("flow", x.flow)
	}
	if len(x.rules) > 0 {
		doc.put("rules", x.rules)
	}
	out := printYAML(x.comment, doc)
	r.importedProblems(out, x.from)
	return out
}

// carrier carries the limits of another system over into sections of a limits file.
type carrier struct {
	*reader
	s           *system
	comment     string // what was not carried over stands in it as well
	rules, flow object
	shared      map[string]any        // what goes to a path that has no key of its own
	from        map[string]*yaml.Node // what each path of the new file was made of
}

// carry reads each key of the file.
func (x *carrier) carry(path string, root *yaml.Node) {
	x.comment = "# Imported from the " + x.s.file + " of the " + x.s.profile + " system."
	x.rules, x.flow, x.shared = object{}, object{}, map[string]any{}
	for k, v := range x.pairs(path, root) {
		here := join(path, k.Value)
		key := x.s.key(snake(k.Value))
		if key == nil {
			// Those systems have limits for single agents beside the general ones.
			hint := meant(snake(k.Value), x.s.names())
			if strings.Contains(snake(k.Value), "agent") || strings.Contains(snake(k.Value), "project") {
				hint = "limits for one agent or project are overrides in a limits file, with a reason and an end"
			}
			x.fail(k, here, hint, "the %s system has no such limit", x.s.profile)
			continue
		}
		if before := x.from[key.path]; before != nil {
			x.fail(k, here, "keep one of them", "says the same as %s in line %d", before.Value, before.Line)
			continue
		}
		// Before the value is looked at, so that a second key with the same meaning is reported even
		// if the first is no number.
		x.from[key.path] = k
		if !x.scalar(here, "a number", v) {
			continue
		}
		n, ok := wholeNumber(v)
		if !ok {
			x.fail(v, here, "", "want a whole number that is not negative, got %s", describe(v))
		}
		// In the gateway's file 0 means that no number is given.
		if !ok || n == 0 && key.unset {
			continue // the number of the profile
		}
		x.put(k, key, n)
	}
	// It holds one path at most, so the order of the map does not show.
	for path, k := range x.shared {
		if x.from[path] == nil {
			_, rule, _ := strings.Cut(path, ".")
			rule, field, _ := strings.Cut(rule, ".")
			x.rules.putIn(rule, field, k)
		}
	}
}

// put writes the number of one key where it belongs.
func (x *carrier) put(k *yaml.Node, key *systemKey, n int64) {
	// A path of two parts is of the section flow, one of three of a rule.
	section, rest, _ := strings.Cut(key.path, ".")
	rule, field, deep := strings.Cut(rest, ".")
	if !deep {
		x.flow.put(rest, key.write(n))
		return
	}
	// A limit without a rule here is noted in the file. Otherwise people would believe it to be
	// in force.
	if _, ok := analyzer.RowNamed(rule); !ok {
		x.comment += fmt.Sprintf("\n# Not carried over: %s %d, for weir has no rule %s.", pathKey(k.Value), n, rule)
		return
	}
	if section == "rules" && field == "warn" {
		x.comment += "\n# " + rule + " only warns, as in the profile; write max instead to refuse."
	}
	x.rules.putIn(rule, field, key.write(n))
	// A later key may say the same for itself, so it is put in at the end.
	if key.also != "" {
		x.shared[key.also] = key.write(n)
	}
}

// putIn adds a field to the object at key, which is made if it is not there. Fields stand in
// the order in which they were put.
func (o *object) putIn(key, field string, value any) {
	for i := range *o {
		if p := &(*o)[i]; p.key == key {
			inner := p.value.(object)
			inner.put(field, value)
			p.value = inner
			return
		}
	}
	o.put(key, object{{field, value}})
}

// importedProblems reports, at the lines of the source, what weir would not accept of it. A problem
// without a line in the source is reported with the path in the file that was made. It does nothing when
// problems are known already, since these would only follow from them.
func (r *reader) importedProblems(out []byte, from map[string]*yaml.Node) {
	if len(r.problems.List) > 0 {
		return
	}
	_, err := Parse("", out)
	refused, ok := err.(*Problems)
	if !ok {
		return
	}
	for _, p := range refused.List {
		q := Problem{Path: p.Path, Message: p.Message, Hint: p.Hint}
		// The place in the file of the person, not in the one that was made of it.
		if k := from[p.Path]; k != nil {
			q.Line, q.Column, q.Path = k.Line, k.Column, k.Value
		}
		r.problems.Add(q)
	}
}

// importRoot finds the mapping that holds the limits, and the path to it. It is nil with
// problems. The path is "" for a file that is all limits.
func (r *reader) importRoot(data []byte) (*yaml.Node, string) {
	roots := strictyaml.Documents(data, 0, &r.problems)
	if len(r.problems.List) > 0 {
		return nil, ""
	}
	// A manifest may hold several documents, of which one is the ConfigMap.
	for _, n := range roots {
		if v := child(n, "kind"); v != nil && v.Value == "ConfigMap" && child(n, "data") != nil {
			return r.configMap(n)
		}
	}
	if len(roots) != 1 || roots[0].Kind != yaml.MappingNode {
		r.problems.Add(Problem{Message: "is not one mapping of limits", Hint: importable()})
		return nil, ""
	}
	// A settings.json holds much else, which is not looked at.
	if v := child(roots[0], "protection"); v != nil {
		return v, "protection"
	}
	return roots[0], ""
}

// configMap reads the file inside a Kubernetes ConfigMap; its lines are reported as
// lines of the whole.
func (r *reader) configMap(n *yaml.Node) (*yaml.Node, string) {
	inner := child(child(n, "data"), "budgets.yaml")
	if inner == nil || inner.Kind != yaml.ScalarNode {
		at := child(n, "data")
		r.fail(at, "data", "its key has to be called budgets.yaml", "the ConfigMap holds no budgets.yaml")
		return nil, ""
	}
	// The problems of the inner file are shown at lines of the outer one.
	above := inner.Line - 1
	if inner.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		above++ // the text begins below its key
	}
	return document([]byte(inner.Value), above, &r.problems), ""
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// detect finds by the keys which system the file is from: the one of which the file has the
// most keys. A tie between two is refused, because a guess would give other limits.
func (r *reader) detect(path string, root *yaml.Node) *system {
	// The block protection is of one system alone.
	all := systems()
	if path == "protection" {
		return &all[slices.IndexFunc(all, func(s system) bool { return s.profile == "team" })]
	}
	var best *system
	most, tied := 0, false
	for i := range all {
		// Unknown keys count for no system; they are reported once the system is
		// known.
		n := 0
		for j := 0; j+1 < len(root.Content); j += 2 {
			if all[i].key(snake(root.Content[j].Value)) != nil {
				n++
			}
		}
		switch {
		case n > most:
			best, most, tied = &all[i], n, false
		// A later system with more keys takes the doubt away.
		case n == most && n > 0:
			tied = true
		}
	}
	if best == nil || tied {
		r.fail(root, path, importable(), "is no limits file that can be imported")
		return nil
	}
	return best
}

// importable is the hint that names what can be imported.
func importable() string {
	var known []string
	for _, s := range systems() {
		known = append(known, s.file+" of "+s.profile)
	}
	return "known are " + strings.Join(known, ", ")
}

// snake returns a name in snake case, from that or from camel case. A run of capitals is one
// word: sessionTTLSec is session_ttl_sec.
func snake(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for i, c := range runes {
		if unicode.IsUpper(c) && i > 0 && runes[i-1] != '_' && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return strings.ReplaceAll(b.String(), "-", "_")
}
