//go:build linux

package gateways

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// floorServer makes this test program one of the servers that do as little as can be, on
// the port that it names: what an answer costs here whoever gives it.
const floorServer = "WEIR_FLOOR"

func TestMain(m *testing.M) {
	kind, port, _ := strings.Cut(os.Getenv(floorServer), ":")
	serve := map[string]func(net.Listener) error{"http": constant, "tcp": echo, "sync": echoSynced}[kind]
	if serve == nil {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err == nil {
		err = serve(l)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// constant reads a request and answers as long as weir does, without a thought.
func constant(l net.Listener) error {
	answer := []byte(`{"verdict":{"action":"allow",` + strings.Repeat(" ", 500) + "}}\n")
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
}

// echo sends lines back.
func echo(l net.Listener) error { return answerLines(l, func([]byte) error { return nil }) }

// echoSynced sends lines back that are on the disk, one after the other.
func echoSynced(l net.Listener) error {
	f, err := os.CreateTemp("", "weir-floor")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil { // it is gone with the process
		return err
	}
	var mu sync.Mutex
	return answerLines(l, func(line []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := f.Write(line); err != nil {
			return err
		}
		return syscall.Fdatasync(int(f.Fd()))
	})
}

// answerLines keeps each line and sends it back.
func answerLines(l net.Listener, keep func(line []byte) error) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			in := bufio.NewReader(conn)
			for {
				line, err := in.ReadSlice('\n')
				if err == nil {
					err = keep(line)
				}
				if err != nil {
					return
				}
				if _, err := conn.Write(line); err != nil {
					return
				}
			}
		}()
	}
}

// startFloor starts such a server.
func startFloor(t *testing.T, kind string) (pid int, address string, end func()) {
	t.Helper()
	port := weirtest.Port(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), floorServer+"="+kind+":"+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = conn.Close()
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	return cmd.Process.Pid, "127.0.0.1:" + port, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
}

func startConstant(t *testing.T, asking func(*testing.T, string) func(int) func(int) error) asked {
	pid, address, end := startFloor(t, "http")
	return asked{pid, asking(t, "http://"+address), end}
}

func startEcho(t *testing.T, kind string) asked {
	pid, address, end := startFloor(t, kind)
	return asked{pid, func(int) func(int) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return func(int) error { return err }
		}
		t.Cleanup(func() { _ = conn.Close() })
		in := textproto.NewReader(bufio.NewReader(conn))
		return func(n int) error {
			if _, err := fmt.Fprintf(conn, "%0200d\n", n); err != nil {
				return err
			}
			_, err := in.ReadLine()
			return err
		}
	}, end}
}

// measureSync prints what one sync of a write takes on this disk: of a write that makes the
// file longer, and of one into room that was made before.
func measureSync(t *testing.T) {
	t.Helper()
	page := make([]byte, 512)
	for _, kind := range []struct {
		name string
		room int64
	}{{"sync, longer file", 0}, {"sync, room made", 64 << 20}} {
		f, err := os.Create(filepath.Join(t.TempDir(), "floor"))
		if err != nil {
			t.Fatal(err)
		}
		if kind.room > 0 { // written once, or each sync would note that there is something now
			if _, err := f.Write(make([]byte, kind.room)); err != nil {
				t.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		var took []time.Duration
		for begun, at := time.Now(), int64(0); time.Since(begun) < measured/3 && (kind.room == 0 || at < kind.room); at += int64(len(page)) {
			from := time.Now()
			if _, err := f.WriteAt(page, at); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Fdatasync(int(f.Fd())); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(from))
		}
		_ = f.Close()
		slices.Sort(took)
		t.Logf("%-26s %9d %10s %10s %10.0f", kind.name, 1, took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond),
			float64(len(took))/(measured/3).Seconds())
	}
}
