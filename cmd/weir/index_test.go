package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestIndex holds that the index of pages names each page, and that each of its links leads
// somewhere. Pages below testdata and beside tools are for developers.
func TestIndex(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{"README.md": true}
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		page, _, _ := strings.Cut(m[1], "#")
		if _, err := os.Stat(page); err != nil {
			t.Errorf("the index names %s: %v", page, err)
		}
		named[filepath.Clean(page)] = true
	}
	for _, dir := range []string{"../..", ".", "../../analyzer", "../../analyzer/rulebook", "../../events/adapter", "../../sink", "../../sink/guard", "../../sink/check"} {
		pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			if page = filepath.Clean(page); !named[page] && !strings.Contains(page, "testdata") {
				t.Errorf("the index does not name %s", page)
			}
		}
	}
}
