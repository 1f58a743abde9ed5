package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// program is a small table with one of each.
func program(got *[]string) *Program {
	p := &Program{Name: "prog", Short: "a program."}
	p.Commands = []Command{
		{Name: "list", Args: "FILE...", Short: "list files", Long: "Lists them.", Examples: []string{"prog list x"},
			Setup: func(fs *pflag.FlagSet) Run {
				n := fs.Int("limit", 10, "at most `N` lines")
				all := fs.Bool("all", false, "all of them")
				kind := NewChoice(fs, "kind", "new", "which `KIND`", "new", "old")
				in := NewList(fs, "in", "a `DIR`")
				return func(_ context.Context, env *Env, args []string) error {
					*got = append([]string{kind.Value, in.String(), string(env.Format)}, args...)
					if *all {
						*got = append(*got, "all")
					}
					if *n == 99 {
						return Failure("line one\nline two\nline three\nline four").Advise("go on")
					}
					return Want(args, 0, 3, "files")
				}
			}},
		{Name: "thing", Short: "things", Commands: []Command{
			{Name: "show", Args: "NAME", Short: "show one", Words: func() []string { return []string{"alpha", "beta"} },
				Setup: func(*pflag.FlagSet) Run {
					return func(_ context.Context, env *Env, args []string) error {
						*got = append([]string{"show"}, args...)
						return Exit(CodeFinding)
					}
				}},
			{Name: "hidden", Hidden: true, Setup: func(*pflag.FlagSet) Run { return nil }},
		}},
		{Name: "version", Short: "print the version", Setup: func(*pflag.FlagSet) Run {
			return func(_ context.Context, env *Env, args []string) error {
				*got = append([]string{"version", string(env.Format)}, args...)
				return nil
			}
		}},
		HelpCommand(p),
		CompletionCommand(p),
	}
	return p
}

// TestWant counts arguments, of which none may be empty.
func TestWant(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"f"}, ""},
		{nil, "the id of a FLOW is missing"},
		{[]string{""}, "an argument is empty"},
		{[]string{"f", "g"}, `"g" is one argument too many`},
	} {
		got := ""
		if err := Want(c.args, 1, 1, "the id of a FLOW"); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestDispatch(t *testing.T) {
	f := func(args string, code int, want string, errText string) {
		t.Helper()
		var got []string
		var out, stderr bytes.Buffer
		env := Env{Out: &out, Err: &stderr}
		if c := program(&got).Main(t.Context(), env, strings.Fields(args)); c != code {
			t.Errorf("%s: exit code %d, want %d; %s", args, c, code, stderr.String())
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %q, want %q", args, s, want)
		}
		if stderr.String() != errText {
			t.Errorf("%s: told\n%s\nwant\n%s", args, stderr.String(), errText)
		}
	}
	f("list a b", 0, "new  table a b", "")
	f("list a --kind old b -o json --in x --in y c", 0, "old x,y json a b c", "")
	f("list --output=yaml -- --all -o", 0, "new  yaml --all -o", "")
	f("list - --all", 0, "new  table - all", "")
	f("thing show x", 3, "show x", "")
	f("list a b c d", 2, "new  table a b c d", "prog list: \"d\" is one argument too many\n  wanted: files\n")
	f("lits", 2, "", "prog: unknown command \"lits\"\n  did you mean: prog list\n")
	f("thing shwo --all x", 2, "", "prog thing: unknown command \"shwo\"\n  did you mean: prog thing show\n")
	f("thing shwo", 2, "", "prog thing: unknown command \"shwo\"\n  did you mean: prog thing show\n")
	f("lits --help", 2, "", "prog: unknown command \"lits\"\n  did you mean: prog list\n")
	f("--help lits", 2, "", "prog: unknown command \"lits\"\n  did you mean: prog list\n")
	f("thing shwo x -h", 2, "", "prog thing: unknown command \"shwo\"\n  did you mean: prog thing show\n")
	f("--version", 0, "version table", "")
	f("--version -o json", 0, "version json", "")
	f("thing --version", 2, "", "prog thing: flag --version stands before the command\n  flags come after it: prog thing COMMAND --version\n")
	f("--all list", 2, "", "prog: flag --all stands before the command\n  flags come after it: prog COMMAND --all\n")
	f("list --limt 3", 2, "", "prog list: unknown flag --limt\n  did you mean --limit\n")
	f("list --zzzzzzz", 2, "", "prog list: unknown flag --zzzzzzz\n  prog list --help lists the flags\n")
	f("list --limit", 2, "", "prog list: flag --limit needs a value\n  prog list --help says which\n")
	f("list --limit x", 2, "", "prog list: invalid value \"x\" for flag limit: must be an integer\n  prog list --help says what the flags take\n")
	f("list --kind odl", 2, "", "prog list: invalid value \"odl\" for flag kind: want new, old; did you mean old\n  prog list --help says what the flags take\n")
	f("list --limit 99", 1, "new  table", "prog list: line one\n  line two (and 2 more)\n  go on\n")
}

func TestHelp(t *testing.T) {
	f := func(args string, code int, toOut bool, wants ...string) {
		t.Helper()
		var got []string
		var out, stderr bytes.Buffer
		if c := program(&got).Main(t.Context(), Env{Out: &out, Err: &stderr}, strings.Fields(args)); c != code {
			t.Errorf("%q: exit code %d, want %d", args, c, code)
		}
		text, silent := out.String(), stderr.String()
		if !toOut {
			text, silent = silent, text
		}
		if silent != "" {
			t.Errorf("%q: also printed %s", args, silent)
		}
		for _, w := range wants {
			if !strings.Contains(text, w) {
				t.Errorf("%q: no %q in\n%s", args, w, text)
			}
		}
		if strings.Contains(text, "hidden") || strings.Contains(text, "__") {
			t.Errorf("%q: shows what is hidden:\n%s", args, text)
		}
	}
	f("", 2, false, "prog: a program.", "list FILE...", "thing show")
	f("--help", 0, true, "list FILE...")
	f("help", 0, true, "list FILE...")
	f("help list", 0, true, "Usage: prog list FILE... [flags]", "--limit N", "(10 when not given)", "-o, --output FORMAT", "prog list x")
	f("list -h", 0, true, "Lists them.")
	f("list x --help", 0, true, "Lists them.")
	f("thing", 2, false, "show NAME")
	f("thing --help", 0, true, "show NAME")
	f("help thing show", 0, true, "Usage: prog thing show NAME")
	f("help --markdown", 0, true, "## prog thing show", "| `--kind KIND` |")
}

// complete asks as the shells' scripts do, and returns the words; :files and :folders
// stand for what the shell is to complete by itself.
func complete(t *testing.T, words ...string) string {
	t.Helper()
	var got []string
	var out, stderr bytes.Buffer
	if code := program(&got).Main(t.Context(), Env{Out: &out, Err: &stderr}, append([]string{"__complete"}, words...)); code != 0 {
		t.Fatalf("%q: exit code %d; %s", words, code, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var list []string
	for _, l := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(l, "\t")
		list = append(list, word)
	}
	switch directive := lines[len(lines)-1]; directive {
	case ":0":
		list = append(list, ":files")
	case ":16":
		list = append(list, ":folders")
	case ":4":
	default:
		t.Errorf("%q: directive %s", words, directive)
	}
	return strings.Join(list, " ")
}

func TestComplete(t *testing.T) {
	f := func(want string, words ...string) {
		t.Helper()
		if s := complete(t, words...); s != want {
			t.Errorf("%q: got %q, want %q", words, s, want)
		}
	}
	f("completion help list thing version", "")
	f("list", "li")
	f("show", "thing", "")
	f("alpha beta", "thing", "show", "")
	f("beta", "thing", "show", "b")
	f(":files", "list", "")
	f("--kind", "list", "--k")
	f("new old", "list", "x", "--kind", "")
	f("old", "list", "--kind=o")
	f(":folders", "list", "--in", "")
	f(":files", "list", "--all", "")
	f("json jsonl table yaml", "thing", "show", "-o", "")
	f("", "nothing", "")
	f("bash fish powershell zsh", "completion", "")
	f("list", "help", "l")
}

// TestBashCompletion runs the script in a real bash, with a stand-in for the program
// that answers as this one does. Where bash-completion is not installed, its one
// function that the script needs is played.
func TestBashCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("NOT TESTED: there is no bash to run the completion script")
	}
	var got []string
	dir := t.TempDir()
	var script, answer bytes.Buffer
	if c := program(&got).Main(t.Context(), Env{Out: &script, Err: &script}, []string{"completion", "bash"}); c != 0 {
		t.Fatal(script.String())
	}
	if c := program(&got).Main(t.Context(), Env{Out: &answer, Err: &bytes.Buffer{}}, []string{"__complete", "thing", "show", ""}); c != 0 {
		t.Fatal(answer.String())
	}
	prog := "#!/bin/sh\n[ \"$*\" = '__complete thing show ' ] || { echo \"asked: $*\" >&2; exit 1; }\ncat <<'X'\n" + answer.String() + "X\n"
	if err := os.WriteFile(filepath.Join(dir, "prog"), []byte(prog), 0o755); err != nil {
		t.Fatal(err)
	}
	lib := "if [ -r /usr/share/bash-completion/bash_completion ]; then . /usr/share/bash-completion/bash_completion; else\n" +
		"_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; words=(\"${COMP_WORDS[@]}\"); cword=$COMP_CWORD; }; fi\n"
	call := "\nPATH=" + dir + ":$PATH COMP_WORDS=(prog thing show '') COMP_CWORD=3 COMP_LINE='prog thing show ' COMP_POINT=16\n__start_prog prog '' show\necho \"${COMPREPLY[@]}\"\n"
	out, err := exec.Command(bash, "--norc", "-c", lib+script.String()+call).Output()
	if err != nil || strings.TrimSpace(string(out)) != "alpha beta" {
		t.Errorf("completed %q, %v", out, err)
	}
}

type thing struct {
	Name  string   `json:"name"`
	Count float64  `json:"count"`
	Tags  []string `json:"tags"`
	Inner struct {
		Yes  bool   `json:"yes"`
		Text string `json:"text"`
	} `json:"inner"`
}

func TestFormats(t *testing.T) {
	v := thing{Name: "12", Count: 3, Tags: []string{"a<b", "no"}}
	v.Inner.Text = "two\nlines"
	f := func(format Format, want string) {
		t.Helper()
		var out bytes.Buffer
		e := &Env{Out: &out, Format: format}
		l := NewLines(e, func(v *thing) []Cell { return []Cell{{Text: v.Name}, {Text: "3", Right: true}} }, "NAME", "COUNT")
		for range 2 {
			if err := l.Print(&v); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%s: got\n%s\nwant\n%s", format, out.String(), want)
		}
	}
	line := `{"name":"12","count":3,"tags":["a<b","no"],"inner":{"yes":false,"text":"two\nlines"}}` + "\n"
	f(JSONFormat, line+line)
	doc := "name: \"12\"\ncount: 3\ntags:\n  - a<b\n  - \"no\"\ninner:\n  \"yes\": false\n  text: |-\n    two\n    lines\n"
	f(YAMLFormat, doc+"---\n"+doc)
	f(TableFormat, "NAME  COUNT\n12        3\n12        3\n")
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	e := &Env{Out: &quoting{out: &out}, OutTerminal: true, Width: 40, Getenv: func(string) string { return "" }}
	tb := e.Table("A", "LAST")
	rows := [][]Cell{{{Text: "ä", Paint: Bad}, {Text: strings.Repeat("long ", 20)}}, {{Text: "four"}, {Text: "b"}}}
	for _, r := range rows {
		if err := tb.Row(r...); err != nil {
			t.Fatal(err)
		}
	}
	if err := tb.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[2mA\x1b[0m     \x1b[2mLAST\x1b[0m\n\x1b[31mä\x1b[0m     long long long long long long lon…\nfour  b\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
	e.Getenv = func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
	if s := e.Painted("x", Bad); s != "x" {
		t.Errorf("NO_COLOR: %q", s)
	}
	// After the widths are settled rows are printed as they come.
	out.Reset()
	if err := tb.Row(Text("x", "y")...); err != nil || out.String() != "x     y\n" {
		t.Errorf("a later row: %q, %v", out.String(), err)
	}
}

func TestProgress(t *testing.T) {
	now := time.Unix(0, 0)
	run := func(terminal bool) string {
		var out bytes.Buffer
		e := &Env{Err: &out, ErrTerminal: terminal, Now: func() time.Time { return now }}
		e.apply(newGlobals())
		p := e.Progress("events")
		for i := range int64(41) {
			now = now.Add(500 * time.Millisecond)
			p.At(i*1000, float64(i)/40)
		}
		p.Done()
		return out.String()
	}
	if s := run(true); !strings.Contains(s, "\r\x1b[K 50 %  20,000 events, 1,904 a second, 11s left") || !strings.HasSuffix(s, "\r\x1b[K") {
		t.Errorf("on a terminal: %q", s)
	}
	s := run(false)
	if strings.Count(s, "\n") != 2 || !strings.Contains(s, `msg=working events=19000 per_second=1900 done_percent=47 left=11s`) {
		t.Errorf("in a log: %q", s)
	}
	if got := Grouped(-1234567); got != "-1,234,567" {
		t.Error(got)
	}
}

func TestLogs(t *testing.T) {
	f := func(format string, terminal bool, prefix string) {
		t.Helper()
		var out bytes.Buffer
		e := &Env{Err: &out, ErrTerminal: terminal}
		g := newGlobals()
		if err := g.log.Set(format); err != nil {
			t.Fatal(err)
		}
		e.apply(g)
		e.ServerLog().Info("x")
		if !strings.HasPrefix(out.String(), prefix) {
			t.Errorf("%s, terminal %v: %s", format, terminal, out.String())
		}
	}
	f("auto", true, "time=")
	f("auto", false, "{")
	f("json", true, "{")
	f("text", false, "time=")
}

func TestFault(t *testing.T) {
	err := Failure("read x: %w", os.ErrNotExist)
	if !errors.Is(err, os.ErrNotExist) || err.Code != CodeFailure {
		t.Error(err)
	}
	if Exit(3).Error() != "exit code 3" {
		t.Error(Exit(3))
	}
}
