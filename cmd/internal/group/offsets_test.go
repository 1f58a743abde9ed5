package group

import (
	"testing"

	"weir/events/kafka"
)

// TestWorkedOff tells the group at once of what somebody may wait for: the end of a backlog, and the
// limits that weir itself appends behind it.
func TestWorkedOff(t *testing.T) {
	for _, x := range []struct {
		committed, limitsEnd, next int64
		silent, want               bool
	}{
		{committed: 0, next: commitBacklog, want: true},
		{committed: 0, next: commitBacklog - 1},
		{committed: 0, next: 1, silent: true, want: true},
		{committed: 5000, limitsEnd: 5001, next: 5001, want: true},
		{committed: 5000, limitsEnd: 5001, next: 5002, want: true},
		{committed: 5000, limitsEnd: 5002, next: 5001},
		{committed: 5001, limitsEnd: 5001, next: 5002},
	} {
		// Of a reader that has read nothing nobody knows that there is more.
		p := partitionOwner{reader: kafka.NewReader(nil, "events", 0, x.next, kafka.ReaderOptions{}), committed: x.committed, limitsEnd: x.limitsEnd}
		if got := p.workedOff(x.next, x.silent); got != x.want {
			t.Errorf("%+v: %t", x, got)
		}
	}
}
