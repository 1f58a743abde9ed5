package stack

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	setup = flag.String("setup", "", "the folder that setup.sh filled; without it nothing is tried")
	repo  = flag.String("repo", "", "the repository whose stack is tried")
)

// engine is a Docker Engine that nobody outside of this trial reaches.
type engine struct {
	t    *testing.T
	work string   // a folder of this trial
	env  []string // in which docker, compose and make find it
}

// startEngine starts one and ends it with the test. It keeps images and what it has built,
// and nothing else, from one trial to the next.
func startEngine(t *testing.T) *engine {
	t.Helper()
	if *setup == "" {
		t.Skip("make stack tries this")
	}
	if links, err := net.Interfaces(); err != nil || len(links) != 1 {
		t.Fatalf("this is no network of its own, it has %d links (%v): start it by make stack", len(links), err)
	}
	e := &engine{t: t, work: t.TempDir()}
	root := filepath.Join(*setup, "engine")
	libraries := []string{filepath.Join(root, "usr/lib/x86_64-linux-gnu"), filepath.Join(root, "lib/x86_64-linux-gnu")}
	e.env = append(os.Environ(),
		"PATH="+filepath.Join(root, "usr/bin")+":"+filepath.Join(root, "usr/sbin")+":"+os.Getenv("PATH"),
		"LD_LIBRARY_PATH="+strings.Join(libraries, ":"), "XTABLES_LIBDIR="+filepath.Join(libraries[0], "xtables"),
		"DOCKER_HOST=unix://"+e.work+"/socket", "DOCKER_CONFIG="+filepath.Join(*setup, "client"), "DOCKER_BUILDKIT=1")
	e.must(10*time.Second, "ip", "link", "set", "lo", "up")
	e.must(10*time.Second, "mount", "-t", "tmpfs", "tmpfs", "/run") // where programs of the engine leave things
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(*setup, "engine.log"))
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(filepath.Join(root, "usr/sbin/dockerd"), "--data-root", filepath.Join(*setup, "data"), "--exec-root", e.work+"/exec",
		"--pidfile", e.work+"/pid", "--host", "unix://"+e.work+"/socket", "--cgroup-parent", controlGroup)
	daemon.Env, daemon.Stdout, daemon.Stderr = e.env, log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(30*time.Second, func() { _ = daemon.Process.Kill() })
		_ = daemon.Wait() // it was told to end
		late.Stop()
		_ = log.Close()
		leaveControlGroups(t)
	})
	var version string
	until(t, time.Minute, "the engine answers", func() (ok bool) {
		version, err = e.run(10*time.Second, "", "docker", "version", "--format", "{{.Server.Version}}")
		return err == nil
	})
	// What a trial has left that was killed.
	if left := strings.Fields(e.must(time.Minute, "docker", "ps", "--all", "--quiet")); len(left) > 0 {
		e.must(time.Minute, "docker", append([]string{"rm", "--force"}, left...)...)
	}
	for _, what := range []string{"network", "volume"} {
		e.must(time.Minute, "docker", what, "prune", "--force")
	}
	compose := e.must(10*time.Second, "docker", "compose", "version", "--short")
	t.Logf("real: Docker Engine %s (Debian's), Docker Compose %s", strings.TrimSpace(version), strings.TrimSpace(compose))
	return e
}

// controlGroup is where the kernel accounts for containers, which no namespace hides.
const controlGroup = "/weir-stack"

// leaveControlGroups removes the empty groups that the engine leaves.
func leaveControlGroups(t *testing.T) {
	t.Helper()
	tops, err := filepath.Glob("/sys/fs/cgroup/*" + controlGroup)
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range append(tops, "/sys/fs/cgroup"+controlGroup) {
		var groups []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return err
		}) // which may not be there
		for _, group := range slices.Backward(groups) { // those within first
			if err := os.Remove(group); err != nil {
				t.Logf("%v", err)
			}
		}
	}
}

// run runs a command and returns what it printed, in an error also what it complained of.
func (e *engine) run(patience time.Duration, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	path := name
	for _, v := range e.env { // the last PATH counts
		if list, ok := strings.CutPrefix(v, "PATH="); ok {
			for _, folder := range filepath.SplitList(list) {
				if _, err := os.Stat(filepath.Join(folder, name)); err == nil && !strings.Contains(name, "/") {
					path = filepath.Join(folder, name)
					break
				}
			}
		}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	var said, complaints bytes.Buffer
	cmd.Dir, cmd.Env = dir, e.env
	cmd.Stdout, cmd.Stderr = &said, &complaints
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not within %v (%w)", patience, err)
		}
		return said.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(said.String()+"\n"+complaints.String(), 60))
	}
	return said.String(), nil
}

func (e *engine) must(patience time.Duration, name string, args ...string) string {
	e.t.Helper()
	said, err := e.run(patience, "", name, args...)
	if err != nil {
		e.t.Fatal(err)
	}
	return said
}

func tail(text string, lines int) string {
	list := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(list[max(0, len(list)-lines):], "\n")
}

// until calls try until it returns true.
func until(t *testing.T, patience time.Duration, what string, try func() bool) {
	t.Helper()
	begun := time.Now()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for !try() {
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		if time.Since(begun) > patience {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
