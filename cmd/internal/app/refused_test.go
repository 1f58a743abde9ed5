package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"weir/analyzer/limitfile"
	"weir/events"
)

// text is what a logger has written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// TestEachRefusedCallIsTold asks for the same call again and again: each time has a line of
// the log with caller and callee and counts for its rule, and none is a call.
func TestEachRefusedCallIsTold(t *testing.T) {
	limits, err := limitfile.Profile("delegation")
	if err != nil {
		t.Fatal(err)
	}
	log := new(text)
	r := begin(t, Options{Metrics: "127.0.0.1:0", Limits: limits, Logger: slog.New(slog.NewJSONHandler(log, nil))})
	n := 0
	ask := func(from, to string, status int) {
		t.Helper()
		n++
		r.want(r.do("POST", "/v1/check", string(call("f", n, from, to).AppendJSON(nil))), status)
	}
	for i := 1; i < 5; i++ {
		ask(fmt.Sprint(i), fmt.Sprint(i+1), 200)
	}
	for range 3 {
		ask("5", "6", 403)
	}
	refused := call("f", 90, "4", "9")
	refused.Kind, refused.Ack = events.VerdictAck, &events.Ack{VerdictID: "0000000000000001-1", Applied: true}
	r.want(r.do("POST", "/v1/events", lines(refused)), 202)
	r.folded()
	if got := strings.Count(log.String(), `"msg":"Rejected call 5→6: effective call depth 6 exceeds limit (max 5)"`); got != 3 {
		t.Errorf("%d lines of three refused calls:\n%s", got, log)
	}
	if !strings.Contains(log.String(), `"msg":"Rejected call 4→9: by an order, as its dispatcher says"`) {
		t.Errorf("no line of what a dispatcher refused:\n%s", log)
	}
	r.scraped(
		`weir_calls_total{origin="agent"} 6`, // with two questions of folded, of depth 2
		`weir_refused_calls_total{rule="max_stack_depth_exceeded"} 3`,
		`weir_flow_depth_count 6`,
		`weir_flow_depth_sum 18`,
	)
}
