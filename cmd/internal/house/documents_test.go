package house

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of the documents")

// TestPackageTable holds that the architecture page lists each package with the first sentence of its comment.
func TestPackageTable(t *testing.T) {
	table := "| package | purpose |\n|---|---|\n"
	for _, p := range packages(t) {
		if strings.HasPrefix(p.folder, "cmd/internal/tools/") {
			continue
		}
		_, purpose, ok := strings.Cut(p.synopsis, " ")
		if ok {
			_, purpose, ok = strings.Cut(purpose, " ")
		}
		if !ok {
			t.Errorf("%s: the package has no comment", p.folder)
			continue
		}
		if words := len(strings.Fields(p.synopsis)); words > 25 {
			t.Errorf("%s: the first sentence of the package comment has %d words, and may have 25", p.folder, words)
		}
		table += fmt.Sprintf("| `%s` | %s |\n", p.folder, strings.TrimPrefix(purpose, "is "))
	}
	generated(t, filepath.Join(root, "analyzer", "ARCHITECTURE.md"), "packages", table)
}

// TestDecisions holds that decisions are numbered without gaps, have status, date and the three sections, and
// stand in the index.
func TestDecisions(t *testing.T) {
	folder := filepath.Join(root, "analyzer", "decisions")
	files, err := filepath.Glob(filepath.Join(folder, "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal("no decisions", err)
	}
	head := regexp.MustCompile(`^# (\d+)\. (.+)\n\nStatus: (accepted|superseded .+)\. Date: \d{4}-\d\d-\d\d\. About: ([^.]+)\.\n`)
	about := map[string][]string{}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := head.FindStringSubmatch(string(text))
		name := filepath.Base(file)
		if m == nil || fmt.Sprintf("%04d", i+1) != name[:4] || m[1] != fmt.Sprint(i+1) {
			t.Errorf("%s: want number %d in the name and in the title, then Status, Date and About", name, i+1)
			continue
		}
		for _, section := range []string{"## Decision", "## Consequences"} {
			if !strings.Contains(string(text), "\n"+section+"\n") {
				t.Errorf("%s: no section %q", name, section)
			}
		}
		for subject := range strings.SplitSeq(m[4], ", ") {
			line := fmt.Sprintf("- [%s. %s](%s)", m[1], m[2], name)
			if m[3] != "accepted" {
				line += " (" + m[3] + ")"
			}
			about[subject] = append(about[subject], line)
		}
	}
	subjects := []string{"fold", "figures", "log", "Kafka", "agents", "guards", "input", "house"}
	var index strings.Builder
	for _, subject := range subjects {
		fmt.Fprintf(&index, "\n## %s\n\n%s\n", strings.ToUpper(subject[:1])+subject[1:], strings.Join(about[subject], "\n"))
	}
	for subject := range about {
		if !slices.Contains(subjects, subject) {
			t.Errorf("a decision is about %q, which is not one of %s", subject, strings.Join(subjects, ", "))
		}
	}
	generated(t, filepath.Join(folder, "README.md"), "index", index.String())
}

type pkg struct{ folder, synopsis string }

// packages returns the packages of the main module that are more than tests.
func packages(t *testing.T) (all []pkg) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		_, err = os.Stat(filepath.Join(path, "go.mod"))
		if other := err == nil && path != root; other || path != root && (name[0] == '.' || name == "testdata" || name == "node_modules" || name == "bin") {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		found := pkg{folder: where(t, path)}
		code := false
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				return err
			}
			code = true
			if text := f.Doc.Text(); strings.HasPrefix(text, "Package ") || strings.HasPrefix(text, "Command ") {
				found.synopsis = sentence(text)
			}
		}
		if code {
			all = append(all, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sentence returns the first sentence of a comment on one line.
func sentence(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if end := regexp.MustCompile("[.?] [A-Z`]").FindStringIndex(text); end != nil {
		text = text[:end[0]+1]
	}
	return text
}

// generated compares the part of a page between "<!-- name -->" and "<!-- end -->" with want.
func generated(t *testing.T, page, name, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- "+name+" -->\n")
	have, after, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		t.Fatalf("%s has no part %q", page, name)
	}
	if have == want {
		return
	}
	if !*update {
		t.Errorf("%s: the part %q is not up to date; run go test ./cmd/internal/house -update", page, name)
		return
	}
	if err := os.WriteFile(page, []byte(before+"<!-- "+name+" -->\n"+want+"<!-- end -->"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
