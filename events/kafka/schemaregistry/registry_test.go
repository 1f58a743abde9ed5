package schemaregistry_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"google.golang.org/protobuf/encoding/protowire"

	"weir/events"
	"weir/events/kafka/recordbatch"
	"weir/events/kafka/schemaregistry"
)

// registry answers as Confluent's does.
type registry struct {
	answers map[string]any
	status  int // not 0: what every request is answered by
	asked   map[string]int
}

func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.asked[r.URL.Path]++
	user, password, _ := r.BasicAuth()
	a, ok := g.answers[r.URL.Path]
	switch {
	case user != "key" || password != "secret":
		w.WriteHeader(http.StatusUnauthorized)
	case g.status != 0:
		w.WriteHeader(g.status)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error_code":40403,"message":"Schema not found"}`)
	default:
		_ = json.NewEncoder(w).Encode(a)
	}
}

// open serves answers, and returns what decodes values by them.
func open(t *testing.T, answers map[string]any) (*registry, func(*recordbatch.Record) error) {
	t.Helper()
	g := &registry{answers: answers, asked: map[string]int{}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	r, err := schemaregistry.New(schemaregistry.Options{URL: server.URL + "/", User: "key", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	values := r.Values(t.Context())
	return g, func(record *recordbatch.Record) error { return values(record, slog.New(slog.DiscardHandler)) }
}

// framed puts the frame of a registry around a value.
func framed(id uint32, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), value...)
}

// avroText appends a text as Avro writes it.
func avroText(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

const callSchema = `{"type":"record","name":"Call","namespace":"agents","fields":[
 {"name":"id","type":"string"},{"name":"time","type":"string"},{"name":"kind","type":"string"},{"name":"correlation_id","type":"string"},
 {"name":"from","type":["null","Party"],"default":null},{"name":"to","type":["null","agents.Party"],"default":null},
 {"name":"had_work","type":["null","boolean"],"default":null},{"name":"attempt","type":"long"}]}`

const partySchema = `{"type":"record","name":"Party","namespace":"agents","fields":[{"name":"agent","type":"string"}]}`

// call is an event in Avro.
func call() []byte {
	var b []byte
	for _, s := range []string{"m-1", "2026-11-20T09:00:00Z", "agent.call", "f1"} {
		b = avroText(b, s)
	}
	b = avroText(binary.AppendVarint(b, 1), "planner")
	b = avroText(binary.AppendVarint(b, 1), "coder")
	b = append(binary.AppendVarint(b, 1), 0) // had_work is false
	return binary.AppendVarint(b, 2)
}

// TestAvro reads an event whose schema names another. Unions become plain values.
func TestAvro(t *testing.T) {
	g, values := open(t, map[string]any{
		"/schemas/ids/7":                   map[string]any{"schema": callSchema, "references": []any{map[string]any{"name": "agents.Party", "subject": "party-value", "version": 3}}},
		"/subjects/party-value/versions/3": map[string]any{"schema": partySchema, "id": 6, "version": 3}})
	for range 3 {
		r := &recordbatch.Record{Value: framed(7, call())}
		if err := values(r); err != nil {
			t.Fatal(err)
		}
		var ev events.Event
		if err := events.Decode(r.Value, &ev); err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		if ev.ID != "m-1" || ev.From.Agent != "planner" || ev.To.Agent != "coder" || ev.FlowKey() == "" {
			t.Fatalf("%s", r.Value)
		}
	}
	if n := g.asked["/schemas/ids/7"]; n != 1 {
		t.Errorf("the schema was asked for %d times", n)
	}
}

// TestProtobuf reads a message that is not the first of its file, with one of another file in it.
func TestProtobuf(t *testing.T) {
	_, values := open(t, map[string]any{
		"/schemas/ids/9": map[string]any{"schemaType": "PROTOBUF", "schema": `syntax = "proto3"; package agents; import "party.proto"; import "google/protobuf/timestamp.proto";
			message Other { string x = 1; } message Box { message Call { string id = 1; google.protobuf.Timestamp time = 2; string kind = 3; string correlation_id = 4; Party from = 5;
			int64 size = 6; repeated string tags = 7; map<string, int64> counts = 8; } }`,
			"references": []any{map[string]any{"name": "party.proto", "subject": "party", "version": 1}}},
		"/subjects/party/versions/1": map[string]any{"schemaType": "PROTOBUF", "schema": `syntax = "proto3"; package agents; message Party { string agent = 1; }`}})
	text := func(b []byte, field protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
	}
	m := text(nil, 1, "m-1")
	m = text(m, 2, string(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1795165200)))
	m = text(text(m, 3, "agent.call"), 4, "f1")
	m = text(m, 5, string(text(nil, 1, "planner")))
	m = protowire.AppendVarint(protowire.AppendTag(m, 6, protowire.VarintType), 1<<40)
	m = text(text(m, 7, "a"), 7, "b")
	m = text(m, 8, string(protowire.AppendVarint(protowire.AppendTag(text(nil, 1, "k"), 2, protowire.VarintType), 5)))
	place := binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(nil, 2), 1), 0)
	r := &recordbatch.Record{Value: framed(9, append(place, m...))}
	if err := values(r); err != nil {
		t.Fatal(err)
	}
	want := `{"correlation_id":"f1","counts":{"k":5},"from":{"agent":"planner"},"id":"m-1","kind":"agent.call","size":1099511627776,"tags":["a","b"],"time":"2026-11-20T09:00:00Z"}`
	if string(r.Value) != want {
		t.Errorf("got  %s\nwant %s", r.Value, want)
	}
}

// TestWhere holds where the id of a schema may be: before the value, or in a header.
func TestWhere(t *testing.T) {
	_, values := open(t, map[string]any{"/schemas/ids/1": map[string]any{"schemaType": "JSON", "schema": `{}`},
		"/schemas/guids/00112233-4455-6677-8899-aabbccddeeff": map[string]any{"schema": `"string"`}})
	guid := []byte{1, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	for name, x := range map[string]struct {
		record recordbatch.Record
		want   string
	}{
		"JSON Schema":       {recordbatch.Record{Value: framed(1, []byte(`{"a":1}`))}, `{"a":1}`},
		"an id in a header": {recordbatch.Record{Value: []byte(`{"a":2}`), Headers: []kafkago.Header{{Key: "__value_schema_id", Value: framed(1, nil)}}}, `{"a":2}`},
		"a GUID":            {recordbatch.Record{Value: avroText(nil, "x"), Headers: []kafkago.Header{{Key: "__value_schema_id", Value: guid}}}, `"x"`},
		"plain JSON":        {recordbatch.Record{Value: []byte(`{"a":3}`)}, `{"a":3}`},
		"no value":          {recordbatch.Record{}, ``},
	} {
		if err := values(&x.record); err != nil || string(x.record.Value) != x.want {
			t.Errorf("%s: %s, %v", name, x.record.Value, err)
		}
	}
}

// TestUnreadable holds that a value stays as it is when no schema fits, and that it waits while the
// registry does not answer.
func TestUnreadable(t *testing.T) {
	g, values := open(t, map[string]any{"/schemas/ids/1": map[string]any{"schema": partySchema}, "/schemas/ids/2": map[string]any{"schema": `{"type":"nothing"}`},
		"/schemas/ids/3": map[string]any{"schemaType": "XML", "schema": `<x/>`}, "/schemas/ids/4": map[string]any{"schemaType": "PROTOBUF", "schema": `message {`},
		"/schemas/ids/6": map[string]any{"schemaType": "PROTOBUF", "schema": `syntax = "proto3"; message M { string a = 1; }`}})
	unreadable := map[string][]byte{"cut": framed(1, []byte{200}), "with a rest": framed(1, append(avroText(nil, "a"), 1)), "of a broken schema": framed(2, []byte{1}),
		"of another kind": framed(3, []byte{1}), "of a broken file": framed(4, []byte{1}), "of no schema": framed(5, []byte{1}), "of no message": framed(6, []byte{2, 40, 1}), "of a frame alone": framed(1, nil)}
	for name, value := range maps.All(unreadable) {
		r := recordbatch.Record{Value: value}
		if err := values(&r); err != nil || string(r.Value) != string(value) {
			t.Errorf("a value %s: % x, %v", name, r.Value, err)
		}
	}
	for range 3 {
		_ = values(&recordbatch.Record{Value: framed(5, []byte{1})})
	}
	if n := g.asked["/schemas/ids/5"]; n != 1 {
		t.Errorf("a schema that is not there was asked for %d times", n)
	}
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusUnauthorized} {
		g.status = status
		if err := values(&recordbatch.Record{Value: framed(8, []byte{1})}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v", status, err)
		}
	}
	g.status = 0
	g.answers["/schemas/ids/8"] = map[string]any{"schema": `"string"`}
	r := recordbatch.Record{Value: framed(8, avroText(nil, "x"))}
	if err := values(&r); err != nil || string(r.Value) != `"x"` {
		t.Errorf("after the registry is back: %s, %v", r.Value, err)
	}
}

func TestAddress(t *testing.T) {
	for _, bad := range []string{"", "registry:8081", "ftp://x", "http://"} {
		if _, err := schemaregistry.New(schemaregistry.Options{URL: bad}); err == nil || !strings.Contains(err.Error(), "want for example") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzValues holds that no value makes the decoders panic.
func FuzzValues(f *testing.F) {
	f.Add(framed(7, call()))
	f.Add(framed(9, []byte{0, 10, 1, 'a'}))
	f.Fuzz(func(t *testing.T, value []byte) {
		_, values := open(t, map[string]any{"/schemas/ids/7": map[string]any{"schema": strings.ReplaceAll(callSchema, `"Party"`, partySchema)},
			"/schemas/ids/9": map[string]any{"schemaType": "PROTOBUF", "schema": `syntax = "proto3"; message M { string a = 1; repeated M b = 2; }`}})
		_ = values(&recordbatch.Record{Value: value})
	})
}
