package weirtest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a test waits for on a busy machine.
const patience = time.Minute

// Options say how Start starts a program; the zero value starts the built weir in an empty environment.
type Options struct {
	Binary string   // the built weir if empty
	Dir    string   // the working folder; a new empty one if empty
	Env    []string // added to PATH and a HOME of its own
}

// Weir is a running weir. It is killed when the test ends.
type Weir struct {
	URL string // where it listens for requests; set by Run
	Cmd *exec.Cmd

	t     testing.TB
	ended chan struct{} // closed when the process has ended and its log is read

	mu   sync.Mutex
	log  strings.Builder
	more chan struct{} // closed and replaced at each line
}

// Run starts `weir run` on a free port and returns when it listens. Flags given here replace those set by Run.
func Run(t testing.TB, args ...string) *Weir {
	t.Helper()
	return RunWith(t, Options{}, args...)
}

// RunWith is Run with options.
func RunWith(t testing.TB, o Options, args ...string) *Weir {
	t.Helper()
	w := Start(t, o, append([]string{"run", "--listen", "127.0.0.1:0", "--metrics", "", "--log-format", "json"}, args...)...)
	w.URL = "http://" + w.Address("weir is running")
	return w
}

// Start starts weir with the arguments and returns at once.
func Start(t testing.TB, o Options, args ...string) *Weir {
	t.Helper()
	if o.Binary == "" {
		o.Binary = Binary(t)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	w := &Weir{Cmd: exec.Command(o.Binary, args...), t: t, ended: make(chan struct{}), more: make(chan struct{})}
	w.Cmd.Dir, w.Cmd.SysProcAttr = o.Dir, diesWithUs()
	w.Cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, o.Env...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Cmd.Stdout, w.Cmd.Stderr = in, in
	if err := w.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	go w.read(out)
	t.Cleanup(w.Kill)
	return w
}

func (w *Weir) read(out *os.File) {
	defer close(w.ended)
	defer out.Close()
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		w.mu.Lock()
		w.log.WriteString(line)
		close(w.more)
		w.more = make(chan struct{})
		w.mu.Unlock()
		if err != nil {
			_ = w.Cmd.Wait() // the caller reads the exit code
			return
		}
	}
}

// Log returns what weir has printed so far.
func (w *Weir) Log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// Await returns the first line of the log that contains the text, and waits for it if need be.
func (w *Weir) Await(text string) string {
	w.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for over := false; ; {
		w.mu.Lock()
		log, more := w.log.String(), w.more
		w.mu.Unlock()
		for line := range strings.Lines(log) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				return line
			}
		}
		if over {
			w.t.Fatalf("weir ended with exit code %d before its log had %q:\n%s", w.Cmd.ProcessState.ExitCode(), text, log)
		}
		select {
		case <-more:
		case <-w.ended:
			over = true
		case <-timeout.C:
			w.t.Fatalf("no %q in the log within %s:\n%s", text, patience, log)
		}
	}
}

// AwaitAny waits until the log has one of the texts, and returns it.
func (w *Weir) AwaitAny(texts ...string) string {
	w.t.Helper()
	for deadline := time.After(patience); ; {
		log := w.Log()
		for _, text := range texts {
			if strings.Contains(log, text) {
				return text
			}
		}
		select {
		case <-deadline:
			w.t.Fatalf("none of %q in the log within %s:\n%s", texts, patience, log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Address returns the address in the first line of the log whose message is msg. The log has to be JSON.
func (w *Weir) Address(msg string) string {
	w.t.Helper()
	text := w.Await(`"` + msg + `"`)
	var line struct{ Msg, Address string }
	if err := json.Unmarshal([]byte(text), &line); err != nil || line.Msg != msg || line.Address == "" {
		w.t.Fatalf("no address in the log line %q: %v", text, err)
	}
	return line.Address
}

// Ready returns when weir answers /readyz with 200.
func (w *Weir) Ready() {
	w.t.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if r, err := http.Get(w.URL + "/readyz"); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-again.C:
		case <-w.ended:
			w.t.Fatalf("weir ended before it was ready:\n%s", w.Log())
		case <-deadline:
			w.t.Fatalf("weir is not ready within %s:\n%s", patience, w.Log())
		}
	}
}

// Signal sends a signal.
func (w *Weir) Signal(s os.Signal) {
	w.t.Helper()
	if err := w.Cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// End sends a signal, waits until weir has ended, and returns its exit code.
func (w *Weir) End(s os.Signal) int {
	w.t.Helper()
	w.Signal(s)
	select {
	case <-w.ended:
	case <-time.After(patience):
		_ = w.Cmd.Process.Signal(syscall.SIGQUIT) // prints all goroutines
		<-w.ended
		w.t.Fatalf("weir did not end within %s of %s:\n%s", patience, s, w.Log())
	}
	return w.Cmd.ProcessState.ExitCode()
}

// Kill ends weir as a crash does, and returns when it is gone.
func (w *Weir) Kill() {
	_ = w.Cmd.Process.Kill()
	<-w.ended
}

// Command runs a command of weir to its end.
func Command(t testing.TB, o Options, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if o.Binary == "" {
		o.Binary = Binary(t)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), o.Binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.Dir, &out, &errs
	cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, o.Env)
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("weir %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
