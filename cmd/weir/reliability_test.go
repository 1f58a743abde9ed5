package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReliability holds that each test exists which RELIABILITY.md and BOUNDS.md name as a proof, and
// that each row names one or says that nothing is promised.
func TestReliability(t *testing.T) {
	var text []byte
	for _, page := range []string{"RELIABILITY.md", "BOUNDS.md"} {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	name := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")
	declared := map[string]string{} // by folder, all its tests
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || strings.HasPrefix(line, "|---") || strings.Contains(line, "| proof |") {
			continue
		}
		proof := cells[len(cells)-2]
		found := name.FindAllStringSubmatch(proof, -1)
		if len(found) == 0 && strings.TrimSpace(proof) != "not promised" {
			t.Errorf("no proof and no \"not promised\": %s", line)
		}
		for _, m := range found {
			folder, test := m[1], m[2]
			if _, ok := declared[folder]; !ok {
				files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					b, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					declared[folder] += string(b)
				}
			}
			if !strings.Contains(declared[folder], "\nfunc "+test+"(") {
				t.Errorf("%s.%s is named as a proof and does not exist", folder, test)
			}
		}
	}
}
