package frameworks

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installed is the variable that names the folder of install.sh.
const installed = "WEIR_FRAMEWORKS"

// folder returns the folder of install.sh. Without one it skips the test.
func folder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(installed)
	if dir == "" {
		t.Skip("the frameworks are not installed; run: make guards")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// script is a program in an environment with nothing of the caller's but PATH. Its errors are kept.
type script struct {
	*exec.Cmd
	errs strings.Builder
}

func newScript(ctx context.Context, t *testing.T, command []string, env ...string) *script {
	s := &script{Cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_PROXY=127.0.0.1"}, env...)
	s.Stderr = &s.errs
	return s
}

// prints runs the script and reads what it prints into got.
func (s *script) prints(t *testing.T, got any) {
	t.Helper()
	out, err := s.Output()
	if err == nil {
		err = json.Unmarshal(out, got)
	}
	if err != nil {
		t.Fatalf("MISSING, or it failed: %v: %s%.3000s", err, out, &s.errs)
	}
}
