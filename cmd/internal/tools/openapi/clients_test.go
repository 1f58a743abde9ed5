package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// generator is the variable that names the jar of openapi-generator.
const generator = "WEIR_OPENAPI_GENERATOR"

// TestGeneratedClients generates a client from the description, compiles it with an agent that repeats one
// call, and holds that weir stops the agent at the seventh.
func TestGeneratedClients(t *testing.T) {
	jar := os.Getenv(generator)
	if jar == "" {
		t.Skip("the generator is not installed; run: make openapi-clients")
	}
	for _, c := range []struct {
		name, needs, agent, to string
		options                []string
		add                    func(dir string) error
		run                    func(url string) []string
	}{
		{"java", "mvn", "Check.java", "src/main/java", []string{"--library", "native", "--global-property", "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"}, nil,
			func(url string) []string {
				return []string{"mvn", "-q", "-B", "-DskipTests", "compile", "org.codehaus.mojo:exec-maven-plugin:3.5.0:java", "-Dexec.mainClass=Check", "-Dexec.args=" + url}
			}},
		{"rust", "cargo", "check.rs", "src/bin", []string{"--additional-properties=packageName=weir_client"},
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
			for _, program := range []string{"java", c.needs} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("*** NOT TESTED: a client for %s, because %s is not installed ***", c.name, program)
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
			t.Log(strings.TrimSpace(got))
			if !strings.Contains(got, "6 ran, then 403 repetition_detected: ") || !strings.Contains(got, "Do not repeat it") {
				t.Errorf("%s", got)
			}
		})
	}
}
