package journeys

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// patience bounds one command of a page on a busy machine.
const patience = 5 * time.Minute

// journey is a user in an empty environment who follows one section of a page.
type journey struct {
	*testing.T
	page    string
	blocks  []block
	dir     string // the working folder
	address string // of weir; stands in for the one that pages name
	env     []string
	lines   int // that the user wrote
	begun   time.Time
	promise string
}

// pageAddress is where weir listens unless a setting names another address.
const pageAddress = "127.0.0.1:8080"

// follow begins a journey. The promise is what the page says, for the table.
func follow(t *testing.T, page, heading, promise string) *journey {
	t.Helper()
	if testing.Short() {
		t.Skip("journeys run without -short, by make journeys")
	}
	t.Parallel()
	home := t.TempDir()
	j := &journey{T: t, page: page, blocks: blocksOf(t, page, heading), dir: filepath.Join(home, "work"), address: weirtest.Address(t), begun: time.Now(), promise: promise}
	if err := os.Mkdir(j.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	folder, err := weirtest.Build()
	if err != nil {
		t.Fatal(err)
	}
	// The last three keep a journey from the ports of others on this machine.
	j.env = []string{"HOME=" + home, "PATH=" + folder + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "WEIR_LISTEN=" + j.address, "WEIR_METRICS=127.0.0.1:0", "WEIR_SERVER=http://" + j.address}
	t.Cleanup(func() { arrived(j) })
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
	j.lines += b.lines()
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

// table has a row for each journey that has ended.
var table struct {
	sync.Mutex
	rows []string
}

func arrived(j *journey) {
	happened := "kept"
	switch {
	case j.Skipped():
		happened = "not tested"
	case j.Failed():
		happened = "BROKEN"
	}
	table.Lock()
	defer table.Unlock()
	table.rows = append(table.rows, fmt.Sprintf("%-18s %6.1f s %4d  %-10s  %s", strings.TrimPrefix(j.Name(), "Test"), time.Since(j.begun).Seconds(), j.lines, happened, j.promise))
}

// TestMain prints the table.
func TestMain(m *testing.M) {
	code := m.Run()
	if len(table.rows) > 0 {
		fmt.Printf("%-18s %8s %4s  %-10s  %s\n%s\n", "JOURNEY", "TOOK", "LINES", "PROMISE", "", strings.Join(table.rows, "\n"))
	}
	os.Exit(code)
}
