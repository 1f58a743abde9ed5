package main

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module, version = "example.org/you/weir", "v1.2.3"

// command runs a program and returns what it prints.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkout copies the files of the repository.
func checkout(t *testing.T) (dir string, files []string) {
	t.Helper()
	const top = "../../../.."
	dir = t.TempDir()
	for name := range strings.SplitSeq(strings.TrimRight(command(t, top, nil, "git", "ls-files", "-z"), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(top, name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	return dir, files
}

// publish makes a module proxy of a folder, as GOPROXY=file:// reads it. A module does not have
// the folders of its nested modules.
func publish(t *testing.T, dir string, files []string) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	nested := map[string]bool{}
	for _, name := range files {
		nested[path.Dir(name)] = nested[path.Dir(name)] || path.Base(name) == "go.mod" && name != "go.mod"
	}
	out, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	archive := zip.NewWriter(out)
	for _, name := range files {
		in := false
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			in = in || nested[folder]
		}
		if in {
			continue
		}
		text, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		w, err := archive.Create(module + "@" + version + "/" + name)
		if err == nil {
			_, err = io.Copy(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = text.Close()
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": string(mod)} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return proxy
}

// TestRename renames a copy, builds it, and fetches its guard into another module.
func TestRename(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles weir once more")
	}
	t.Parallel()
	dir, files := checkout(t)
	command(t, dir, nil, "make", "rename", "MODULE="+module)
	old := []string{`"weir/events`, "`weir/sink", "module weir", "=weir@", "=weir=", "replace weir "}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range old {
			if strings.Contains(string(text), s) && !strings.HasPrefix(name, "cmd/internal/tools/rename/") {
				t.Errorf("%s still has %s", name, s)
			}
		}
	}
	if t.Failed() {
		return
	}
	command(t, dir, nil, "go", "build", "-o", filepath.Join(t.TempDir(), "weir"), "./cmd/weir")
	command(t, dir, nil, "go", "vet", "./cmd/internal/house", "./events", "./cmd/internal/tools/...")
	command(t, dir, nil, "go", "test", "-count=1", "./cmd/internal/house")
	for _, name := range files {
		if path.Base(name) == "go.mod" && name != "go.mod" && !strings.HasPrefix(name, "cmd/internal/tools/") {
			command(t, filepath.Join(dir, path.Dir(name)), nil, "go", "list", "-deps", "-test", "./...")
		}
	}
	fetch(t, publish(t, dir, files))
}

// fetch fetches packages of the guard with go get into a module of their user's, from a proxy that has
// nothing but weir and, for guarded, the module cache of this machine.
func fetch(t *testing.T, proxy string) {
	cache := strings.TrimSpace(command(t, "", nil, "go", "env", "GOMODCACHE"))
	const use = "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\n\t\"" + module + "/sink/guard\"\n)\n\n" +
		"func main() {\n\tg, err := guard.Dial(\"http://127.0.0.1:1\")\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tdefer g.Close()\n" +
		"\td := g.Ask(context.Background(), guard.Call{Flow: \"f\", From: \"a\", To: \"b\"})\n\tfmt.Println(\"stopped:\", d.Stopped())\n}\n"
	for _, c := range []struct {
		pkg, source string
		proxies     string
		modules     []string
	}{
		{"sink/guard", use, "file://" + proxy, []string{module}},
		{"sink/guard/guarded", "package main\n\nimport _ \"" + module + "/sink/guard/guarded\"\n\nfunc main() {}\n", "file://" + proxy + ",file://" + cache + "/cache/download",
			[]string{module, "github.com/cespare/xxhash/v2"}},
	} {
		user := t.TempDir()
		env := []string{"GOPROXY=" + c.proxies, "GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off", "GOMODCACHE=" + t.TempDir(), "GOWORK=off", "GOTOOLCHAIN=local"}
		command(t, user, env, "go", "mod", "init", "example.org/agent")
		if err := os.WriteFile(filepath.Join(user, "main.go"), []byte(c.source), 0o644); err != nil {
			t.Fatal(err)
		}
		command(t, user, env, "go", "get", module+"/"+c.pkg+"@"+version)
		command(t, user, env, "go", "build", "-o", filepath.Join(user, "agent"), ".")
		if c.source == use {
			if out := command(t, user, env, filepath.Join(user, "agent")); !strings.HasSuffix(out, "stopped: false\n") {
				t.Errorf("the program with the guard printed %q", out)
			}
		}
		sums, err := os.ReadFile(filepath.Join(user, "go.sum"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(sums)) {
			if need, _, _ := strings.Cut(line, " "); !slices.Contains(c.modules, need) {
				t.Errorf("%s: go.sum has %s", c.pkg, line)
			}
		}
		for need := range strings.FieldsSeq(command(t, user, env, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
			if need != "example.org/agent" && !slices.Contains(c.modules, need) {
				t.Errorf("%s brings module %s", c.pkg, need)
			}
		}
	}
}
