package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
)

// inAvro is an event as a producer with a schema registry writes it.
func inAvro(ev *events.Event) []byte {
	value := []byte{0, 0, 0, 0, 7}
	text := func(s string) { value = append(binary.AppendVarint(value, int64(len(s))), s...) }
	for _, s := range []string{ev.ID, ev.Time.Time().Format(time.RFC3339), ev.Kind.String(), ev.CorrelationID, ev.From.Agent} {
		text(s)
	}
	value = binary.AppendVarint(value, 1) // the second of its types
	text(ev.To.Agent)
	if ev.HadWork == events.Unknown {
		return binary.AppendVarint(value, 0)
	}
	return append(binary.AppendVarint(value, 1), byte(ev.HadWork-events.No)) // false or true
}

const avroOfEvents = `{\"type\":\"record\",\"name\":\"Event\",\"fields\":[{\"name\":\"id\",\"type\":\"string\"},{\"name\":\"time\",\"type\":\"string\"},{\"name\":\"kind\",\"type\":\"string\"},` +
	`{\"name\":\"correlation_id\",\"type\":\"string\"},{\"name\":\"from\",\"type\":{\"type\":\"record\",\"name\":\"Party\",\"fields\":[{\"name\":\"agent\",\"type\":\"string\"}]}},` +
	`{\"name\":\"to\",\"type\":[\"null\",\"Party\"]},{\"name\":\"had_work\",\"type\":[\"null\",\"boolean\"]}]}`

// inProtobuf is the same as schema 8 has it; the 0 says that it is the first message of the schema.
func inProtobuf(ev *events.Event) []byte {
	text := func(to []byte, field int, s string) []byte {
		return append(append(to, byte(field<<3|2), byte(len(s))), s...)
	}
	value := []byte{0, 0, 0, 0, 8, 0}
	for i, s := range []string{ev.ID, ev.Time.Time().Format(time.RFC3339), ev.Kind.String(), ev.CorrelationID} {
		value = text(value, i+1, s)
	}
	value = text(value, 5, string(text(nil, 1, ev.From.Agent)))
	value = text(value, 6, string(text(nil, 1, ev.To.Agent)))
	return append(value, 7<<3, 0) // without work
}

const protobufOfEvents = `syntax = \"proto3\"; message Event { string id = 1; string time = 2; string kind = 3; string correlation_id = 4; Party from = 5; Party to = 6; optional bool had_work = 7; } message Party { string agent = 1; }`

// inJSON is the same as schema 9 has it, which is one of JSON Schema.
func inJSON(ev *events.Event) []byte {
	return fmt.Appendf([]byte{0, 0, 0, 0, 9}, `{"id":%q,"time":%q,"kind":%q,"correlation_id":%q,"from":{"agent":%q},"to":{"agent":%q},"had_work":false}`,
		ev.ID, ev.Time.Time().Format(time.RFC3339), ev.Kind.String(), ev.CorrelationID, ev.From.Agent, ev.To.Agent)
}

// pingPong is a loop of two agents, each event as a producer writes it.
func pingPong(flow string, write func(*events.Event) []byte) (list []kafkago.Message) {
	for i := range 14 {
		for j, pair := range [][2]string{{"planner", "coder"}, {"coder", "planner"}} {
			ev := events.Event{ID: fmt.Sprint(flow, "-", i, "-", j), Time: events.Stamp(1795165200000 + 2000*i + 1000*j), Kind: events.AgentCall, CorrelationID: flow,
				From: events.Party{Agent: pair[0]}, To: events.Party{Agent: pair[1]}, HadWork: events.No}
			list = append(list, kafkago.Message{Key: []byte(flow), Value: write(&ev)})
		}
	}
	return list
}

// TestSchemaRegistry runs weir on events in Avro. The registry is away at first: nothing is lost and
// nothing goes to the dead-letter queue meanwhile.
func TestSchemaRegistry(t *testing.T) {
	b := startBroker(t)
	n := newNames(t)
	var here atomic.Bool
	asked := make(chan struct{}, 64)
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		user, password, _ := r.BasicAuth()
		switch {
		case user != "key" || password != "open sesame":
			w.WriteHeader(http.StatusUnauthorized)
		case !here.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/schemas/types":
			fmt.Fprint(w, `["JSON", "PROTOBUF", "AVRO"]`)
		case r.URL.Path == "/schemas/ids/7":
			fmt.Fprintf(w, `{"schema":"%s"}`, avroOfEvents)
		case r.URL.Path == "/schemas/ids/8":
			fmt.Fprintf(w, `{"schema":"%s","schemaType":"PROTOBUF"}`, protobufOfEvents)
		case r.URL.Path == "/schemas/ids/9":
			fmt.Fprint(w, `{"schema":"{\"type\":\"object\"}","schemaType":"JSON"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(registry.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	login := []string{"--schema-registry", registry.URL, "--schema-registry-user", "key", "--schema-registry-password-file", secret}

	expects(t, 0, []string{"created"}, n.flags("topics create --partitions 3 --replication 1", b)...)
	b.produce(t, n.events, nil, pingPong("loop", inAvro)...)
	b.produce(t, n.events, nil, pingPong("loop in Protobuf", inProtobuf)...)
	s := serve(t, n.flags("run --listen 127.0.0.1:0 --metrics= --self-test 0 --log-format json", b, login...)...)
	s.Await("weir is running")
	<-asked
	<-asked // it asks again
	here.Store(true)
	b.stopped(t, s, n.verdicts, "loop")
	b.stopped(t, s, n.verdicts, "loop in Protobuf")
	raw := b.topic(t, 1)
	for _, list := range [][]kafkago.Message{pingPong("raw in Avro", inAvro), pingPong("raw in Protobuf", inProtobuf), pingPong("raw in JSON", inJSON)} {
		b.produce(t, raw, nil, list...)
	}
	expects(t, 0, []string{"84 records read"}, n.flags("ingest --until end --from-topic "+raw, b, login...)...)
	for _, flow := range []string{"raw in Avro", "raw in Protobuf", "raw in JSON"} {
		b.stopped(t, s, n.verdicts, flow)
	}
	expects(t, 0, []string{registry.URL + ": answers as a schema registry"}, n.flags("doctor --state "+filepath.Join(t.TempDir(), "state"), b, login...)...)
	for _, letter := range b.all(t, n.deadLetters) {
		if !bytes.Contains(letter.Value, []byte("weir_mark")) {
			t.Errorf("a dead letter: %s", letter.Value)
		}
	}
	expects(t, 0, []string{"would be stopped: 5"}, append([]string{"backtest", "--brokers", b.Addr, "--events-topic", n.events}, login...)...)
	if code := s.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.Log())
	}
}
