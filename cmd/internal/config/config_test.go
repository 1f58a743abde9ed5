package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/config"
)

// flags are one of each kind.
type flags struct {
	text, hook string
	yes        bool
	n          int64
	long       time.Duration
	word       *cli.Choice
	list       *cli.List
	password   *config.Secret
}

func (f *flags) declare(fs *pflag.FlagSet) {
	config.AddFileFlag(fs)
	fs.StringVar(&f.text, "the-text", "here", "a `TEXT`")
	fs.StringVar(&f.hook, "hook", "", "a `URL`")
	fs.BoolVar(&f.yes, "yes", false, "yes or no")
	fs.Int64Var(&f.n, "n", 512, "so `MANY`")
	fs.DurationVar(&f.long, "long", time.Hour, "so `LONG`")
	f.word = cli.NewChoice(fs, "word", "", "a `WORD`", "plain", "loud")
	f.list = cli.NewList(fs, "in", "a `FILE`; may be given many times")
	f.password = config.NewSecret(fs, "password-file", "`FILE` with the password")
}

// load parses the command line and returns the result, a line for each setting that is not the
// default.
func load(t *testing.T, env map[string]string, args ...string) (f *flags, text string, err error) {
	t.Helper()
	f = new(flags)
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.declare(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	list, err := config.NewTable(new(flags).declare).Load(fs, func(name string) string { return env[name] }, "n2")
	var b strings.Builder
	for _, s := range list {
		if s.Origin != "default" {
			b.WriteString(s.Name + "=" + s.Value + " " + s.Origin + "\n")
		}
	}
	return f, b.String(), err
}

// file writes a configuration file into the working directory of the test.
func file(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile("weir.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOrigins(t *testing.T) {
	t.Chdir(t.TempDir())
	file(t, "# what we run with\nthe-text: file\nyes: true\nn: 7\nlong: 1h30m\nword: loud\nin: [a.jsonl, 'b,c.jsonl']\nhook: https://me:pw@host/x?token=1\n$schema: config.v1.json\n")
	f := func(want string, env map[string]string, args ...string) {
		t.Helper()
		if _, got, err := load(t, env, args...); err != nil || got != want {
			t.Errorf("%v %v: %v\n%s\nwant\n%s", args, env, err, got, want)
		}
	}
	f("", nil)
	f("the-text=env WEIR_THE_TEXT\n", map[string]string{"WEIR_THE_TEXT": "env"})
	f("the-text=flag --the-text\n", map[string]string{"WEIR_THE_TEXT": "env"}, "--the-text", "flag")
	all := "hook=https://xxxxx@host/x?xxxxx weir.yaml:8\nin=a.jsonl,b,c.jsonl weir.yaml:7\nlong=1h30m0s weir.yaml:5\nn=7 weir.yaml:4\nthe-text=file weir.yaml:2\nword=loud weir.yaml:6\nyes=true weir.yaml:3\n"
	f(all, nil, "--config", "weir.yaml")
	f(all, map[string]string{"WEIR_CONFIG": "weir.yaml"})
	f(all, map[string]string{"WEIR_CONFIG": "no.yaml"}, "--config", "weir.yaml")
	f(strings.NewReplacer("n=7 weir.yaml:4", "n=8 --n", "the-text=file weir.yaml:2", "the-text=env WEIR_THE_TEXT", "in=a.jsonl,b,c.jsonl weir.yaml:7", "in=x,y z WEIR_IN",
		"yes=true weir.yaml:3", "yes=false --yes").Replace(all),
		map[string]string{"WEIR_THE_TEXT": "env", "WEIR_N": "9", "WEIR_IN": "[x, y z]"}, "--config", "weir.yaml", "--n", "8", "--yes=false")
	f("in=a,b WEIR_IN\n", map[string]string{"WEIR_IN": "a,b"}) // one file whose name has a comma

	got, _, err := load(t, nil, "--config", "weir.yaml", "--in", "mine")
	if err != nil || len(*got.list) != 1 || (*got.list)[0] != "mine" || got.n != 7 || got.long != 90*time.Minute || !got.yes || got.word.Value != "loud" {
		t.Errorf("%+v, %v", got, err)
	}
	file(t, "# nothing yet\n")
	f("", nil, "--config", "weir.yaml")
	file(t, "")
	f("", nil, "--config", "weir.yaml")
}

func TestExceptIsLeftAlone(t *testing.T) {
	f, fs := new(flags), pflag.NewFlagSet("", pflag.ContinueOnError)
	f.declare(fs)
	list, err := config.NewTable(new(flags).declare).Load(fs, func(string) string { return "loud" }, "n", "yes", "long", "hook", "config", "password-file")
	if err == nil || !strings.Contains(err.Error(), "WEIR_CONFIG") {
		t.Errorf("%v, %v: the file is asked for in any case", list, err)
	}
	list, err = config.NewTable(new(flags).declare).Load(fs, func(name string) string { return map[string]string{"WEIR_N": "x"}[name] }, "n")
	if err != nil || len(list) != 7 || f.n != 512 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"pw": "hush\r\n", "empty": "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(want, told string, env map[string]string, args ...string) {
		t.Helper()
		got, text, err := load(t, env, args...)
		if err != nil || text != told || strings.Contains(text, "hush") {
			t.Errorf("%v %v: %v\n%swant\n%s", args, env, err, text, told)
		}
		if b, err := got.password.Read(); err != nil || string(b) != want || got.password.Given() != (want != "") {
			t.Errorf("%v %v: %q, %v", args, env, b, err)
		}
	}
	f("", "", nil)
	f("hush", "password-file=pw --password-file\n", nil, "--password-file", "pw")
	f("hush", "password-file=pw WEIR_PASSWORD_FILE\n", map[string]string{"WEIR_PASSWORD_FILE": "pw"})
	f("hush env", "password-file=(not shown) WEIR_PASSWORD\n", map[string]string{"WEIR_PASSWORD": "hush env"})
	f("hush", "password-file=pw --password-file\n", map[string]string{"WEIR_PASSWORD": "hush env"}, "--password-file", "pw")
	file(t, "password-file: pw\n")
	f("hush", "password-file=pw weir.yaml:1\n", nil, "--config", "weir.yaml")
	f("hush env", "password-file=(not shown) WEIR_PASSWORD\n", map[string]string{"WEIR_PASSWORD": "hush env"}, "--config", "weir.yaml")

	if _, _, err := load(t, map[string]string{"WEIR_PASSWORD": "hush", "WEIR_PASSWORD_FILE": "pw"}); err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "keep one of them") {
		t.Error(err)
	}
	for _, name := range []string{"empty", "no-such-file"} {
		got, _, err := load(t, nil, "--password-file", name)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := got.password.Read(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestStrangeVariables(t *testing.T) {
	list := config.NewTable(new(flags).declare).Strange([]string{"HOME=/", "WEIR_N=1", "WEIR_CONFIG=x", "WEIR_PASSWORD=hush", "WEIR_PASSWORD_FILE=x", "WEIR_SERVER=x",
		"WEIR_TEH_TEXT=x", "WEIR_NOTHING_LIKE_IT=x", "WEIR_SERVICE_HOST=10.0.0.1", "WEIR_PORT_8080_TCP=x", "WEIRD=1"}, "WEIR_SERVER")
	want := []string{"WEIR_TEH_TEXT is set, and there is no such setting; did you mean WEIR_THE_TEXT", "WEIR_NOTHING_LIKE_IT is set, and there is no such setting"}
	if !slices.Equal(list, want) {
		t.Errorf("%q", list)
	}
}

// refused are files of which each line below the first is one message.
var refused = []string{
	"the_text: x\nins: [x]\n===\nweir.yaml:1:1: the_text: there is no such setting; did you mean the-text\nweir.yaml:2:1: ins: there is no such setting; did you mean in",
	"nothing-like-it: 1\n===\nweir.yaml:1:1: nothing-like-it: there is no such setting; weir run --help lists them",
	"config: other.yaml\n===\nweir.yaml:1:1: config: there is no such setting; weir run --help lists them",
	"password: hush\n===\nweir.yaml:1:1: password: secrets do not stand in this file; name a file with password-file, or set WEIR_PASSWORD",
	"yes: true\nn: 1\nyes: false\n===\nweir.yaml:3:1: yes: is given twice, first in line 1; keep one of them",
	"yes: \"true\"\n===\nweir.yaml:1:6: yes: want true or false, got \"true\"",
	"n: much\n===\nweir.yaml:1:4: n: want a whole number, got \"much\"",
	"n: 1.5\n===\nweir.yaml:1:4: n: want a whole number, got \"1.5\"",
	"the-text: 12\n===\nweir.yaml:1:11: the-text: want text, got \"12\"; write it in quotes",
	"the-text: [a]\n===\nweir.yaml:1:11: the-text: want text, got a list",
	"the-text: &a x\nhook: *a\n===\nweir.yaml:2:7: hook: want text, got an alias",
	"in: a.jsonl\n===\nweir.yaml:1:5: in: want a list such as [a, b], got \"a.jsonl\"",
	"in: [a, 1]\n===\nweir.yaml:1:9: in: want text, got \"1\"; write it in quotes",
	"in: [a, '']\n===\nweir.yaml:1:9: in: a member of the list is empty",
	"long: 30\n===\nweir.yaml:1:7: long: want a time such as 90s, 10m or 168h, got \"30\"",
	"long: 7d\n===\nweir.yaml:1:7: long: want a time such as 90s, 10m or 168h, got \"7d\"",
	"the-text:\n===\nweir.yaml:1:1: the-text: has no value; write one or delete the line",
	"word: lous\n===\nweir.yaml:1:1: word: invalid value \"lous\": want plain, loud; did you mean loud",
	"- a\n===\nweir.yaml:1:1: want lines such as state: /var/lib/weir, got a list",
	"[a]: b\n===\nweir.yaml:1:1: want the name of a setting, got a list",
}

func TestRefusedFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(text, want string) {
		t.Helper()
		file(t, text)
		if _, _, err := load(t, nil, "--config", "weir.yaml"); err == nil || err.Error() != want {
			t.Errorf("%s: got\n%v\nwant\n%s", text, err, want)
		}
	}
	for _, c := range refused {
		text, want, _ := strings.Cut(c, "===\n")
		f(text, want)
	}
	f("n: 1\n---\nyes: true\n", "weir.yaml:3:1: a second document begins here; delete the line --- before it")
	f(strings.Repeat("#", 1<<20+1), "weir.yaml: the file has 1048577 bytes\n    at most 1048576 are read")
	f("\x00", "weir.yaml:1:1: byte 0x00 is not text\n    save the file as UTF-8")
	for _, text := range []string{"a: b: c\n", "in: [", strings.Repeat("[", 100)} {
		file(t, text)
		if _, _, err := load(t, nil, "--config", "weir.yaml"); err == nil || !strings.Contains(err.Error(), "is not YAML") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := load(t, nil, "--config", "none.yaml"); err == nil || err.Error() != "--config: open none.yaml: no such file or directory" {
		t.Error(err)
	}
	if _, _, err := load(t, map[string]string{"WEIR_N": "x", "WEIR_WORD": "y", "WEIR_IN": "[x"}); err == nil || strings.Count(err.Error(), "WEIR_") != 3 {
		t.Error(err)
	}
}

// TestSchema holds the schema against what Load accepts.
func TestSchema(t *testing.T) {
	t.Chdir(t.TempDir())
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.NewTable(new(flags).declare).Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:test", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, key := range []string{"the-text", "hook", "yes", "n", "long", "word", "in", "password-file", "config", "none", "$schema"} {
		for _, value := range []string{`"x"`, `true`, `1`, `-3`, `1.5`, `"10m"`, `"1h30m"`, `"1.5h"`, `".5s"`, `"-1h"`, `"10"`, `"10 m"`, `"loud"`, `""`, `["a","b"]`, `["a",""]`, `[1]`, `[]`, `{}`, `null`} {
			if key == "$schema" && value != `"x"` {
				continue // it is not looked at
			}
			text := `{"` + key + `": ` + value + `}`
			file(t, text)
			_, _, loaded := load(t, nil, "--config", "weir.yaml")
			document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if valid := schema.Validate(document); (valid == nil) != (loaded == nil) {
				t.Errorf("%s: loaded %v, schema %v", text, loaded, valid)
			}
			if loaded == nil {
				accepted++
			}
		}
	}
	if accepted < 20 {
		t.Errorf("%d accepted", accepted)
	}
}

func FuzzFile(f *testing.F) {
	for _, c := range refused {
		text, _, _ := strings.Cut(c, "===\n")
		f.Add([]byte(text))
	}
	f.Add([]byte("the-text: file\nin: [a]\nlong: 1h\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		name := filepath.Join(dir, "weir.yaml")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		list, _, err := load(t, nil, "--config", name)
		if err == nil && list == nil {
			t.Error("neither settings nor an error")
		}
	})
}
