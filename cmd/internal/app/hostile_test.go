package app

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/state"
)

// packed is how a body goes through gzip.
func packed(t *testing.T, body []byte) string {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestHostileBodies sends small bodies that become large when they are read, and bodies
// of nothing but faults: what they make weir hold and keep is bounded, and the next
// honest event is taken in.
func TestHostileBodies(t *testing.T) {
	field := func(inside []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inside)
	}
	spans := func(n int) []byte { // 2 bytes each on the wire
		return field(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), bytes.Repeat([]byte{0x12, 0}, n)))
	}
	text := func(n int) []byte { // 1 byte on the wire is 6 of JSON
		return field(protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), bytes.Repeat([]byte{1}, n)))
	}
	members := func(n int) []byte {
		out := []byte{'{'}
		for i := range n {
			out = fmt.Appendf(out, `"%x":1,`, i)
		}
		return append(out, `"z":1}`...)
	}
	repeated := func(head, item, tail string, n int) []byte { return []byte(head + strings.Repeat(item, n) + tail) }
	part := func(name string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"" + name + "\"\r\n\r\n"
	}
	const ndjson, plain, proto = "application/x-ndjson", "application/json", "application/x-protobuf"
	for _, c := range []struct {
		name, path, contentType string
		body                    []byte
		status                  int // when it is packed
	}{
		{"lines of nothing but x", "/v1/events", ndjson, repeated("", "x\n", "", 3<<20), 400},
		{"empty lines", "/v1/events", ndjson, repeated("", "\n", "", 7<<20), 413},
		{"one long line", "/v1/events", ndjson, repeated("", "x", "", 7<<20), 413},
		{"spans without content", "/v1/traces", proto, spans(3 << 20), 413},
		{"a name that has to be escaped", "/v1/traces", proto, text(7 << 20), 413},
		{"spans without ids", "/v1/traces", plain, repeated(`{"resourceSpans":[{"scopeSpans":[{"spans":[`, `{},`, `{}]}]}]}`, 2_500_000), 413},
		{"records without content", "/v1/logs", plain, repeated(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[`, `{},`, `{}]}]}]}`, 2_500_000), 413},
		{"runs without ids", "/runs/batch", plain, repeated(`{"post":[`, `{},`, `{}]}`, 2_500_000), 413},
		{"parts without content", "/runs/multipart", "multipart/form-data; boundary=x", repeated("", "--x\n", "--x--", 1_700_000), 413},
		{"a hook with many members", "/v1/hook", plain, members(200_000), 200},
		{"an ask with many members", "/v1/check", plain, members(200_000), 400},
		{"an order with many members", "/v1/inspect/play", plain, members(200_000), 400},
		{"a log of nothing but faults", "/v1/inspect/backtest", "multipart/form-data; boundary=x",
			repeated(part("a")+"profile: balanced\r\n"+part("b")+"profile: none\r\n"+part("log")+"{\"kind\":\"agent.call\"}\n", "x\n", "\r\n--x--\r\n", 2_000_000), 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := begin(t, Options{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			plain := r.do("POST", c.path, string(c.body), "Content-Type", c.contentType)
			small := packed(t, c.body)
			got := r.do("POST", c.path, small, "Content-Type", c.contentType, "Content-Encoding", "gzip")
			runtime.ReadMemStats(&after)
			if got.status != c.status {
				t.Errorf("packed it is answered with %d: %.200s", got.status, got.body)
			}
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 900 {
				t.Errorf("%d bytes, %d packed, made weir allocate %d MiB (answers %d, %d)", len(c.body), len(small), made, plain.status, got.status)
			}
			if kept := r.store.DeadLetterCount(); kept > 20_000 {
				t.Errorf("%d dead letters are kept", kept)
			}
			if held := r.budget.Held(); held != 0 {
				t.Errorf("%d bytes are held by nobody", held)
			}
			r.want(r.do("POST", "/v1/events", lines(call("f", 1, "a", "b"))), 202)
		})
	}
}

// TestDeadLettersAreSampled holds that all that is refused is counted and reported, and that
// weir says what is not kept.
func TestDeadLettersAreSampled(t *testing.T) {
	r := begin(t, Options{})
	const n = 100_000
	r.want(r.do("POST", "/v1/events", strings.Repeat("x\n", n)+lines(call("f", 1, "a", "b")), "Content-Type", "application/x-ndjson"), 202,
		`"accepted":1`, fmt.Sprintf(`"refused_in_all":%d`, n))
	var told struct {
		Count   int64            `json:"count"`
		NotKept int64            `json:"not_kept"`
		ByCode  map[string]int64 `json:"by_code"`
	}
	r.get("/v1/deadletters?limit=1", &told)
	sum := int64(0)
	for _, c := range told.ByCode {
		sum += c
	}
	if told.NotKept == 0 || told.Count == 0 || told.Count+told.NotKept != n || sum != n {
		t.Errorf("%d kept, %d not kept, %d counted, of %d", told.Count, told.NotKept, sum, n)
	}
}

// TestIntakeMemory holds that bodies that come slowly use up no more than the budget. A client that
// finds no room is asked to retry later, and small events go on all the time.
func TestIntakeMemory(t *testing.T) {
	r := begin(t, Options{IntakeMemory: 2 << 20})
	half := func() net.Conn {
		c, err := net.Dial("tcp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := fmt.Fprintf(c, "POST /runs/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 4<<20, strings.Repeat(" ", 700<<10)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	full := func() {
		if r.budget.Held() < 1<<20 {
			half()
		}
		for r.budget.Held() < 1<<20 {
			runtime.Gosched()
		}
	}
	// On a slow machine the first one may be over before this one is read. Then there was room for it,
	// and the answer says that it is no JSON.
	beside := func(path string) (got reply) {
		for range 10 {
			full()
			got = r.do("POST", path, strings.Repeat(" ", 700<<10), "Content-Type", "application/json")
			if got.status != 400 {
				break
			}
		}
		return got
	}
	got := beside("/runs/batch")
	r.want(got, 503, "send it again")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	got = beside("/v1/traces")
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("a sender of spans is told %d: %s", got.status, got.body)
	}
	r.want(r.do("POST", "/v1/check", lines(call("f", 1, "a", "b"))), 200)
	for i := range 3 {
		r.want(r.do("POST", "/v1/events", strings.Repeat(lines(call("f", i, "a", "b")), 3000), "Content-Type", "application/x-ndjson"), 202)
	}
}

// TestManyLongDeadLetters requests a thousand dead letters, each of 64 KiB: an answer holds a part
// of them, and says where to go on for the rest.
func TestManyLongDeadLetters(t *testing.T) {
	r := begin(t, Options{})
	const count = 150
	for range count {
		if err := r.store.DeadLetter(state.DeadLetter{Source: "s", Code: "syntax", Raw: bytes.Repeat([]byte("x"), state.MaxRaw)}); err != nil {
			t.Fatal(err)
		}
	}
	answers, seen := 0, int64(0)
	for ; seen < count; answers++ {
		got := r.do("GET", fmt.Sprintf("/v1/deadletters?limit=1000&from=%d", seen), "")
		var list struct {
			Next        int64
			DeadLetters []struct{ Sequence int64 } `json:"dead_letters"`
		}
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 {
			t.Fatalf("%v: %d %.200s", err, got.status, got.body)
		}
		if len(got.body) > 9<<20 || len(list.DeadLetters) == 0 || list.DeadLetters[0].Sequence != seen || list.Next != seen+int64(len(list.DeadLetters)) {
			t.Fatalf("%d bytes with %d letters from %d on, next %d", len(got.body), len(list.DeadLetters), seen, list.Next)
		}
		seen = list.Next
	}
	if answers < 2 {
		t.Errorf("%d answer had all of them", answers)
	}
	if got := r.do("GET", "/v1/deadletters?limit=100", ""); !strings.Contains(got.body, fmt.Sprintf(`"sequence":%d,`, count-1)) {
		t.Error("the last hundred are without the last one")
	}
}
