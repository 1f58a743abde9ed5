package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/cmd/internal/operate"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
)

// adapterData is where the samples of the sources lie.
const adapterData = "../../events/adapter/testdata"

// TestEveryRuleHasItsNeeds holds that each rule says what it needs, but those that need
// nothing of a log.
func TestEveryRuleHasItsNeeds(t *testing.T) {
	for i := range analyzer.Rules {
		rule := &analyzer.Rules[i]
		if (rule.Needs != 0) == rule.Fixed {
			t.Errorf("%s needs %b of a log", rule.Name, rule.Needs)
		}
	}
}

// TestSilencedRulesAreSilent folds the samples of each source with limits at which every
// rule strikes at once, and holds that those that are off for it say nothing.
func TestSilencedRulesAreSilent(t *testing.T) {
	strict := analyzer.Balanced()
	for i := range strict.Rules {
		r := &strict.Rules[i]
		r.Warn, r.Stop, r.Max = 1, 2, false
	}
	for _, s := range registry.Sources() {
		off := map[string]bool{}
		for _, r := range silencedBy(&s.Gives) {
			off[r.Rule] = r.State == ruleOff
		}
		engine, flows := analyzer.New(strict), map[string]*analyzer.Flow{}
		var p analyzer.Partition
		var fx analyzer.Effects
		told := 0
		for _, file := range samplesOf(t, &s) {
			readSample(t, s.Format, file, func(e *events.Event) {
				told++
				f := flows[e.FlowKey()]
				if f == nil {
					f = &analyzer.Flow{}
					flows[e.FlowKey()] = f
				}
				fx.Reset()
				engine.Step(&p, f, e, &fx)
				for _, v := range fx.Verdicts {
					for i := range analyzer.Rules {
						if rule := &analyzer.Rules[i]; rule.Reason == v.Reason && off[rule.Name] && alone(v.Reason, off) {
							t.Errorf("%s: %s says %s", s.Name, rule.Name, v.Message)
						}
					}
				}
			})
		}
		if told == 0 {
			t.Errorf("%s: no event in its samples", s.Name)
		}
	}
}

// alone reports whether all rules with a reason are off: a verdict does not say which of
// several rules it comes from.
func alone(reason events.Reason, off map[string]bool) bool {
	for i := range analyzer.Rules {
		if r := &analyzer.Rules[i]; r.Reason == reason && !off[r.Name] {
			return false
		}
	}
	return true
}

// samplesOf are the files of the folder of a source's sample that look like its format.
func samplesOf(t *testing.T, s *adapter.Source) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(adapterData, filepath.Dir(s.Sample), "*"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(s.Format, "map:") {
		return []string{filepath.Join(adapterData, s.Sample)}
	}
	return slices.DeleteFunc(files, func(file string) bool {
		if strings.HasSuffix(file, ".golden") {
			return true
		}
		r, closeFile := openSample(t, file)
		defer closeFile()
		f, err := registry.Detect(r.Head())
		return err != nil || f.Name != s.Format
	})
}

func openSample(t *testing.T, file string) (*adapter.Reader, func()) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := adapter.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r, func() { _ = f.Close() }
}

func readSample(t *testing.T, format, file string, emit func(*events.Event)) {
	t.Helper()
	f, err := registry.Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	r, closeFile := openSample(t, file)
	defer closeFile()
	if err := adapter.Read(r, f, f.New(adapter.Options{}), emit, nil); err != nil {
		t.Fatal(err)
	}
}

// TestSources holds that each source can be read by its documented command, and
// that its description is whole.
func TestSources(t *testing.T) {
	formats := map[string]bool{}
	for _, s := range registry.Sources() {
		formats[s.Format] = true
		for what, text := range map[string]string{"title": s.Title, "set": s.Set, "flow": s.Flow, "sees": s.Sees, "blind": s.Blind} {
			if text == "" || len(text) > 400 {
				t.Errorf("%s: %s has %d bytes", s.Name, what, len(text))
			}
		}
		command, ok := strings.CutPrefix(s.Run, "weir ")
		if !ok {
			t.Errorf("%s: %s is no command of weir", s.Name, s.Run)
			continue
		}
		args, _ := shell(t, command)
		name := filepath.Join(t.TempDir(), args[len(args)-1])
		if err := os.WriteFile(name, plain(t, filepath.Join(adapterData, s.Sample)), 0o600); err != nil {
			t.Fatal(err)
		}
		args[len(args)-1] = name
		code, out, errs := weir(t, "", args...)
		format := s.Format
		if strings.HasPrefix(format, "map:") {
			format = ""
		}
		if code > 1 || !strings.Contains(errs+out, "judged by") || format != "" && !strings.Contains(errs, " as "+format) {
			t.Errorf("%s: %s: exit code %d\n%s%s", s.Name, s.Run, code, out, errs)
		}
		if code, out, errs = weir(t, "", "events", "describe", s.Name, "-o", "json"); code != 0 || !strings.Contains(out, `"name": "`+s.Name+`"`) {
			t.Errorf("describe %s: exit code %d\n%s%s", s.Name, code, out, errs)
		}
	}
	for _, f := range registry.Formats() {
		if !formats[f.Name] {
			t.Errorf("no source says how to use the format %s", f.Name)
		}
	}
}

func plain(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSourcesDocument holds events/adapter/SOURCES.md to the table of sources.
func TestSourcesDocument(t *testing.T) {
	const file = "../../events/adapter/SOURCES.md"
	var b strings.Builder
	b.WriteString(`# Sources

Whose logs weir reads, what to set there, and what weir can and cannot tell from them. Generated from the sources.go of each adapter by the tests of
cmd/weir with -update; weir events describe NAME says the same of one. GUIDES.md has five lines for each.

Every command is also one for live traffic: weir run --follow FILE reads a file while it grows, --follow FORMAT=FILE where its beginning does not tell the
format. FORMAT@conversation,trace changes what flows are called by, in that order. Rules that need what a source never tells are off for it; nothing needs
to be set for that.

` + sourcesAndFormats() + `

| source | format | tools | args | results | caller | turns | tokens | times | starts | work |
|---|---|---|---|---|---|---|---|---|---|---|
`)
	all := registry.Sources()
	for i := range all {
		v := viewOfSource(&all[i])
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.Name, formatOf(&v), strings.Join([]string{v.Tools, v.Args, v.Results, v.Caller, v.Turn, v.Tokens, v.Time, v.Starts, v.Work}, " | "))
	}
	for i := range all {
		v := viewOfSource(&all[i])
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n- Set: %s\n- Run: `%s`\n- A flow is: %s.\n- Sees: %s\n- Does not see: %s\n", v.Name, v.Title, v.Set, v.Run, strings.TrimSuffix(v.Flow, "."), v.Sees, v.Blind)
		for _, r := range grouped(v.Rules) {
			if r.State != ruleDepends {
				fmt.Fprintf(&b, "- Rules %s (%s): %s\n", r.State, r.Why, r.Rule)
			}
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != b.String() {
		t.Errorf("%s: %s (%v); run the tests with -update", file, firstDifference(string(want), b.String()), err)
	}
}

// TestMappingFlags tries the ways to give a mapping.
func TestMappingFlags(t *testing.T) {
	log := filepath.Join(adapterData, "map/any.jsonl")
	dir := t.TempDir()
	mapFile := filepath.Join(dir, "mapping")
	const mapping = "correlation_id=.flow\ntime=.ts\nkind=.type\nkind.ask=agent.call\nfrom=.sender.id\nto=.target\n"
	if err := os.WriteFile(mapFile, []byte("# how we log\n"+mapping), 0o600); err != nil {
		t.Fatal(err)
	}
	_, want, _ := weir(t, "", "events", "convert", "--format", "map:"+mapping, log)
	if strings.Count(want, "\n") != 2 {
		t.Fatalf("want two calls, came\n%s", want)
	}
	f := func(code int, text string, args ...string) {
		t.Helper()
		got, out, errs := weir(t, "", append([]string{"events", "convert"}, append(args, log)...)...)
		if got != code || !strings.Contains(out+errs, text) {
			t.Errorf("%q: exit code %d\n%s%swant %d and\n%s", args, got, out, errs, code, text)
		}
	}
	f(0, want, "--map-file", mapFile)
	f(0, want, "--map", "correlation_id=.flow,time=.ts", "--map", "kind=.type,kind.ask=agent.call", "--map", "from=.sender.id,to=.target")
	f(0, want, "--map", strings.ReplaceAll(mapping, "\n", ","))
	f(1, "to=PATH", "--map", "flow=.flow")
	f(1, `neither a path nor a jq expression`, "--map", "flow=.flow,to=.target[")
	f(2, "no such file", "--map-file", filepath.Join(dir, "none"))
	f(2, "--format otlp is given beside it", "--format", "otlp", "--map", "flow=.flow")

	follow := func(s, path, format, wrong string) {
		t.Helper()
		got, err := operate.Followed(s)
		if wrong != "" {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v, want %q", s, err, wrong)
			}
			return
		}
		if err != nil || got.Path != path || got.Format != format {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	follow("spans.jsonl", "spans.jsonl", "", "")
	follow("otlp=spans.jsonl", "spans.jsonl", "otlp", "")
	follow("otlp@conversation,trace=spans.jsonl", "spans.jsonl", "otlp@conversation,trace", "")
	follow("map:flow=.id,to=.agent=calls.jsonl", "calls.jsonl", "map:flow=.id,to=.agent", "")
	follow("map@"+mapFile+"=calls.jsonl", "calls.jsonl", "map:# how we log\n"+mapping, "")
	follow("./a=b.jsonl", "./a=b.jsonl", "", "")
	follow("otpl=spans.jsonl", "", "", "unknown format")
	follow("map:flow=.id=calls.jsonl", "", "", "tells no calls")
	follow("map@none=calls.jsonl", "", "", "no such file")
}

// TestTinyAGIDatabase tries the command by which the rows of a database are read.
func TestTinyAGIDatabase(t *testing.T) {
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("MISSING PROGRAM: sqlite3 is not installed; the command that exports TinyAGI's table is not tried")
	}
	db := filepath.Join(t.TempDir(), "tinyagi.db")
	make := exec.Command(program, db, `CREATE TABLE messages(id INTEGER PRIMARY KEY, message_id TEXT, channel TEXT, sender TEXT, sender_id TEXT, message TEXT, agent TEXT,
		from_agent TEXT, status TEXT, created_at INTEGER);
		INSERT INTO messages VALUES(101,'telegram_a1','telegram','Alice','42','Fix it','lead',NULL,'completed',1774900000000);
		INSERT INTO messages VALUES(102,'internal_x9','telegram','Alice','42','[Message from teammate @lead]:'||char(10)||'"look"','coder','lead','pending',1774900012100);`)
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rows, err := exec.Command(program, "-readonly", "-json", db, "SELECT * FROM messages ORDER BY id").Output()
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errs := weir(t, string(rows), "replay", "--format", "tinyagi", "-"); code != 0 || !strings.Contains(out+errs, "2 events of 1 flow") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, args := range [][]string{{"replay", db}, {"replay", "--format", "tinyagi", db}} {
		if code, out, errs := weir(t, "", args...); code != 1 || !strings.Contains(out+errs, "sqlite3 -readonly -json FILE 'SELECT * FROM messages ORDER BY id'") {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}

// TestPassedDocument holds the table of the guards' README to the rules.
func TestPassedDocument(t *testing.T) {
	const file, begin, end = "../../sink/guard/README.md", "| pass also | field of the event | rules that can then judge |\n|---|---|---|\n", "\n\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, isOver := strings.Cut(rest, end)
	if !ok || !isOver {
		t.Fatalf("%s has no table of what is passed", file)
	}
	var b strings.Builder
	for _, p := range coverage.Fields() {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", p.Guard, p.Event, strings.Join(p.Rules, "`, `"))
	}
	want := before + begin + strings.TrimSuffix(b.String(), "\n") + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the table of what is passed in %s does not follow from the rules; run this test with -update", file)
	}
}
