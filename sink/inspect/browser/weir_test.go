package browser

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/events"
)

// weir is a weir that runs.
type weir struct {
	t   testing.TB
	url string
	n   int // of the last event
}

var listening = regexp.MustCompile(`127\.0\.0\.1:[1-9][0-9]*`)

// TestMain builds weir once, as users do.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "weir-browser")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(folder)
		binary = filepath.Join(folder, "weir")
		build := exec.Command("go", "build", "-o", binary, "./cmd/weir")
		build.Dir = "../../.."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build weir: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

var binary string // of weir; set by TestMain

// start starts weir in memory, with more flags.
func start(t testing.TB, flags ...string) *weir {
	t.Helper()
	cmd := exec.Command(binary, "run", "--in-memory", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--self-test", "0")
	cmd.Args = append(cmd.Args, flags...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "weir is running") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &weir{t: t, url: "http://" + listening.FindString(lines.Text())}
		}
	}
	t.Fatalf("weir did not start:\n%s", said.String())
	return nil
}

// call is a call of an agent in a flow, an event of this moment.
func (w *weir) call(flow, from, to string) events.Event {
	w.n++
	ev := events.Event{ID: fmt.Sprint("e", w.n), Source: "browser", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: flow, HadWork: events.No}
	ev.From.Session, ev.To.Session = from, to
	return ev
}

// tool is a call of a tool, and its result.
func (w *weir) tool(flow, from, tool string, args uint64) []events.Event {
	call := w.call(flow, from, "")
	call.Kind, call.Tool.Name, call.Tool.CallID, call.HadWork = events.ToolCall, tool, fmt.Sprint("c", w.n), events.Unknown
	call.Tool.ArgsHash = events.Hash{Algorithm: events.XXH64, Value: args}
	result := call
	w.n++
	result.ID, result.Kind, result.Status = fmt.Sprint("e", w.n), events.ToolResult, events.StatusOK
	result.Content = events.Hash{Algorithm: events.XXH64, Value: args}
	return []events.Event{call, result}
}

func (w *weir) send(evs ...events.Event) {
	w.t.Helper()
	for len(evs) > 0 {
		n := min(len(evs), 1000)
		var body bytes.Buffer
		for i := range evs[:n] {
			body.Write(append(evs[i].AppendJSON(nil), '\n'))
		}
		evs = evs[n:]
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.url+"/v1/events", &body)
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			w.t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode >= 300 {
			w.t.Fatalf("events were refused: %s: %s", resp.Status, text)
		}
	}
}

// story is flows that are worth looking at: one that is stopped, one that works.
func (w *weir) story() {
	user := w.call("checkout-7f3a", "", "planner")
	evs := []events.Event{user}
	evs = append(evs, w.tool("checkout-7f3a", "planner", "search_orders", 1)...)
	for range 9 {
		evs = append(evs, w.call("checkout-7f3a", "planner", "reviewer"), w.call("checkout-7f3a", "reviewer", "planner"))
	}
	evs = append(evs, w.call("report-11", "", "writer"))
	for i := range 4 {
		evs = append(evs, w.tool("report-11", "writer", "read_page", uint64(i))...)
	}
	helper := w.call("report-11", "writer", "editor")
	helper.HadWork = events.Yes
	back := w.call("report-11", "editor", "writer")
	back.Kind = events.AgentReturn
	w.send(append(evs, helper, back)...)
}
