package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// generator is the variable that names the jar of openapi-generator.
const generator = "WEIR_OPENAPI_GENERATOR"

// TestDotnet compiles the example in C#, which uses the API without a generated client, and holds that weir stops it.
func TestDotnet(t *testing.T) {
	j := weirtest.NewJourney(t, "J13 .NET", "an example by HttpClient compiles, and is stopped at the seventh call")
	dir := t.TempDir()
	source := filepath.Join("testdata", "Check.cs")
	text, err := os.ReadFile(source)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Check.cs"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	j.Lines = strings.Count(string(text), "\n")
	url := weirtest.Run(t, "--in-memory").URL
	var commands [][]string
	if _, err := exec.LookPath("dotnet"); err == nil {
		commands = [][]string{{"dotnet", "new", "console", "--force"}, {"rm", "Program.cs"}, {"dotnet", "run", url}}
	} else if _, err := exec.LookPath("mcs"); err == nil {
		commands = [][]string{{"mcs", "-r:System.Net.Http.dll", "Check.cs"}, {"mono", "Check.exe", url}}
	} else {
		j.NotTested("neither dotnet nor Mono (Debian: mono-mcs) is installed")
	}
	var out []byte
	for _, args := range commands {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "DOTNET_CLI_TELEMETRY_OPTOUT=1", "DOTNET_NOLOGO=1")
		if out, err = cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	j.Saw("%s, by %s", strings.SplitN(string(out), " {", 2)[0], commands[len(commands)-1][0])
	if !strings.Contains(string(out), "6 ran, then 403 ") || !strings.Contains(string(out), "repetition_detected") {
		t.Errorf("%s", out)
	}
}

// noRegistry is what Maven and Cargo print if they cannot fetch a library.
var noRegistry = regexp.MustCompile(`Could not (transfer artifact|resolve dependencies|resolve host)|failed to (download|get .* as a dependency|fetch)|spurious network error`)

// TestGeneratedClients generates a client from the description, compiles it with an agent that repeats one
// call, and holds that weir stops the agent at the seventh.
func TestGeneratedClients(t *testing.T) {
	jar := os.Getenv(generator)
	for _, c := range []struct {
		name, title, needs, agent, to string
		options                       []string
		add                           func(dir string) error
		run                           func(url string) []string
	}{
		{"java", "Java", "mvn", "Check.java", "src/main/java", []string{"--library", "native", "--global-property", "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"}, nil,
			func(url string) []string {
				return []string{"mvn", "-q", "-B", "-DskipTests", "compile", "org.codehaus.mojo:exec-maven-plugin:3.5.0:java", "-Dexec.mainClass=Check", "-Dexec.args=" + url}
			}},
		{"rust", "Rust", "cargo", "check.rs", "src/bin", []string{"--additional-properties=packageName=weir_client"},
			func(dir string) error {
				path := filepath.Join(dir, "Cargo.toml")
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				return os.WriteFile(path, []byte(strings.Replace(string(text), "[dependencies]\n", "[dependencies]\ntokio = { version = \"1\", features = [\"rt\", \"macros\"] }\n", 1)), 0o644)
			},
			func(url string) []string {
				return []string{"cargo", "run", "-q", "--no-default-features", "--bin", "check", "--", url}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := weirtest.NewJourney(t, "J13 "+c.title, "a generated client compiles, and is stopped at the seventh call")
			if jar == "" {
				j.NotTested("openapi-generator is not there; run: make openapi-clients")
			}
			for _, program := range []string{"java", c.needs} {
				if _, err := exec.LookPath(program); err != nil {
					j.NotTested("%s is not installed", program)
				}
			}
			description, err := filepath.Abs(target)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(filepath.Dir(jar), c.name) // its targets serve the next run
			must := func(in string, args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir = in
				out, err := cmd.CombinedOutput()
				if err != nil && noRegistry.Match(out) {
					j.NotTested("%s reaches no registry", args[0])
				}
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				return string(out)
			}
			must("", append([]string{"java", "-jar", jar, "generate", "-i", description, "-g", c.name, "-o", dir}, c.options...)...)
			agent, err := os.ReadFile(filepath.Join("testdata", c.agent))
			if err == nil {
				err = os.MkdirAll(filepath.Join(dir, c.to), 0o755)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, c.to, c.agent), agent, 0o644)
			}
			if err == nil && c.add != nil {
				err = c.add(dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			weir := weirtest.Run(t, "--in-memory")
			got := must(dir, c.run(weir.URL)...)
			j.Lines = strings.Count(string(agent), "\n")
			j.Saw("%s", strings.SplitN(got, ":", 2)[0])
			if !strings.Contains(got, "6 ran, then 403 repetition_detected: ") || !strings.Contains(got, "Do not repeat it") {
				t.Errorf("%s", got)
			}
		})
	}
}
