package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/weirtest"
)

// TestIngestRate prints how many records a CPU second of weir ingest brings from one
// topic onto the other.
func TestIngestRate(t *testing.T) {
	b := startBroker(t)
	rate := func(what string, units int, records [][]byte) {
		t.Helper()
		n := newNames(t)
		expects(t, 0, nil, n.flags("topics create", b, "--partitions", "4", "--replication", "1")...)
		raw := b.topic(t, 1)
		var messages []kafkago.Message
		size := 0
		for _, r := range records {
			if size += len(r); size > 500_000 && len(messages) > 0 {
				b.put(t, raw, 0, messages...)
				messages, size = messages[:0], len(r)
			}
			messages = append(messages, kafkago.Message{Key: []byte("k"), Value: r})
		}
		if len(messages) > 0 {
			b.put(t, raw, 0, messages...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, weirtest.Binary(t), n.flags("ingest", b, "--from-topic", raw, "--until", "end")...)
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		t.Logf("%-10s %8d of them, %8.0f per CPU second, %8.0f per second", what, units, float64(units)/cpu.Seconds(), float64(units)/time.Since(begin).Seconds())
	}
	var events [][]byte
	for i := range 100_000 {
		events = append(events, fmt.Appendf(nil, `{"id":"m-%d","source":"/bus","time":"2026-11-20T14:00:04.123Z","kind":"tool.call","correlation_id":"flow-%d","from":{"agent":"planner"},`+
			`"tool":{"name":"search","call_id":"c-%d","args_hash":"xxh64:4f3a2b9c00112233"},"trace_id":"0af7651916cd43dd8448eb211c80319c"}`, i, i/20, i))
	}
	rate("events", len(events), events)

	id := regexp.MustCompile(`("traceId": ?")[0-9a-fA-F]{8}`)
	var batches [][]byte
	spans := 0
	for _, name := range []string{"google_adk/transfer_pingpong", "pydantic_ai/delegation_pingpong", "agent_framework/handoff_pingpong"} {
		for _, batch := range recordsOf(t, name+".otlp.jsonl.gz") {
			for copied := range 100 {
				batches = append(batches, id.ReplaceAll(batch, fmt.Appendf(nil, "${1}%08x", copied)))
				spans += bytes.Count(batch, []byte(`"traceId"`))
			}
		}
	}
	rate("spans", spans, batches)
}
