package journeys

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// TestGoModule uses the guard from a module of the user's own, with a clone beside it.
func TestGoModule(t *testing.T) {
	j := follow(t, "J12 Go module", "cmd/weir/TUTORIAL.md", "From Go", "a module with the guard alone is stopped at the sixth message")
	j.withGo()
	if err := os.Symlink(weirtest.Root(), filepath.Join(j.dir, "..", "weir")); err != nil {
		t.Fatal(err)
	}
	weirtest.RunWith(t, weirtest.Options{Env: j.env}, "--in-memory", "--listen", j.address)
	j.run()
	j.save("go", "main.go")
	out := j.run()
	j.Saw("%s", strings.SplitN(out, ":", 2)[0])
	j.has(out, "5 calls ran: ", "repeated_delegation")
	j.done()
	// A library must not bring more than it needs.
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Dir, list.Env = j.dir, j.env
	modules, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, modules)
	}
	mod, err := os.ReadFile(filepath.Join(weirtest.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for module := range strings.FieldsSeq(string(modules)) {
		if module != "example.org/agent" && !strings.HasPrefix(string(mod), "module "+module+"\n") {
			t.Errorf("the guard brings module %s", module)
		}
	}
}

// withGo adds the Go toolchain, with the caches of this machine.
func (j *journey) withGo() {
	j.Helper()
	program, err := exec.LookPath("go")
	if err != nil {
		j.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOFLAGS").Output()
	if err != nil {
		j.Fatal(err)
	}
	for i, value := range strings.Split(strings.TrimRight(string(out), "\n"), "\n") {
		j.env = append(j.env, []string{"GOCACHE=", "GOMODCACHE=", "GOPROXY=", "GOSUMDB=", "GOFLAGS="}[i]+value)
	}
	for i, v := range j.env {
		if strings.HasPrefix(v, "PATH=") {
			j.env[i] = v + ":" + filepath.Dir(program)
		}
	}
}
