package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/events/kafka"
)

// TestBrokerKilled kills the real broker that kafka.sh runs in KAFKA_DIR, starts it
// again, and holds that a Reader and two members of a group go on without help. Such a
// broker is back only after some fifteen seconds.
func TestBrokerKilled(t *testing.T) {
	addr, dir := os.Getenv("KAFKA_ADDR"), os.Getenv("KAFKA_DIR")
	if addr == "" || dir == "" {
		t.Skip("KAFKA_ADDR and KAFKA_DIR are not set: no real broker to kill")
	}
	b := startBroker(t)
	ps := newProcesses(t, b, 4)
	options := func(o *kafka.GroupOptions) { o.Heartbeat = 0; o.JoinBackoff = 0 } // those of daily work
	first, second := ps.run(options), ps.run(options)
	settle(t, 4, first, second)
	topic := b.topic(t, 1)
	b.fill(t, topic, 100)
	r := b.reader(t, topic, 0, kafka.ReaderOptions{})
	mustRead(t, r, 0, 100)

	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	eventually(t, func() error {
		if got, err := r.Fetch(t.Context(), nil); err != nil || len(got) > 0 {
			t.Fatalf("%d records, %v", len(got), err)
		}
		if _, err := r.Trouble(); err == nil {
			return fmt.Errorf("no trouble without a broker")
		}
		return nil
	})
	_, port, _ := strings.Cut(addr, ":")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "./kafka.sh", "start", dir, port).CombinedOutput(); err != nil {
		t.Fatalf("start the broker again: %v\n%s", err, out)
	}
	t.Logf("started again %v after the kill", time.Since(killed).Round(time.Millisecond))
	c := b.franz(t)
	for i := range 10 {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", 100+i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	mustRead(t, r, 100, 10)
	t.Logf("read on after %v", time.Since(killed).Round(time.Millisecond))
	settle(t, 4, first, second)
	t.Logf("the group is whole after %v", time.Since(killed).Round(time.Millisecond))
}
