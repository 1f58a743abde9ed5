package journeys

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// block is a fenced block of a page.
type block struct {
	language, text string
	line           int // of the fence
}

// blocksOf returns the fenced blocks of a page, under one heading or, if it is empty, under all.
func blocksOf(t *testing.T, page, heading string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(weirtest.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	here, open := heading == "", false
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case isFence && open:
			open = false
		case isFence:
			open = true
			if here {
				all = append(all, block{language: fence, line: n})
			}
		case open && here:
			all[len(all)-1].text += line
		case !open && heading != "" && strings.HasPrefix(line, "#"):
			here = strings.TrimSpace(strings.TrimLeft(line, "#")) == heading
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no fenced block under %q", page, heading)
	}
	return all
}

// lines counts the lines of a block that a user has to write.
func (b block) lines() (n int) {
	for line := range strings.Lines(b.text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

func TestBlocksOf(t *testing.T) {
	all := blocksOf(t, "cmd/weir/TUTORIAL.md", "From Go")
	if len(all) != 3 || all[1].language != "go" || !strings.HasPrefix(all[1].text, "package main\n") || !strings.HasSuffix(all[1].text, "}\n") || all[0].lines() != 2 {
		t.Errorf("%+v", all)
	}
}
