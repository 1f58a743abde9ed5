package group

import (
	"testing"
	"time"
)

// TestPaceOfCommits commits to the group at the end of the log at once: after a backlog, and after the
// records that weir itself puts behind it. Records that come one by one do not make more commits than
// one a second for that.
func TestPaceOfCommits(t *testing.T) {
	var p partitionOwner
	const turns = 100 // a second
	at := time.Unix(1_700_000_000, 0)
	commits := func(seconds int, behind bool) (n int) {
		for range seconds * turns {
			if p.commits.may(at, behind) {
				p.commits.pace(at, behind)
				n++
			}
			at = at.Add(time.Second / turns)
		}
		return n
	}
	for _, x := range []struct {
		what          string
		seconds, want int
		behind        bool
	}{
		{"of a backlog", 20, 20, true},
		{"at its end", 1, 1 + commitsEarly, false},
		{"of steady records", 60, 60, false},
		{"of a backlog that came then", 20, 20, true},
		{"after the end of that", 1, 1 + commitsEarly, false},
	} {
		if got := commits(x.seconds, x.behind); got != x.want {
			t.Errorf("%d commits in %d s %s, want %d", got, x.seconds, x.what, x.want)
		}
	}
	for range 10_000 { // each behind a fetch that waited, so without mayCommit
		at = at.Add(300 * time.Millisecond)
		p.commits.pace(at, false)
	}
	at = at.Add(time.Second)
	commits(20, true)
	if got := commits(1, false); got != 1+commitsEarly {
		t.Errorf("%d commits at the end of a backlog after many in silence, want %d", got, 1+commitsEarly)
	}
	at = at.Add(-time.Minute) // a clock that was set
	if !p.commits.may(at, true) {
		t.Error("no commit after the clock was set back")
	}
	p.commits.pace(at, true)
	at = at.Add(time.Hour)
	if got := commits(1, false); got != 1+commitsEarly {
		t.Errorf("%d commits in a second after an hour of silence, want %d", got, 1+commitsEarly)
	}
}
