package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
	"weir/events/adapter/registry"
)

const root = "../.."

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDefaults holds the page of default limits against the table of the code.
func TestDefaults(t *testing.T) {
	page := filepath.Join(root, "analyzer", "rulebook", "DEFAULTS.md")
	have, err := os.ReadFile(page)
	want := rulesTable()
	if err == nil && string(have) == want {
		return
	}
	if !*update {
		t.Fatal("analyzer/rulebook/DEFAULTS.md does not have the rules of the code: run the tests with -update")
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReadmeNamesRules holds that each rule which the README names exists.
func TestReadmeNamesRules(t *testing.T) {
	known := map[string]bool{}
	for _, r := range analyzer.Rows() {
		known[r.Name] = true
	}
	_, rest, ok := strings.Cut(readme(t), "## What it catches")
	table, _, ok2 := strings.Cut(rest, "\n[")
	named := 0
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(table, -1) {
		if named++; !known[m[1]] {
			t.Errorf("the README names the rule %s, which does not exist", m[1])
		}
	}
	if !ok || !ok2 || named < 10 {
		t.Errorf("the README names %d rules", named)
	}
}

// TestReadmePromises holds that each scenario of a promise is of one that the README makes: who
// takes a sentence back, or words it anew, looks at what it is held by.
func TestReadmePromises(t *testing.T) {
	flow, err := os.ReadFile(filepath.Join(root, "analyzer/rulebook/behaviour_promises.flow"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(readme(t)), " ")
	held := 0
	for line := range strings.Lines(string(flow)) {
		title, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if promise, _, _ := strings.Cut(title, ":"); ok {
			if held++; !strings.Contains(text, promise) {
				t.Errorf("the README does not promise: %s", promise)
			}
		}
	}
	if held == 0 {
		t.Error("no scenario holds a promise")
	}
}

// rulesTable is the page of default limits: each rule about flows, with what it warns and stops
// at by the balanced profile.
func rulesTable() string {
	var b strings.Builder
	b.WriteString("# Default limits\n\nThe profile `balanced`. `weir limits show` prints what is in force; [REASONS.md](REASONS.md) describes each reason code.\n\n" +
		"A limits file has `max: 5` or `stop: 12`. `max: 5` allows 5 and stops at 6; messages, the page and `weir explain` then name the limit 5. `stop: 12` stops at 12, and 12 is the limit that they name.\n\n")
	b.WriteString("| rule | reason code | in a limits file | warns at | stops at | unit |\n|---|---|---|---|---|---|\n")
	var off []string
	for i := range analyzer.Rules {
		r := &analyzer.Rules[i]
		switch {
		case r.ID == analyzer.RuleOperator:
		case r.Default.Warn == rules.Off && r.Default.Stop == rules.Off:
			off = append(off, "`"+r.Name+"`")
		default:
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s |\n", r.Name, r.Reason, inFile(&r.Default, r.Unit), threshold(r.Default.Warn), threshold(r.Default.Stop), r.Unit)
		}
	}
	fmt.Fprintf(&b, "\nOff until limits or a profile set them: %s.\n", strings.Join(off, ", "))
	return b.String()
}

// inFile is the stop of a rule as limits files spell it.
func inFile(s *rules.Setting, u events.Unit) string {
	word, value := "stop", fmt.Sprint(s.Limit())
	switch {
	case s.Stop == rules.Off:
		return "–"
	case s.Max:
		word = "max"
	case u == events.UnitSeconds:
		value = (time.Duration(s.Stop) * time.Second).String()
	}
	return "`" + word + ": " + value + "`"
}

func threshold(v int64) string {
	if v == rules.Off {
		return "–"
	}
	return fmt.Sprint(v)
}

// TestReadmeIsShort counts the words of the README, without its blocks of code.
func TestReadmeIsShort(t *testing.T) {
	words := 0
	for i, part := range strings.Split(readme(t), "```") {
		if i%2 == 0 {
			words += len(regexp.MustCompile(`\S*[A-Za-z0-9]\S*`).FindAllString(part, -1))
		}
	}
	if words > 900 {
		t.Errorf("the README has %d words, want at most 900", words)
	}
}

// TestReadmeCommands runs the commands of the README. A server is started
// and stopped by other tests; here the test only checks whether it knows the flags.
func TestReadmeCommands(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	text := readme(t)
	t.Chdir(root)
	ran := 0
	for i, part := range strings.Split(text, "```") {
		block, isCommands := strings.CutPrefix(part, "\n")
		if i%2 == 0 || !isCommands { // prose, or a block in another language
			continue
		}
		for line := range strings.Lines(block) {
			words := strings.Fields(line)
			switch {
			case len(words) == 0:
			case words[0] == "make":
				if !regexp.MustCompile(`(?m)^` + words[1] + `:`).Match(makefile) {
					t.Errorf("%s: the Makefile has no such target", line)
				}
			case words[0] == "go":
				if line != "go build -o bin/weir ./cmd/weir\n" {
					t.Errorf("%s: nobody tests this command", line)
				}
			case words[0] == "./bin/weir" && words[1] == "run":
				if code, _, stderr := weir(t, "", append(words[1:], "--help")...); code != 0 {
					t.Errorf("%s: exit %d: %s", line, code, stderr)
				}
			case words[0] == "./bin/weir":
				if code, stdout, stderr := weir(t, "", words[1:]...); code != 0 || stdout == "" {
					t.Errorf("%s: exit %d: %s", line, code, stderr)
				}
			default:
				t.Errorf("%s: nobody tests this command", line)
			}
			ran++
		}
	}
	if ran < 4 {
		t.Errorf("only %d commands were found", ran)
	}
}

// TestReadmeEvent decodes the event that the README shows.
func TestReadmeEvent(t *testing.T) {
	_, rest, ok := strings.Cut(readme(t), "```json\n")
	block, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("the README shows no event")
	}
	var ev events.Event
	if err := events.Decode([]byte(strings.TrimSpace(block)), &ev); err != nil {
		t.Error(err)
	}
}

// TestReadmeVerdict plays the calls that the verdict which the README shows is about, and holds each
// member of it to what weir says.
func TestReadmeVerdict(t *testing.T) {
	_, rest, ok := strings.Cut(readme(t), "A verdict says")
	_, rest, ok2 := strings.Cut(rest, "```json\n")
	block, _, ok3 := strings.Cut(rest, "```")
	if !ok || !ok2 || !ok3 {
		t.Fatal("the README shows no verdict")
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(block), &want); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for i := range 5 {
		from := fmt.Sprintf(`,"from":{"agent":"%d"}`, i)
		if i == 0 {
			from = `,"origin":"user"`
		}
		fmt.Fprintf(&log, `{"id":"m-%d","time":"2026-11-20T14:00:%02dZ","kind":"agent.call","correlation_id":"abc123"%s,"to":{"agent":"%d"}}`+"\n", i, i, from, i+1)
	}
	code, stdout, stderr := weir(t, log.String(), "replay", "-o", "json", "-")
	line, _, _ := strings.Cut(stdout, "\n")
	var got map[string]any
	if err := json.Unmarshal([]byte(line), &got); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	for name, value := range want {
		if !reflect.DeepEqual(got[name], value) {
			t.Errorf("%s is %v, and the README shows %v", name, got[name], value)
		}
	}
}

// TestReadmeLimits reads the limits file that the README shows.
func TestReadmeLimits(t *testing.T) {
	_, rest, ok := strings.Cut(readme(t), "```yaml\n")
	block, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("the README shows no limits")
	}
	l, err := limitfile.Parse("README.md", []byte(block))
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Rules[analyzer.RuleToolCalls].Stop; got != 301 {
		t.Errorf("calls are stopped at %d", got)
	}
}

// TestReadmeSources counts the sources that the README says are read.
func TestReadmeSources(t *testing.T) {
	want := fmt.Sprintf("`replay` reads what %d kinds of sources write", len(registry.Sources()))
	if !strings.Contains(readme(t), want) {
		t.Errorf("the README does not say: %s", want)
	}
}
