package pump

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestGreatestOfManyPumps raises one maximum from many goroutines.
func TestGreatestOfManyPumps(t *testing.T) {
	var greatest atomic.Int64
	var pumps sync.WaitGroup
	for p := range int64(8) {
		pumps.Go(func() {
			for n := range int64(10_000) {
				raise(&greatest, n*8+p)
			}
		})
	}
	pumps.Wait()
	if got := greatest.Load(); got != 79_999 {
		t.Errorf("the greatest is %d, want 79999", got)
	}
}
