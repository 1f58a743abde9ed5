package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/cmd/weirtest"
)

// build makes the program and returns the path of a copy, which stays as it is while a trial lasts.
func build(dir string) (string, error) {
	folder, err := weirtest.Build()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "weir")
	// A file that this process had open for writing could not be run while it starts another program.
	if out, err := exec.Command("cp", filepath.Join(folder, "weir"), binary).CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy weir: %w: %s", err, out)
	}
	return binary, nil
}

// buildOptimized builds weir into a folder as releases are built, by its profile, and returns the binary. build
// goes without the profile, as all tests do. A release that is given is taken as it is.
func buildOptimized(dir string) (string, error) {
	if os.Getenv(weirtest.Programs) != "" {
		return build(dir)
	}
	binary := filepath.Join(dir, "weir")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-pgo=auto", "-o", binary, "./cmd/weir")
	cmd.Dir, cmd.Env = weirtest.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return binary, nil
}

// member is one `weir run` with a state folder of its own, through all its restarts.
// Its folder and its address stay the same, as those of a machine do.
type member struct {
	name   string
	binary string
	dir    string // its state
	// listen is for requests; the trial reads /readyz there.
	listen  string
	brokers string // "": it is no member of a group
	group   string
	flags   []string    // further ones
	tls     *tls.Config // of its clients; nil without TLS

	// mu guards what follows: the schedule and the goroutine that waits for the process both
	// use it.
	mu  sync.Mutex
	run *run
	// expected is set before the process is stopped, so wait knows that the stop was
	// intended.
	expected bool // the end of the present run
	frozen   bool
	// failures are unexpected exits. Each is a problem of the storm.
	failures []string
	// away says whether the broker is away; nil where it never is. A process that is started
	// meanwhile ends after its minute of waiting, as it should, for whatever starts it again:
	// vain counts those.
	away func() bool
	vain int
}

// run is one process of a member.
// The times in it are counted from started, so they hold the start of a process, which
// users wait for, too.
type run struct {
	cmd     *exec.Cmd
	started time.Time
	done    chan struct{} // closed when it has ended
	err     error         // then

	mu        sync.Mutex
	up, ready time.Duration // from the start to the first answer and until it has caught up; 0 while that is to come
	why       string        // it is not ready
}

// newMember returns one that does not run yet. Its port is chosen once and kept.
func newMember(binary, dir, name, brokers, group string, flags ...string) (*member, error) {
	port, err := weirtest.Ports(1)
	if err != nil {
		return nil, err
	}
	return &member{name: name, binary: binary, dir: filepath.Join(dir, name), listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		brokers: brokers, group: group, flags: flags}, nil
}

// url is its address without a path.
func (m *member) url() string {
	if m.tls != nil {
		return "https://" + m.listen
	}
	return "http://" + m.listen
}

// start begins a process of the member and returns it at once.
//
// The log is appended to through all restarts, so what came before a failure stands there.
func (m *member) start() error {
	log, err := os.OpenFile(m.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// Flags that are given again take the place of these, as that of the metrics in a soak.
	args := append([]string{"run", "--metrics", "127.0.0.1:0", "--state", m.dir, "--listen", m.listen, "--log-format", "json"}, m.flags...)
	if m.brokers != "" {
		args = append(args, "--brokers", m.brokers, "--group", m.group)
	}
	r := &run{cmd: exec.Command(m.binary, args...), done: make(chan struct{})}
	// The child has the file itself, so no goroutine has to copy what it says.
	r.cmd.Stdout, r.cmd.Stderr = log, log
	// A trial that is killed leaves no members behind.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.started = time.Now()
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	m.mu.Lock()
	m.run, m.expected, m.frozen = r, false, false
	m.mu.Unlock()
	// Both goroutines end with the process, at the latest.
	go m.wait(r)
	go r.watch(m.url()+"/readyz", m.tls)
	return nil
}

// wait notes an unexpected exit and starts the member again, so that one
// failure does not hide the next.
// After twenty of them it is left dead: it ends at each start, and nothing more is learned.
func (m *member) wait(r *run) {
	r.err = r.cmd.Wait()
	_, ready := r.times()
	waited := ready == 0 && m.away != nil && m.away()
	m.mu.Lock()
	// A member that was started again by hand meanwhile has another run.
	surprise := !m.expected && m.run == r
	switch {
	case surprise && waited:
		m.vain++
	case surprise:
		m.failures = append(m.failures, fmt.Sprintf("%s ended by itself after %s: %v\n%s", m.name, time.Since(r.started).Round(time.Millisecond), r.err, m.lastLines(6)))
	}
	tired := len(m.failures) > 20
	m.mu.Unlock()
	close(r.done)
	if surprise && !tired {
		// As whatever restarts services would do it, not in a loop without a pause.
		<-time.After(500 * time.Millisecond)
		m.mu.Lock()
		again := m.run == r && !m.expected
		m.mu.Unlock()
		if again {
			_ = m.start()
		}
	}
}

// watch notes when the process first answers and when it is first ready.
// It asks every ten milliseconds until the process is ready or has ended; that is as fine
// as the times are.
func (r *run) watch(url string, by *tls.Config) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	// A frozen process takes connections and answers none.
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: by}}
	defer client.CloseIdleConnections()
	for before := false; ; { // what it says must hold for two answers

		if resp, err := client.Get(url); err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			var state struct{ Why []string }
			err := json.Unmarshal(body, &state)
			// The loop by which weir tests itself comes once in a minute; it is not what is
			// measured here.
			caughtUp := err == nil && !slices.ContainsFunc(state.Why, func(why string) bool { return !strings.Contains(why, "own loop") })
			r.mu.Lock()
			if r.up == 0 {
				r.up = time.Since(r.started)
			}
			// The last word of a process that is never ready, for the problem.
			r.why = fmt.Sprint(state.Why)
			if caughtUp && before {
				r.ready = time.Since(r.started)
			}
			before = caughtUp
			ready := r.ready > 0
			r.mu.Unlock()
			if ready {
				return
			}
		}
		select {
		case <-r.done:
			return
		case <-again.C:
		}
	}
}

// times are those of the first answer and of being ready, from the start of the process on;
// 0 while they are to come.
func (r *run) times() (up, ready time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up, r.ready
}

// current is the process that the member is now.
func (m *member) current() *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

// expect says that the end of the present run is asked for, and returns that.
func (m *member) expect() *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expected = true
	return m.run
}

// kill ends the process as a crash would and returns when it is gone.
// Its state stays as it was on disk at that moment.
func (m *member) kill() error {
	r := m.expect()
	err := r.cmd.Process.Kill()
	<-r.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// most is how long a member may take to end in order.
// It is what weir gives itself to end in order; closing the state may take five seconds
// more, for which stop waits.
const most = 20 * time.Second

// stop ends the process in order and returns how long that took. A process that
// needs more than it may is killed, which is an error.
func (m *member) stop() (time.Duration, error) {
	r := m.expect()
	began := time.Now()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-r.done:
	// A process that hangs at its end would keep its partitions for as long as it does.
	case <-time.After(most + 5*time.Second):
		_ = m.kill()
		return time.Since(began), fmt.Errorf("%s did not end within %s of SIGTERM\n%s", m.name, most, m.lastLines(6))
	}
	// One that has not begun yet, or waits for the broker to begin, has nothing to end in
	// order, and says so.
	if up, _ := r.times(); r.err != nil && up > 0 {
		return time.Since(began), fmt.Errorf("%s ended by SIGTERM with: %w\n%s", m.name, r.err, m.lastLines(6))
	}
	return time.Since(began), nil
}

// freeze and thaw stop the process in its tracks and let it go on.
// SIGSTOP can be neither caught nor noticed: to the group it looks like a machine that
// hangs.
func (m *member) freeze() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
	return m.run.cmd.Process.Signal(syscall.SIGSTOP)
}

// thaw may be called for a process that is not frozen.
func (m *member) thaw() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	return m.run.cmd.Process.Signal(syscall.SIGCONT)
}

// isFrozen reports whether freeze was called and thaw not yet; a new process is not frozen.
func (m *member) isFrozen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen
}

// lose throws the state away.
// The process has to have ended. Its log lies beside the folder and stays.
func (m *member) lose() error { return os.RemoveAll(m.dir) }

// takeover is the moment at which a member began to fold a partition of the events, and
// from where.
type takeover struct {
	Time      time.Time
	Msg       string
	Topic     string
	Partition int32
	Next      int64
}

// takeovers are those of the member, in order.
// They stand in its log, as JSON, since the times of the trial would only be those at which
// it looked.
func (m *member) takeovers() (list []takeover, err error) {
	text, err := os.ReadFile(m.dir + ".log")
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var t takeover
		if json.Unmarshal(line, &t) == nil && t.Msg == "partition taken over" && t.Topic != defaultTopics().activity {
			list = append(list, t)
		}
	}
	return list, nil
}

// lastLines is the end of the log of the member.
// It is for the text of problems, so an error is text, too.
func (m *member) lastLines(n int) string {
	text, err := os.ReadFile(m.dir + ".log")
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
