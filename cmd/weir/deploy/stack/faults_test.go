package stack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fault is one that the stack has had, and by what it showed.
type fault struct {
	name, file, right, wrong string
	shows                    string
}

var faults = []fault{
	{"the build lacks a folder", ".dockerignore", "**/testdata\n", "**/testdata\nanalyzer/rulebook\n", "weir/analyzer/rulebook"},
	{"a secret has to be copied into a container that is read_only", "docker-compose.yml", "intake_token: {file: .secrets/intake_token}",
		"intake_token: {environment: HOME}", "read-only service"},
	{"secrets are for one user alone", "Makefile", "chmod 644 $@.part", "chmod 600 $@.part", "permission denied"},
	{"nobody has the admin token", "docker-compose.yml", ", --admin-token-file, /run/secrets/admin_token", "", "without an admin token"},
}

// TestFaults puts faults back, each alone, and holds that the trial of the stack finds it.
func TestFaults(t *testing.T) {
	e := startEngine(t)
	e.load(*repo)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			within := *e
			within.t = t
			c := within.checkOut(strings.ReplaceAll(f.name, " ", "-"))
			path := filepath.Join(c.dir, f.file)
			text, err := os.ReadFile(path)
			if err != nil || strings.Count(string(text), f.right) != 1 {
				t.Fatalf("%s has not %q once: %v", f.file, f.right, err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), f.right, f.wrong, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			err = c.up()
			if err == nil { // it is found when somebody uses it
				c.takeClient()
				_, err = c.run(time.Minute, c.dir, c.client, "flows", "stop", "any", "--reason", "tried", "--token-file", ".secrets/admin_token")
			}
			if err == nil || !strings.Contains(err.Error(), f.shows) {
				t.Fatalf("want a failure that says %q, got %v", f.shows, err)
			}
			for line := range strings.Lines(err.Error()) {
				if strings.Contains(line, f.shows) {
					t.Logf("found: %s", strings.TrimSpace(line))
					break
				}
			}
		})
	}
}
