package limitfile_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
)

func TestProfiles(t *testing.T) {
	schema := compileSchema(t)
	names := limitfile.Profiles()
	if !slices.Contains(names, "balanced") || !slices.IsSorted(names) {
		t.Errorf("profiles %v", names)
	}
	for _, name := range names {
		text, err := limitfile.ProfileFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s does not say whose numbers it has", name)
		}
		if said := bySchema(schema, string(text)); said != "the schema accepts it" {
			t.Errorf("%s: %s", name, said)
		}
		l, err := limitfile.Profile(name)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if l.Profile != name {
			t.Errorf("%s is called %s", name, l.Profile)
		}
		if len(l.Tools) > 0 || len(l.Overrides) > 0 {
			t.Errorf("%s has tools or overrides, which a file could not take back", name)
		}
		checkLaws(t, l)
		read, err := limitfile.Parse(name, text)
		read.Profile = name
		if err != nil || !reflect.DeepEqual(read, l) {
			t.Errorf("%s is not what its file says: %v %v", name, err, limitfile.Diff(l, read))
		}
		named, err := limitfile.Parse(name, []byte("profile: "+name))
		if err != nil || !reflect.DeepEqual(named, l) {
			t.Errorf("%s is not what a file gets that names it: %v", name, err)
		}
	}
}

func TestBalancedFileIsTheDefault(t *testing.T) {
	const file = "profiles/balanced.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := analyzer.Balanced()
	if *update {
		text = withRules(text, limitfile.Format(want))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read, err := limitfile.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	read.Profile, read.Version = want.Profile, want.Version
	if !reflect.DeepEqual(read, want) {
		t.Errorf("%s differs from the table of rules (run go test ./analyzer/limitfile -update): %v", file, limitfile.Diff(want, read))
	}
	for _, r := range analyzer.Rows() {
		if !r.Fixed && !strings.Contains(string(text), "\n  "+r.Name+": {") {
			t.Errorf("%s does not write out %s", file, r.Name)
		}
	}
	if d := limitfile.Default(); d.Version != limitfile.Version(&want) || d.Profile != "balanced" {
		t.Errorf("the default is %s %s", d.Profile, d.Version)
	}
}

// withRules puts the rules that printed limits have in the place of those in the
// file, and rules that it does not have before the section that follows them.
func withRules(file, printed []byte) []byte {
	lines := strings.SplitAfter(string(file), "\n")
	for _, row := range strings.SplitAfter(string(printed), "\n") {
		name, _, isRule := strings.Cut(row, ": {")
		if !isRule || !strings.HasPrefix(name, "  ") {
			continue
		}
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+": {") })
		if at < 0 {
			at = slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "agents:") })
			lines = slices.Insert(lines, at, "")
		}
		lines[at] = row
	}
	return []byte(strings.Join(lines, ""))
}

// A profile of another system must not judge by a rule that the system does not have.
func TestProfilesOfOthersHaveNoRulesOfWeir(t *testing.T) {
	own := []analyzer.RuleID{analyzer.RuleStaleDelegation, analyzer.RuleStaleAnswers, analyzer.RuleCircling, analyzer.RuleToolCycleLong,
		analyzer.RuleRepeatedError, analyzer.RuleNoProgress, analyzer.RuleCost, analyzer.RuleChainDepth}
	for _, name := range limitfile.Profiles() {
		l, err := limitfile.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range own {
			if s := l.Rules[id]; name != "balanced" && (s.Warn != rules.Off || s.Stop != rules.Off) && (name != "gateway" || id != analyzer.RuleChainDepth) {
				t.Errorf("%s has %s", name, analyzer.Rules[id].Name)
			}
		}
		for _, r := range analyzer.Rows() {
			its := name == "balanced" || name == "team" && r.Name == "agent_message_rate" || name == "recovery" && (r.Silence || r.ModeOnly())
			if s := r.Setting(&l); r.OfAgents() && *s != r.Off() && !its {
				t.Errorf("%s has %s", name, r.Name)
			}
		}
	}
}

func TestUnknownProfile(t *testing.T) {
	for _, name := range []string{"", "rescue", "../balanced", "Balanced", "balanced.yaml"} {
		if _, err := limitfile.Profile(name); err == nil || !strings.Contains(err.Error(), "the profiles are balanced, ") {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := limitfile.ProfileFile(name); err == nil {
			t.Errorf("%q has a file", name)
		}
	}
}
