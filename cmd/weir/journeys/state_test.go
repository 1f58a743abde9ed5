package journeys

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// previous is the variable that names the folder of the weir of the commit before.
const previous = "WEIR_PREVIOUS"

// TestBackup follows the page through a backup, kill -9 and a restore.
func TestBackup(t *testing.T) {
	j := follow(t, "J16 backup", "cmd/weir/OPERATIONS.md", "Backup and restore", "after backup, kill -9 and restore: the same verdicts, still refused")
	w := j.weir("weir", "weir-state")
	before := j.traffic("f")
	j.run()
	w.Kill()
	j.run()
	w = j.serve()
	w.Ready()
	j.same(before, "f")
	if code := w.End(syscall.SIGTERM); code != 0 {
		t.Errorf("weir exits with %d", code)
	}
	j.Saw("%d verdicts again, byte for byte", len(before))
	j.done()
}

// TestUpgrade opens the state of the commit before with this weir by the steps of the page, and with the
// older one again. Where the formats of their states differ, the older one must reject the state, and
// opens the backup.
func TestUpgrade(t *testing.T) {
	j := follow(t, "J16 upgrade", "cmd/weir/OPERATIONS.md", "Upgrade and roll back", "the commit before, this one and back: the same verdicts")
	folder := os.Getenv(previous)
	if folder == "" {
		j.NotTested("%s names no weir of the commit before", previous)
	}
	older := filepath.Join(folder, "weir")
	w := j.weir(older, "weir-state")
	before := j.traffic("a")
	j.run() // the backup
	end := func(w *weirtest.Weir) {
		t.Helper()
		if code := w.End(syscall.SIGTERM); code != 0 {
			t.Errorf("weir exits with %d:\n%s", code, w.Log())
		}
	}
	end(w)
	w = j.serve()
	j.has(j.run(), "ready")
	j.same(before, "a")
	after := j.traffic("b")
	end(w)

	of, this := j.format(older), j.format("weir")
	w = weirtest.Start(t, weirtest.Options{Binary: older, Dir: j.dir, Env: j.env}, "run", "--state", "weir-state")
	w.URL = "http://" + j.address
	if opens := w.AwaitAny("weir is running", "state has a newer format") == "weir is running"; opens {
		w.Ready()
		j.same(after, "a", "b")
		end(w)
		if of != "unknown" && of != this {
			t.Errorf("a weir of format %s opens a state of format %s", of, this)
		}
		j.Saw("format %s, before %s: %d verdicts kept by the upgrade, %d on the way back", this, of, len(before), len(after))
		j.done()
		return
	}
	if of == this {
		t.Errorf("a weir of format %s rejects a state of this format:\n%s", of, w.Log())
	}
	if out, err := j.command(older, "restore", "weir.backup", "--state", "weir-back").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w = j.weir(older, "weir-back")
	j.same(before, "a")
	end(w)
	j.Saw("format %s to %s: %d verdicts kept; the older weir rejects the folder and opens the backup", of, this, len(before))
	j.done()
}

// weir starts a program with a state, and returns when it is ready.
func (j *journey) weir(program, folder string) *weirtest.Weir {
	j.Helper()
	if program == "weir" {
		program = weirtest.Binary(j)
	}
	w := weirtest.Start(j, weirtest.Options{Binary: program, Dir: j.dir, Env: j.env}, "run", "--state", folder)
	w.URL = "http://" + j.address
	w.Await("weir is running")
	w.Ready()
	return w
}

func (j *journey) command(program string, args ...string) *exec.Cmd {
	if program == "weir" {
		program = weirtest.Binary(j)
	}
	cmd := exec.CommandContext(j.Context(), program, args...)
	cmd.Dir, cmd.Env = j.dir, j.env
	return cmd
}

// format is that of the state which a program writes. Weirs of format 4 and before do not print it.
func (j *journey) format(program string) string {
	j.Helper()
	out, err := j.command(program, "version").Output()
	if err != nil {
		j.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if value, is := strings.CutPrefix(line, "state format"); is {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// traffic runs a loop until it is refused and an honest flow, both named after the prefix, and returns all verdicts.
func (j *journey) traffic(prefix string) []string {
	j.Helper()
	for n := range 40 {
		if !j.allowed(prefix+"-loop", "x", n) {
			break
		}
	}
	for n := range 10 {
		if !j.allowed(prefix+"-honest", fmt.Sprint(n), n) {
			j.Errorf("call %d of an honest flow is refused", n)
		}
	}
	return j.verdicts()
}

// allowed checks a call of a tool, and reports a result if it is allowed.
func (j *journey) allowed(flow, what string, n int) bool {
	j.Helper()
	sum := 0
	for _, c := range what {
		sum = sum*31 + int(c)
	}
	call := fmt.Sprintf(`"kind":"tool.%%s","time":%q,"correlation_id":%q,"from":{"agent":"planner"},"tool":{"name":"search","call_id":"%d"`, time.Now().UTC().Format(time.RFC3339Nano), flow, n)
	status := j.post("/v1/check", fmt.Sprintf(`{"id":"%s-c%d",`+call+`,"args_hash":"xxh64:%016x"}}`, flow, n, "call", sum))
	if status == http.StatusOK {
		j.post("/v1/events", fmt.Sprintf(`{"id":"%s-r%d",`+call+`},"content_hash":"xxh64:%016x"}`, flow, n, "result", sum))
	}
	return status == http.StatusOK
}

func (j *journey) post(path, body string) int {
	j.Helper()
	r, err := http.Post("http://"+j.address+path, "application/json", strings.NewReader(body))
	if err != nil {
		j.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode >= 500 || r.StatusCode == http.StatusBadRequest {
		j.Fatalf("%s: %d %s %v\n%s", path, r.StatusCode, answer, err, body)
	}
	return r.StatusCode
}

// verdicts are all, each as it is written.
func (j *journey) verdicts() (all []string) {
	j.Helper()
	r, err := http.Get("http://" + j.address + "/v1/verdicts")
	if err != nil {
		j.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if json.Valid(lines.Bytes()) {
			all = append(all, lines.Text())
		}
	}
	return all
}

// same fails unless the verdicts of before are the first ones now, the loops are still refused, and the honest flows go on.
func (j *journey) same(before []string, prefixes ...string) {
	j.Helper()
	now := j.verdicts()
	if len(before) == 0 || len(now) < len(before) || strings.Join(now[:len(before)], "\n") != strings.Join(before, "\n") {
		j.Errorf("the verdicts were\n%s\nand are\n%s", strings.Join(before, "\n"), strings.Join(now, "\n"))
	}
	for _, prefix := range prefixes {
		if j.allowed(prefix+"-loop", "x", 100+len(now)) {
			j.Errorf("a call of %s-loop is allowed again", prefix)
		}
		if !j.allowed(prefix+"-honest", fmt.Sprint(len(now), j.Name()), 100+len(now)) {
			j.Errorf("a call of %s-honest is refused", prefix)
		}
	}
}
