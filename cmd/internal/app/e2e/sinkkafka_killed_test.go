package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"weir/cmd/weirtest"
	sinkkafka "weir/sink/kafka"
)

// mortal is a broker of the test's own, which may be killed and started again. It is a
// kfake that keeps its data on disk, or, with KAFKA_KILL=yes, a real broker, which needs
// Java and Maven.
type mortal struct {
	*broker
	dir  string
	port int
	real bool
}

func startMortal(t testing.TB) *mortal {
	t.Helper()
	port, err := weirtest.Ports(2) // kafka.sh takes the next one as well
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{dir: t.TempDir(), port: port, real: os.Getenv("KAFKA_KILL") == "yes"}
	m.broker = newBroker(t, fmt.Sprintf("127.0.0.1:%d", m.port))
	m.start(t)
	t.Cleanup(func() { m.kill(t) })
	return m
}

func (m *mortal) start(t testing.TB) {
	t.Helper()
	if m.real {
		if out, err := exec.Command("./kafka.sh", "start", m.dir, strconv.Itoa(m.port)).CombinedOutput(); err != nil {
			t.Fatalf("start Kafka: %v: %s", err, out)
		}
		return
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(m.port), kfake.DataDir(m.dir), kfake.SyncWrites())
	if err != nil {
		t.Fatalf("start kfake: %v", err)
	}
	m.Fake = c
}

// kill ends the broker at once.
func (m *mortal) kill(t testing.TB) {
	t.Helper()
	if !m.real {
		m.Fake.Close()
		return
	}
	text, err := os.ReadFile(filepath.Join(m.dir, "pid"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	until(t, "the end of the broker", func() bool {
		conn, err := net.Dial("tcp", m.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

// TestSinkBrokerKilled holds that a batch is stored once that the broker had stored, and
// not acknowledged, when it was killed, and that it knows the owner when it is back.
func TestSinkBrokerKilled(t *testing.T) {
	m := startMortal(t)
	topic := m.topic(t, 1)
	c := m.cluster(t)
	w := tap(c)
	p, err := sinkkafka.Open(t.Context(), c, "g", topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	old := p
	mustAppend(t, p, "start")
	want := []string{"start"}
	for round := range 3 {
		w.onProduce(nil, func(int, []byte) error { return io.ErrUnexpectedEOF })
		batch := []string{fmt.Sprintf("%d a", round), fmt.Sprintf("%d b", round)}
		end := int64(1 + len(want))
		done := make(chan error, 1)
		go func() {
			first, err := p.Append(t.Context(), messages(batch...))
			if err == nil && first != end {
				err = fmt.Errorf("appended at %d, want %d", first, end)
			}
			done <- err
		}()
		until(t, "a batch that was sent twice and not acknowledged", func() bool { return w.sent() > 2 })
		m.kill(t)
		w.onProduce(nil, nil)
		until(t, "trouble", func() bool {
			since, err := p.Trouble()
			return err != nil && !since.IsZero()
		})
		m.start(t)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want = append(want, batch...)
	}
	wantValues(t, m.records(t, topic, 0), want...)

	owner := openProducer(t, m.broker, "g", topic, 0)
	m.kill(t)
	m.start(t)
	if _, err := old.Append(t.Context(), messages("lost")); !errors.Is(err, sinkkafka.ErrFenced) {
		t.Errorf("after a restart of the broker the old owner is told %v", err)
	}
	mustAppend(t, owner, "end")
	wantValues(t, m.records(t, topic, 0), append(want, "end")...)
}
