package weirtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Root returns the folder of the repository: the nearest one above the package under test that holds LICENSE and
// go.mod. The path of a source file would not do, because -trimpath shortens it.
func Root() string { return root }

// A test may change its working folder later.
var root = findRoot()

func findRoot() string {
	folder, err := os.Getwd()
	if err != nil {
		return ""
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		_, module := os.Stat(filepath.Join(folder, "go.mod"))
		_, license := os.Stat(filepath.Join(folder, "LICENSE"))
		if module == nil && license == nil {
			return folder
		}
	}
	return ""
}

// Programs is the variable that names a folder with weir and weir-hook of a release. They are tested then.
const Programs = "WEIR_PROGRAMS"

// Build makes weir and weir-hook from the sources in this repository and returns their folder. All test
// programs share the folder, so the first of them links and the others find the programs up to date.
// It returns the folder of Programs if that is set.
var Build = sync.OnceValues(func() (folder string, err error) {
	if released := os.Getenv(Programs); released != "" {
		return filepath.Abs(released)
	}
	folder = filepath.Join(Root(), "bin", "test")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	// Without the commit in the program, a commit alone needs no new link. A release is built without cgo as well.
	// With -trimpath or a profile, which a release has, all packages would be compiled once more than for the tests.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-pgo=off", "-o", folder+"/", "./cmd/weir", "./cmd/weir-hook")
	cmd.Dir, cmd.Env = Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return folder, nil
})

// Binary returns the path of weir.
func Binary(t testing.TB) string { return program(t, "weir") }

// Hook returns the path of weir-hook.
func Hook(t testing.TB) string { return program(t, "weir-hook") }

func program(t testing.TB, name string) string {
	t.Helper()
	folder, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, name)
}
