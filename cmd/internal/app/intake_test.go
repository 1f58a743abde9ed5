package app

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/cmd/internal/api"
	"weir/events"
	"weir/state"
)

func TestIntake(t *testing.T) {
	r := begin(t, Options{})
	one, two := string(selfCall("f", 1).AppendJSON(nil)), string(call("f", 2, "a", "b").AppendJSON(nil))
	before := len(r.journalLines())
	f := func(body, contentType string, status int, journal []string, parts ...string) {
		t.Helper()
		r.want(r.do("POST", "/v1/events", body, "Content-Type", contentType), status, parts...)
		got := r.journalLines()[before:]
		if !slices.Equal(got, journal) {
			t.Fatalf("the journal got %q, want %q", got, journal)
		}
		before += len(got)
	}
	f(one, "application/json", 202, []string{one}, `{"accepted":1,"refused":[]}`)
	f("\xef\xbb\xbf"+one+"\r\n\n"+two+"\n", "application/x-ndjson", 202, []string{one, two}, `"accepted":2`)
	f(one+"\n"+two, "", 202, []string{one, two}, `"accepted":2`)
	f(strings.ReplaceAll(one, ",", ",\n  "), "application/json; charset=utf-8", 202, []string{one}, `"accepted":1`)
	f(one+"\n{\"id\":1}\n"+two+"\nnonsense", "application/x-ndjson", 202, []string{one, two}, `"accepted":2`,
		`{"line":2,"code":"wrong_type","field":"id"`, `{"line":4,"code":"wrong_type"`)
	f(`{"id":"t","time":"2026-11-20T14:00:00Z","kind":"tick"}`, "", 400, nil, `"accepted":0`, "reserved_kind")
	f(`{"id":"t","time":"2026-11-20T14:00:00Z","kind":"limits.set","limits":{}}`, "", 400, nil, "reserved_kind")
	f("["+one+"]", "application/json", 400, nil, "jq -c", `"status":400`)
	f("", "", 400, nil, "empty")
	f("\n \n", "application/x-ndjson", 400, nil, "empty")
	f(strings.Repeat(" ", 8<<20+1), "", 413, nil, fmt.Sprint(8<<20))
	var many strings.Builder
	for range 3000 {
		many.WriteString("x\n")
	}
	f(many.String(), "application/x-ndjson", 400, nil, `"refused_in_all":3000`)

	pack := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	r.want(r.do("POST", "/v1/events", pack(one), "Content-Encoding", "gzip"), 202, `"accepted":1`)
	r.want(r.do("POST", "/v1/events", pack(strings.Repeat(" ", 32<<20+1)), "Content-Encoding", "gzip"), 413)
	r.want(r.do("POST", "/v1/events", one, "Content-Encoding", "gzip"), 400, "not gzip")
	r.want(r.do("POST", "/v1/events", pack(one)[:20], "Content-Encoding", "gzip"), 400)
	r.want(r.do("POST", "/v1/events", one, "Content-Encoding", "br"), 415, "use gzip or none")
}

func TestIntakeIsLimited(t *testing.T) {
	r := begin(t, Options{Requests: 1})
	r.folded()
	release := r.pump().Hold() // the pump stands still, so checks stay in
	done := make(chan reply)
	for i := range 8 {
		go func() { done <- r.do("POST", "/v1/check", lines(call("f", i, "a", "b"))) }()
	}
	for r.waiting() < 8 {
		<-r.fake.Asked()
	}
	got := r.do("POST", "/v1/check", lines(call("f", 99, "a", "b")))
	r.want(got, 429, "too many requests")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.want(r.do("POST", "/v1/events", lines(call("f", 99, "a", "b"))), 202) // they have a room of their own
	release()
	for range 8 {
		r.want(<-done, 200)
	}
}

// garbage is one of each kind of input that cannot be read.
func garbage() [][]byte {
	const head = `{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"f","to":{"agent":"b"}`
	return [][]byte{
		[]byte("nonsense"),
		[]byte("{"),
		[]byte("null"),
		[]byte("[]"),
		[]byte("\x00\x01\x02"),
		[]byte("<event/>"),
		[]byte("id,time,kind"),
		[]byte(head),
		[]byte(head + `}}`),
		[]byte(head + `} {}`),
		[]byte(head + `,"id":"2"}`),
		[]byte(head + `,"correlationId":"g"}`),
		[]byte(head + `,"Correlation_ID":"g"}`),
		[]byte(head + `,"model":"` + "\xff\xfe" + `"}`),
		[]byte(head + `,"model":"\ud800"}`),
		[]byte(head + `,"model":1}`),
		[]byte(head + `,"model":"a` + "\t" + `b"}`),
		[]byte(head + `,"loop_count":-1}`),
		[]byte(head + `,"duration_ms":1e999}`),
		[]byte(head + `,"status":"great"}`),
		[]byte(head + `,"project_id":"` + strings.Repeat("x", events.MaxID+1) + `"}`),
		[]byte(head + `,"attributes":{"deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`),
		[]byte(`{"id":"1","time":"yesterday","kind":"agent.call"}`),
		[]byte(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.shout"}`),
		[]byte(`{"id":"1","time":"2026-11-20T14:00:00Z","kind":"agent.call"}`),
		[]byte(`{"time":"2026-11-20T14:00:00Z","kind":"agent.call","to":{"agent":"b"}}`),
		[]byte(strings.Repeat("x", 200_000)),
	}
}

// TestGarbage sends each kind of garbage between good events, by HTTP and through the
// journal itself: the run goes on, and each piece is counted and kept.
func TestGarbage(t *testing.T) {
	r := begin(t, Options{})
	bad := garbage()
	var body bytes.Buffer
	for i, g := range bad {
		body.Write(g)
		body.WriteByte('\n')
		body.WriteString(lines(call("f", i, "a", "b")))
	}
	got := r.do("POST", "/v1/events", body.String(), "Content-Type", "application/x-ndjson")
	r.want(got, 202, fmt.Sprintf(`"accepted":%d`, len(bad)))
	var told struct{ Refused []api.Refusal }
	if err := json.Unmarshal([]byte(got.body), &told); err != nil || len(told.Refused) != len(bad) {
		t.Fatalf("%d refusals told (%v)", len(told.Refused), err)
	}
	// Past the door: a journal that another program wrote.
	var entries []state.Entry
	for i, g := range bad {
		entries = append(entries, state.Entry{Value: g}, state.Entry{Value: call("g", i, "a", "b").AppendJSON(nil)})
	}
	first := r.log().End()
	if err := r.backend.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	r.folded()
	r.want(r.do("GET", "/v1/flows/f", ""), 200, fmt.Sprintf(`"events":%d`, len(bad)))
	r.want(r.do("GET", "/v1/flows/g", ""), 200, fmt.Sprintf(`"events":%d`, len(bad)))
	var shown struct {
		Count       int64                  `json:"count"`
		Next        int64                  `json:"next"`
		ByCode      map[string]int64       `json:"by_code"`
		DeadLetters []api.DeadLetterAnswer `json:"dead_letters"`
	}
	r.get("/v1/deadletters?limit=1000", &shown)
	if int(shown.Count) != 2*len(bad) || len(shown.DeadLetters) != 2*len(bad) || shown.Next != shown.Count {
		t.Fatalf("%d dead letters of %d", len(shown.DeadLetters), 2*len(bad))
	}
	counted, codes := int64(0), map[string]bool{}
	for code, n := range shown.ByCode {
		counted += n
		codes[code] = n > 0
	}
	if counted != shown.Count || codes["other"] {
		t.Errorf("counted %v", shown.ByCode)
	}
	for i, l := range shown.DeadLetters {
		want, source, position := bad[i%len(bad)], "http", int64(2*i+1)
		if i >= len(bad) {
			source, position = "journal", first+int64(2*(i-len(bad)))
		}
		if l.Source != source || l.Position != position || l.Code == "" || l.Reason == "" || l.Size != int64(len(want)) {
			t.Errorf("dead letter %+v, want %s %d of %d bytes", l, source, position, len(want))
		}
		if raw := l.RawBase64; len(raw) > 0 && !bytes.Equal(raw, want) || len(raw) == 0 && !strings.HasPrefix(string(want), l.Raw) {
			t.Errorf("dead letter %d holds %q", i, l.Raw)
		}
	}
	var last struct {
		DeadLetters []api.DeadLetterAnswer `json:"dead_letters"`
	}
	r.get(fmt.Sprintf("/v1/deadletters?from=%d", shown.Count-1), &last)
	if len(last.DeadLetters) != 1 || last.DeadLetters[0].Sequence != shown.Count-1 {
		t.Errorf("the last dead letter: %+v", last)
	}
}
