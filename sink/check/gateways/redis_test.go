//go:build linux

package gateways

import (
	"bufio"
	"bytes"
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
	"testing"
	"time"

	"weir/cmd/weirtest"
	"weir/events"
	"weir/sink/guard"
)

// redisServer names the program that checks are measured beside.
const redisServer = "WEIR_REDIS"

// measured is how long each row of the comparison is.
const measured = 3 * time.Second

// script counts as the gateway system did with Redis: four counters with their limits,
// and nothing else.
const script = `for i = 1, 4 do local n = redis.call('INCR', KEYS[1] .. ':' .. i) if n == 1 then redis.call('EXPIRE', KEYS[1] .. ':' .. i, 600) end if n > 1000000 then return i end end return 0`

// baseWeir names another build of weir, which is measured in turn with this one.
const baseWeir = "WEIR_BASE"

// TestChecksBesideRedis measures POST /v1/check over loopback beside that script, in one
// run, with Redis in memory and with a log that it syncs before it answers, and the stream of asks
// that all who ask share who have one guard. Beside them stands what this machine takes at least.
// It asserts nothing: see what it prints.
func TestChecksBesideRedis(t *testing.T) {
	redis := os.Getenv(redisServer)
	if redis == "" {
		t.Skipf("MISSING: %s, the path of redis-server; run: make bench-check", redisServer)
	}
	builds := []struct{ name, binary string }{{"weir", build(t)}}
	if base := os.Getenv(baseWeir); base != "" {
		builds = append(builds, struct{ name, binary string }{"base", base})
	}
	t.Logf("%-26s %9s %10s %10s %10s %16s", "", "in flight", "p50", "p99", "per second", "per CPU second")
	measureSync(t)
	for _, inFlight := range []int{1, 16} {
		measure(t, "redis, four counters", inFlight, startRedis(t, redis, "--appendonly", "no"))
		measure(t, "redis, each synced", inFlight, startRedis(t, redis, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir()))
		measure(t, "floor, TCP in Go", inFlight, startEcho(t, "tcp"))
		measure(t, "the same, each synced", inFlight, startEcho(t, "sync"))
		measure(t, "floor, net/http", inFlight, startConstant(t, byConnection))
		measure(t, "the same, http client", inFlight, startConstant(t, byClient))
		for _, by := range []struct {
			name string
			ask  func(*testing.T, string) func(int) func(int) error
		}{{"request", byConnection}, {"http client", byClient}, {"stream", byGuard}} {
			for _, b := range builds {
				measure(t, b.name+", "+by.name+", memory", inFlight, startAsked(t, by.ask, b.binary, "--in-memory"))
			}
			for _, b := range builds {
				measure(t, b.name+", "+by.name+", disk", inFlight, startAsked(t, by.ask, b.binary, "--state", filepath.Join(t.TempDir(), "state")))
			}
		}
	}
}

// asked is a server, and how a connection to it asks once.
type asked struct {
	pid     int
	connect func(worker int) func(n int) error
	end     func()
}

func measure(t *testing.T, name string, inFlight int, s asked) {
	t.Helper()
	defer s.end()
	round := func(long time.Duration) (took []time.Duration) {
		var group sync.WaitGroup
		var mu sync.Mutex
		for worker := range inFlight {
			group.Go(func() {
				ask := s.connect(worker)
				var own []time.Duration
				for n, end := 0, time.Now().Add(long); time.Now().Before(end); n++ {
					begun := time.Now()
					if err := ask(n); err != nil {
						t.Error(err)
						return
					}
					own = append(own, time.Since(begun))
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, own...)
			})
		}
		group.Wait()
		return took
	}
	round(measured / 6) // to warm up
	before := cpu(t, s.pid)
	took := round(measured)
	spent := cpu(t, s.pid) - before
	slices.Sort(took)
	if len(took) == 0 || spent <= 0 {
		t.Fatalf("%s: %d answers in %s of CPU", name, len(took), spent)
	}
	t.Logf("%-26s %9d %10s %10s %10.0f %16.0f", name, inFlight, took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond),
		float64(len(took))/measured.Seconds(), float64(len(took))/spent.Seconds())
}

// cpu is what a process has used, of all its threads.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // of the 100 ticks of a second
}

func startRedis(t *testing.T, redis string, args ...string) asked {
	t.Helper()
	port := weirtest.Port(t)
	cmd := exec.Command(redis, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", ""}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, *bufio.Reader) {
		for range 500 {
			if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				return conn, bufio.NewReader(conn)
			}
			<-time.After(10 * time.Millisecond)
		}
		t.Error("redis does not listen")
		return nil, nil
	}
	return asked{cmd.Process.Pid, func(worker int) func(int) error {
		conn, in := dial()
		if conn == nil {
			return func(int) error { return io.EOF }
		}
		t.Cleanup(func() { _ = conn.Close() })
		command := func(args ...string) (string, error) {
			out := fmt.Appendf(nil, "*%d\r\n", len(args))
			for _, a := range args {
				out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(a), a)
			}
			if _, err := conn.Write(out); err != nil {
				return "", err
			}
			line, err := in.ReadString('\n')
			if err == nil && line[0] == '$' {
				line, err = in.ReadString('\n')
			}
			return strings.TrimSpace(line), err
		}
		sha, err := command("SCRIPT", "LOAD", script)
		if err != nil {
			return func(int) error { return err }
		}
		return func(n int) error {
			line, err := command("EVALSHA", sha, "1", fmt.Sprintf("f-%d-%d", worker, n/8))
			if err == nil && line != ":0" {
				err = fmt.Errorf("redis says %s", line)
			}
			return err
		}
	}, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }}
}

func startAsked(t *testing.T, asking func(t *testing.T, url string) func(worker int) func(n int) error, binary string, args ...string) asked {
	t.Helper()
	port := weirtest.Port(t)
	cmd := exec.Command(binary, append([]string{"run", "--listen", "127.0.0.1:" + port, "--metrics", "", "--self-test", "0", "--log-format", "json"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := "http://127.0.0.1:" + port
	for range 500 {
		if resp, err := http.Get(url + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	return asked{cmd.Process.Pid, asking(t, url), func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }}
}

// flowOf is the flow of an ask: a new one after eight, and in each minute.
func flowOf(worker, n int, at time.Time) string {
	return fmt.Sprintf("f-%d-%d-%d", worker, n/8, at.Unix()/60)
}

// byGuard asks by one guard that everybody shares.
func byGuard(t *testing.T, url string) func(worker int) func(n int) error {
	g, err := guard.New(guard.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return func(worker int) func(int) error {
		return func(n int) error {
			d := g.Ask(t.Context(), guard.Call{Flow: flowOf(worker, n, time.Now()), From: "a", To: "b", HadWork: events.Yes})
			if d.Stopped() || d.Source != guard.FromWeir {
				return fmt.Errorf("the guard answers %+v", d)
			}
			return nil
		}
	}
}

// eventOf is an ask as it is sent.
func eventOf(worker, n int) string {
	at := time.Now().UTC()
	return fmt.Sprintf(`{"id":"%d-%d-%d","source":"bench","time":%q,"kind":"agent.call","correlation_id":%q,"from":{"agent":"a"},"to":{"agent":"b"},"had_work":true}`,
		worker, n, at.UnixNano(), at.Format("2006-01-02T15:04:05.000Z"), flowOf(worker, n, at))
}

// byConnection asks by a request each, on a connection of each worker's own, and does as
// little itself as who asks Redis does: one write, and as much reading as tells where the
// answer ends.
func byConnection(t *testing.T, url string) func(worker int) func(n int) error {
	address := strings.TrimPrefix(url, "http://")
	return func(worker int) func(int) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return func(int) error { return err }
		}
		t.Cleanup(func() { _ = conn.Close() })
		in := bufio.NewReader(conn)
		var out []byte
		return func(n int) error {
			event := eventOf(worker, n)
			out = fmt.Appendf(out[:0], "POST /v1/check HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(event), event)
			if _, err := conn.Write(out); err != nil {
				return err
			}
			return readAnswer(in)
		}
	}
}

// readAnswer reads an answer that allows the call.
func readAnswer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("weir answers %s", line)
	}
	length := 0
	for len(line) > len("\r\n") {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	_, err = in.Discard(length)
	return err
}

// byClient asks by net/http's client, as a dispatcher in Go does, with connections of each
// worker's own.
func byClient(t *testing.T, url string) func(worker int) func(n int) error {
	return func(worker int) func(int) error {
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		return func(n int) error {
			resp, err := client.Post(url+"/v1/check", "application/json", strings.NewReader(eventOf(worker, n)))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("weir answers %s", resp.Status)
			}
			return nil
		}
	}
}
