package journeys

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// patience bounds one command of a page on a busy machine.
const patience = 5 * time.Minute

// journey is a user in an empty environment who follows one section of a page.
type journey struct {
	*weirtest.Journey
	page    string
	blocks  []block
	dir     string // the working folder
	address string // of weir; stands in for the one that pages name
	env     []string
}

// pageAddress is where weir listens unless a setting names another address.
const pageAddress = "127.0.0.1:8080"

// follow begins a journey by its name, such as "J2 LangGraph". The promise is what the page says, for the table.
func follow(t *testing.T, name, page, heading, promise string) *journey {
	t.Helper()
	if testing.Short() {
		t.Skip("journeys run without -short, by make journeys")
	}
	t.Parallel()
	home := t.TempDir()
	j := &journey{Journey: weirtest.NewJourney(t, name, promise), page: page, blocks: blocksOf(t, page, heading), dir: filepath.Join(home, "work"), address: weirtest.Address(t)}
	if err := os.Mkdir(j.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	folder, err := weirtest.Build()
	if err != nil {
		t.Fatal(err)
	}
	// The last three keep a journey from the ports of others on this machine.
	j.env = []string{"HOME=" + home, "PATH=" + folder + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "WEIR_LISTEN=" + j.address, "WEIR_METRICS=127.0.0.1:0", "WEIR_SERVER=http://" + j.address}
	return j
}

// next takes the next block of the section, which has to be in the language.
func (j *journey) next(language string) block {
	j.Helper()
	if len(j.blocks) == 0 {
		j.Fatalf("%s has no further block", j.page)
	}
	b := j.blocks[0]
	if b.language != language {
		j.Fatalf("%s:%d: the block is in %q, want %q", j.page, b.line, b.language, language)
	}
	j.blocks = j.blocks[1:]
	j.Lines += b.lines()
	b.text = strings.ReplaceAll(b.text, pageAddress, j.address)
	return b
}

// run runs the next block by bash and returns what it prints.
func (j *journey) run() string {
	j.Helper()
	b := j.next("sh")
	ctx, cancel := context.WithTimeout(j.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-euo", "pipefail", "-c", b.text)
	cmd.Dir, cmd.Env = j.dir, j.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		j.Fatalf("%s:%d: %v\n%s%s", j.page, b.line, err, b.text, out)
	}
	return string(out)
}

// serve runs the next block, which is one command that goes on, and returns when weir listens.
func (j *journey) serve() *weirtest.Weir {
	j.Helper()
	b := j.next("sh")
	w := weirtest.Start(j, weirtest.Options{Binary: "/bin/bash", Dir: j.dir, Env: j.env}, "-c", "exec "+b.text)
	w.URL = "http://" + j.address
	w.Await("weir is running")
	return w
}

// save writes the next block into a file.
func (j *journey) save(language, name string) {
	j.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, name), []byte(j.next(language).text), 0o644); err != nil {
		j.Fatal(err)
	}
}

// add appends a text to a file of the page.
func (j *journey) add(name, text string) {
	j.Helper()
	path := filepath.Join(j.dir, name)
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(before, text...), 0o644)
	}
	if err != nil {
		j.Fatal(err)
	}
}

// has fails unless the text contains each of the parts.
func (j *journey) has(text string, parts ...string) {
	j.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			j.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// done fails if the section has blocks that no test ran.
func (j *journey) done() {
	j.Helper()
	for _, b := range j.blocks {
		j.Errorf("%s:%d: no test runs this block", j.page, b.line)
	}
}
