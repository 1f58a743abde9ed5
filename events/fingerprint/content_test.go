package fingerprint_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"weir/events/fingerprint"
)

func TestContent(t *testing.T) {
	same := func(a, b string) {
		t.Helper()
		if fingerprint.Content([]byte(a)) != fingerprint.Content([]byte(b)) {
			t.Errorf("%q and %q differ", a, b)
		}
	}
	differ := func(a, b string) {
		t.Helper()
		if fingerprint.Content([]byte(a)) == fingerprint.Content([]byte(b)) {
			t.Errorf("%q and %q are the same", a, b)
		}
	}
	same("job 726b77f4-f289-4d2b-b5dc-13edd2f02e7a queued", "job 726B77F4-F289-4D2B-B5DC-13EDD2F02E7B queued")
	same("at 2026-11-21T15:03:36.642Z ok", "at 2026-11-22T01:00:00+02:00 ok")
	same(`{"now":"2026-11-21 15:03:36"}`, `{"now":"2026-11-21 15:03:37"}`)
	same("<Context object at 0x7fb7a0525a90>", "<Context object at 0x7fb7a05357d0>")
	same("done in 12.3ms", "done in 7 ms")
	same("took 0.81s", "took 12.07 seconds")
	same("elapsed 1m2.5s.", "elapsed 3m0.1s.")
	same(`{"created_at":1795272998.0,"x":1}`, `{"created_at":1795273539,"x":1}`)
	same(`{"tool_call_id":"call_507e18a2ceb9a74357a67af0"}`, `{"tool_call_id":"call_e3ec0886aab10f90743b5c4b"}`)
	same(`"request_id": "abc-7", "n": 1`, `"request_id": "xyz-8", "n": 1`)
	same("X-Request-Id: q7f3\nbody", "X-Request-Id: q7f4\nbody")
	same("  pending\n", "pending")

	differ("pending", "shipped")
	differ("3 of 7 done", "4 of 7 done")
	differ("order 12345", "order 12346")
	differ("30 s left", "29 s left")
	differ("2.5 h left", "2.4 h left")
	differ("due 2026-11-21", "due 2026-11-22")
	differ("10:00", "10:01")
	differ("exit status 1", "exit status 2")
	differ("commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "commit 1a1b2c3d4e5f60718293a4b5c6d7e8f901234567")
	differ("0x1F", "0x2F")
	differ("call_me_maybe_later", "call_me_maybe_never")

	if h := fingerprint.Content([]byte(" \t")); !h.IsZero() {
		t.Errorf("no content has the hash %v, want none", h)
	}
}

func TestError(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := fingerprint.Error([]byte(text)); got != want {
			t.Errorf("error %q is normalised to %q, want %q", text, got, want)
		}
	}
	f("HTTP 429: retry after 30s (request_id=req_8f3a2b9c00112233)", "HTTP 429: retry after <duration> (<id>)")
	f("exit status 2", "exit status 2")
	f("no row 1234567 in orders", "no row <number> in orders")
	f("no row 1234 in orders", "no row 1234 in orders")
	f("segment deadbeef01 lost", "segment <hex> lost")
	f("12:01:33.120 ERROR\n\tconnection  refused", "<time> ERROR connection refused")
	f("timed out after 5 minutes", "timed out after <duration>")
	f("object at 0x7fb7a0525a90", "object at <address>")
	f("", "")
	f("\x1b[1;31mfailed\x1b[0m\x00 twice\x1b[", "failed twice")
	f("\xff\xfe", "\uFFFD")
	f(strings.Repeat("é", 200), strings.Repeat("é", 128))
	f("x"+strings.Repeat("é", 200), "x"+strings.Repeat("é", 127))
}

func FuzzContent(f *testing.F) {
	for _, s := range []string{"job 726b77f4-f289-4d2b-b5dc-13edd2f02e7a", "2026-11-21T15:03:36.642Z", "1m2.5s 3 ms", `"request_id": "q"`, "call_\x00", "0x", "1795272998."} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fingerprint.Content(text)
		fingerprint.Text(text)
		e := fingerprint.Error(text)
		if len(e) > 256 || !utf8.ValidString(e) {
			t.Fatalf("error %q is normalised to %q", text, e)
		}
		if len(text) < 256 {
			if again := fingerprint.Error([]byte(e)); len(e) < 256 && again != e {
				t.Fatalf("error %q is normalised to %q, and that to %q", text, e, again)
			}
		}
	})
}

func BenchmarkContent(b *testing.B) {
	run := func(name, text string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				fingerprint.Content([]byte(text))
			}
		})
	}
	run("short", "Order A-17 is pending since 2026-11-21T15:03:36Z.")
	run("page", strings.Repeat("The quick brown fox jumps over 13 lazy dogs at 10:00. ", 400))
}
