package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"google.golang.org/protobuf/encoding/protowire"

	"weir/cmd/internal/ingest"
	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/registry"
	"weir/events/kafka"
)

// put writes messages to a partition in their order.
func (b *broker) put(t *testing.T, topic string, partition int, messages ...kafkago.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := kafkago.DialLeader(ctx, "tcp", b.Addr, topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.WriteMessages(messages...); err != nil {
		t.Fatal(err)
	}
}

// all returns the records of a topic, with the partition that each is in.
func (b *broker) all(t *testing.T, topic string) (out []kafkago.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &kafka.Cluster{Brokers: []string{b.Addr}}
	defer c.Close()
	n, err := c.Partitions(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for p := range n {
		first, end, err := c.Bounds(ctx, topic, p)
		if err != nil {
			t.Fatal(err)
		}
		r := kafka.NewReader(c, topic, p, first, kafka.ReaderOptions{})
		var records []kafka.Record
		for r.Next() < end {
			if records, err = r.Fetch(ctx, records); err != nil {
				t.Fatal(err)
			}
			for _, m := range records {
				message := kafkago.Message{Partition: p, Offset: m.Offset, Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value)}
				for _, h := range m.Headers {
					message.Headers = append(message.Headers, kafkago.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
				}
				out = append(out, message)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// eventsOf returns the events of records by id, of one that came twice the first.
func eventsOf(t *testing.T, records []kafkago.Message) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range records {
		var ev events.Event
		if err := events.Decode(m.Value, &ev); err != nil {
			t.Fatalf("%s: %v", m.Value, err)
		}
		if want := ev.FlowKey(); string(m.Key) != want {
			t.Errorf("event %s has the key %q, want %q", ev.ID, m.Key, want)
		}
		if id := ev.Source + " " + ev.ID; out[id] == "" {
			out[id] = string(m.Value)
		}
	}
	return out
}

// recordingPath is the file of a recorded run.
func recordingPath(name string) string {
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "events", "adapter", "testdata", "real", name))
	if err != nil {
		panic(err) // there is no current folder
	}
	return path
}

// recordsOf are the records of a recorded run.
func recordsOf(t *testing.T, name string) (out [][]byte) {
	t.Helper()
	file, err := os.Open(recordingPath(name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := adapter.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	r.Use(adapter.Documents, func(f adapter.Fault) { t.Error(f) })
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, bytes.Clone(record.Bytes))
	}
}

// told are the events that an adapter makes of records, as eventsOf returns them.
func told(t *testing.T, format string, records ...[]byte) map[string]string {
	t.Helper()
	f, err := registry.Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	a, out := f.New(adapter.Options{}), map[string]string{}
	emit := func(e *events.Event) { out[e.Source+" "+e.ID] = string(e.AppendJSON(nil)) }
	for _, r := range records {
		if err := a.Decode(r, emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(emit); err != nil {
		t.Fatal(err)
	}
	return out
}

// protoSpan is an OTLP batch with the visit of one agent, in protobuf.
func protoSpan() []byte {
	field := func(n protowire.Number, inside ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), inside)
	}
	attribute := func(key, value string) []byte {
		return field(9, append(field(1, []byte(key)...), field(2, field(1, []byte(value)...)...)...)...)
	}
	span := slices.Concat(field(1, bytes.Repeat([]byte{0xab}, 16)...), field(2, 1, 2, 3, 4, 5, 6, 7, 8),
		attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.agent.name", "clerk"))
	span = protowire.AppendFixed64(protowire.AppendTag(span, 7, protowire.Fixed64Type), 1771900000000000000)
	span = protowire.AppendFixed64(protowire.AppendTag(span, 8, protowire.Fixed64Type), 1771900001000000000)
	return field(1, field(2, field(2, span...)...)...)
}

// protoSpanJSON is the same as OTLP JSON.
const protoSpanJSON = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"abababababababababababababababab","spanId":"0102030405060708",` +
	`"startTimeUnixNano":"1771900000000000000","endTimeUnixNano":"1771900001000000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"invoke_agent"}},` +
	`{"key":"gen_ai.agent.name","value":{"stringValue":"clerk"}}]}]}]}]}`

func TestIngestTopic(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	expects(t, 0, nil, n.flags("topics create", b, "--partitions", "4", "--replication", "1")...)
	raw := b.topic(t, 2)
	header := func(pairs ...string) (out []kafkago.Header) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, kafkago.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return out
	}
	canonical := func(id string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"source":"/bus","time":"2026-11-20T14:00:00.000Z","kind":"agent.call","correlation_id":"flow-%s","to":{"agent":"b"}}`, id, id)
	}
	k := []byte("key")
	spans := recordsOf(t, "google_adk/transfer_pingpong.otlp.jsonl.gz")
	var first []kafkago.Message
	for _, s := range spans {
		first = append(first, kafkago.Message{Key: k, Value: s})
	}
	first = append(first, kafkago.Message{Key: k, Value: protoSpan()})
	b.put(t, raw, 0, first...)
	b.put(t, raw, 1,
		kafkago.Message{Key: k, Value: canonical("plain")},
		kafkago.Message{Key: k, Value: append([]byte{0, 0, 0, 0, 7}, canonical("framed")...)},
		kafkago.Message{Key: k, Value: []byte(`{"to":{"agent":"b"}}`), Headers: header("ce_specversion", "1.0", "ce_id", "binary", "ce_source", "/bus",
			"ce_type", "weir.agent.call.v1", "ce_time", "2026-11-20T14:00:00Z", "ce_correlationid", "flow-binary", "content-type", "application/json")},
		kafkago.Message{Key: k, Value: []byte(`{"specversion":"1.0","id":"structured","source":"/bus","type":"weir.agent.call.v1","time":"2026-11-20T14:00:00Z","correlationid":"flow-structured","data":{"to":{"agent":"b"}}}`)},
		kafkago.Message{Key: k}, // deletes a key, and tells nothing
		kafkago.Message{Key: k, Value: []byte("\x00\x00\x00\x00\x07\x02\x06foo")},
		kafkago.Message{Key: k, Value: []byte(`{"what":"is this"}`)},
		kafkago.Message{Key: k, Value: []byte(`{"resourceSpans":[],"resourceLogs":[]}`)},
		kafkago.Message{Key: k, Value: []byte(`{"id":"broken","kind":"agent.call"}`)},
	)
	run := func(code int, texts ...string) {
		t.Helper()
		expects(t, code, texts, n.flags("ingest", b, "--from-topic", raw, "--until", "end", "--log-format", "text")...)
	}
	run(3, "format=otlp", `envelope="OTLP protobuf (spans)"`, "format=canonical", `envelope="CloudEvents (binary)"`, `envelope="CloudEvents (structured)"`,
		`envelope="schema registry (schema 7)"`, "told_by=content", fmt.Sprintf("%d records read", len(spans)+10), "4 records refused")

	want := told(t, "otlp", append(slices.Clone(spans), []byte(protoSpanJSON))...)
	for _, id := range []string{"plain", "framed", "binary", "structured"} {
		want["/bus "+id] = string(canonical(id))
	}
	written := b.all(t, n.events)
	got := eventsOf(t, written)
	if len(written) != len(want) {
		t.Errorf("%d events were written, want %d", len(written), len(want))
	}
	for id, line := range want {
		if got[id] != line {
			t.Errorf("event %s\ngot  %s\nwant %s", id, got[id], line)
		}
	}
	for _, m := range written {
		if p := (kafkago.Murmur2Balancer{Consistent: true}).Balance(m, 0, 1, 2, 3); p != m.Partition {
			t.Errorf("key %s is in partition %d, and murmur2 gives %d", m.Key, m.Partition, p)
		}
	}

	deadLetters := b.all(t, n.deadLetters)
	var reasons []string
	for _, m := range deadLetters {
		if m.Partition != 1 {
			t.Errorf("a dead letter of partition 1 is in partition %d", m.Partition)
		}
		of := map[string]string{}
		for _, h := range m.Headers {
			of[h.Key] = string(h.Value)
		}
		if of["weir-source-topic"] != raw || of["weir-source-partition"] != "1" {
			t.Errorf("headers %q", of)
		}
		reasons = append(reasons, fmt.Sprintf("%s %s %s: %s", of["weir-source-offset"], of["weir-error"], of["weir-reason"], m.Value))
	}
	for i, part := range []string{"5 syntax", "6 format unknown format", "7 format ambiguous format: the input looks like each of otlp, otlplogs", "8 missing_field"} {
		if i >= len(reasons) || !strings.HasPrefix(reasons[i], part) {
			t.Errorf("dead letters\n%s\nwant the %d. to begin with %q", strings.Join(reasons, "\n"), i+1, part)
		}
	}

	// A second run has nothing to do, and a third only what is new.
	run(0, "0 events written")
	b.put(t, raw, 1, kafkago.Message{Key: k, Value: canonical("later")})
	run(0, "1 event written")
	if now := b.all(t, n.events); len(now) != len(want)+1 {
		t.Errorf("%d events are on the topic, want %d", len(now), len(want)+1)
	}
}

// TestIngestWithoutTopics says what is missing, and ends.
func TestIngestWithoutTopics(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	expects(t, 1, []string{n.events, "weir topics create"}, n.flags("ingest", b, recordingPath("crewai/tool_loop.jsonl.gz"))...)
	expects(t, 0, nil, n.flags("topics create", b, "--partitions", "1", "--replication", "1")...)
	expects(t, 1, []string{n.group + "-raw does not exist", "--from-topic names"}, n.flags("ingest", b, "--from-topic", n.group+"-raw")...)
	expects(t, 1, []string{"unknown format"}, n.flags("ingest", b, recordingPath("README.md"))...)
}

// TestIngestTwice reads files, reads them again, and reads the same records from a
// topic. The verdicts stay what they were.
func TestIngestTwice(t *testing.T) {
	b, n := startBroker(t), newNames(t)
	expects(t, 0, nil, n.flags("topics create", b, "--partitions", "3", "--replication", "1")...)
	raw := b.topic(t, 1)
	names := []string{"google_adk/transfer_pingpong.otlp.jsonl.gz", "crewai/tool_loop.jsonl.gz", "langgraph/handoff_pingpong.langsmith_batch.jsonl.gz", "openai_agents/tool_loop.jsonl.gz"}
	verdicts := func(repeats string) string {
		t.Helper()
		out := expects(t, 0, []string{repeats}, n.flags("replay", b, "-o", "json", "--quiet")...)
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(out), "\n"), func(line string) bool { return strings.HasPrefix(line, `{"summary"`) })
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	var files []string
	for _, name := range names {
		files = append(files, recordingPath(name))
	}
	expects(t, 0, []string{"(detected)", "0 records refused"}, n.flags("ingest", b, files...)...)
	events := len(b.all(t, n.events))
	before := verdicts(`"events":98,"bad_records"`)
	if !strings.Contains(before, `"action":"halt"`) && !strings.Contains(before, `"action":"deny"`) {
		t.Errorf("no loop is stopped:\n%s", before)
	}
	expects(t, 0, nil, n.flags("ingest", b, files...)...)
	if again := verdicts(`"events":98,"duplicates":98`); again != before {
		t.Errorf("read twice, the files give other verdicts:\n%.2000s\nand before\n%.2000s", again, before)
	}
	for _, name := range names {
		for _, r := range recordsOf(t, name) {
			b.put(t, raw, 0, kafkago.Message{Key: []byte("k"), Value: r})
		}
	}
	expects(t, 0, []string{"format=otlp", "format=crewai", "format=langsmith", "format=openaiagents"}, n.flags("ingest", b, "--from-topic", raw, "--until", "end", "--log-format", "text")...)
	if again := verdicts(`"events":98,"duplicates":196`); again != before {
		t.Errorf("read from a topic, too, the records give other verdicts:\n%.2000s\nand before\n%.2000s", again, before)
	}
	t.Logf("%d events from files; %d with the files again and the topic; %d verdicts each time", events, len(b.all(t, n.events)), strings.Count(before, "\n")+1)
}

// TestIngestCrash ends the ingest of a topic at random moments and begins anew, often
// while spans are held back. Every event has to come, as it comes without a crash.
func TestIngestCrash(t *testing.T) {
	b := startBroker(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	raw, out, deadLetters := b.topic(t, 1), b.topic(t, 3), b.topic(t, 3)
	var records [][]byte
	for _, name := range []string{"google_adk/transfer_pingpong", "google_adk/honest", "pydantic_ai/delegation_pingpong", "smolagents/managed_agent_loop", "vercel_ai_sdk/subagent_pingpong"} {
		records = append(records, recordsOf(t, name+".otlp.jsonl.gz")...)
	}
	want := told(t, "otlp", records...)
	cluster := &kafka.Cluster{Brokers: []string{b.Addr}}
	defer cluster.Close()
	begin := func() *ingest.Topic {
		return &ingest.Topic{Cluster: cluster, Name: raw, Group: raw, Events: out, DeadLetters: deadLetters, CommitEvery: time.Nanosecond,
			Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	}
	crashes := 0
	for i, r := range records {
		b.put(t, raw, 0, kafkago.Message{Key: []byte("k"), Value: r})
		if random.IntN(4) > 0 && i < len(records)-1 {
			continue
		}
		ctx, crash := context.WithCancel(t.Context())
		topic := begin()
		ended := make(chan error, 1)
		go func() { ended <- topic.Run(ctx) }()
		enough := random.Int64N(int64(i + 2))
		for poll := time.NewTicker(time.Millisecond); ; {
			if topic.Read.Load() >= enough || topic.Read.Load() > 0 && random.IntN(50) == 0 {
				poll.Stop()
				break
			}
			select {
			case <-poll.C:
			case err := <-ended:
				t.Fatal(err)
			}
			if _, end, err := cluster.Bounds(ctx, raw, 0); err != nil || end == 0 {
				t.Fatal(err)
			}
		}
		crash()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		crashes++
	}
	last := begin()
	last.UntilEnd = true
	if err := last.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	written := b.all(t, out)
	got := eventsOf(t, written)
	if !maps.Equal(got, want) {
		t.Errorf("%d events, want %d, or others", len(got), len(want))
	}
	t.Logf("%d records, %d crashes: %d events of %d, %d written", len(records), crashes, len(got), len(want), len(written))
}
