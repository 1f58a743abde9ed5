package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"syscall"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// flowOf is what the flow of a recorded run is called.
func flowOf(t *testing.T, format string, records ...[]byte) string {
	t.Helper()
	for _, line := range told(t, format, records...) {
		var ev struct {
			Flow string `json:"correlation_id"`
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		return ev.Flow
	}
	t.Fatal("the recording tells nothing")
	return ""
}

// TestIngestLive has a member of a group fold what weir ingest brings from a raw topic,
// and what programs send to the member itself.
func TestIngestLive(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	n.create(t, b, 3)
	raw := b.topic(t, 2)
	member := serve(t, n.flags("run", b, "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--metrics", "", "--log-format", "text")...)
	running := member.Await("weir is running")
	bridge := serve(t, n.flags("ingest", b, "--from-topic", raw, "--log-format", "text")...)

	byTopic := recordsOf(t, "google_adk/transfer_pingpong.otlp.jsonl.gz")
	for _, r := range byTopic {
		b.put(t, raw, 1, kafkago.Message{Key: []byte("k"), Value: r})
	}
	bridge.Await("format=otlp")
	b.stopped(t, member, n.verdicts, flowOf(t, "otlp", byTopic...))
	if code := bridge.End(syscall.SIGTERM); code != 0 {
		t.Errorf("weir ingest ended with exit code %d", code)
	}

	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(running)
	if address == nil {
		t.Fatalf("no address in %s", running)
	}
	byHTTP := recordsOf(t, "pydantic_ai/delegation_pingpong.otlp.jsonl.gz")
	for _, r := range byHTTP {
		answer, err := http.Post("http://"+address[1]+"/v1/traces", "application/json", bytes.NewReader(r))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("status %d", answer.StatusCode)
		}
	}
	b.stopped(t, member, n.verdicts, flowOf(t, "otlp", byHTTP...))
	if code := member.End(syscall.SIGTERM); code != 0 {
		t.Errorf("weir run ended with exit code %d", code)
	}
}
