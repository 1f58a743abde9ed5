package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
)

// server is a weir that runs until it is told to end.
type server struct {
	cmd   *exec.Cmd
	lines chan string // of its log
}

// serve starts weir run with the flags.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatalf("build weir: %v", err)
	}
	return serveBy(t, binary, args...)
}

// serveBy is serve by another weir.
func serveBy(t *testing.T, binary string, args ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(binary, args...), lines: make(chan string, 1<<16)}
	s.cmd.Dir = t.TempDir()
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	go func() {
		defer close(s.lines)
		for r := bufio.NewReader(log); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				s.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

// await returns the first line of the log that holds the text.
func (s *server) await(t *testing.T, text string) string {
	t.Helper()
	var seen strings.Builder
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for {
		select {
		case line, ok := <-s.lines:
			if strings.Contains(line, text) {
				return line
			}
			if seen.WriteString(line); !ok {
				t.Fatalf("ended before %q was in the log:\n%s", text, seen.String())
			}
		case <-timeout.C:
			t.Fatalf("no %q in the log:\n%s", text, seen.String())
		}
	}
}

// end tells weir to end and returns its exit code.
func (s *server) end(t *testing.T, signal os.Signal) int {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Signal(syscall.SIGQUIT) })
	var log strings.Builder
	for line := range s.lines { // until it has closed its log
		log.WriteString(line)
	}
	_ = s.cmd.Wait()
	if !stuck.Stop() {
		t.Errorf("did not end within a minute:\n%s", log.String())
	}
	return s.cmd.ProcessState.ExitCode()
}

// stopped reads the topic of verdicts until one of them stops the flow.
func (b *broker) stopped(t *testing.T, s *server, topic, flow string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := b.client()
	meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil || len(meta.Topics) != 1 {
		t.Fatal(err, meta)
	}
	found := make(chan struct{}, len(meta.Topics[0].Partitions))
	for _, p := range meta.Topics[0].Partitions {
		go func() {
			r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{b.Addr}, Topic: topic, Partition: p.ID, MaxWait: 100 * time.Millisecond})
			defer r.Close()
			for {
				m, err := r.ReadMessage(ctx)
				if err != nil {
					return
				}
				var v events.Verdict
				if json.Unmarshal(m.Value, &v) == nil && v.CorrelationID == flow && v.Action == events.Deny {
					found <- struct{}{}
					return
				}
			}
		}()
	}
	select {
	case <-found:
	case <-ctx.Done():
		var log strings.Builder
		for more := true; more; {
			select {
			case line, ok := <-s.lines:
				log.WriteString(line)
				more = ok
			default:
				more = false
			}
		}
		t.Fatalf("no verdict stops %s in %s:\n%s", flow, topic, log.String())
	}
}

// TestRunOnKafka sees a verdict, and how the commands see the weir that gave it.
func TestRunOnKafka(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 3)
	const address = "http://weir-1.example:8080"
	s := serve(t, n.flags("run --listen 127.0.0.1:0 --metrics= --self-test 0 --log-format json", b, "--advertise", address)...)
	s.await(t, "weir is running")
	b.produce(t, n.events, nil, recordedMessages(t)...)
	b.stopped(t, s, n.verdicts, "loop")
	out := ""
	for range 100 { // until both groups have settled
		if out = expects(t, 0, nil, n.flags("lag", b)...); strings.Count(out, address) == 6 {
			break
		}
	}
	if strings.Count(out, address) != 6 {
		t.Errorf("the owner of the partitions is not seen:\n%s", out)
	}
	expects(t, 0, []string{"group " + n.group + " is Stable", "group " + n.group + "-agents is Stable"}, n.flags("lag", b)...)
	expects(t, 0, []string{n.group + ": 3 of 3 partitions owned by 1 weir", n.group + "-agents: 3 of 3 partitions owned by 1 weir"},
		n.flags("doctor --no-probe --state other", b)...)
	if code := s.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	expects(t, 0, []string{"nobody", "is Empty"}, n.flags("lag", b)...)
}

// TestRunWaitsForBrokers starts weir before anybody listens, and ends it.
func TestRunWaitsForBrokers(t *testing.T) {
	n := newNames(t)
	s := serve(t, n.flags("run --in-memory --listen 127.0.0.1:0 --metrics= --log-format json", newBroker(t, "127.0.0.1:1"))...)
	if line := s.await(t, "weir waits for the brokers"); !strings.Contains(line, "connection refused") {
		t.Errorf("the reason is not told: %s", line)
	}
	if code := s.end(t, syscall.SIGTERM); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}
