package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

var (
	soak     = flag.Duration("soak", 0, "run TestSoak for so long; 0 skips it")
	soakSeed = flag.Uint64("soak-seed", 0, "seed of its faults; 0 takes one by the clock and prints it")
	hostile  = flag.Int("hostile", 8, "how many hostile senders there are in it")
	soakCalm = flag.Bool("soak-calm", false, "break nothing: no kills, clocks, disks or other limits, and hostile senders alone")
	soakPlot = flag.String("soak-plot", "", "write a line of figures a second to this `FILE` as CSV")
)

// soakChild names the folder of a process that TestSoak has started.
const soakChild = "WEIR_SOAK_CHILD"

// stepped is the clock of the machine, which the test can set.
type stepped struct {
	begun time.Time
	ahead atomic.Int64
}

func (c *stepped) Now() time.Time                         { return time.Now().Round(0).Add(time.Duration(c.ahead.Load())) }
func (c *stepped) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (c *stepped) Uptime() time.Duration                  { return time.Since(c.begun) }

// TestSoakChild is the weir of TestSoak, in a process of its own.
func TestSoakChild(t *testing.T) {
	dir := os.Getenv(soakChild)
	if dir == "" {
		t.Skip("it is a process of TestSoak")
	}
	debug.SetGCPercent(75) // as weir run does
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: soakRoom, Max: soakRoom}); err != nil {
		t.Fatal(err)
	}
	address, err := os.ReadFile(filepath.Join(dir, "address"))
	if err != nil {
		t.Fatal(err)
	}
	listen, metrics, _ := strings.Cut(string(address), " ")
	c := &stepped{begun: time.Now()}
	a, err := New(Options{Listen: listen, Metrics: metrics, Authz: true, StateDir: filepath.Join(dir, "state"), LimitsFile: filepath.Join(dir, "limits.yaml"), Clock: c, SelfTest: time.Minute,
		Follow: []intake.Follow{{Path: filepath.Join(dir, "logs")}}, VerdictFile: filepath.Join(dir, "verdicts.jsonl"), Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	for ended := false; !ended; {
		select {
		case <-end:
			ended = true
		case <-a.Done():
			t.Error("weir cannot go on:", a.Err())
			ended = true
		case <-time.After(100 * time.Millisecond):
			text, _ := os.ReadFile(filepath.Join(dir, "clock"))
			n, _ := strconv.ParseInt(string(text), 10, 64)
			c.ahead.Store(n)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// soaking is a weir under load and faults.
type soaking struct {
	*testing.T
	ctx              context.Context
	cancel           context.CancelFunc
	dir              string
	address, metrics string
	child            *exec.Cmd
	disk             bool // the state is on a disk whose size can be changed

	away  atomic.Bool  // it was ended, or cannot write: honest senders try again
	pid   atomic.Int64 // of the child
	mu    sync.Mutex
	acked []string
	took  []time.Duration // of honest requests that were answered while nothing was broken
	tries atomic.Int64

	attacks atomic.Int64 // what hostile senders have sent, or begun to
}

// TestSoak runs a weir for long, under kills, clocks that are set, a full disk, other limits,
// files and followers that come and go, and hostile senders. Nothing that was acknowledged may
// be lost, and what it takes has to stay the same.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("it runs for long: make soak T=1h")
	}
	seed := *soakSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (again: -soak-seed %d)", seed, seed)
	random := rand.New(rand.NewPCG(seed, 1))
	ctx, cancel := context.WithTimeout(t.Context(), *soak)
	defer cancel()
	s := &soaking{T: t, ctx: ctx, cancel: cancel, dir: t.TempDir()}
	s.setUp()
	s.start()
	var senders sync.WaitGroup
	for i := range honestSenders {
		senders.Go(func() { s.honest(i) })
	}
	for i := range *hostile {
		senders.Go(func() { s.hostile(rand.New(rand.NewPCG(seed, uint64(i)+2))) })
	}
	senders.Go(func() { s.followers() })
	var plot [][]string
	senders.Go(func() { plot = s.watch() })
	// Kills in the first half: in the second one process has to stay as it is.
	begun, n := time.Now(), 0
	if *soakCalm {
		<-ctx.Done()
	}
	for ctx.Err() == nil {
		faults := []func(*rand.Rand){s.setClock, s.otherLimits, s.fullDisk}
		if time.Since(begun) < *soak/2 {
			faults = append(faults, s.kill, s.kill)
		}
		faults[random.IntN(len(faults))](random)
		n++
		s.pause(*soak / 60)
	}
	senders.Wait()
	s.write("clock", "0")
	s.end(syscall.SIGTERM)
	s.tell(plot, n)
	s.compare()
}

func (s *soaking) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *soaking) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

func (s *soaking) setUp() {
	var ports []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.Fatal(err)
		}
		ports = append(ports, l.Addr().String())
		_ = l.Close()
	}
	s.address, s.metrics = "http://"+ports[0], "http://"+ports[1]+"/metrics"
	s.write("address", strings.Join(ports, " "))
	s.write("clock", "0")
	s.write("limits.yaml", "profile: balanced\n")
	for _, name := range []string{"state", "logs"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			s.Fatal(err)
		}
	}
	if *soakCalm {
		return // on the disk that is there, which is slower than memory
	}
	disk := filepath.Join(s.dir, "state")
	if s.disk = exec.Command("mount", "-t", "tmpfs", "-o", "size=4g", "soak", disk).Run() == nil; !s.disk {
		s.Log("MISSING: the right to mount a small disk; the disk will not be full")
		return
	}
	s.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() }) // the folder goes away in any case
}

func (s *soaking) start() {
	s.Helper()
	s.child = exec.Command(os.Args[0], "-test.run", "^TestSoakChild$", "-test.timeout", "0")
	s.child.Env = append(os.Environ(), soakChild+"="+s.dir)
	s.child.Stdout, s.child.Stderr = os.Stderr, os.Stderr
	if err := s.child.Start(); err != nil {
		s.Fatal(err)
	}
	s.pid.Store(int64(s.child.Process.Pid))
	for tries := 0; ; tries++ {
		if resp, err := http.Get(s.address + "/healthz"); err == nil {
			_ = resp.Body.Close()
			break
		} else if tries > 600 {
			s.Fatal("weir does not start: ", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.away.Store(false)
}

func (s *soaking) end(by os.Signal) {
	s.away.Store(true)
	if err := s.child.Process.Signal(by); err != nil {
		s.Error("weir has ended by itself:", err)
	}
	if err := s.child.Wait(); err != nil && by != os.Kill {
		s.Error(err)
	}
}

func (s *soaking) kill(*rand.Rand) {
	s.end(os.Kill)
	s.start()
}

func (s *soaking) setClock(random *rand.Rand) {
	for _, ahead := range []time.Duration{time.Duration(random.IntN(3*3600)-3600) * time.Second, 0} {
		s.write("clock", fmt.Sprint(int64(ahead)))
		s.pause(min(*soak/200, 20*time.Second))
	}
}

func (s *soaking) otherLimits(random *rand.Rand) {
	s.write("limits.yaml", fmt.Sprintf("profile: balanced\nrules: {max_total_calls: {max: %d}}\n", 100+random.IntN(50)))
}

func (s *soaking) fullDisk(*rand.Rand) {
	if !s.disk {
		return
	}
	disk := filepath.Join(s.dir, "state")
	var st syscall.Statfs_t
	if err := syscall.Statfs(disk, &st); err != nil {
		s.Fatal(err)
	}
	s.away.Store(true)
	small := fmt.Sprintf("remount,size=%dm", (st.Blocks-st.Bfree)*uint64(st.Bsize)>>20+100) // below the floor
	out, err := exec.Command("mount", "-o", small, disk).CombinedOutput()
	s.pause(min(*soak/100, 10*time.Second))
	if again, aerr := exec.Command("mount", "-o", "remount,size=4g", disk).CombinedOutput(); aerr != nil {
		s.Fatalf("%v: %s", aerr, again)
	}
	if err != nil { // it holds more than that by now
		s.Logf("the disk could not be made full: %s", out)
	}
	s.pause(2 * time.Second) // it goes on by itself
	s.away.Store(false)
}

// The number of honest senders is such that they keep their rate, a fixed number of events a
// second for all together, also when a request takes a while.
const (
	honestSenders = 50
	honestRate    = 500
)

// honest sends its part of the events, each until it is acknowledged.
func (s *soaking) honest(sender int) {
	const batch = 5
	client := &http.Client{Timeout: 10 * time.Second}
	every := time.NewTicker(time.Second * batch * honestSenders / honestRate)
	defer every.Stop()
	for n := 0; s.ctx.Err() == nil; n += batch {
		var body strings.Builder
		var ids []string
		for i := n; i < n+batch; i++ {
			id := fmt.Sprintf("s%d-%d", sender, i)
			fmt.Fprintf(&body, `{"id":%q,"source":"soak","time":%q,"kind":"agent.call","correlation_id":"honest-%d-%d","from":{"agent":"a%d"},"to":{"agent":"b%d"}}`+"\n",
				id, time.Now().UTC().Format(time.RFC3339Nano), sender, i/10, i%10, i%7)
			ids = append(ids, id)
		}
		for s.ctx.Err() == nil {
			whole, begun := !s.away.Load(), time.Now()
			resp, err := client.Post(s.address+"/v1/events", "application/x-ndjson", strings.NewReader(body.String()))
			ok := err == nil && resp.StatusCode == http.StatusAccepted
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			took := time.Since(begun)
			if whole = whole && !s.away.Load(); whole && !ok {
				s.tries.Add(1)
			}
			if !ok {
				s.pause(50 * time.Millisecond)
				continue
			}
			s.mu.Lock()
			s.acked = append(s.acked, ids...)
			if whole {
				s.took = append(s.took, took)
			}
			s.mu.Unlock()
			break
		}
		select {
		case <-every.C:
		case <-s.ctx.Done():
		}
	}
}

// bombs are bodies that are small on the wire, or dear to look at.
var bombs = sync.OnceValue(func() []bomb {
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	keys := func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, `"%x":0,`, i)
		}
		return b.String() + `"z":0`
	}
	empties := func(size int) string { return strings.Repeat("{},", size/3) + "{}" }
	return []bomb{
		{"/v1/events", "application/x-ndjson", "gzip", packed(strings.Repeat("x\n", 16<<20))},
		{"/v1/events", "application/x-ndjson", "gzip", packed(packed(strings.Repeat("\n", 16<<20)))},
		{"/v1/events", "application/x-ndjson", "gzip", strings.Repeat(packed("\n"), 200_000)},
		{"/v1/events", "application/x-ndjson", "", strings.Repeat("x\n", 2<<20)},
		{"/v1/events", "application/x-ndjson", "", `{"id":"` + strings.Repeat("x", 7<<20)},
		{"/v1/traces", "application/json", "gzip", packed(`{"resourceSpans":[` + empties(30<<20) + `]}`)},
		{"/v1/traces", "application/json", "", `{"resourceSpans":[` + empties(7<<20) + `]}`},
		{"/v1/traces", "application/x-protobuf", "", strings.Repeat("\n\x00", 3<<20)},
		{"/v1/logs", "application/json", "", `{"resourceLogs":` + strings.Repeat("[", 4<<20)},
		{"/runs/batch", "application/json", "", `{"post":[` + empties(7<<20) + `]}`},
		{"/runs/multipart", "multipart/form-data; boundary=b", "", strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"post.x\"\r\n\r\n{}\r\n", 100_000)},
		{"/v1/hook", "application/json", "", `{"hook_event_name":"PreToolUse","tool_name":"x","session_id":"s","tool_input":{` + keys(7<<20) + `}}`},
		{"/v1/check", "application/json", "", `{"id":"x","kind":"tool.call","tool":{"name":"t","args":{` + keys(1<<20-200) + `}}}`},
		{"/v1/check", "application/x-ndjson", "", strings.Repeat(`{"id":"x","kind":"agent.call"}`+"\n", 30_000)},
		{"/authz/traefik", "application/json", "", "[" + empties(1<<20-10) + "]"},
		{"/authz/traefik", "application/json", "", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","parts":[` + empties(1<<20-200) + `]}}}`},
		{"/v1/notes", "application/json", "", `{"author":"a","summary":"s","tags":[` + strings.Repeat(`"",`, 20_000) + `""]}`},
	}
})

type bomb struct{ path, media, coding, body string }

// hostile sends what it can, and holds connections.
func (s *soaking) hostile(random *rand.Rand) {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 2}}
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	for s.ctx.Err() == nil {
		s.attacks.Add(1)
		switch x := random.IntN(10); {
		case x < 7:
			b := bombs()[random.IntN(len(bombs()))]
			r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.address+b.path, strings.NewReader(b.body))
			if err != nil {
				s.Error(err)
				return
			}
			r.Header.Set("Content-Type", b.media)
			if b.coding != "" {
				r.Header.Set("Content-Encoding", b.coding)
			}
			if resp, err := client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			} else {
				s.pause(20 * time.Millisecond)
			}
		case x < 9: // half a body, half a head, or a stream that is not read
			c, err := net.Dial("tcp", strings.TrimPrefix(s.address, "http://"))
			if err != nil {
				s.pause(100 * time.Millisecond)
				continue
			}
			text := []string{"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{", "GET /v1/ver", "GET /v1/verdicts?since=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"}
			_, _ = io.WriteString(c, text[random.IntN(len(text))])
			if held = append(held, c); len(held) > 60 {
				_ = held[0].Close()
				held = held[1:]
			}
		default:
			for _, path := range []string{"/v1/flows?limit=5000&sort=near", "/v1/verdicts", "/v1/agents?limit=5000", "/v1/deadletters?limit=1000"} {
				if resp, err := client.Get(s.address + path); err == nil {
					_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<20))
					_ = resp.Body.Close()
				}
			}
		}
	}
}

// followers come and go, and so do files.
func (s *soaking) followers() {
	for n := 0; s.ctx.Err() == nil; n++ {
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+"/v1/verdicts?since=now", nil)
		if err != nil {
			s.Error(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		} else {
			s.pause(100 * time.Millisecond)
		}
		cancel()
		if n%5 == 0 {
			s.write(fmt.Sprintf("logs/%d.jsonl", n), fmt.Sprintf(`{"id":"file-%d","source":"file","time":%q,"kind":"agent.call","correlation_id":"file-%d","from":{"agent":"a"},"to":{"agent":"b"}}`+"\n", n, time.Now().UTC().Format(time.RFC3339), n))
		}
		if n%5 == 4 && n > 500 {
			_ = os.Remove(filepath.Join(s.dir, fmt.Sprintf("logs/%d.jsonl", n-504)))
		}
	}
}

// The columns of the plot.
var soakColumns = []string{"second", "process", "private_mib", "descriptors", "goroutines", "series", "resident_mib", "acknowledged"}

// soakRoom is how many bytes of its own a process may take: the limit of the example for
// Kubernetes, whose kernel would end it beyond them. What it has mapped of the store's files
// is not among them, since the kernel takes that back when it needs the room.
const soakRoom = 2 << 30

// soakIdle is how long a flow of the soak stays in memory after its last event, and a while for
// the pump to look.
func soakIdle() time.Duration { return limitfile.Default().Flow.Idle * 11 / 10 }

// watch notes each second what weir takes.
func (s *soaking) watch() (plot [][]string) {
	begun := time.Now()
	client := &http.Client{Timeout: 5 * time.Second}
	for s.ctx.Err() == nil {
		s.pause(time.Second)
		pid := s.pid.Load()
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		private, resident := 0, 0
		for name, n := range map[string]*int{"RssAnon:": &private, "VmRSS:": &resident} {
			if _, rest, ok := strings.Cut(string(status), name); ok && err == nil {
				_, _ = fmt.Sscan(rest, n)
			}
		}
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		goroutines, series := 0, 0
		if resp, err := client.Get(s.metrics); err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			for line := range strings.Lines(string(text)) {
				if !strings.HasPrefix(line, "#") {
					series++
				}
				_, _ = fmt.Sscanf(line, "go_goroutines %d", &goroutines)
			}
		}
		if strings.Contains(string(status), "State:\tZ") && pid == s.pid.Load() && !s.away.Load() {
			s.Error("weir has ended by itself")
			s.cancel() // or another program may get its port, and acknowledge what is sent there
		}
		if resident == 0 || series == 0 {
			continue // it is being started
		}
		s.mu.Lock()
		acked := len(s.acked)
		s.mu.Unlock()
		line := []string{fmt.Sprint(int(time.Since(begun).Seconds()))}
		for _, n := range []int{int(pid), private >> 10, len(open), goroutines, series, resident >> 10, acked} {
			line = append(line, fmt.Sprint(n))
		}
		plot = append(plot, line)
	}
	return plot
}

// tell says what was measured, and holds the second half to staying as it is.
func (s *soaking) tell(plot [][]string, faults int) {
	if *soakPlot != "" {
		f, err := os.Create(*soakPlot)
		if err == nil {
			w := csv.NewWriter(f)
			err = w.WriteAll(append([][]string{soakColumns}, plot...))
		}
		if err != nil {
			s.Error(err)
		}
	}
	slices.Sort(s.took)
	if len(s.took) == 0 || len(plot) < 20 {
		s.Fatal("nothing was measured")
	}
	p99 := s.took[len(s.took)*99/100]
	s.Logf("%d faults, %d events acknowledged, honest requests p50 %v, p99 %v, the longest %v; %d were to be sent again while nothing was broken", faults, len(s.acked), s.took[len(s.took)/2].Round(time.Millisecond),
		p99.Round(time.Millisecond), s.took[len(s.took)-1].Round(time.Millisecond), s.tries.Load())
	s.Logf("%d senders were hostile %d times", *hostile, s.attacks.Load())
	last := plot[len(plot)-1][1]
	same := slices.IndexFunc(plot, func(line []string) bool { return line[1] == last })
	one := plot[same:] // process
	quarter := func(from, to int, column int) (least, middle, most int) {
		var list []int
		for _, line := range one[from:to] {
			n, _ := strconv.Atoi(line[column])
			list = append(list, n)
		}
		slices.Sort(list)
		return list[0], list[len(list)/2], list[len(list)-1]
	}
	// What is kept of flows grows with them until the first have been silent for so long that
	// they leave memory; only then a process that grows keeps what it should not.
	began, _ := strconv.Atoi(one[0][0])
	settled := slices.IndexFunc(one, func(line []string) bool {
		second, _ := strconv.Atoi(line[0])
		return time.Duration(second-began)*time.Second > soakIdle()
	})
	for column := 2; column <= 5; column++ {
		from, to := len(one)/4, len(one)/2
		if soakColumns[column] == "private_mib" {
			if from, to = settled, settled+(len(one)-settled)/3; settled < 0 || to-from < 60 {
				s.Logf("MISSING: the last process is too young to say whether its memory grows; flows leave it after %v", soakIdle())
				continue
			}
		}
		_, early, _ := quarter(from, to, column)
		_, late, most := quarter(len(one)*3/4, len(one), column)
		s.Logf("%-13s in the middle of the last process %d, at its end %d, at most %d", soakColumns[column], early, late, most)
		if slack := early/4 + 32; late > early+slack {
			s.Errorf("%s grows: from %d to %d", soakColumns[column], early, late)
		}
	}
	peak := [2]int{}
	for _, line := range plot {
		for i, column := range []int{2, 6} {
			n, _ := strconv.Atoi(line[column])
			peak[i] = max(peak[i], n)
		}
	}
	s.Logf("at most %d MiB of a process were its own, of %d that it was given, and %d resident with what it had mapped of files", peak[0], soakRoom>>20, peak[1])
}

// compare folds the journal again, and looks for what was acknowledged.
func (s *soaking) compare() {
	store, err := state.Open(filepath.Join(s.dir, "state"), state.Options{})
	if err != nil {
		s.Fatal(err)
	}
	defer store.Close()
	again, err := pump.NewReplay(context.Background(), pump.Options{Limits: limitfile.Default(),
		Parse: func(b []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", b) }})
	if err != nil {
		s.Fatal(err)
	}
	all := func(log *state.Log, fn func(*state.Entry)) {
		for from := int64(0); from < log.End(); {
			batch, err := log.Read(from, 1000, nil)
			if err != nil {
				s.Fatal(err)
			}
			for i := range batch {
				fn(&batch[i])
			}
			from += int64(len(batch))
		}
	}
	stored := make(map[string]bool)
	// Each stage keeps its order, and not both together.
	var got, want [2][]string
	stage := func(v string) int {
		if strings.Contains(v, `"scope":{"kind":"flow"`) {
			return 0
		}
		return 1
	}
	all(store.Journal(0), func(e *state.Entry) {
		var ev events.Event
		if err := events.Decode(e.Value, &ev); err != nil {
			s.Fatalf("journal %d: %v", e.Offset, err)
		}
		ev.Appended = e.Appended
		stored[strings.Clone(ev.ID)] = true
		for _, v := range again.Fold(&ev, e.Offset) {
			line := string(v.AppendJSON(nil))
			want[stage(line)] = append(want[stage(line)], line)
		}
	})
	lost := 0
	for _, id := range s.acked {
		if !stored[id] {
			lost++
		}
	}
	all(store.Verdicts(0), func(e *state.Entry) {
		got[stage(string(e.Value))] = append(got[stage(string(e.Value))], string(e.Value))
	})
	s.Logf("%d records in the journal, %d of %d acknowledged lost, %d verdicts about flows and %d others, of the plain fold %d and %d", len(stored), lost, len(s.acked), len(got[0]), len(got[1]), len(want[0]), len(want[1]))
	if lost > 0 {
		s.Error("acknowledged events are lost")
	}
	for i := range got {
		for n := range max(len(got[i]), len(want[i])) {
			if n >= len(got[i]) || n >= len(want[i]) || got[i][n] != want[i][n] {
				s.Errorf("verdict %d is\n%q\nand of the plain fold\n%q", n, got[i][min(n, len(got[i])):min(n+1, len(got[i]))], want[i][min(n, len(want[i])):min(n+1, len(want[i]))])
				break
			}
		}
	}
}
