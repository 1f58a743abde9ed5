package guard

import (
	"strings"
	"testing"
	"time"

	"weir/events"
)

// TestLines reads a stream with lines that no verdict is as long as.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 3*events.MaxVerdictBytes)
	in := newLines(strings.NewReader("a\r\n" + long + "\nb\n\n" + long + "\nc\n"))
	for _, want := range []string{"a", "b", "", "c"} {
		if got, err := in.next(func() {}); err != nil || string(got) != want {
			t.Errorf("read %.20q (%v), want %q", got, err, want)
		}
	}
	if got, err := in.next(func() {}); err == nil {
		t.Errorf("read %q after the end", got)
	}
}

// TestDeliver takes messages of a stream, good ones and others.
func TestDeliver(t *testing.T) {
	g, err := newGuard(Options{URL: "http://weir.test", MostOrders: 2})
	if err != nil {
		t.Fatal(err)
	}
	f := func(text string, orders int, unreadable int64, last string) {
		t.Helper()
		var m message
		for line := range strings.SplitSeq(text, "\n") {
			m.field([]byte(line))
		}
		g.deliver(&m)
		if g.table.Len() != orders || g.counts.Unreadable.Load() != unreadable || g.lastID != last {
			t.Errorf("%q: %d orders, %d unreadable, last %q", text, g.table.Len(), g.counts.Unreadable.Load(), g.lastID)
		}
	}
	order := func(flow string) string {
		return `{"id":"v","mode":"enforce","action":"deny","reason_code":"self_call","correlation_id":"` + flow + `","scope":{"kind":"flow","id":"` + flow + `"}}`
	}
	f("retry: 1000", 0, 0, "")
	f("id: 1\ndata: "+order("f"), 1, 0, "1")
	f("id:2\ndata:"+order("f"), 1, 0, "2")
	f("id: 3\nevent: gap\ndata: {\"from\":1,\"to\":3}", 1, 0, "3")
	f("id: 4\ndata: {}", 1, 1, "4")
	f("id: 5\ndata: "+strings.Replace(order("g"), ",", ",\ndata: ", 1), 2, 1, "5")
	f("id: 6\ndata: "+order("h"), 2, 1, "6") // there is no room
	if g.counts.LeftOut.Load() != 1 {
		t.Errorf("%d were left out", g.counts.LeftOut.Load())
	}
	f("id: 7\ndata: "+strings.Replace(order("g"), "deny", "allow", 1), 1, 1, "7") // clearing needs none
}

// TestLimiterForgets sees that unused flows are dropped.
func TestLimiterForgets(t *testing.T) {
	const most = 2 * 64 * 4
	l := newLimiter(most)
	now := time.UnixMilli(0)
	for i := range 100_000 {
		l.count(&Call{Flow: strings.Repeat("x", i%50) + string(rune('a'+i%26)) + time.Duration(i).String(), From: "a", To: "b"}, Bounds{Calls: 1}, now)
	}
	held := 0
	for i := range l.parts {
		held += len(l.parts[i].now) + len(l.parts[i].old)
	}
	if held > most {
		t.Errorf("%d flows are held, want at most %d", held, most)
	}
}
