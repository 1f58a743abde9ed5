package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/weirtest"
	"weir/events"
)

// serve starts weir with the flags.
func serve(t *testing.T, args ...string) *weirtest.Weir {
	t.Helper()
	return weirtest.Start(t, weirtest.Options{}, args...)
}

// stopped reads the topic of verdicts until one of them stops the flow.
func (b *broker) stopped(t *testing.T, s *weirtest.Weir, topic, flow string) {
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
		t.Fatalf("no verdict stops %s in %s:\n%s", flow, topic, s.Log())
	}
}

// TestRunOnKafka sees a verdict, and how the commands see the weir that gave it.
func TestRunOnKafka(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 3)
	const address = "http://weir-1.example:8080"
	s := serve(t, n.flags("run --listen 127.0.0.1:0 --metrics= --self-test 0 --log-format json", b, "--advertise", address)...)
	s.Await("weir is running")
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
	if code := s.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	expects(t, 0, []string{"nobody", "is Empty"}, n.flags("lag", b)...)
}

// TestRunWaitsForBrokers starts weir before anybody listens, and ends it.
func TestRunWaitsForBrokers(t *testing.T) {
	n := newNames(t)
	s := serve(t, n.flags("run --in-memory --listen 127.0.0.1:0 --metrics= --log-format json", newBroker(t, "127.0.0.1:1"))...)
	if line := s.Await("weir waits for the brokers"); !strings.Contains(line, "connection refused") {
		t.Errorf("the reason is not told: %s", line)
	}
	if code := s.End(syscall.SIGTERM); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}
