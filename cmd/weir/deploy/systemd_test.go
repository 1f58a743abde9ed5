package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSystemd runs the commands at the head of the unit against an empty system, with the
// real systemctl, and lets systemd say what it thinks of the unit.
func TestSystemd(t *testing.T) {
	for _, program := range []string{"systemctl", "systemd-analyze"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("*** NOT CHECKED by systemd: %v ***", err)
		}
	}
	text, err := os.ReadFile("weir.service")
	if err != nil {
		t.Fatal(err)
	}
	system := t.TempDir()
	program(t, filepath.Join(system, "usr/local/bin/weir"))
	program(t, filepath.Join(system, "bin/kill"))
	units := filepath.Join(system, "lib/systemd/system") // those that the unit wants or comes after
	if err := os.CopyFS(units, os.DirFS("/lib/systemd/system")); err != nil {
		t.Fatal(err)
	}
	commands := head(string(text))
	for _, command := range commands {
		// Below the empty system, and nothing is started.
		command = strings.NewReplacer(" /etc/", " "+system+"/etc/", ">/etc/", ">"+system+"/etc/",
			"systemctl enable --now", "systemctl --root="+system+" enable").Replace(command)
		run := exec.CommandContext(t.Context(), "sh", "-ec", command)
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	if enabled, err := os.Readlink(filepath.Join(system, "etc/systemd/system/multi-user.target.wants/weir.service")); err != nil || enabled == "" {
		t.Errorf("the commands %q do not enable the unit: %v", commands, err)
	}
	for _, file := range []struct {
		name string
		mode os.FileMode // of which each bit is wanted
	}{{"etc/weir/limits.yaml", 0o444}, {"etc/weir/admin-token", 0o400}} {
		info, err := os.Stat(filepath.Join(system, file.name))
		if err != nil || info.Mode().Perm()&file.mode != file.mode {
			t.Errorf("%s: %v %v", file.name, info, err)
		}
		if !strings.Contains(string(text), "/"+file.name) {
			t.Errorf("the unit does not use /%s", file.name)
		}
	}
	if info, err := os.Stat(filepath.Join(system, "etc/weir/admin-token")); err == nil && info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read the admin token: %v", info.Mode())
	}
	verify := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--root="+system, "weir.service")
	if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), "weir.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// program puts an executable at a path.
func program(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
