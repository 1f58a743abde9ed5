package journeys

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// TestShells holds the commands of pages to what bash, zsh and fish take when a user pastes them. zsh, the shell of
// macOS, takes no comments there and has variables of its own; fish has another syntax for variables and loops. What
// needs more is a script: it is saved, and run by sh.
func TestShells(t *testing.T) {
	pages, err := exec.Command("git", "-C", weirtest.Root(), "ls-files", "*.md").Output()
	if err != nil {
		t.Skipf("no git: %v", err)
	}
	wrong := map[string]*regexp.Regexp{
		"is a comment, which zsh reads as arguments":                 regexp.MustCompile(`(^|\s)#(\s|$)`),
		"sets a variable, which fish does not understand":            regexp.MustCompile(`^\s*[A-Za-z_]+=\S*\s*$`),
		"is a loop or a condition, which fish writes in another way": regexp.MustCompile(`^\s*(for|while|until|if|case)\s`),
	}
	seen := 0
	for page := range strings.FieldsSeq(string(pages)) {
		text, err := os.ReadFile(filepath.Join(weirtest.Root(), page))
		if err != nil || !strings.Contains(string(text), "```sh\n") {
			continue
		}
		for _, b := range blocksOf(t, page, "") {
			if b.language != "sh" || isScript(string(text), b) {
				continue
			}
			seen++
			n := b.line
			for line := range strings.Lines(b.text) {
				n++
				for what, is := range wrong {
					if is.MatchString(strings.TrimRight(line, "\n")) {
						t.Errorf("%s:%d: the line %s:\n%s", page, n, what, line)
					}
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d blocks of commands are found", seen)
	}
}

// isScript says that the text before the block asks the reader to save it.
func isScript(text string, b block) bool {
	lines := strings.Split(text, "\n")
	for i := b.line - 2; i >= 0 && i > b.line-5; i-- {
		if strings.Contains(lines[i], "ave it as `") {
			return true
		}
	}
	return false
}
