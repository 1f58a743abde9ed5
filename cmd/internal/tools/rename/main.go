// Rename gives the module another path: in go.mod files, imports, strings, commands and pages.
//
//	make rename MODULE=example.org/you/weir
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rename MODULE")
		os.Exit(2)
	}
	files, err := rename(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
	fmt.Printf("renamed the module to %s in %d files\n", os.Args[1], files)
}

// modulePath is one that go get can fetch: its first element is a host, with a dot. Upper case
// is left out, because folders of a module proxy encode it.
var modulePath = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[a-z0-9._~-]+)+$`)

// tops are the folders of the module. Only a path into one of them is an import path: weir is also
// the name of a program, of a user and of a label.
const tops = `cmd|events|analyzer|state|sink|schemas`

// rename rewrites the tree below root and returns the number of changed files.
func rename(root, to string) (changed int, err error) {
	if !modulePath.MatchString(to) {
		return 0, fmt.Errorf("%q is not a module path that go get can fetch; use one such as example.org/you/weir", to)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, fmt.Errorf("run this at the top of the module: %w", err)
	}
	declared := regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(mod)
	if declared == nil {
		return 0, fmt.Errorf("%s names no module", filepath.Join(root, "go.mod"))
	}
	from := regexp.QuoteMeta(string(declared[1]))
	imports := regexp.MustCompile(`(^|[^\w./@-])` + from + `(/(?:` + tops + `)\b)`)
	inMod := regexp.MustCompile(`(?m)^(module |\s*(?:require |replace )?)` + from + `( v\S+| =>|$)`)
	inFlags := regexp.MustCompile(`(-(?:require|replace)=)` + from + `([@=])`)
	return changed, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") && name != ".ci" || name == "bin" || name == "node_modules"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		renamed := imports.ReplaceAll(text, []byte("${1}"+to+"${2}"))
		if name == "go.mod" {
			renamed = inMod.ReplaceAll(renamed, []byte("${1}"+to+"${2}"))
		}
		renamed = inFlags.ReplaceAll(renamed, []byte("${1}"+to+"${2}"))
		if bytes.Equal(text, renamed) {
			return nil
		}
		changed++
		return os.WriteFile(path, renamed, 0o644) // an existing file keeps its mode
	})
}
