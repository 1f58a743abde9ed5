package app

import "testing"

// lagging is a form that is behind its log.
type lagging struct {
	form
	why []string
}

func (l *lagging) Ready() (why []string, lag int64) { return l.why, 0 }

// TestBeats sees that a dispatcher is not told that it knows every order while the fold
// is behind.
func TestBeats(t *testing.T) {
	f := func(sse bool, want string, why ...string) {
		t.Helper()
		v := viewer{app: &App{form: &lagging{why: why}}, sse: sse}
		if v.beat(); v.buf.String() != want {
			t.Errorf("%q, want %q", v.buf.String(), want)
		}
	}
	f(true, ": heartbeat\n\n")
	f(true, ": behind\n\n", "the pump is behind the journal")
	f(false, "\n")
	f(false, "\n", "the pump is behind the journal")
}
