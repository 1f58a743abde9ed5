package journeys

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/cmd/weirtest"
)

// TestReadme runs each command of the README in a clone, where a log of the user's own lies. Targets of
// make have tests of their own, and a command that needs brokers is left to the journey on Kafka.
func TestReadme(t *testing.T) {
	j := follow(t, "README", "README.md", "", "each command works in a clone")
	j.withGo()
	if out, err := exec.Command("git", "clone", "--quiet", weirtest.Root(), filepath.Join(j.dir, "weir")).CombinedOutput(); err != nil {
		t.Fatalf("clone: %v\n%s", err, out)
	}
	j.dir = filepath.Join(j.dir, "weir")
	if err := os.Mkdir(filepath.Join(j.dir, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agents.jsonl", "logs/agents.jsonl"} {
		if err := os.WriteFile(filepath.Join(j.dir, name), honestLog(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range j.blocks {
		if b.language != "" && b.language != "sh" {
			continue
		}
		for command := range strings.Lines(b.text) {
			j.blocks = []block{{language: "sh", text: command, line: b.line}}
			switch {
			case strings.TrimSpace(command) == "" || strings.HasPrefix(command, "make ") || strings.Contains(command, "--brokers"):
			case strings.Contains(command, "weir run"):
				w := j.serve()
				w.Ready()
				if code := w.End(syscall.SIGTERM); code != 0 {
					t.Errorf("README.md:%d: %s exits with %d", b.line, command, code)
				}
			default:
				j.run()
			}
		}
	}
	j.Saw("%d commands ran", j.Lines)
	if j.Lines < 4 {
		t.Errorf("only %d commands of the README ran", j.Lines)
	}
}
