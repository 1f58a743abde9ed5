package limitfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
)

func TestRefused(t *testing.T) {
	schema := compileSchema(t)
	golden(t, "refused.txt", func(input string) string {
		l, err := limitfile.Parse("limits.yaml", []byte(input))
		if err == nil {
			return "accepted"
		}
		if !reflect.DeepEqual(l, analyzer.Limits{}) {
			t.Errorf("limits beside an error for\n%s", input)
		}
		checkProblems(t, err)
		return err.Error() + "\n(" + bySchema(schema, input) + ")"
	})
}

func TestAccepted(t *testing.T) {
	schema := compileSchema(t)
	golden(t, "accepted.txt", func(input string) string {
		l, err := limitfile.Parse("limits.yaml", []byte(input))
		if err != nil {
			return err.Error()
		}
		checkLaws(t, l)
		if said := bySchema(schema, input); said != "the schema accepts it" {
			t.Errorf("%s:\n%s", said, input)
		}
		base, err := limitfile.Profile(l.Profile)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, c := range limitfile.Diff(base, l) {
			fmt.Fprintf(&b, "%s: %s -> %s\n", c.Path, c.From, c.To)
		}
		if b.Len() == 0 {
			return "as " + l.Profile
		}
		return b.String()
	})
}

// checkProblems holds what is true of every refusal.
func checkProblems(t *testing.T, err error) {
	t.Helper()
	var p *limitfile.Problems
	if !errors.As(err, &p) || len(p.List) == 0 {
		t.Fatalf("%T without problems: %v", err, err)
	}
	for i, q := range p.List {
		if q.Message == "" || q.Line < 0 || q.Line > 0 && q.Column < 1 {
			t.Errorf("%+v", q)
		}
		if i > 0 && q.Line < p.List[i-1].Line {
			t.Errorf("line %d comes after line %d", q.Line, p.List[i-1].Line)
		}
		text := (&limitfile.Problems{Name: "limits.yaml", List: []limitfile.Problem{q}}).Error()
		if strings.Count(text, "\n") > 2 || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q", text)
		}
	}
}

// checkLaws holds what is true of all limits that were read.
func checkLaws(t *testing.T, l analyzer.Limits) {
	t.Helper()
	printed := limitfile.Format(l)
	back, err := limitfile.Parse("printed", printed)
	if err != nil || !reflect.DeepEqual(back, l) {
		t.Errorf("printed and read again: %v %v\n%s", err, limitfile.Diff(l, back), printed)
	}
	record := limitfile.FormatJSON(l)
	back, err = limitfile.ParseJSON("record", record)
	if err != nil || !reflect.DeepEqual(back, l) {
		t.Errorf("recorded and read again: %v %v\n%s", err, limitfile.Diff(l, back), record)
	}
	again := l
	if err := limitfile.Validate(&again); err != nil || !reflect.DeepEqual(again, l) {
		t.Errorf("validated again: %v %v", err, limitfile.Diff(l, again))
	}
	if v := limitfile.Version(&l); v != l.Version {
		t.Errorf("version %s, was %s", v, l.Version)
	}
	if d := limitfile.Diff(l, back); len(d) != 0 {
		t.Errorf("differs from itself: %v", d)
	}
}

func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(limitfile.JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:test", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bySchema says what the schema makes of a YAML file, as an editor sees it.
func bySchema(schema *jsonschema.Schema, input string) string {
	var root yaml.Node
	if err := yaml.Load([]byte(input), &root); err != nil || len(root.Content) != 1 {
		return "no schema can tell"
	}
	if schema.Validate(plainValue(root.Content[0])) != nil {
		return "the schema refuses it too"
	}
	return "the schema accepts it"
}

// plainValue is what JSON would hold in place of the tree.
func plainValue(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plainValue(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		l := []any{}
		for _, c := range n.Content {
			l = append(l, plainValue(c))
		}
		return l
	case yaml.AliasNode:
		return plainValue(n.Alias)
	}
	var v any
	switch n.Tag {
	case "!!int", "!!float", "!!bool", "!!null":
		if n.Decode(&v) == nil {
			switch v := v.(type) {
			case int:
				return float64(v)
			case uint64:
				return float64(v)
			default:
				return v
			}
		}
	}
	return n.Value
}

// A change of limits is read back from the log years later. What a rule that did
// not exist then would say must not come into it.
func TestParseJSONLeavesUnnamedRulesOff(t *testing.T) {
	l, err := limitfile.ParseJSON("record", []byte(`{"version":"xxh64:0123456789abcdef","profile":"of old","rules":{"max_turns":{"warn":"off","max":5}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if l.Version != "xxh64:0123456789abcdef" || l.Profile != "of old" {
		t.Errorf("version %s, profile %s", l.Version, l.Profile)
	}
	for _, r := range analyzer.Rows() {
		if on := *r.Setting(&l) != r.Off(); on != (r.Name == "max_turns") {
			t.Errorf("%s: %+v", r.Name, *r.Setting(&l))
		}
	}
	if _, err := limitfile.ParseJSON("record", []byte(`{"version":"v2","rules":{"a_later_rule":{"max":5}}}`)); err == nil || strings.Count(err.Error(), "record:") != 2 {
		t.Errorf("a record of a later version: %v", err)
	}
}

func TestVersion(t *testing.T) {
	version := func(text string) string {
		t.Helper()
		l, err := limitfile.Parse("limits.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return l.Version
	}
	same := func(a, b string) {
		t.Helper()
		if x, y := version(a), version(b); x != y {
			t.Errorf("%s and %s for\n%s\nand\n%s", x, y, a, b)
		}
	}
	balanced, err := limitfile.ProfileFile("balanced")
	if err != nil {
		t.Fatal(err)
	}
	same("{}", "profile: balanced")
	same("{}", string(balanced))
	same("{}", "# a comment\nrules: {max_turns: {stop: off}}")
	same("{}", "rules: {max_turns: {max: off}, max_cost_usd: {stop: off}}")
	same("{}", "http_status: {max_turns: 402}")
	same("{}", "http_status: {agent_message_rate: 429}")
	same("{}", "texts: {self_call: '{head}self-calls are not allowed'}")
	same("{}", "rules: {call_rate_per_flow: {count: sliding}}")
	same("{}", "rules: {max_agent_messages: {stop: off}, rescue: {}}\nagents: {report: 60s, safe_risk: 0.60}")
	same("{}", "tools: {search: {exempt: false}}")
	same("rules: {max_turns: 5, max_loops: 3}", "rules:\n  max_loops: {stop: 3}\n  max_turns: {max: 5}")
	same("tools: {a: {ignore_args: [x, y]}, b: {exempt: true}}", "tools: {b: {exempt: true}, a: {ignore_args: [y, x]}}")
	seen := map[string]string{}
	for _, text := range []string{"{}", "identity: agent", "flow: {idle: 9m}", "flow: {user_starts: []}", "orders: {grace: 2s}", "escalate: {pair: 2}", "warn_only: []",
		"rules: {max_turns: 5}", "rules: {max_turns: {stop: 5}}", "rules: {max_turns: {max: 5, mode: shadow}}", "rules: {repetition: {window: 9}}", "load: {percent: 51}",
		"tools: {a: {exempt: true}}", "http_status: {max_turns: 503}", "texts: {max_turns: no}", "texts: {max_loops: no}", "rules: {call_rate_per_flow: {count: beginning}}",
		"http_status: {agent_attempts: 503}", "rules: {rescue: off}", "rules: {agent_message_rate: {count: all}}", "rules: {activity_timeout: {stop: 31m}}",
		"rules: {cadence_broken: {window: 7}}", "agents: {report: 0s}", "agents: {patience: 1h}", "agents: {watch: all}", "agents: {recovery: automatic}",
		"agents: {resume_within: 1h}", "agents: {review_within: 1h}", "agents: {safe_coherence: 0.41}", "agents: {safe_risk: 0.61}",
		"overrides: [{flow: a, rule: max_turns, max: 5, reason: r, expires: 2026-12-01T00:00:00Z}]",
		"overrides: [{flow: a, rule: max_turns, max: 5, reason: r, expires: 2026-12-02T00:00:00Z}]"} {
		v := version(text)
		if other, twice := seen[v]; twice || !strings.HasPrefix(v, "xxh64:") || len(v) != 22 {
			t.Errorf("%s for %s and for %s", v, text, other)
		}
		seen[v] = text
	}
}

func TestParseIsBounded(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		_, err := limitfile.Parse("", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %.300v, want %s", name, err, want)
		}
		if err != nil {
			checkProblems(t, err)
		}
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'm'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	f("a bomb of aliases", bomb, "aliases are not read")
	f("a bomb of merges", "a: &a {k: v}\nb: {<<: [*a, *a]}\n", "merge keys are not read")
	f("a large file", strings.Repeat("#", limitfile.MaxSize+1), "the file has 1048577 bytes")
	f("brackets", strings.Repeat("[", 1<<19), "nested deeper than 16 levels")
	f("dashes", strings.Repeat("- ", 1<<19), "nested deeper than 16 levels")
	f("one key often", strings.Repeat("a: 1\n", 1<<16), "more problems")
	f("many keys", strings.Join(slices.Repeat([]string{"rules: 1\nrule: 2"}, 1<<14), "\n"), "more problems")
	f("NUL", "rules:\n  max_turns: \x00", "2:14: byte 0x00 is not text")
	f("Latin-1", "# caf\xe9\n", "1:6: byte 0xe9 is not text")
	f("UTF-16", "\xff\xfea\x00:\x00 \x001\x00", "1:1: byte 0xff is not text")
	f("many tools", "tools:\n"+strings.Repeat("", 0)+manyTools(300), "300 tools are more than the 256")
}

func manyTools(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  tool-%d: {exempt: true}\n", i)
	}
	return b.String()
}

func TestByteOrderMarkAndLineEnds(t *testing.T) {
	l, err := limitfile.Parse("", []byte("\xef\xbb\xbfprofile: gateway\r\nrules:\r\n  max_turns: 9\r\n"))
	if err != nil || l.Rules[analyzer.RuleTurns].Limit() != 9 {
		t.Errorf("%v %+v", err, l.Rules[analyzer.RuleTurns])
	}
}

// Every row of the tables can be set in every way that the file has, and the schema
// knows of it.
func TestEveryRuleIsSettable(t *testing.T) {
	schema := compileSchema(t)
	for _, r := range analyzer.Rows() {
		if r.Fixed {
			continue
		}
		f := func(text string, want func(l *analyzer.Limits) bool) {
			t.Helper()
			l, err := limitfile.Parse("limits.yaml", []byte(text))
			if err != nil {
				t.Errorf("%s: %v", text, err)
				return
			}
			if !want(&l) {
				t.Errorf("%s: %+v", text, *r.Setting(&l))
			}
			checkLaws(t, l)
			if said := bySchema(schema, text); said != "the schema accepts it" {
				t.Errorf("%s: %s", text, said)
			}
		}
		balanced := analyzer.Balanced()
		base := *r.Setting(&balanced)
		for _, m := range []rules.Mode{rules.ModeOff, rules.ModeShadow, rules.ModeWarn, rules.ModeEnforce} {
			with := base
			with.Mode = m
			f(fmt.Sprintf("rules: {%s: %s}", r.Name, m), func(l *analyzer.Limits) bool { return *r.Setting(l) == with })
			f(fmt.Sprintf("rules: {%s: {mode: %s}}", r.Name, m), func(l *analyzer.Limits) bool { return *r.Setting(l) == with })
		}
		if r.Status != 0 {
			f(fmt.Sprintf("http_status: {%s: 418}", r.Name), func(l *analyzer.Limits) bool { return *r.HTTPStatus(l) == 418 })
		}
		if r.Text != "" {
			f(fmt.Sprintf("texts: {%s: '{head}so {n}'}", r.Name), func(l *analyzer.Limits) bool { return *r.TextOf(l) == "{head}so {n}" })
		}
		if id, ok := r.Flow(); ok {
			f(fmt.Sprintf("load: {scale: [%s]}", r.Name), func(l *analyzer.Limits) bool { return l.Load.Scale == analyzer.RuleSet(0).With(id) })
			f(fmt.Sprintf("overrides: [{flow: f, rule: %s, mode: shadow, reason: r, expires: 2026-12-01T00:00:00Z}]", r.Name), func(l *analyzer.Limits) bool {
				return len(l.Overrides) == 1 && l.Overrides[0].Rule == id && l.Overrides[0].Setting.Mode == rules.ModeShadow && l.Overrides[0].Setting.Stop == base.Stop
			})
		}
		if r.ModeOnly() {
			continue
		}
		most, _ := r.Reach(&base)
		top := limitfile.Amount(r.Unit, most)
		if r.WarnsOnly {
			f(fmt.Sprintf("rules: {%s: {warn: %s}}", r.Name, top), func(l *analyzer.Limits) bool {
				return r.Setting(l).Stop == rules.Off && r.Setting(l).Warn == most
			})
			f(fmt.Sprintf("rules: {%s: 1}", r.Name), func(l *analyzer.Limits) bool { return r.Setting(l).Warn == 1 })
			continue
		}
		f(fmt.Sprintf("rules: {%s: {warn: off, stop: %s}}", r.Name, top), func(l *analyzer.Limits) bool {
			s := r.Setting(l)
			return s.Stop == most && !s.Max && s.Warn == rules.Off
		})
		f(fmt.Sprintf("rules: {%s: {warn: %s, stop: off}}", r.Name, top), func(l *analyzer.Limits) bool {
			return r.Setting(l).Stop == rules.Off && r.Setting(l).Warn == most
		})
		if r.Silence {
			f(fmt.Sprintf("rules: {%s: 3m}", r.Name), func(l *analyzer.Limits) bool { return r.Setting(l).Limit() == 180 })
			continue
		}
		f(fmt.Sprintf("rules: {%s: {max: 0}}", r.Name), func(l *analyzer.Limits) bool {
			s := r.Setting(l)
			return s.Stop == 1 && s.Max && s.Limit() == 0
		})
		f(fmt.Sprintf("rules: {%s: 1}", r.Name), func(l *analyzer.Limits) bool { return r.Setting(l).Limit() == bareOne(&r) })
	}
}

// bareOne is the threshold that the number 1 alone means.
func bareOne(r *analyzer.Row) int64 {
	if r.Unit == "usd" {
		return 1_000_000
	}
	return 1
}

func TestFormatWithoutAKnownProfile(t *testing.T) {
	want := limitfile.Default()
	for _, name := range []string{"", "made here"} {
		l := want
		l.Profile = name
		back, err := limitfile.Parse("printed", limitfile.Format(l))
		if err != nil || back.Version != want.Version || back.Profile != "none" || back.Rules != want.Rules {
			t.Errorf("%q: %v %s %s", name, err, back.Profile, back.Version)
		}
	}
}

func TestDiff(t *testing.T) {
	parse := func(text string) analyzer.Limits {
		t.Helper()
		l, err := limitfile.Parse("limits.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	f := func(a, b string, want ...limitfile.Change) {
		t.Helper()
		if got := limitfile.Diff(parse(a), parse(b)); !slices.Equal(got, want) {
			t.Errorf("from %s\nto %s:\n%v, want\n%v", a, b, got, want)
		}
		for i, c := range want {
			want[i].From, want[i].To = c.To, c.From
		}
		back := limitfile.Diff(parse(b), parse(a))
		slices.SortFunc(back, func(x, y limitfile.Change) int { return strings.Compare(x.Path, y.Path) })
		slices.SortFunc(want, func(x, y limitfile.Change) int { return strings.Compare(x.Path, y.Path) })
		if !slices.Equal(back, want) {
			t.Errorf("from %s\nto %s:\n%v, want\n%v", b, a, back, want)
		}
	}
	f("{}", "profile: balanced")
	f("{}", "rules: {self_call: shadow, max_total_calls: {max: 200}}",
		limitfile.Change{Path: "rules.self_call.mode", From: "enforce", To: "shadow"},
		limitfile.Change{Path: "rules.max_total_calls.max", From: "100", To: "200"})
	f("tools: {a: {exempt: true}, c: {exempt: true}}", "tools: {b: {ignore_args: [x]}, c: {exempt: true}}",
		limitfile.Change{Path: "tools.a.exempt", From: "true"},
		limitfile.Change{Path: "tools.b.ignore_args", To: `["x"]`})
	f("{}", "agents: {recovery: automatic, safe_risk: 0.5}\nrules: {rescue: off, cadence_broken: {window: 8}}",
		limitfile.Change{Path: "rules.cadence_broken.window", From: "6", To: "8"},
		limitfile.Change{Path: "rules.rescue.mode", From: "enforce", To: "off"},
		limitfile.Change{Path: "agents.recovery", From: "off", To: "automatic"},
		limitfile.Change{Path: "agents.safe_risk", From: "0.6", To: "0.5"})
	f("http_status: {max_turns: 503}", "{}", limitfile.Change{Path: "http_status.max_turns", From: "503"})
}
