package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// buildContext is what .dockerignore lets into a build.
type buildContext struct {
	ignored *patternmatcher.PatternMatcher
}

func readContext(t *testing.T) buildContext {
	t.Helper()
	f, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return buildContext{m}
}

func (c buildContext) has(t *testing.T, name string) bool {
	t.Helper()
	out, err := c.ignored.MatchesOrParentMatches(name)
	if err != nil {
		t.Fatal(err)
	}
	return !out
}

// TestBuildContext holds .dockerignore against what the build in the Dockerfile compiles
// and embeds, as the go command lists it.
func TestBuildContext(t *testing.T) {
	dockerfile, err := os.ReadFile(filepath.Join(root, "cmd/weir/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	built := regexp.MustCompile(`go build .* (\./\S+)`).FindSubmatch(dockerfile)
	if built == nil {
		t.Fatal("the Dockerfile builds nothing")
	}
	context := readContext(t)
	needed := append([]string{"go.mod", "go.sum"}, sourcesOf(t, string(built[1]))...)
	for _, name := range needed {
		if !context.has(t, name) {
			t.Errorf("the build needs %s, and .dockerignore leaves it out", name)
		}
	}
	t.Logf("%d files are needed", len(needed))
	for _, name := range []string{".secrets/admin_token", ".git/config", "bin/weir", "weir-state/LOCK", "cmd/weir/deploy/doc.go"} {
		if context.has(t, name) {
			t.Errorf("the build does not need %s, and .dockerignore lets it in", name)
		}
	}
}

// sourcesOf lists the files of this module that a package for the image is built from.
func sourcesOf(t *testing.T, pkg string) (names []string) {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Module,GoFiles,CgoFiles,SFiles,HFiles,EmbedFiles", pkg)
	list.Dir, list.Env = top, append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOWORK=off")
	var said strings.Builder
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, said.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			Dir                                           string
			Module                                        *struct{ Main bool }
			GoFiles, CgoFiles, SFiles, HFiles, EmbedFiles []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, files := range [][]string{p.GoFiles, p.CgoFiles, p.SFiles, p.HFiles, p.EmbedFiles} {
			for _, file := range files {
				name, err := filepath.Rel(top, filepath.Join(p.Dir, file))
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, filepath.ToSlash(name))
			}
		}
	}
	return names
}
