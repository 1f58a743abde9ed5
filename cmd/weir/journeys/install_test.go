package journeys

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"weir/cmd/weirtest"
)

// release is the variable that names the folder of make release.
const release = "WEIR_RELEASE"

// TestInstall installs the archive and the two packages by the commands of the page.
func TestInstall(t *testing.T) {
	j := follow(t, "J0 install", "cmd/weir/OPERATIONS.md", "Install", "archive, wheel and npm package install without a network")
	from := os.Getenv(release)
	if from == "" {
		j.NotTested("%s names no folder of make release", release)
	}
	if err := os.CopyFS(j.dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	j.instead("linux_amd64", runtime.GOOS+"_"+runtime.GOARCH)
	// Nothing of a build, and no package registry.
	j.env = append(j.env[:1:1], "LC_ALL=C.UTF-8", "PIP_NO_INDEX=1", "npm_config_offline=true", "PATH=/usr/bin:/bin")
	out := j.run()
	j.has(out, "weir ", "v0.0.0", "revision", "state format")
	j.Saw("%s", firstWith(out, "weir "))
	if _, err := exec.LookPath("python3"); err != nil {
		j.NotTested("there is no python3")
	}
	j.run()
	j.imports(filepath.Join(j.dir, ".venv", "bin", "python"), "-c", "import weir_guard, weir_guard.hashes as h; print(h.__name__)")
	node, err := exec.LookPath("node")
	if err != nil {
		j.NotTested("there is no node")
	}
	j.env[len(j.env)-1] += ":" + filepath.Dir(node)
	j.run()
	if text, err := os.ReadFile(filepath.Join(j.dir, "node_modules", "weir-guard", "package.json")); err != nil || strings.Contains(string(text), `"scripts"`) {
		t.Errorf("the package has scripts, of which npm warns: %v\n%s", err, text)
	}
	j.imports(node, "--input-type=module", "-e", `import { Guard } from "weir-guard"; import "weir-guard/hashes"; console.log(Guard.name)`)
	j.done()
}

// imports runs a line of the user's own.
func (j *journey) imports(program string, args ...string) {
	j.Helper()
	out, err := j.command(program, args...).CombinedOutput()
	if err != nil {
		j.Errorf("%s: %v\n%s", program, err, out)
	}
	j.Saw("%s", strings.TrimSpace(string(out)))
}

// TestProgramsAreReleased holds that the other journeys use the programs of the release.
func TestProgramsAreReleased(t *testing.T) {
	if os.Getenv(release) == "" {
		t.Skip("no release is named; run: make journeys")
	}
	out, err := exec.Command(weirtest.Binary(t), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v0.0.0") {
		t.Errorf("%v\n%s", err, out)
	}
}
