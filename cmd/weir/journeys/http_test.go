package journeys

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestHTTP(t *testing.T) {
	j := follow(t, "J13 HTTP", "cmd/weir/HTTP.md", "Ten lines of curl", "ten lines of curl check, report, show, stop and release")
	j.serve()
	lines := strings.Split(strings.TrimSpace(j.blocks[0].text), "\n")
	if len(lines) != 10 {
		t.Fatalf("the page has %d lines of curl, want ten", len(lines))
	}
	out := j.run()
	// Each line prints JSON, and the seventh is refused.
	in := json.NewDecoder(strings.NewReader(out))
	var refused, allowed int
	for in.More() {
		var answer struct {
			Allowed *bool
			Verdict json.RawMessage
		}
		if err := in.Decode(&answer); err != nil {
			t.Fatalf("%v in:\n%s", err, out)
		}
		switch {
		case answer.Allowed == nil:
		case *answer.Allowed:
			allowed++
		case string(answer.Verdict) != "null":
			refused++
		}
	}
	j.Saw("%d checks allowed, %d refused", allowed, refused)
	if allowed != 2 || refused != 1 {
		t.Errorf("%d checks were allowed and %d refused:\n%s", allowed, refused, out)
	}
	j.has(out, `"accepted":1`, `"reason_code":"operator_stop"`, `"id":"call-2"`, `"kind":"operator.release"`, `"total":`)
	j.done()
}

// TestHeldCalls has a call held, and a person allow the next one and then deny the rest.
func TestHeldCalls(t *testing.T) {
	j := follow(t, "J21 held calls", "cmd/weir/HTTP.md", "Held calls", "a held call gets its end and no Retry-After; a grant allows the next one")
	j.save("yaml", "limits.yaml")
	j.serve()
	out := j.run()
	j.has(out, `"allowed":true`, "402 Payment Required", `"action":"hold"`, `"held_until":"`, "Weir-Held-Until: ", "X-Should-Retry: false")
	if strings.Contains(out, "Retry-After") || strings.Contains(out, "retry_after_s") {
		t.Errorf("the hold invites to a retry:\n%s", out)
	}
	out = j.run()
	j.has(out, `"allowed":true`, `"max_tool_calls"`, `"kind":"operator.stop"`)
	j.Saw("held without Retry-After, allowed after a grant")
	j.done()
}
