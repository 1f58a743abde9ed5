package journeys

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestHTTP(t *testing.T) {
	j := follow(t, "cmd/weir/HTTP.md", "Ten lines of curl", "ten lines of curl check, report, show, stop, refuse and release")
	j.serve()
	lines := strings.Split(strings.TrimSpace(j.blocks[0].text), "\n")
	if len(lines) != 11 || !strings.HasPrefix(lines[0], "api=") {
		t.Fatalf("the page has %d lines of curl, want ten and the address", len(lines)-1)
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
	if allowed != 2 || refused != 1 {
		t.Errorf("%d checks were allowed and %d refused:\n%s", allowed, refused, out)
	}
	j.has(out, `"accepted":1`, `"reason_code":"operator_stop"`, `"id":"call-2"`, `"kind":"operator.release"`, `"total":`)
	j.done()
}
