package pump

import (
	"sync"
	"testing"
)

// TestGreatestOfManyPumps raises one maximum from many goroutines.
func TestGreatestOfManyPumps(t *testing.T) {
	var counts Counts
	var pumps sync.WaitGroup
	for p := range int64(8) {
		pumps.Go(func() {
			for n := range int64(10_000) {
				counts.unstopped(n*8 + p)
			}
		})
	}
	pumps.Wait()
	if counts.longest != 79_999 {
		t.Errorf("the greatest is %d, want 79999", counts.longest)
	}
}
