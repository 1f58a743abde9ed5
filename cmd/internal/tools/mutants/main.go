// Command mutants shows that faults of the kind people make are found: it applies each patch
// of a folder to a copy of the repository, runs the simulation or the test that the patch
// names, and says by which seed and invariant, or by which test, the fault was found. A fault
// that nothing finds, and a patch that does not apply, fail it.
//
// Usage, in the root of the repository: mutants FOLDER [NAME...]
//
// A patch begins with a line "fault: " that says what is wrong. A line "test: " may follow,
// with what is given to go test, and a line "in: " with the folder to run it in; without them
// the simulation runs.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// simulation is what runs when a patch names no test: the whole simulation, by many seeds, as
// a fault may show in few of them.
const simulation = "./cmd/internal/simulate -run TestSimulation -seeds 600 -shrink=false"

// main ends with 1 when a fault was not found, with 2 when it was called in a wrong way.
func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "mutants: say where the patches are: mutants FOLDER [NAME...]")
		os.Exit(2)
	}
	survived, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if survived > 0 {
		os.Exit(1)
	}
}

// run returns how many mutants were not found.
//
// names are those of patches, without the ending; none means all. Patches are tried one
// after the other in one copy, and each is reverted before the next.
func run(folder string, names []string) (survived int, err error) {
	patches, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil || len(patches) == 0 {
		return 0, fmt.Errorf("%s: no patches (%v)", folder, err)
	}
	// A copy, so that no fault is left in a work tree when this is killed.
	tree, err := os.MkdirTemp("", "weir-mutants-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tree)
	if err := copyTree(tree); err != nil {
		return 0, err
	}
	// What breaks without a fault proves nothing.
	// It is built before the first patch.
	sound := filepath.Join(tree, "sound.test")
	build := exec.Command("go", "test", "-trimpath", "-c", "-o", sound, "./cmd/internal/simulate")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the simulation: %w: %s", err, out)
	}
	tried := 0
	for _, path := range patches {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		tried++
		start := time.Now()
		by, test, err := find(tree, path)
		// The seed that has found the fault is played on the sound program, too.
		if m := bySeed.FindStringSubmatch(by); m != nil && err == nil {
			if out, serr := exec.Command(sound, "-test.run", byRun.FindStringSubmatch(test)[1], "-seed", m[1]).CombinedOutput(); serr != nil {
				err = fmt.Errorf("%s, and does so without the fault: %s", by, bySeed.Find(out))
			}
		}
		if err != nil {
			survived++
			by = "*** " + err.Error()
		}
		fmt.Printf("%-26s %5.1fs  %s\n", name, time.Since(start).Seconds(), by)
	}
	fmt.Printf("mutants: %d of %d found\n", tried-survived, tried)
	return survived, nil
}

// copyTree copies the files of the repository, with what is not committed.
//
// It runs in the root of the repository. Each file keeps its mode, since tests start
// scripts.
func copyTree(to string) error {
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		b, err := os.ReadFile(name)
		if os.IsNotExist(err) { // removed, and not committed
			continue
		}
		if err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}

// How what found a fault is read off the output of go test.
var (
	byRun   = regexp.MustCompile(`-run (\S+)`)
	bySeed  = regexp.MustCompile(`seed (\d+) breaks: .*`)
	byTest  = regexp.MustCompile(`--- FAIL: (\S+)`)
	byPanic = regexp.MustCompile(`(?m)^panic: (.*)`)
)

// find applies a patch, says what finds it and which test was run, and takes it back.
//
// The error is why the patch does not count as found. A patch that does not build proves
// nothing and is one, too.
func find(tree, path string) (by, test string, err error) {
	patch, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	test = simulation
	in := "."
	head, _, _ := bytes.Cut(patch, []byte("diff --git"))
	fault := ""
	for line := range strings.Lines(string(head)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "fault":
			fault = value
		case "test":
			test = value
		case "in":
			in = value
		// A misspelled line would run another test than was meant.
		default:
			return "", "", fmt.Errorf("the patch begins with %q", line)
		}
	}
	if fault == "" {
		return "", "", fmt.Errorf("the patch does not say what its fault is")
	}
	if out, err := apply(tree, patch); err != nil {
		return "", "", fmt.Errorf("the patch does not apply: %s", out)
	}
	// The next patch has to find the copy as it was.
	defer func() {
		if out, rerr := apply(tree, patch, "--reverse"); rerr != nil {
			err = fmt.Errorf("the patch cannot be taken back: %s", out)
		}
	}()
	// Without the cache of results: the same patch must be seen to fail each time.
	command := exec.Command("go", append([]string{"test", "-trimpath", "-count=1", "-timeout", "10m"}, strings.Fields(test)...)...)
	command.Dir = filepath.Join(tree, in)
	out, err := command.CombinedOutput()
	switch {
	case err == nil:
		return "", "", fmt.Errorf("survives: %s", fault)
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", "", fmt.Errorf("does not build: %s", out)
	}
	// A simulation that fails says by which seed, which says more than the name of the
	// test.
	if s := bySeed.Find(out); s != nil {
		return string(s), test, nil
	}
	if m := byTest.FindSubmatch(out); m != nil {
		return string(m[1]), test, nil
	}
	if m := byPanic.FindSubmatch(out); m != nil {
		return "panic: " + string(m[1]), test, nil
	}
	return "", "", fmt.Errorf("go test fails and does not say by what: %s", out)
}

// The copy lies in no repository of its own, and one that is somewhere above it must not be
// taken for its own.
func apply(tree string, patch []byte, flags ...string) (out []byte, err error) {
	command := exec.Command("git", append([]string{"apply"}, flags...)...)
	command.Dir, command.Stdin = tree, bytes.NewReader(patch)
	command.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(tree))
	return command.CombinedOutput()
}
